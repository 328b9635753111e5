"""The context of a custom Function: saved tensors, materialized gradients, marks, and the surface of a node."""

import copy
import gc
import pickle
import warnings
import weakref

import pytest
from both import agree, agree_error, attempt
from function_kit import doubled, facts, function, last, leaf


def saving(t, save, returned=lambda a: a * 2, backward=lambda ctx, g: g):
    """A Function that saves ``save(a, output)``."""

    def forward(ctx, a):
        y = returned(a)
        ctx.save_for_backward(*save(a, y))
        return y

    return function(t, forward, backward)


# -- saved tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "save",
    [
        lambda a, y: (),
        lambda a, y: (None,),
        lambda a, y: (None, a, None),
        lambda a, y: (a, a),
        lambda a, y: (y, a, y),
        lambda a, y: (a + 1, y * 2),
        lambda a, y: (a.detach(), y.detach()),
        lambda a, y: (a[:1], y[1:]),
    ],
)
def test_what_is_saved(save):
    def run(t):
        x, seen = leaf(t), []
        f = saving(t, save, backward=lambda ctx, g: last(seen.append(ctx.saved_tensors), g))
        y = f.apply(x)
        outside = [(s, None if s is None else (s is x, s is y, s.grad_fn)) for s in y.grad_fn.saved_tensors]
        y.sum().backward()
        return outside, seen, type(seen[0]) is tuple

    agree(run)


def test_a_saved_input_is_the_input_and_a_saved_output_an_alias():
    def run(t):
        x = leaf(t)
        y = saving(t, lambda a, y: (a, y)).apply(x)
        a, b = y.grad_fn.saved_tensors
        return a is x, b is y, b.grad_fn is y.grad_fn, b.data_ptr() == y.data_ptr(), b.output_nr, b._version

    agree(run)


@pytest.mark.parametrize("what", [3, "a", [1.0], ()])
def test_only_tensors_are_saved(what):
    agree_error(lambda t: saving(t, lambda a, y: (a, what)).apply(leaf(t)), "can only save variables.* argument 1 is")


def test_nothing_is_checked_or_kept_without_a_graph():
    agree(lambda t: saving(t, lambda a, y: (3,)).apply(t.ones(2)))
    with_ctx = []
    agree(lambda t: last(function(t, lambda ctx, a: last(with_ctx.append(ctx), a * 2)).apply(t.ones(2)), None))


def test_the_last_call_of_save_for_backward_counts():
    def run(t):
        def forward(ctx, a):
            ctx.save_for_backward(a, a)
            ctx.save_for_backward(a + 1)
            return a * 2

        return function(t, forward).apply(leaf(t)).grad_fn.saved_tensors

    agree(run)


def test_inside_forward_nothing_is_saved_yet():
    def run(t):
        seen = []

        def forward(ctx, a):
            seen.append((ctx.saved_tensors, ctx._raw_saved_tensors, ctx.to_save, ctx.dirty_tensors))
            seen.append((ctx.non_differentiable, ctx.saved_for_forward, ctx.needs_input_grad, ctx.requires_grad))
            seen.append((ctx.next_functions, ctx.name(), ctx.metadata))
            ctx.save_for_backward(a)
            seen.append((ctx.to_save, ctx.saved_tensors))
            return a * 2

        fn = function(t, forward, lambda ctx, g: g).apply(leaf(t)).grad_fn
        return seen, fn.to_save, fn.dirty_tensors, fn.non_differentiable, fn.saved_for_forward, fn.saved_tensors

    agree(run)


FREED = "backward through the graph a second time.*after they have already been freed.*retain_graph=True"


def test_freed_after_backward():
    def twice(t, save, reads):
        y = saving(t, save, backward=lambda ctx, g: last(reads and ctx.saved_tensors, g)).apply(leaf(t))
        y.sum().backward()
        y.sum().backward()
        return "fine"

    def look(t, name):
        y = saving(t, lambda a, y: (a,)).apply(leaf(t))
        y.sum().backward()
        getattr(y.grad_fn, name)

    agree_error(lambda t: twice(t, lambda a, y: (a,), True), FREED)
    agree_error(lambda t: twice(t, lambda a, y: (), True), FREED)
    agree(lambda t: twice(t, lambda a, y: (a,), False))
    agree_error(lambda t: look(t, "saved_tensors"), FREED)
    agree_error(lambda t: look(t, "_raw_saved_tensors"), FREED)


