"""torch.func.jvp and dual levels: derivatives in a direction, compared with PyTorch and with backward passes."""

from __future__ import annotations

import numpy as np
import pytest
from both import agree, agree_error, attempt

import torchlike

A = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
V = np.array([[1.0, -0.5, 0.25], [0.0, 2.0, 1.5]])


def case(f, x=A, v=V):
    """``jvp`` of ``f`` at ``x`` in the direction ``v``, on both libraries."""
    agree(lambda t: t.func.jvp(lambda y: f(t, y), (t.tensor(x),), (t.tensor(v),)))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: x.sin() * x + 2,
        lambda t, x: (x @ x.T).sum(),
        lambda t, x: t.where(x > 0, x, x * x),
        lambda t, x: x.softmax(-1).log().mean(0),
        lambda t, x: (x.sort(-1).values, x.max(1).values, x.abs().sqrt()),
        lambda t, x: t.cat([x, x.exp()])[1:, ::2],
        lambda t, x: x[t.tensor([1, 0]), t.tensor([2, 0])] ** 3,
        lambda t, x: x.view(-1)[1:4].unsqueeze(0).expand(2, 3) * x,
        lambda t, x: x.t().contiguous().unbind()[1] + x.chunk(3, 1)[0].squeeze(1),
        lambda t, x: t.linalg.inv(x @ x.T + t.eye(2, dtype=x.dtype)),
        lambda t, x: t.linalg.svdvals(x),
        lambda t, x: t.nn.functional.layer_norm(x, (3,)) + t.nn.functional.gelu(x),
        lambda t, x: t.nn.functional.max_pool1d(x[None], 2),
        lambda t, x: x.norm() + x.prod() + x.cumsum(0).logsumexp(1),
        lambda t, x: t.complex(x, x * x).abs(),
        lambda t, x: t.lerp(x, x * 2, 0.25) + x.quantile(0.3) + t.addcmul(x, x, x, value=0.5),
        lambda t, x: x.argmax(),
        lambda t, x: (x > 0, x.long(), x.floor()),
        lambda t, x: x.float() * 2,
        lambda t, x: t.ones(2),
        lambda t, x: x.detach() * x,
        lambda t, x: x * x[0, 0].item() if x.sum() > 0 else x,
    ],
)
def test_operators(f):
    case(f)


@pytest.mark.parametrize("name", ["abs", "relu", "sign", "sqrt", "norm", "amax", "cummax", "frac"])
def test_conventions_at_zero_and_ties(name):
    def f(t, x):
        got = getattr(t.nn.functional if name == "relu" else t, name)(*((x, 0) if name == "cummax" else (x,)))
        return got[0] if isinstance(got, tuple) else got

    case(f, np.zeros((2, 3)))


LEFT = np.array([1.0, 1.0, np.nan, 2.0, np.nan, 0.0, np.inf, -np.inf, 0.0])
RIGHT = np.array([1.0, np.nan, 1.0, 1.0, np.nan, 0.0, np.inf, -np.inf, -0.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x, y: (t.maximum(x, y), t.minimum(x, y), t.max(x, y), t.min(x, y), t.fmax(x, y), t.fmin(x, y)),
        lambda t, x, y: (t.clamp(x, min=y), t.clamp(x, max=y), t.clamp(x, y, y), t.clamp_min(x, y), t.clamp_max(x, y)),
        lambda t, x, y: (t.clamp(x, 1.0, 2.0), t.maximum(x, y[:1]), t.maximum(x, y.float()), x.clone().clamp_(min=y)),
        lambda t, x, y: (t.pow(x, y), t.float_power(x, y), t.sinc(x), t.logit(x), t.hypot(x, y)),
        lambda t, x, y: (t.nn.functional.prelu(x, y[:1]), t.nn.functional.prelu(x.view(3, 3), x[:3])),
        lambda t, x, y: [(y[:1] * t.zeros(4, dtype=t.float64)).norm(p) for p in (0.5, 1, 2, 3, float("inf"))],
        lambda t, x, y: [x[:2].std(), x[:2].std(0, keepdim=True), x[:2].std(0, correction=0), x[5:6].std(0, False)],
        lambda t, x, y: (y[:2].scatter(0, t.tensor([0, 0]), x[:2]), y[:2].index_copy(0, t.tensor([0, 0]), x[:2])),
        lambda t, x, y: y[:2].clone().scatter_(0, t.tensor([1, 1]), x[:2]),
    ],
)
def test_ties_zeros_and_nan(f):
    v = np.arange(1.0, 10.0)

    def script(t):
        x, y, w = t.tensor(LEFT), t.tensor(RIGHT), t.tensor(v)
        g = lambda a, b: f(t, a, b)  # noqa: E731
        rows = t.vmap(lambda d: t.func.jvp(g, (x, y), (d, d * 10))[1])(t.stack([w, -w]))
        return t.func.jvp(g, (x, y), (w, w * 10)), rows

    agree(script)


