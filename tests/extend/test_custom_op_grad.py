"""Derivatives of custom operators, batching and programs, next to PyTorch."""

import numpy as np
import pytest
from both import agree, agree_error, attempt
from library_kit import defined, scale_of, through_numpy

import torchlike


def sine(t, backward, setup=None, schema="(Tensor x, float s=1.0, *, int k=1) -> Tensor"):
    op = defined(t, lambda x, s=1.0, *, k=1: x.sin() * s * k, schema=schema)
    op.register_autograd(backward, setup_context=setup)
    return op


def keep(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1] * keyword_only_inputs["k"]


def cosine(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.cos() * ctx.factor, None


def leaf(t):
    return t.arange(3.0, requires_grad=True)


@pytest.mark.parametrize(
    "call", [lambda op, x: op(x, 1.5), lambda op, x: op(x, 2.0, k=3), lambda op, x: op(x * x, 0.5)]
)
def test_first_and_second_derivatives(call):
    def script(t):
        x = leaf(t)
        out = call(sine(t, cosine, keep), x)
        (first,) = t.autograd.grad(out.sum(), x, create_graph=True)
        return out, first, t.autograd.grad(first.sum(), x)

    agree(script)


def test_what_setup_context_and_backward_are_given():
    def script(t):
        seen, x = [], leaf(t)

        def setup(ctx, inputs, keyword_only_inputs, output):
            seen.append((inputs, keyword_only_inputs, output, inputs[0] is x, t.is_grad_enabled()))
            seen.append((type(ctx).__name__.replace("torchlike", "torch").partition("_")[0], ctx.needs_input_grad[:2]))

        def backward(ctx, grad):
            seen.append((grad, ctx.needs_input_grad, t.is_grad_enabled()))
            return grad, None

        t.autograd.grad(sine(t, backward, setup)(x, 2.0).sum(), x)
        return seen

    agree(script)


@pytest.mark.parametrize(
    "returned",
    [
        lambda g: g, lambda g: (g,), lambda g: (g, None, None), lambda g: (g, 1.0), lambda g: None, lambda g: (g[:2],
        None),
        lambda g: g.sum(), lambda g: (g, g), lambda g: (g.double(),), lambda g: 3,
    ],
)  # fmt: skip
@pytest.mark.parametrize("args", [(), (2.0,)])
def test_what_backward_may_return(returned, args):
    def script(t):
        x = leaf(t)
        op = sine(t, lambda ctx, g: returned(g))
        return attempt(lambda: t.autograd.grad(op(x, *args).sum(), x))

    agree(script)


def test_without_a_formula_backward_is_refused():
    def script(t):
        out = scale_of(t)(leaf(t))
        assert out.requires_grad
        return out.sum().backward()

    agree_error(
        script, r"Trying to backward through .*scale.default but no autograd formula was registered.*register_autograd"
    )


def test_the_node_is_named_after_the_operator():
    agree(lambda t: scale_of(t, "named_node::scale")(leaf(t)).grad_fn.name())


def lists(t, backward, setup=lambda ctx, inputs, output: None):
    op = defined(t, lambda xs, y, n: [x * n for x in xs], schema="(Tensor[] xs, Tensor? y, int n) -> Tensor[]")
    op.register_autograd(backward, setup_context=setup)
    return op


@pytest.mark.parametrize(
    "returned",
    [
        lambda g: ([None if x is None else x * 3 for x in g], None, None), lambda g: (None, None, None),
        lambda g: (g[0], None, None), lambda g: ([g[0]], None, None), lambda g: (tuple(g), None, None),
        lambda g: ([None, g[1]], None, None), lambda g: (list(g), g[0], None), lambda g: (list(g), None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_y", [False, True])
def test_lists_of_tensors_have_lists_of_gradients(returned, with_y):
    def script(t):
        x, needs = leaf(t), []

        def backward(ctx, g):
            needs.append((ctx.needs_input_grad, g))
            return returned(g)

        out = lists(t, backward)([x, t.ones(3), x * 2], x if with_y else None, 3)
        return out, attempt(lambda: t.autograd.grad(out[0].sum() + out[2].sum(), x)), needs

    agree(script)


@pytest.mark.parametrize("materialize", [True, False])
def test_several_results(materialize):
    def script(t):
        seen, x = [], leaf(t)
        op = defined(
            t,
            lambda x, y: (x * 2, 3, (y * 3).to(t.int64), y * 4),
            schema="(Tensor x, Tensor y) -> (Tensor, int, Tensor, Tensor)",
        )

        def backward(ctx, *grads):
            seen.append(grads)
            return grads[0], None

        op.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(materialize))
        out = op(x, x)
        return out, t.autograd.grad(out[0].sum(), x), seen

    agree(script)


def test_results_can_be_saved():
    def script(t):
        op = defined(t, lambda x: x.exp(), schema="(Tensor x) -> Tensor")
        op.register_autograd(
            lambda ctx, g: g * ctx.saved_tensors[0],
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
        )
        x = leaf(t)
        (first,) = t.autograd.grad(op(x).sum(), x, create_graph=True)
        return first, t.autograd.grad(first.sum(), x)

    agree(script)


def test_once_differentiable():
    def script(t):
        op = sine(t, t.autograd.function.once_differentiable(lambda ctx, g: (g * 2, None)))
        x = leaf(t)
        (first,) = t.autograd.grad(op(x * x, 2.0).pow(2).sum(), x, create_graph=True)
        first.sum().backward()

    agree_error(script, "differentiate twice a function that was marked with @once_differentiable")


def test_a_changed_saved_tensor_is_noticed():
    def script(t):
        x = leaf(t)
        y = x * 1
        out = sine(t, cosine, keep)(y, 2.0)
        y.add_(1)
        out.sum().backward()

    agree_error(script, "modified by an inplace operation")


@pytest.mark.parametrize("mutates", ["(Tensor(a!) x) -> ()", "(Tensor(a!) x) -> Tensor"])
def test_operators_that_change_arguments_have_no_formula(mutates):
    def script(t):
        op = defined(t, lambda x: None, schema=mutates, mutates_args=("x",))
        op.register_autograd(lambda ctx, g: g)

    agree_error(
        script, "Cannot register autograd formula for non-functional operator <CustomOpDef.*functional operator"
    )


def test_no_grad_and_integers_record_nothing():
    def script(t):
        op, x = sine(t, cosine, keep), leaf(t)
        with t.no_grad():
            first = op(x)
        return first, defined(t, lambda x: x.to(t.int64), schema="(Tensor x) -> Tensor")(x)

    agree(script)


# -- vmap ----------------------------------------------------------------------------------------------


def product(t, rule=None):
    op = defined(
        t, lambda x, y, s=1.0, *, k=1: x * y * s * k, schema="(Tensor x, Tensor y, float s=1.0, *, int k=1) -> Tensor"
    )
    if rule is not None:
        op.register_vmap(lambda info, in_dims, *args, **kwargs: rule(op, info, in_dims, *args, **kwargs))
    return op


def front(x, dim):
    return x if dim is None else x.movedim(dim, 0)


def ruled(seen):
    def rule(op, info, in_dims, x, y, *rest, **kwargs):
        seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), tuple(y.shape), rest, kwargs))
        return op(front(x, in_dims[0]), front(y, in_dims[1]), *rest, **kwargs), 0

    return rule