def test_retained():
    def run(t):
        x = leaf(t)
        y = saving(t, lambda a, y: (a, y), backward=lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        return x.grad

    agree(run)


VERSION = r"modified by an inplace operation: \[torch.FloatTensor \[2\]\]"


def test_versions():
    def run(t, save, change, returned=lambda a: a * 2):
        x = leaf(t)
        z = x * 1
        y = saving(t, save, returned, lambda ctx, g: g * ctx.saved_tensors[0]).apply(z)
        change(z, y)
        return t.autograd.grad(y.sum(), x)

    agree_error(lambda t: run(t, lambda a, y: (a,), lambda z, y: z.mul_(2)), VERSION + ".* output 0 of Mul.*version 1")
    agree_error(lambda t: run(t, lambda a, y: (y,), lambda z, y: y.mul_(2)), VERSION + ".* output 0 of MyFn.*version 1")
    agree_error(lambda t: run(t, lambda a, y: (a,), lambda z, y: z.detach().mul_(2)), VERSION)
    agree(lambda t: run(t, lambda a, y: (a,), lambda z, y: y.mul_(2)))
    agree(lambda t: run(t, lambda a, y: (y,), lambda z, y: z.mul_(2)))
    agree(lambda t: run(t, lambda a, y: (a,), lambda z, y: z.data.mul_(2)))
    agree(lambda t: run(t, lambda a, y: (y,), lambda z, y: None, lambda a: (a * 2).mul_(3)))


def test_a_leaf_changed_in_no_grad_mode():
    def run(t):
        x = leaf(t)
        y = saving(t, lambda a, y: (a,), backward=lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        with t.no_grad():
            x.mul_(1)
        y.sum().backward()

    agree_error(run, VERSION + " is at version 1; expected version 0")


def test_clear_on_access():
    def run(t, backward, **options):
        x = leaf(t)
        f = function(
            t, lambda ctx, a: last(ctx.save_for_backward(a), a * 2), backward, clear_saved_tensors_on_access=True
        )
        return t.autograd.grad(f.apply(x).sum(), x, **options)

    def two(ctx, g):
        return g * ctx.saved_tensors[0] + ctx.saved_tensors[0]

    agree(lambda t: run(t, lambda ctx, g: g * ctx.saved_tensors[0]))
    agree_error(lambda t: run(t, two), "saved_tensors can only be accessed once")
    agree_error(lambda t: run(t, two, retain_graph=True), "clear_saved_tensors_on_access=True")
    agree(lambda t: last((fn := saving(t, lambda a, y: (a,)).apply(leaf(t)).grad_fn).maybe_clear_saved_tensors(),
                         fn.saved_tensors))  # fmt: skip


def test_deprecated_names_warn():
    def run(t, act):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = act(t)
        return got, [(w.category.__name__, str(w.message)) for w in caught]

    shared = lambda t: function(t, lambda ctx, a: last(ctx.mark_shared_storage((a, a)), a * 2)).apply(leaf(t))  # noqa: E731
    agree(lambda t: run(t, lambda t: saving(t, lambda a, y: (a,)).apply(leaf(t)).grad_fn.saved_variables))
    agree(lambda t: run(t, shared))


def test_save_for_forward():
    agree_error(
        lambda t: function(t, lambda ctx, a: ctx.save_for_forward(a, 3)).apply(leaf(t)),
        "save_for_forward expects all arguments to be tensors",
    )
    agree(lambda t: function(t, lambda ctx, a: last(ctx.save_for_forward(a, None), a * 2)).apply(leaf(t)))


# -- hooks on saved tensors ------------------------------------------------------------------------------


def test_default_hooks_see_each_saved_tensor_once():
    def run(t):
        log = []
        pack = lambda v: last(log.append(v.requires_grad), v * 10)  # noqa: E731
        unpack = lambda v: last(log.append("unpack"), v / 10)  # noqa: E731
        x = leaf(t)
        with t.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = saving(t, lambda a, y: (a, a + 1, None, y), backward=lambda c, g: g * c.saved_tensors[3]).apply(x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return log, g, t.autograd.grad(g.sum(), x)

    agree(run)


def test_hooks_on_one_saved_tensor():
    def run(t, save):
        x = leaf(t)
        y = saving(t, save, backward=lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        y.grad_fn._raw_saved_tensors[0].register_hooks(lambda v: v * 10, lambda v: v + 1)
        return t.autograd.grad(y.sum(), x)

    agree(lambda t: run(t, lambda a, y: (a,)))
    agree(lambda t: run(t, lambda a, y: (y,)))
    agree_error(lambda t: run(t, lambda a, y: (None,)), "register_hooks on a saved tensor with value None is forbidden")


# -- gradients of what has none ----------------------------------------------------------------------------


def undefined(t, forward, output=0):
    """What backward gets for ``sum(outputs[output])``."""
    x, seen = leaf(t), []
    outputs = function(t, forward, lambda ctx, *g: last(seen.extend(g), None)).apply(x)
    outputs[output].sum().backward()
    return seen


def two_with(declare):
    def forward(ctx, a):
        outputs = a * 2, a.double()[:, None] * 3
        declare(ctx, *outputs)
        return outputs

    return forward


def _half_materialized(ctx, y, z):
    ctx.mark_non_differentiable(z)
    ctx._materialize_non_diff_grads = False


@pytest.mark.parametrize(
    "declare",
    [
        lambda ctx, y, z: None,
        lambda ctx, y, z: ctx.set_materialize_grads(True),
        lambda ctx, y, z: ctx.set_materialize_grads(False),
        lambda ctx, y, z: ctx.mark_non_differentiable(z),
        lambda ctx, y, z: (ctx.mark_non_differentiable(z), ctx.set_materialize_grads(False)),
        _half_materialized,
    ],
)
def test_undefined_gradients(declare):
    agree(lambda t: undefined(t, two_with(declare)))


def test_undefined_gradients_of_other_outputs():
    agree(lambda t: undefined(t, two_with(lambda ctx, y, z: None), 1))
    agree(lambda t: undefined(t, two_with(lambda ctx, y, z: ctx.set_materialize_grads(False)), 1))
    agree(lambda t: undefined(t, lambda ctx, a: (a * 2, a.argmax(), a > 0)))
    agree(lambda t: undefined(t, lambda ctx, a: (a * 2, None, 5)))
    agree_error(lambda t: undefined(t, lambda ctx, a: ctx.set_materialize_grads(3)), "set_materialize_grads")


def test_a_prehook_that_drops_the_gradient():
    def run(t, value):
        x = leaf(t)

        def forward(ctx, a):
            ctx.set_materialize_grads(value)
            return a * 2

        y = function(t, forward, lambda ctx, g: t.full((2,), 7.0) if g is None else g + 1).apply(x)
        y.grad_fn.register_prehook(lambda grads: (None,))
        y.sum().backward()
        return x.grad

    agree(lambda t: run(t, True))
    agree(lambda t: run(t, False))


# -- non-differentiable outputs ------------------------------------------------------------------------------


def test_non_differentiable_outputs():
    def run(t, mark):
        def forward(ctx, a):
            y, z = a * 2, a * 3
            mark(ctx, y, z)
            return y, z

        x = leaf(t)
        y, z = function(t, forward, lambda ctx, g, h: g + h).apply(x)
        told = facts(y), facts(z)
        return told, attempt(lambda: t.autograd.grad((y + z).sum(), x))

    agree(lambda t: run(t, lambda ctx, y, z: ctx.mark_non_differentiable(z)))
    agree(lambda t: run(t, lambda ctx, y, z: ctx.mark_non_differentiable(y, z)))
    agree(lambda t: run(t, lambda ctx, y, z: ctx.mark_non_differentiable(y * 1)))
    agree(lambda t: run(t, lambda ctx, y, z: (ctx.mark_non_differentiable(y), ctx.mark_non_differentiable(z))))


@pytest.mark.parametrize("make", [lambda t: leaf(t), lambda t: leaf(t) * 1, lambda t: t.ones(2), lambda t: t.arange(2)])
def test_a_non_differentiable_input(make):
    def run(t):
        a = make(t)
        y = function(t, lambda ctx, a: last(ctx.mark_non_differentiable(a), a)).apply(a)
        return facts(y), y is a, y._base is a, y.data_ptr() == a.data_ptr(), facts(a)

    agree(run)


def test_non_differentiable_takes_tensors_only():
    for what in (3, [1.0]):
        agree_error(
            lambda t, what=what: function(t, lambda ctx, a: last(ctx.mark_non_differentiable(what), a)).apply(leaf(t)),
            "mark_non_differentiable only accepts variable arguments",
        )


# -- needs_input_grad ------------------------------------------------------------------------------------------


def test_needs_input_grad():
    def run(t, *make, **options):
        args, seen = [m(t) if callable(m) else m for m in make], []

        def backward(ctx, g):
            seen.append((ctx.needs_input_grad, ctx.next_functions))
            return (g, *[None] * (len(args) - 1))

        y = function(t, lambda ctx, *a: last(seen.append(ctx.needs_input_grad), a[0] * 2), backward).apply(*args)
        return seen, y.grad_fn.next_functions, t.autograd.grad(y.sum(), args[0], **options)

    agree(lambda t: run(t, leaf))
    agree(lambda t: run(t, leaf, 3, lambda t: t.ones(2), None, leaf))
    agree(lambda t: run(t, leaf, lambda t: leaf(t) * 1, lambda t: t.arange(2)))
    agree(lambda t: run(t, lambda t: leaf(t)[:1], lambda t: leaf(t)[0]))


def test_needs_input_grad_with_inputs():
    def run(t):
        x, w, seen = leaf(t), leaf(t), []
        y = function(t, lambda ctx, a, b: a + b, lambda ctx, g: last(seen.append(ctx.needs_input_grad), (g, g)))
        y = y.apply(x, w * 2)
        y.sum().backward(inputs=[x])
        return seen, x.grad, w.grad

    agree(run)


def test_needs_input_grad_can_be_set():
    def run(t):
        fn = doubled(t).apply(leaf(t)).grad_fn
        fn.needs_input_grad = (False,)
        return fn.needs_input_grad

    agree(run)


# -- the node --------------------------------------------------------------------------------------------------


def test_the_node_is_the_context():
    def run(t):
        kept = []
        f = function(t, lambda ctx, a: last(kept.append(ctx), setattr(ctx, "n", 5), a * 2), lambda ctx, g: g)
        x = leaf(t)
        y = f.apply(x)
        fn, kinds = y.grad_fn, t.autograd.function
        return (
            fn is kept[0], fn is y.grad_fn, fn.n, fn.__dict__, fn.name(), type(fn).__name__,
            type(fn) is f._backward_cls, isinstance(fn, t.autograd.graph.Node), isinstance(fn, kinds.BackwardCFunction),
            isinstance(fn, kinds.FunctionCtx), isinstance(fn, t.autograd.Function), fn._forward_cls is f,
            [c.__name__ for c in type(fn).__bases__], fn.requires_grad, fn.metadata, fn == y.grad_fn, fn in {fn},
            fn.next_functions[0][0].variable is x, f.apply(y).grad_fn.next_functions[0][0] is fn, repr(y),
            fn._sequence_nr() < (y * 2).grad_fn._sequence_nr(), [len(fn.saved_tensors), len(fn._raw_saved_tensors)],
        )  # fmt: skip

    agree(run)


def test_attributes_of_the_context():
    def run(t):
        fn = doubled(t).apply(leaf(t)).grad_fn
        fn.foo, fn.metadata["a"] = 3, 1
        del fn.foo
        return hasattr(fn, "foo"), fn.__dict__, fn.metadata, attempt(lambda: fn.bar), callable(fn.apply)

    def assign(t, name):
        setattr(doubled(t).apply(leaf(t)).grad_fn, name, 3)

    agree(run)
    for name in ("saved_tensors", "next_functions", "metadata", "requires_grad", "_raw_saved_tensors"):
        agree_error(lambda t, name=name: assign(t, name), f"'?{name}'?")


def test_apply_of_the_node_is_the_users_backward():
    def run(t):
        x = leaf(t)
        fn = saving(t, lambda a, y: (a,), backward=lambda c, g: (g * c.saved_tensors[0], None, "x")).apply(x).grad_fn
        return fn.apply(t.ones(2))

    agree(run)


def test_nodes_cannot_be_copied():
    agree_error(lambda t: copy.deepcopy(doubled(t).apply(leaf(t)).grad_fn), "cannot pickle 'MyFnBackward' object")
    agree_error(lambda t: pickle.dumps(doubled(t).apply(leaf(t)).grad_fn), "cannot pickle 'MyFnBackward' object")


def test_node_hooks():
    def run(t, post=lambda gi, go: None, pre=lambda go: None):
        x, log = leaf(t), []
        backward = lambda ctx, g: last(log.append(("backward", g)), (g * 3, None, None))  # noqa: E731
        y = function(t, lambda ctx, a, n, b: a * 2, backward).apply(x, 3, t.ones(2))
        fn = y.grad_fn
        y.register_hook(lambda g: last(log.append(("tensor", g)), g * 10))
        fn.register_prehook(lambda go: last(log.append(("pre", go)), pre(go)))
        handle = fn.register_hook(lambda gi, go: log.append("removed"))
        fn.register_hook(lambda gi, go: last(log.append(("post", gi, go)), post(gi, go)))
        handle.remove()
        return t.autograd.grad(y.sum(), x), log

    agree(run)
    agree(lambda t: run(t, lambda gi, go: (gi[0] * 5, None), lambda go: (go[0] + 1,)))
    agree_error(lambda t: run(t, lambda gi, go: 1 / 0), "division by zero")


def test_a_hook_registered_in_forward():
    def run(t):
        log = []
        f = function(t, lambda ctx, a: last(ctx.register_hook(lambda *g: log.append(g)), a * 2), lambda ctx, g: g * 3)
        f.apply(leaf(t)).sum().backward()
        return log

    agree(run)


# -- memory ----------------------------------------------------------------------------------------------------


def test_a_saved_output_makes_no_cycle():
    def run(t):
        gc.disable()
        try:
            y = saving(t, lambda a, y: (a, y)).apply(leaf(t))
            alive = weakref.ref(y), weakref.ref(y.grad_fn)
            del y
            return [r() is None for r in alive]
        finally:
            gc.enable()

    agree(run)


def test_an_output_kept_as_an_attribute_makes_one():
    def run(t):
        gc.collect()

        def forward(ctx, a):
            ctx.y = a * 2
            return ctx.y

        y = function(t, forward).apply(leaf(t))
        same, alive = y.grad_fn.y is y, weakref.ref(y.grad_fn)
        del y
        before = alive() is None
        gc.collect()
        return same, before, alive() is None

    agree(run)


def test_saved_tensors_are_freed_by_backward():
    def run(t):
        z = leaf(t) * 1
        alive = weakref.ref(z)
        y = saving(t, lambda a, y: (a,)).apply(z)
        del z
        before = alive() is None
        y.sum().backward()
        return before, alive() is None

    agree(run)


@pytest.mark.parametrize("name", "edges saved extra seq outs versions arity pack python release title plan x".split())
def test_users_may_take_any_name(name):
    def run(t):
        def forward(ctx, a):
            setattr(ctx, name, 5)
            ctx.save_for_backward(a)
            return a * 2

        x = leaf(t)
        y = function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0] * getattr(ctx, name)).apply(x)
        return t.autograd.grad(y.sum(), x)

    agree(run)