SQUARE = np.array([[4.0, 1.0, 0.5], [2.0, 5.0, 0.3], [0.1, 0.2, 6.0]])
ANY = np.array([[1.0, 0.5, 0.25], [-1.0, 2.0, 0.0], [0.3, 0.7, 1.0]])


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_of_what_is_not_symmetric(upper):
    def f(t, x):
        return t.linalg.cholesky(x, upper=upper), t.linalg.cholesky_ex(x, upper=upper)[0]

    case(f, SQUARE, ANY)
    case(f, SQUARE + 1j * (ANY - ANY.T), ANY + 1j * np.cos(ANY))
    case(f, np.ones((2, 0, 0)), np.ones((2, 0, 0)))

    def nested(t):
        x, v, g = t.tensor(SQUARE, requires_grad=True), t.tensor(ANY), lambda y: f(t, y)[0]
        both = t.vmap(lambda w: t.func.jvp(g, (x,), (w,))[1])(t.stack([v, v.T]))
        mapped = t.func.jvp(t.vmap(g), (t.stack([x, x.T]),), (t.stack([v, v.T]),))[1]
        dot = t.func.jvp(g, (x,), (v,))[1]
        twice = t.func.jvp(lambda y: t.func.jvp(g, (y,), (v + v.T,))[1], (x,), (v + v.T,))[1]
        return both.detach(), mapped.detach(), twice.detach(), t.autograd.grad(dot.sum(), x)

    agree(nested)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n):
    def f(t, x):
        unpool = getattr(t.nn.functional, f"max_unpool{n}d")
        i = t.tensor([1, 3, 4]).view(1, *ones, 3)
        return unpool(x, i, [*ones, 2], output_size=[*ones, 6])

    ones = [1] * (n - 1)
    x = A[:1].reshape(1, *ones, 3)
    agree(lambda t: attempt(lambda: t.func.jvp(lambda y: f(t, y), (t.tensor(x),), (t.tensor(x) * 3,))))


def test_unpooling_to_one_place():
    """The tangent is that of the element which stays; PyTorch's may be that of another one."""
    x, i = torchlike.tensor([[1.0, 2.0, 3.0]]), torchlike.tensor([[1, 1, 1]])
    out, dot = torchlike.func.jvp(lambda y: torchlike.nn.functional.max_unpool1d(y, i, 1), (x,), (x * 10,))
    assert dot.tolist() == (out * 10).tolist()


def test_structures_and_aux():
    def f(t):
        x, v = t.tensor(A), t.tensor(V)
        g = lambda d, y: ({"o": d["a"] * y, "l": [d["b"][0]]}, {"aux": y * 3})  # noqa: E731
        return t.func.jvp(g, ({"a": x, "b": (x,)}, x), ({"a": v, "b": (v,)}, v), has_aux=True)

    agree(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: x.clone().mul_(3).add_(x),
        lambda t, x: x.clone().sin_(),
        lambda t, x: x.clone().zero_(),
    ],
)
def test_changes_in_place(f):
    case(f)