BATCHES = [
    lambda t, op, x: t.vmap(op)(x, x),
    lambda t, op, x: t.vmap(op, in_dims=(1, 1), out_dims=1)(x, x),
    lambda t, op, x: t.vmap(lambda a, b: op(a, b, 2.0, k=3), in_dims=(0, None))(x, x[0]),
    lambda t, op, x: t.vmap(t.vmap(op))(x, x),
    lambda t, op, x: t.vmap(lambda a: op(a, t.ones(3)))(x),
    lambda t, op, x: op(x, x),
]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("with_rule", [False, True])
def test_vmap(batch, with_rule):
    def script(t):
        seen = []
        op = product(t, ruled(seen) if with_rule else None)
        return batch(t, op, t.arange(6.0).reshape(2, 3)), seen

    agree(script)


@pytest.mark.parametrize("with_rule", [False, True])
def test_vmap_is_differentiable(with_rule):
    def script(t):
        op = product(t, ruled([]) if with_rule else None)
        op.register_autograd(
            lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]),
            setup_context=lambda ctx, inputs, keyword_only_inputs, output: ctx.save_for_backward(*inputs[:2]),
        )
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        out = t.vmap(op)(x, x * 2)
        return out, t.autograd.grad(out.sum(), x)

    agree(script)


def test_vmap_over_lists():
    def script(t):
        op = defined(t, lambda xs: [x * 2 for x in xs], schema="(Tensor[] xs) -> Tensor[]")
        seen = []

        def rule(info, in_dims, xs):
            seen.append(in_dims)
            return op(xs), list(in_dims[0])

        op.register_vmap(rule)
        return t.vmap(lambda a: op([a, a + 1]))(t.arange(6.0).reshape(2, 3)), seen

    agree(script)
    op = defined(torchlike, lambda xs: [x * 2 for x in xs], schema="(Tensor[] xs) -> Tensor[]")
    a, b = torchlike.vmap(lambda a: op([a, torchlike.ones(3)]))(torchlike.ones(2, 3))  # in a loop
    assert a.tolist() == b.tolist() == [[2, 2, 2]] * 2


def test_a_rule_must_return_two_things():
    agree_error(
        lambda t: t.vmap(product(t, lambda op, info, in_dims, *a, **k: op(*a)))(t.ones(2, 3), t.ones(2, 3)),
        "to have two returns, an output and out_dims.*Got a <class",
    )


