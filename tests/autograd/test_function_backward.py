"""Custom Functions in backward: differentiated twice, reentrant, in anomaly mode, in threads, on jax tracers."""

import threading
import warnings

import jax
import numpy as np
import pytest
from both import agree, agree_error, attempt
from function_kit import doubled, function, last, leaf

import torchlike


def exponential(t):
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    return function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0])


def cube(t, keep):
    def forward(ctx, a):
        if keep == "attribute":
            ctx.a = a
        else:
            ctx.save_for_backward(a)
        return a**3

    def backward(ctx, g):
        a = ctx.a if keep == "attribute" else ctx.saved_tensors[0]
        return g * 3 * a**2

    return function(t, forward, backward)


# -- differentiated more than once ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [exponential, lambda t: cube(t, "saved"), lambda t: cube(t, "attribute"), doubled],
    ids=["exponential", "saved", "attribute", "doubled"],
)
def test_three_times(make):
    def run(t):
        x = leaf(t)
        got = [make(t).apply(x).sin()]
        for _ in range(3):
            got += t.autograd.grad(got[-1].sum(), x, create_graph=True)
        return got

    agree(run)


def test_create_graph_records_the_backward():
    def run(t):
        x, seed, modes = leaf(t), t.ones(2, requires_grad=True), []

        def backward(ctx, g):
            modes.append((t.is_grad_enabled(), g.requires_grad))
            return g * 3

        y = function(t, lambda ctx, a: a * 2, backward).apply(x)
        (g,) = t.autograd.grad(y, x, seed, create_graph=True)
        (h,) = t.autograd.grad(y, x, seed.detach())
        return modes, g, g.grad_fn, h.requires_grad, t.autograd.grad(g.sum(), seed)

    agree(run)


