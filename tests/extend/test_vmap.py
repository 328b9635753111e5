"""torch.vmap: results, views, changes in place, autograd through it and inside of it, compared with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from both import agree, attempt

import torchlike

A = np.linspace(-2.0, 3.0, 24).reshape(2, 3, 4)


def case(f, *arrays, **options):
    """``vmap(f, **options)`` of the arrays, on both libraries."""
    agree(lambda t: t.vmap(lambda *x: f(t, *x), **options)(*[t.tensor(a) for a in arrays]))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_any_axis_may_be_mapped(dim):
    case(lambda t, x: x.sin() * 2 + x.sum(), A, in_dims=dim)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_any_axis_of_the_result(dim):
    case(lambda t, x: x.exp(), A, in_dims=1, out_dims=dim)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x, y: x @ y.T,
        lambda t, x, y: t.where(x > 0, x, y),
        lambda t, x, y: t.cat([x, y[:1]]),
        lambda t, x, y: t.stack([x, y], -1),
        lambda t, x, y: (x.sort(-1), y.max(0)),
        lambda t, x, y: x.softmax(-1).log() + y.norm(),
        lambda t, x, y: t.einsum("ij,kj->ik", x, y),
        lambda t, x, y: x.unbind(0) + y.chunk(2, 1),
        lambda t, x, y: x.argmax() + y.long(),
        lambda t, x, y: (x + 1).to(t.float32) * 2,
        lambda t, x, y: x[1:, None].expand(2, 5, 4) - y[0, ::2].repeat(2),
        lambda t, x, y: x.t().contiguous().view(-1) + y.flatten(),
        lambda t, x, y: x[t.tensor([2, 0])] * y[:, t.tensor([1])][:2],
        lambda t, x, y: x.gather(1, y.abs().long() % 4),
        lambda t, x, y: t.nn.functional.layer_norm(x, (4,)) + t.nn.functional.relu(y),
        lambda t, x, y: t.nn.functional.conv1d(x[None], y[:, None, :2].expand(3, 3, 2)),
        pytest.param(lambda t, x, y: t.linalg.solve(x @ x.T + t.eye(3), y), id="solve"),
        lambda t, x, y: t.cumsum(x, 0).clamp(y.min(), y.max()),
        lambda t, x, y: t.as_strided(x, (2, 2), (1, 4)) + y.diagonal()[:2],
        lambda t, x, y: x.unfold(1, 2, 1).sum(-1) + y.squeeze().movedim(0, 1)[:3, :3],
    ],
)
def test_operators(f):
    case(f, A, A[::-1].copy())


def test_what_is_shared_stays_as_it_is():
    case(lambda t, x, y: x @ y, A, A[0].T.copy(), in_dims=(0, None))
    case(lambda t, x, y: x * y, A, A.transpose(1, 2, 0).copy(), in_dims=(0, 2))


def test_numbers_and_none_are_shared():
    agree(lambda t: t.vmap(lambda x, k, n: x * k, in_dims=(0, None, None))(t.tensor(A), 3.0, None))


def test_keyword_arguments_are_shared():
    agree(lambda t: t.vmap(lambda x, *, k: x * k.sum())(t.tensor(A), k=t.tensor(A)))


def test_a_number_counts_for_promotion_as_in_one_example():
    agree(lambda t: t.vmap(lambda x, y: x + y)(t.arange(3), t.arange(3, dtype=t.int8)))
    agree(lambda t: t.vmap(lambda x, y: x + y)(t.ones(2, 3), t.ones(2, dtype=t.float64)))
    agree(lambda t: t.vmap(lambda x: x * 2.5)(t.arange(3)))


def test_nests_of_arguments_and_results():
    def f(t):
        x = t.tensor(A)
        got = t.vmap(lambda d, p: {"s": d["a"] + p[0], "l": [p[1], (d["a"],)]}, in_dims=({"a": 0}, (0, None)))
        return got({"a": x}, (x, x[0]))

    agree(f)


def test_structure_of_out_dims():
    agree(lambda t: t.vmap(lambda x: (x, x * 2), out_dims=(0, 2))(t.tensor(A)))
    agree(lambda t: t.vmap(lambda x: {"a": x}, out_dims={"a": 1})(t.tensor(A)))
    agree(lambda t: t.vmap(lambda x: (x, t.ones(2)), out_dims=(1, None))(t.tensor(A)))


def test_shared_results_are_expanded():
    agree(lambda t: t.vmap(lambda x: t.arange(4))(t.tensor(A)))
    assert torchlike.vmap(lambda x: torchlike.arange(4))(torchlike.ones(3)).stride() == (0, 1)


def test_named_results_keep_their_names():
    agree(lambda t: (lambda r: (type(r).__name__, r.values, r.indices))(t.vmap(lambda x: t.cummax(x, 0))(t.tensor(A))))


@pytest.mark.parametrize("size", [1, 2, 5, None])
def test_chunks(size):
    agree(lambda t: t.vmap(lambda x: (x * 2, x.sum()), in_dims=2, out_dims=(1, 0), chunk_size=size)(t.tensor(A)))


def test_empty_and_single_axes():
    case(lambda t, x: x.sum(), np.ones((0, 3)))
    case(lambda t, x: x.sort().values, np.ones((1, 3)))
    case(lambda t, x: x.mean(0), np.full((2, 3), np.nan))


def test_nested():
    agree(lambda t: t.vmap(t.vmap(lambda x, y: x @ y, (0, None)), (None, 1))(t.tensor(A[0]), t.tensor(A[1].T.copy())))
    agree(lambda t: t.vmap(t.vmap(t.vmap(lambda x: x * 2 + 1)))(t.tensor(A)))
    agree(lambda t: t.vmap(lambda x: t.vmap(lambda y: x.sum() * y)(x), 2, 1)(t.tensor(A)))


def test_inside_tensors_have_the_shape_of_one_example():
    def f(t):
        seen = []

        def g(x):
            seen.append((tuple(x.shape), x.stride(), x.ndim, x.numel(), x.dtype, x.is_contiguous(), x.requires_grad))
            seen.append((x.is_leaf, x.storage_offset(), x.element_size(), len(x), x.grad_fn is None))
            return x * 2

        t.vmap(g, in_dims=1)(t.tensor(A, requires_grad=True))
        return seen

    agree(f)


def test_prints_what_it_stands_for():
    def f(t):
        seen = []
        t.vmap(t.vmap(lambda x: seen.append(repr(x)) or x))(t.tensor([[1.0, 2.0]]))
        return seen

    agree(f)


# -- views and changes in place ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: x[0],
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x.view(-1),
        lambda x: x.unsqueeze(0),
        lambda x: x.diagonal(),
        lambda x: x.unbind(1)[2],
        lambda x: x.split(2)[0],
        lambda x: x.detach(),
    ],
)
def test_results_are_views_of_the_arguments(f):
    def g(t):
        x = t.tensor(A)
        y = t.vmap(f)(x)
        y.mul_(10)
        return x, y, y is x, y._is_view()

    agree(g)


def change(f):
    """The argument and the result after ``f`` under vmap has changed it."""

    def run(t):
        x = t.tensor(A).clone()
        return t.vmap(lambda v: f(t, v))(x), x, x._version

    agree(run)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: x.add_(1),
        lambda t, x: x[0].mul_(2),
        lambda t, x: x.t()[1].copy_(x[:, 0]),
        lambda t, x: x.zero_(),
        lambda t, x: x.masked_fill_(x > 0, 7.0),
        lambda t, x: x.index_add_(0, t.tensor([1]), x[:1]),
        lambda t, x: x.sin_() + x,
    ],
)
def test_changes_reach_the_argument(f):
    change(f)


def test_assignment_inside():
    def f(t, x):
        y = x.clone()
        y[0] = x[1]
        y[1:, 2] = 5.0
        y[:, t.tensor([0, 1])] *= 2
        return y

    change(f)


@pytest.mark.parametrize(
    "make",
    ["zeros_like(x)", "ones_like(x)", "full_like(x, 3.0)", "x.new_zeros(3, 4)", "x.new_full((3, 4), 2.0)",
     "x.new_ones((3, 4))"],
)  # fmt: skip
def test_what_is_made_like_a_mapped_tensor_is_mapped(make):
    case(lambda t, x: eval(make, {"x": x, **vars(t)}).add_(x), A)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x, s: t.diagonal_scatter(x, s),
        lambda t, x, s: t.select_scatter(x, s, 1, 0),
        lambda t, x, s: t.slice_scatter(x, s[:, None], 1, 0, 1),
    ],
)
@pytest.mark.parametrize("dims", [(None, 0), (0, 0), (0, None)])
def test_a_part_is_replaced_in_a_copy_for_each_example(f, dims):
    def run(t):
        x, s = t.arange(24.0).reshape(2, 3, 4), t.arange(6.0).reshape(2, 3)
        return t.vmap(lambda *args: f(t, *args), dims)(
            *[a if d == 0 else a[0] for a, d in zip((x, s), dims, strict=True)]
        )

    agree(run)


def test_shared_tensors_change_by_shared_ones():
    def f(t):
        w = t.zeros(3)
        got = t.vmap(lambda x: x * w.add_(1).sum())(t.tensor(A))
        return got, w

    agree(f)


# -- autograd ----------------------------------------------------------------------------------------


def test_gradients_through_vmap():
    def f(t):
        x, w = t.tensor(A, requires_grad=True), t.tensor(A[0, 0], requires_grad=True)
        y = t.vmap(lambda v: ((v * w).sin().sum(-1) + w[0]).relu())(x)
        return y, t.autograd.grad(y.pow(2).sum(), (x, w))

    agree(f)


def test_gradients_of_changes_in_place():
    def f(t):
        x = t.tensor(A, requires_grad=True)
        y = x * 1
        t.vmap(lambda v: v[0].mul_(3).add_(v[1]))(y)
        t.vmap(lambda v: v.sin_(), in_dims=1)(y)
        return t.autograd.grad((y * y).sum(), x)

    agree(f)


def test_double_backward_through_vmap():
    def f(t):
        x = t.tensor(A, requires_grad=True)
        (g,) = t.autograd.grad(t.vmap(lambda v: (v**3).sum().exp())(x / 10).sum(), x, create_graph=True)
        return g, t.autograd.grad(g.pow(2).sum(), x)

    agree(f)


@pytest.mark.parametrize("create", [False, True])
def test_batched_vector_jacobian_products(create):
    def f(t):
        x = t.tensor(A[0], requires_grad=True)
        y = (x.sin() * x.sum()).flatten()
        rows = t.eye(y.numel(), dtype=y.dtype)
        return t.vmap(lambda v: t.autograd.grad(y, x, v, retain_graph=True, create_graph=create)[0])(rows)

    agree(f)


def test_conventions_at_kinks_hold():
    def f(t):
        x = t.zeros(2, 3, dtype=t.float64, requires_grad=True)
        ops = [t.abs, t.relu, lambda v: v.clamp(min=0), lambda v: v.norm(), t.sgn, lambda v: v.amax()]
        return [t.autograd.grad(t.vmap(op)(x).sum(), x) for op in ops]

    agree(f)


def test_modules():
    def f(t):
        net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.Tanh(), t.nn.LayerNorm(3), t.nn.Linear(3, 1)).double()
        for i, p in enumerate(net.parameters()):
            p.data = t.arange(p.numel(), dtype=t.float64).view_as(p).sin() + i
        t.vmap(net)(t.tensor(A)).sum().backward()
        return [p.grad for p in net.parameters()]

    agree(f)


def test_hooks_and_no_grad():
    def f(t):
        x, seen = t.tensor(A, requires_grad=True), []
        x.register_hook(lambda g: seen.append(tuple(g.shape)))
        with t.no_grad():
            still = t.vmap(t.sin)(x)
        t.vmap(t.sin)(x).sum().backward()
        return seen, still, x.grad

    agree(f)


def test_detach_cuts_the_graph_below():
    def f(t):
        x = t.tensor(A, requires_grad=True)
        return t.autograd.grad(t.vmap(lambda v: v.detach() * v)(x).sum(), x)

    agree(f)


# -- ways of execution -------------------------------------------------------------------------------


def test_compiled_and_recorded():
    x = torchlike.tensor(A)
    f = torchlike.vmap(lambda v: v.sin().sum(-1))
    assert torchlike.equal(torchlike.compile(f)(x), f(x))
    with torchlike.set_execution("recorded"):
        assert torchlike.equal(f(x), x.sin().sum(-1))


def test_inside_of_jax_jit():
    jax = pytest.importorskip("jax")
    f = torchlike.vmap(lambda v: v.sin().sum(-1))
    got = jax.jit(lambda a: f(torchlike.from_jax_array(a)).jax())(A)
    np.testing.assert_allclose(got, np.sin(A).sum(-1), rtol=1e-12)


def test_each_operator_is_compiled_once():
    f = torchlike.vmap(lambda v, i: v[i] * 2.5)
    x = torchlike.tensor(A)
    first = f(x, torchlike.tensor([0, 1]))
    assert torchlike.equal(first, torchlike.stack([x[0, 0], x[1, 1]]) * 2.5)
    assert torchlike.equal(f(x, torchlike.tensor([2, 0])), torchlike.stack([x[0, 2], x[1, 0]]) * 2.5)


def test_an_error_leaves_no_level_behind():
    x = torchlike.ones(2)
    assert isinstance(attempt(lambda: torchlike.vmap(lambda v: v @ v)(x)), RuntimeError)
    assert torchlike.equal(x + 1, torchlike.full((2,), 2.0))
    assert not torchlike._base.state.state.levels


def test_a_tensor_that_outlives_its_vmap_is_refused():
    kept = []
    torchlike.vmap(lambda v: kept.append(v) or v)(torchlike.ones(2))
    with pytest.raises(RuntimeError, match="a tensor of a vmap that has ended is used"):
        kept[0] + 1


# -- numbers that differ, and what is computed example by example ---------------------------------------

ENDS = {
    "both": lambda t, a, b: t.linspace(a, b, 4),
    "first": lambda t, a, b: t.linspace(a, 3, 3),
    "second": lambda t, a, b: t.linspace(0, b, 3),
    "a Python float": lambda t, a, b: t.linspace(a, 3.0, 3),
    "integers": lambda t, a, b: t.linspace(a.long(), b.long(), 3),
    "of two dtypes": lambda t, a, b: t.linspace(a.double(), b, 3),
    "complex": lambda t, a, b: t.linspace(a + 1j, b, 3),
    "dtype": lambda t, a, b: t.linspace(a, b, 3, dtype=t.float16),
    "integer dtype": lambda t, a, b: t.linspace(a, b, 4, dtype=t.int64),
    "one step": lambda t, a, b: t.linspace(a, b, 1),
    "logspace": lambda t, a, b: t.logspace(a, b, 3, 2),
    "logspace of one": lambda t, a, b: t.logspace(a, 3, 3),
}


@pytest.mark.parametrize("name", ENDS)
def test_linspace_between_mapped_ends(name):
    f = ENDS[name]
    a, b = np.array([0.0, 1.0], np.float32), np.array([4.0, 6.5], np.float32)
    case(lambda t, x, y: f(t, x, y), a, b)
    agree(lambda t: t.vmap(t.vmap(lambda x, y: f(t, x, y)), (0, None))(t.tensor(np.stack([a, b])), t.tensor(a)))
    x = torchlike.ones(2, requires_grad=True)
    assert not torchlike.vmap(lambda y: torchlike.linspace(y, 3, 3))(x).requires_grad


def test_linspace_refuses():
    a = torchlike.ones(2, 2)
    with pytest.raises(RuntimeError, match="only supports 0-dimensional start and end tensors, but got start with 1"):
        torchlike.vmap(lambda x: torchlike.linspace(x, 3, 3))(a)
    with pytest.raises(RuntimeError, match="number of steps must be non-negative"):
        torchlike.vmap(lambda x: torchlike.linspace(x, 3, -1))(a[0])


ONE_BY_ONE = {
    "bincount": lambda t, x: t.bincount(x, minlength=4),
    "bincount of unequal lengths": lambda t, x: t.bincount(x),
    "weights": lambda t, x: t.bincount(x, x * 0.5, minlength=4),
    "weights of shared numbers": lambda t, x: t.bincount(t.tensor([0, 1, 1]), x.float(), minlength=4),
    "bincount of negative numbers": lambda t, x: t.bincount(x - 1),
    "bincount of floats": lambda t, x: t.bincount(x.float()),
    "argwhere": lambda t, x: t.argwhere(x == x.max()),
    "argwhere of unequal lengths": lambda t, x: t.argwhere(x),
    "repeat_interleave": lambda t, x: t.repeat_interleave(x.flip(0) * 0 + 2),
    "repeats": lambda t, x: t.repeat_interleave(t.arange(3), (x == x.max()).long() + 1),
    "repeats of rows": lambda t, x: t.repeat_interleave(x.expand(2, 3), (x == x.max()).long(), dim=1),
    "repeats of unequal lengths": lambda t, x: t.repeat_interleave(x, x),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_example_by_example(name):
    def f(t):
        x = t.tensor([[0, 1, 2], [0, 3, 1]])
        g = lambda y: ONE_BY_ONE[name](t, y)  # noqa: E731
        nested = t.stack([x, x.flip(1)])
        return [attempt(lambda: t.vmap(g)(x)), attempt(lambda: t.vmap(g, 1)(x.T)),
                attempt(lambda: t.vmap(t.vmap(g))(nested))]  # fmt: skip

    agree(f)


def test_one_hot_needs_the_number_of_classes():
    x = torchlike.tensor([[0, 1], [1, 1]])
    with pytest.raises(RuntimeError, match="please provide an explicit positive num_classes argument"):
        torchlike.vmap(torchlike.nn.functional.one_hot)(x)
    agree(lambda t: t.vmap(lambda y: t.nn.functional.one_hot(y, 3))(t.tensor([[0, 1], [1, 1]])))


DRAWS = {
    "randn": lambda t, v: t.randn(5), "randint": lambda t, v: t.randint(5, 100, (6,)),
    "permutation": lambda t, v: t.randperm(6), "dropout": lambda t, v: t.nn.functional.dropout(v + 1),
    "like": lambda t, v: t.randn_like(v), "in place": lambda t, v: v.clone().uniform_(),
    "in a gradient": lambda t, v: t.func.grad(lambda u: t.nn.functional.dropout(u).sum())(v),
    "nested": lambda t, v: t.vmap(lambda u: t.randn(3), randomness="different")(v),
    "normal of a size": lambda t, v: t.normal(1.0, 2.0, (20,)),
}  # fmt: skip


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_rrelu_which_pytorch_refuses(randomness):
    def slopes(row):
        return torchlike.nn.functional.rrelu(row, 0.1, 0.3, training=True)

    x = -torchlike.ones(3, 3)
    with pytest.raises(RuntimeError, match="do not yet support aten::rrelu"):
        torch.vmap(lambda row: torch.rrelu(row, training=True), randomness=randomness)(-torch.ones(3, 3))
    found = torchlike.vmap(torchlike.func.grad_and_value(lambda row: slopes(row).sum()), randomness=randomness)(x)
    assert bool(((found[0] >= 0.1) & (found[0] <= 0.3)).all())
    torchlike.testing.assert_close(found[1], -found[0].sum(1))
    assert len(found[0].unique()) == (3 if randomness == "same" else 9)


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_all_examples_at_once(name, randomness):
    def drawn(t):
        t.manual_seed(3)
        x = t.arange(24.0).reshape(2, 3, 4)
        return t.vmap(lambda v: DRAWS[name](t, v), randomness=randomness)(x), t.rand(1)

    agree(drawn)


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("name", ["randn", "like", "permutation"])
def test_chunks_of_the_same_draw_the_same(name, randomness):
    def drawn(t):
        t.manual_seed(3)
        x = t.arange(60.0).reshape(5, 3, 4)
        return t.vmap(lambda v: DRAWS[name](t, v), randomness=randomness, chunk_size=2)(x), t.rand(1)

    agree(drawn)


WITH_PARAMETERS = {
    "poisson": lambda t, v: t.poisson(v),
    "poisson of a view": lambda t, v: t.poisson(v[1:].T),
    "gamma": lambda t, v: t._standard_gamma(v),
    "dirichlet": lambda t, v: t._sample_dirichlet(v),
    "binomial": lambda t, v: t.binomial(v.round(), v / 30),
    "binomial of shared counts": lambda t, v: t.binomial(t.full(v.shape, 8.0), v / 30),
    "binomial of shared chances": lambda t, v: t.binomial(v.round(), t.full((v.shape[-1],), 0.25)),
    "bernoulli": lambda t, v: t.bernoulli(v / 30),
    "normal": lambda t, v: t.normal(v, v + 1),
    "normal of shared means": lambda t, v: t.normal(t.ones(v.shape), v),
    "multinomial": lambda t, v: t.multinomial(v, 2),
    "multinomial of a row": lambda t, v: t.multinomial(v[0], 2),
    "multinomial with replacement": lambda t, v: t.multinomial(v, 5, replacement=True),
    "shared parameters": lambda t, v: (t.poisson(t.ones(5)), t.multinomial(t.ones(5), 2), t._standard_gamma(t.ones(3))),
    "in a gradient": lambda t, v: t.func.grad(lambda u: (t.poisson(u[1:]) * u[1:]).sum())(v),
    "nested": lambda t, v: t.vmap(t.poisson, 1, randomness="different")(v),
    "nested, of the outer one": lambda t, v: t.vmap(lambda _: t.multinomial(v, 2), randomness="different")(t.ones(3)),
    "nested, the same inside": lambda t, v: t.vmap(lambda _: t.poisson(v), randomness="same")(t.ones(3)),
    "integers like a view": lambda t, v: t.randint_like(v, 100),
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_draws_with_a_parameter_for_each_element(name, dim):
    def drawn(t):
        t.manual_seed(3)
        x = t.arange(24.0).reshape(2, 3, 4) + 0.5
        return t.vmap(lambda v: WITH_PARAMETERS[name](t, v), dim, randomness="different")(x), t.rand(1)

    agree(drawn)


@pytest.mark.parametrize("name", ["shared parameters"])
def test_shared_draws_with_parameters(name):
    def drawn(t):
        t.manual_seed(3)
        return t.vmap(lambda v: WITH_PARAMETERS[name](t, v), randomness="same")(t.ones(2, 3)), t.rand(1)

    agree(drawn)


@pytest.mark.parametrize("draw", ["dropout", "alpha_dropout", "native_dropout", "rand_like"])
@pytest.mark.parametrize("transform", ["jvp", "vjp", "same", "different", "functionalize"])
def test_memory_order_of_draws(transform, draw):
    def run(t):
        x = t.arange(24.0, dtype=t.float64).reshape(2, 3, 4).transpose(1, 2)
        f = {"rand_like": t.rand_like, "native_dropout": lambda v: t.native_dropout(v, 0.5, True)[0]}.get(draw)
        f = f or (lambda v: getattr(t.nn.functional, draw)(v, 0.5, True))
        t.manual_seed(3)
        return {
            "jvp": lambda: t.func.jvp(f, (x,), (x,))[0],
            "vjp": lambda: t.func.vjp(f, x)[0],
            "functionalize": lambda: t.func.functionalize(f)(x),
        }.get(transform, lambda: t.vmap(f, randomness=transform)(x))()

    agree(lambda t: attempt(lambda: run(t)))


def test_lazy_conjugates_are_seen():
    z = np.array([[1 + 1j, 2 - 1j], [3 + 0.5j, 4j]])

    def seen(t, x):
        found = [y.is_conj() for y in (x, x.conj(), x.conj().conj(), x.conj()[0], x.conj().clone(), x.conj() * 2)]
        return x.conj() * sum(2**i for i, lazy in enumerate(found) if lazy)

    def f(t):
        x = t.tensor(z)
        both = [t.vmap(lambda y: seen(t, y), dim)(v) for dim in (0, 1) for v in (x, x.conj())]
        return *both, t.vmap(t.conj, 1)(x).is_conj(), t.vmap(t.vmap(t.conj))(x[None]).is_conj()

    agree(f)


@pytest.mark.parametrize("size, stride", [((2, 3, 5), (15, 5, 1)), ((2, 3), (0, 1)), ((2, 3), (2, 4)), ((0, 2), (1, 1)),
                                          ((), ())])  # fmt: skip
def test_strides_of_new_memory(size, stride):
    def f(t):
        found = []

        def each(x):
            y = x.new_empty_strided(size, stride)
            found.append((y.shape, y.stride(), y.is_contiguous()))
            return y.fill_(1)

        out = [t.vmap(each)(t.ones(3)), t.vmap(t.vmap(each), 1)(t.ones(3, 4))] if 0 not in stride else []
        return out, [y.stride() for y in out], found

    agree(f)


def test_a_view_of_a_number_that_changes_nothing():
    x = torchlike.ones(3)
    for same in (lambda v: v.transpose(0, 0), lambda v: v.t(), lambda v: v.swapaxes(0, -1)):
        assert torchlike.vmap(same)(x) is x