def assigned(t, x):
    y = t.zeros(2, 3, dtype=t.float64)
    part = y[:, 1:]
    y[0] = x[1]
    part *= x[:, :2]
    y[1].copy_(x[0])
    z = x.clone()
    z[0, 0] = 5.0
    return y, part, z, y.T


def test_assignment_and_views_made_before():
    case(assigned)


def test_the_arguments_change_with_their_tangents():
    def f(t):
        x, v = t.tensor(A), t.tensor(V)
        return t.func.jvp(lambda y: y.mul_(2), (x,), (v,)), x, v

    agree(f)


# -- nesting and autograd ----------------------------------------------------------------------------


def test_nested():
    def f(t):
        x, v = t.tensor(A), t.tensor(V)
        inner = lambda y: t.func.jvp(lambda z: z.sin() * y, (y,), (v,))  # noqa: E731
        outer = lambda y: t.func.jvp(lambda z: z * y, (v,), (v,))[1]  # noqa: E731
        return t.func.jvp(inner, (x,), (v,)), t.func.jvp(outer, (x,), (v,))

    agree(f)


def test_with_vmap_in_any_order():
    def f(t):
        x, v = t.tensor(A), t.tensor(V)
        rows = t.eye(6, dtype=x.dtype).view(6, 2, 3)
        jacobian = t.vmap(lambda r: t.func.jvp(lambda y: (y.exp() * y.sum()).sum(0), (x,), (r,))[1])(rows)
        mapped = t.func.jvp(t.vmap(lambda y: y.sin().cumsum(0), out_dims=1), (x,), (v,))
        both = t.vmap(lambda y, w: t.func.jvp(lambda z: z.prod() * z, (y,), (w,)))(x, v)
        return jacobian, mapped, both

    agree(f)


def test_tangents_that_only_some_examples_share():
    def g(t, x):
        y = t.zeros(3, dtype=t.float64)
        y[0] = x[1]
        y[1:] += x[1:] ** 2
        return y

    def f(t):
        rows = t.eye(3, dtype=t.float64)
        return t.vmap(lambda v: t.func.jvp(lambda x: g(t, x), (t.tensor(A[0]),), (v,))[1])(rows)

    agree(f)


def test_gradients_of_both_results():
    def f(t):
        x, v = t.tensor(A, requires_grad=True), t.tensor(V, requires_grad=True)
        out, dot = t.func.jvp(lambda y: (y.sin() * y).sum(0), (x,), (v,))
        return out, dot, t.autograd.grad((out * dot).sum(), (x, v))

    agree(f)


def test_hessian_forward_over_reverse():
    x = torchlike.tensor(A, requires_grad=True)

    def gradient(y):
        return torchlike.autograd.grad((y**3).sum() + y.prod(), y, create_graph=True)[0]

    within = torchlike.func.grad(lambda y: (y**3).sum() + y.prod())  # jvp hides that its input requires grad
    rows = torchlike.eye(6, dtype=x.dtype).view(6, 2, 3)
    ours = torchlike.vmap(lambda v: torchlike.func.jvp(within, (x,), (v,))[1])(rows).reshape(6, 6)
    g = gradient(x).flatten()
    rows = [torchlike.autograd.grad(g[i], x, retain_graph=True)[0].flatten() for i in range(6)]
    torchlike.testing.assert_close(ours.detach(), torchlike.stack(rows))


# -- what is refused ---------------------------------------------------------------------------------


def refused(match, call):
    agree_error(lambda t: call(t, t.ones(3), t.ones(3)), match)