def test_an_operator_that_changes_arguments_needs_a_rule():
    def script(t):
        op = defined(t, lambda x: (x.add_(1), None)[1], schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
        t.vmap(lambda x: (op(x), x)[1])(t.ones(2))

    agree_error(script, "Batching rule not implemented for .*op; the fallback path doesn't work on out= or view ops")


# -- programs ---------------------------------------------------------------------------------------------


def host_sine(t, fake=True):
    op = defined(t, lambda x: t.from_numpy(np.sin(x.numpy())), schema="(Tensor x) -> Tensor")
    if fake:
        op.register_fake(lambda x: t.empty_like(x))
    op.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def test_a_program_calls_numpy_kernels_on_the_host():
    t = torchlike
    op = host_sine(t)
    calls = []
    inner = op._operator.default
    op.register_kernel(None, lambda x: (calls.append(tuple(x.shape)), inner(x))[1])
    program = t.compile(lambda x: op(x * 2).sum() + op(x).sum(), fullgraph=True)
    for x in (t.arange(3.0), t.ones(3), t.ones(2, 2)):
        x.requires_grad_()
        expected = (op(x * 2).sum() + op(x).sum(), *t.autograd.grad(op(x * 2).sum() + op(x).sum(), x))
        got = (program(x), *t.autograd.grad(program(x), x))
        for a, b in zip(got, expected, strict=True):
            t.testing.assert_close(a, b)
    assert set(calls) == {(3,), (2, 2)}


def test_without_a_fake_implementation_a_program_breaks_there():
    t = torchlike
    op = host_sine(t, fake=False)
    x = t.ones(2)
    t.testing.assert_close(t.compile(lambda x: op(x * 2) + 1)(x), op(x * 2) + 1)
    with pytest.raises(RuntimeError, match=r"calls space\d+::op, whose kernel needs the values.*register_fake\('space"):
        t.compile(lambda x: op(x * 2) + 1, fullgraph=True)(x)


def test_a_program_sees_what_host_kernels_change():
    t = torchlike
    op = through_numpy(t)

    def step(x, y):
        z = y * 0
        op(x * 2, z)
        op(x, y)
        return z

    program = t.compile(step, fullgraph=True)
    for scale in (1.0, 2.0):
        x, y, expected = t.ones(3) * scale, t.zeros(3), t.zeros(3)
        z, wanted = program(x, y), step(x, expected)
        assert y.tolist() == expected.tolist() and z.tolist() == wanted.tolist() and y._version == expected._version


def test_a_program_contains_kernels_of_operators():
    t = torchlike
    op = defined(t, lambda x: (x.add_(1), None)[1], schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
    x = t.zeros(2)
    program = t.compile(lambda x: (op(x), x * 2)[1], fullgraph=True)
    assert program(x).tolist() == [2, 2] and x.tolist() == [1, 1] and x._version


def test_a_host_kernel_that_contradicts_its_fake_is_refused():
    t = torchlike
    op = host_sine(t)
    op.register_fake(lambda x: x.new_empty(5))
    with pytest.raises(Exception, match=r"returned float32\[2\] where the fake implementation says float32\[5\]"):
        t.compile(lambda x: op(x).sum(), fullgraph=True)(t.ones(2)).item()


def test_what_a_host_kernel_raises_is_told():
    t = torchlike

    def fail(x):
        x.numpy()
        raise ValueError("a kernel's own error")

    op = defined(t, fail, schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: t.empty_like(x))
    with pytest.raises(Exception, match="a kernel's own error"):
        t.compile(lambda x: op(x).sum(), fullgraph=True)(t.ones(2)).item()


def test_kernels_run_on_large_values_in_programs():
    t = torchlike
    op, x = host_sine(t), torchlike.ones(1 << 20)
    assert t.compile(lambda x: op(op(x)).sum(), fullgraph=True)(x) == op(op(x)).sum()


def test_recorded_execution_runs_kernels_in_place():
    agree(lambda t: (lambda op, x: (op(x * 2) + 1) * 3)(scale_of(t), t.arange(3.0)))


def test_host_kernels_that_threads_of_xla_call():
    """Python frees what it keeps of such a thread after each call, objects of jax among it, which ended the process."""
    op = host_sine(torchlike)

    @torchlike.compile(fullgraph=True)
    def f(x):
        products = [(x + i) @ x @ x @ x for i in range(6)]  # XLA computes them at once
        return sum([op(y) for y in products])

    x = torchlike.rand(200, 200)
    expected = sum([((x + i) @ x @ x @ x).sin() for i in range(6)])
    for _ in range(20):
        torchlike.testing.assert_close(f(x), expected, atol=1e-2, rtol=1e-2)