def test_an_intermediate_that_is_an_output_carries_gradients():
    def run(t):
        def forward(ctx, a):
            e = a.exp()
            ctx.save_for_backward(e)
            return e * 2, e

        x = leaf(t)
        f = function(t, forward, lambda ctx, g, h: (g * 2 + h) * ctx.saved_tensors[0])
        (g,) = t.autograd.grad(f.apply(x)[0].sum(), x, create_graph=True)
        return g, t.autograd.grad(g.sum(), x)

    def hidden(t):
        def forward(ctx, a):
            e = a.exp()
            ctx.save_for_backward(a, e)
            return e * 2

        x = leaf(t)
        y = function(t, forward, lambda ctx, g: g * 2 * ctx.saved_tensors[1] * ctx.saved_tensors[0]).apply(x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return g, t.autograd.grad(g.sum(), x)

    agree(run)
    agree(hidden)


def test_backward_is_itself_a_function():
    def run(t):
        f = function(t, lambda ctx, a: a * 2, lambda ctx, g: f.apply(g) + 1)
        x, seed = leaf(t), t.ones(2, requires_grad=True)
        (g,) = t.autograd.grad(f.apply(x), x, seed, create_graph=True)
        return g, g.grad_fn, t.autograd.grad(g.sum(), seed)

    agree(run)


def test_backward_brings_in_other_leaves():
    def run(t):
        x, w = leaf(t), leaf(t, 3.0, 4.0)
        y = function(t, lambda ctx, a: a * 2, lambda ctx, g: w * 5).apply(x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return g, t.autograd.grad(g.sum(), w)

    agree(run)


def test_casts_and_sums_are_recorded():
    def run(t):
        x = leaf(t)
        y = function(t, lambda ctx, a: a.double(), lambda ctx, g: g).apply(x)
        (g,) = t.autograd.grad((y**2).sum(), x, create_graph=True)
        return g, t.autograd.grad(g.sum(), x)

    agree(run)


def once(t, f=lambda g: g * 2):
    return function(t, lambda ctx, a, *b: a * 2, t.autograd.function.once_differentiable(lambda ctx, g: f(g)))


def test_once_differentiable():
    def run(t, f=lambda g: g * 2, args=lambda t: ()):
        x = leaf(t)
        y = once(t, f).apply(x, *args(t))
        plain = t.autograd.grad(y.sum(), x, retain_graph=True)
        (g,) = t.autograd.grad((y * x).sum(), x, create_graph=True)
        (error, _), (_, _) = g.grad_fn.next_functions[1], g.grad_fn.next_functions[0]
        return plain, g, error.name(), type(error).__name__, error.next_functions

    def twice(t, loss):
        x = leaf(t)
        (g,) = t.autograd.grad(loss(x, once(t).apply(x)), x, create_graph=True)
        g.sum().backward()

    def odd(t, f):
        x = leaf(t)
        return t.autograd.grad((once(t, f).apply(x) * x).sum(), x, create_graph=True)

    agree(run)
    agree(lambda t: run(t, lambda g: (g * 2, None), lambda t: (t.ones(2),)))
    agree_error(lambda t: twice(t, lambda x, y: (x * y).sum()), "differentiate twice.*marked with @once_differentiable")
    agree_error(lambda t: twice(t, lambda x, y: y.sum()), "does not require grad and does not have a grad_fn")
    agree_error(lambda t: odd(t, lambda g: g.long()), "only Tensors of floating point and complex dtype can require")
    agree_error(lambda t: odd(t, lambda g: 3), "'int' object has no attribute 'detach'")


def test_once_differentiable_keeps_name_and_doc():
    def run(t):
        @t.autograd.function.once_differentiable
        def backward(ctx, g):
            """The doc."""

        return backward.__name__, backward.__doc__

    agree(run)


# -- backward and grad within --------------------------------------------------------------------------------


def test_backward_within_backward():
    def run(t):
        def forward(ctx, a):
            with t.enable_grad():
                ctx.a = a.detach().requires_grad_()
                ctx.y = ctx.a * ctx.a
            return ctx.y.detach()

        def backward(ctx, g):
            with t.enable_grad():
                ctx.y.sum().backward()
            return ctx.a.grad * g

        x = leaf(t)
        return t.autograd.grad(function(t, forward, backward).apply(x).sum(), x)

    agree(run)


def test_the_inner_and_the_outer_backward_reach_one_leaf():
    def run(t):
        x, w = leaf(t), leaf(t, 3.0, 4.0)

        def backward(ctx, g):
            with t.enable_grad():
                (w * w).sum().backward()
            return g

        (function(t, lambda ctx, a: a * 2, backward).apply(x) * w).sum().backward()
        return x.grad, w.grad

    agree(run)


def counting_down(t):
    def forward(ctx, a):
        with t.enable_grad():
            ctx.a = a.detach().requires_grad_() - 1
        return ctx.a.detach()

    def backward(ctx, g):
        if ctx.a >= 0:
            with t.enable_grad():
                f.apply(ctx.a).sum().backward()
        return g

    f = function(t, forward, backward)
    return f


def test_deeply_within():
    def run(t, depth):
        x = t.tensor(float(depth), requires_grad=True)
        counting_down(t).apply(x).backward()
        return x.grad

    agree(lambda t: run(t, 45))
    assert run(torchlike, 2000).item() == 1


def test_an_error_within():
    def run(t):
        def fail(ctx, g):
            raise KeyError("inner")

        def backward(ctx, g):
            with t.enable_grad():
                function(t, lambda ctx, a: a * 2, fail).apply(leaf(t)).sum().backward()

        x = leaf(t)
        y = function(t, lambda ctx, a: a * 2, backward).apply(x)
        return attempt(lambda: y.sum().backward()), x.grad, t.is_grad_enabled(), doubled(t).apply(x)

    agree(run)


def test_recomputation():
    def run(t):
        def forward(ctx, f, *args):
            ctx.f = f
            ctx.save_for_backward(*args)
            return f(*args)

        def backward(ctx, g):
            args = [a.detach().requires_grad_(a.requires_grad) for a in ctx.saved_tensors]
            with t.enable_grad():
                y = ctx.f(*args)
            t.autograd.backward(y, g)
            return None, *[a.grad for a in args]

        x, w = leaf(t), leaf(t, 3.0, 4.0)
        function(t, forward, backward).apply(lambda a, b: (a * b).sin().sum(), x, w).backward()
        return x.grad, w.grad

    agree(run)


def test_grad_within_forward():
    def run(t):
        def forward(ctx, a):
            with t.enable_grad():
                b = a.detach().requires_grad_()
                y = (b**3).sum()
                ctx.save_for_backward(*t.autograd.grad(y, b))
            return y.detach()

        x = leaf(t)
        y = function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        return t.autograd.grad(y, x)

    agree(run)


def test_what_forward_records_is_cut():
    def run(t, detach):
        def forward(ctx, a):
            with t.enable_grad():
                b = a.detach().requires_grad_()
                y = b * 2
                ctx.save_for_backward(b, y)
            return y.detach() if detach else y

        def backward(ctx, g):
            b, y = ctx.saved_tensors
            return t.autograd.grad(y, b, g)

        x = leaf(t)
        y = function(t, forward, backward).apply(x)
        return y, t.autograd.grad(y.sum(), x)

    agree(lambda t: run(t, True))
    agree_error(lambda t: run(t, False), "appears to not have been used in the graph")


def test_a_function_within_a_function():
    def run(t):
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].cos()

        outer = function(t, lambda ctx, a: last(ctx.save_for_backward(a), doubled(t).apply(a).sin()), backward)
        x = leaf(t)
        y = outer.apply(x)
        return y.grad_fn.next_functions, t.autograd.grad(y.sum(), x)

    agree(run)


# -- engine --------------------------------------------------------------------------------------------------


def test_accumulation_and_captures():
    def run(t):
        x = leaf(t)
        for _ in range(3):
            doubled(t).apply(x).sum().backward()
        y, z = function(t, lambda ctx, a: (a * 2, a * 3), lambda ctx, g, h: g * 2 + h * 3).apply(x)
        y.retain_grad()
        got = t.autograd.grad(y.sum() + z.sum(), (x, y, z), retain_graph=True)
        (y.sum() * 5).backward()
        return got, x.grad, y.grad, y.retains_grad

    agree(run)


@pytest.mark.parametrize("materialize", [True, False])
def test_a_function_runs_where_no_gradient_arrives(materialize):
    def run(t):
        x, log = leaf(t), []

        def forward(ctx, a):
            ctx.set_materialize_grads(materialize)
            return a * 2

        y = function(t, forward, lambda ctx, g: last(log.append(("backward", g)), g)).apply(x)
        y.register_hook(lambda g: log.append(("tensor", g)))
        y.grad_fn.register_prehook(lambda g: log.append(("pre", g)))
        y.grad_fn.register_hook(lambda gi, go: log.append(("post", gi, go)))
        function(t, lambda ctx, a: a * 3, lambda ctx, g: None).apply(y).sum().backward()
        return log, x.grad

    agree(run)


def test_hooks_see_fitted_gradients_and_those_nobody_needs():
    def run(t):
        x, log = leaf(t), []
        f = function(t, lambda ctx, a, b: a * 3, lambda ctx, g: (g.double().expand(3, 2), g))
        y = f.apply(x, t.ones(2))
        y.grad_fn.register_hook(lambda gi, go: log.append(gi))
        y.sum().backward()
        return log, x.grad

    agree(run)


def test_gradcheck():
    def run(t):
        x, w = (t.tensor(v, dtype=t.float64, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
        f = function(
            t,
            lambda ctx, a, b: last(ctx.save_for_backward(a, b), (a * b, a + b)),
            lambda ctx, g, h: (g * ctx.saved_tensors[1] + h, g * ctx.saved_tensors[0] + h),
        )
        return t.autograd.gradcheck(f.apply, (x, w)), t.autograd.gradgradcheck(f.apply, (x, w))

    agree(run)


def anomalous(t, backward, *, look=lambda y: None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with t.autograd.set_detect_anomaly(True):
            y = function(t, lambda ctx, a, b: (a * 2, b * 3), backward).apply(leaf(t), leaf(t))[0]
            seen = look(y)
            error = attempt(lambda: y.sum().backward())
    return seen, type(error).__name__, str(error), [str(w.message).split("\n")[0] for w in caught]


def test_anomaly_mode():
    agree(lambda t: anomalous(t, lambda ctx, g, h: (g * float("nan"), h)))
    agree(lambda t: anomalous(t, lambda ctx, g, h: (None, h * float("nan"))))
    agree(lambda t: anomalous(t, lambda ctx, g, h: 1 / 0))
    agree(lambda t: anomalous(t, lambda ctx, g, h: (g, h), look=lambda y: "traceback_" in y.grad_fn.metadata))


def test_an_error_in_backward_leaves_the_graph():
    def run(t):
        x, calls = leaf(t), []

        def backward(ctx, g):
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("first time")
            return g * ctx.saved_tensors[0]

        y = function(t, lambda ctx, a: last(ctx.save_for_backward(a), a * 2), backward).apply(x)
        return attempt(lambda: y.backward(t.ones(2))), x.grad, attempt(lambda: y.backward(t.ones(2))), x.grad

    agree(run)


def test_threads():
    def run(t):
        f, done = doubled(t), []

        def work():
            x = leaf(t)
            f.apply(x).sum().backward()
            done.append(x.grad)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done

    agree(run)


# -- jax -----------------------------------------------------------------------------------------------------


def _cubed(t, x):
    return cube(t, "saved").apply(x)


def test_inside_jax_transformations():
    value = jax.numpy.arange(3.0)

    def gradient(v):
        x = torchlike.from_jax_array(v).requires_grad_()
        return torchlike.autograd.grad((_cubed(torchlike, x) * 2).sum(), x)[0].jax()

    def loss(v):
        return _cubed(torchlike, torchlike.from_jax_array(v)).sum().jax()

    np.testing.assert_allclose(gradient(value), [0, 6, 24])
    np.testing.assert_allclose(jax.jit(gradient)(value), [0, 6, 24])
    np.testing.assert_allclose(jax.vmap(gradient)(value[None]), [[0, 6, 24]])
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(value), [0, 3, 12])