def test_arguments():
    refused("Expected primals to be a tuple", lambda t, x, v: t.func.jvp(t.sin, x, v))
    refused("Expected primals to be a tuple", lambda t, x, v: t.func.jvp(t.sin, [x], [v]))
    refused("the same python structure", lambda t, x, v: t.func.jvp(t.sin, (x,), v))
    refused("the same python structure", lambda t, x, v: t.func.jvp(t.sin, (x,), (v, v)))
    refused("to contain at least one Tensor", lambda t, x, v: t.func.jvp(lambda: x, (), ()))
    refused("Expected primals to only contain Tensors", lambda t, x, v: t.func.jvp(t.sin, (2.0,), (v,)))
    refused("Expected tangents to only contain Tensors", lambda t, x, v: t.func.jvp(t.sin, (x,), (2.0,)))
    refused("different size than that of the original Tensor", lambda t, x, v: t.func.jvp(t.sin, (x,), (v[:2],)))
    refused("Expected primal to be floating point", lambda t, x, v: t.func.jvp(t.sin, (x.long(),), (v,)))
    refused("Expected tangent to be floating point", lambda t, x, v: t.func.jvp(t.sin, (x,), (v.long(),)))
    refused("is not on the expected device meta", lambda t, x, v: t.func.jvp(t.sin, (x,), (v.to("meta"),)))


def test_results():
    refused("only tensors, got unsupported type <class 'float'>", lambda t, x, v: t.func.jvp(lambda y: 1.0, (x,), (v,)))
    refused("non-empty output", lambda t, x, v: t.func.jvp(lambda y: None, (x,), (v,)))
    refused("independent of the inputs", lambda t, x, v: t.func.jvp(lambda y: t.ones(2), (x,), (v,), strict=True))
    refused("should be a tuple: .output, aux", lambda t, x, v: t.func.jvp(t.sin, (x,), (v,), has_aux=True))
    refused("Expected tensors, got unsupported type",
            lambda t, x, v: t.func.jvp(lambda y: (y, "a"), (x,), (v,), has_aux=True))  # fmt: skip


def test_autograd_of_the_outside_stays_outside():
    refused("of a function being transformed", lambda t, x, v: t.func.jvp(lambda y: y.requires_grad_(), (x,), (v,)))
    refused("inside a functorch transform", lambda t, x, v: t.func.jvp(lambda y: y.sum().backward(), (x,), (v,)))


def test_an_operator_without_forward_mode():
    def f(x):
        return torchlike._core.dispatch.dispatch.call(_ROUND_TRIP, (x,), ())

    with pytest.raises(NotImplementedError, match="Trying to use forward AD with round_trip that does not support it"):
        torchlike.func.jvp(f, (torchlike.ones(2),), (torchlike.ones(2),))


def _round_trip():
    jax = pytest.importorskip("jax")
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return torchlike._decl.derive.Derived("round_trip", "RoundTripBackward", f)


_ROUND_TRIP = _round_trip()


def test_prints():
    def f(t):
        seen = []
        t.func.jvp(lambda y: seen.append(repr(y)) or y, (t.tensor([1.0, 2.0]),), (t.tensor([1.0, 0.0]),))
        return seen

    agree(f)


def test_compiled_functions_and_fused_norms_inside():
    x, v = torchlike.tensor(A), torchlike.tensor(V)
    square = torchlike.compile(lambda y: y * y)
    square(x)
    torchlike.testing.assert_close(torchlike.func.jvp(square, (x,), (v,))[1], 2 * x * v)
    norm, whole = torchlike.nn.utils.get_total_norm, lambda y: torchlike.cat([y, y.sin()], -1).norm(dim=-1)
    ours = torchlike.func.jvp(lambda y: norm([y, y.sin()]), (x.flatten(),), (v.flatten(),))
    torchlike.testing.assert_close(ours, torchlike.func.jvp(whole, (x.flatten(),), (v.flatten(),)))
    torchlike.testing.assert_close(torchlike.vmap(lambda y: norm([y, y.sin()]))(x), whole(x))


def test_compiled_and_recorded():
    x, v = torchlike.tensor(A), torchlike.tensor(V)
    f = lambda y: torchlike.func.jvp(lambda z: z.sin().sum(0), (y,), (v,))[1]  # noqa: E731
    torchlike.testing.assert_close(torchlike.compile(f)(x), f(x))
    with torchlike.set_execution("recorded"):
        torchlike.testing.assert_close(f(x), (x.cos() * v).sum(0))
