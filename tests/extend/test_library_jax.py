"""Operators whose kernels are functions of jax arrays or Pallas kernels: everything else is derived."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from library_kit import plus, space

import torchlike as torch
from torchlike.library import jax_op
from torchlike.utils._python_dispatch import TorchDispatchMode


def made(kernel, schema="(Tensor x, float limit=1.0) -> Tensor", **options):
    return jax_op(f"{space()}::op", schema, **options)(kernel)


def clip(x, limit):
    return limit * jnp.tanh(x / limit)


def composed(x, limit=1.0):
    return limit * torch.tanh(x / limit)


def leaf(*shape):
    return torch.linspace(-2, 2, int(np.prod(shape)), dtype=torch.float64).reshape(shape).requires_grad_()


@pytest.mark.parametrize("limit", [0.5, 2.0])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), ()])
def test_values_and_derivatives_of_every_order(shape, limit):
    op, x = made(clip), leaf(*shape)
    results = []
    for f in (op, composed):
        out = f(x, limit)
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        results.append((out, first, second, *torch.autograd.grad(second.sum(), x)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_gradcheck():
    assert torch.autograd.gradcheck(made(clip), (leaf(4), 0.7))
    assert torch.autograd.gradgradcheck(made(clip), (leaf(4), 0.7))


@pytest.mark.parametrize(
    "use",
    [
        lambda f, x: torch.vmap(f)(x),
        lambda f, x: torch.vmap(f, in_dims=1, out_dims=1)(x),
        lambda f, x: torch.vmap(torch.vmap(f))(x),
        lambda f, x: torch.func.jvp(f, (x,), (x * 2,)),
        lambda f, x: torch.vmap(lambda a: torch.func.jvp(f, (a,), (a,))[1])(x),
        lambda f, x: torch.autograd.grad(torch.vmap(f)(x).sum(), x),
        lambda f, x: torch.compile(lambda x: f(x * 2) + 1, fullgraph=True)(x),
        lambda f, x: torch.autograd.grad(torch.compile(lambda x: f(x * 2).sum(), fullgraph=True)(x), x),
        lambda f, x: f(x[0]), lambda f, x: f(x.t()), lambda f, x: f(x.float()), lambda f, x: f(x, limit=3),
    ],
)  # fmt: skip
def test_transforms_and_programs(use):
    x = leaf(2, 3)
    ours, expected = (jax.tree.leaves(use(f, x), is_leaf=torch.is_tensor) for f in (made(clip), composed))
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a, b)


def test_meta_tensors_infer_shapes():
    op = made(lambda x, n: jnp.repeat(x, n, axis=0), "(Tensor x, int n) -> Tensor")
    out = op(torch.ones(2, 3, device="meta"), 4)
    assert out.is_meta and out.shape == (8, 3)


def test_arguments_of_every_kind():
    seen = []

    def kernel(a, others, bias, sizes, flag, name, dtype, *, scale):
        seen.append((sizes, flag, name, dtype))
        out = sum(others, a) * scale
        return (out if bias is None else out + bias).astype(dtype.np), jnp.stack([*others])

    op = made(
        kernel,
        "(Tensor a, Tensor[] others, Tensor? bias, int[] sizes, bool flag, str name, ScalarType dtype, *, "
        "Scalar scale=2) -> (Tensor, Tensor)",
    )
    x = torch.ones(2)
    first, second = op(x, [x, x * 2], None, [1, 2], True, "mode", torch.float64)
    assert first.dtype is torch.float64 and first.tolist() == [8, 8] and second.shape == (2, 2)
    assert seen[0] == ((1, 2), True, "mode", torch.float64)
    assert op(x, [x], x, (), False, "b", torch.float32, scale=0.5)[0].tolist() == [2, 2]


def test_integer_results_have_no_gradient():
    op = made(lambda x: (x * 2, jnp.argmax(x)), "(Tensor x) -> (Tensor values, Tensor index)")
    values, index = op(leaf(3))
    assert values.requires_grad and not index.requires_grad and index.item() == 2


def test_declared_results_without_a_gradient():
    op = made(lambda x: (x * 2, x * 3), "(Tensor x) -> (Tensor, Tensor)", nondiff=(1,))
    assert [t.requires_grad for t in op(leaf(3))] == [True, False]


def test_an_explicit_derivative():
    op, x = made(clip, vjp={"x": lambda grad, x, limit, result: grad * (result * 0 + 7)}), leaf(3)
    assert torch.autograd.grad(op(x).sum(), x)[0].tolist() == [7, 7, 7]


def test_no_derivative():
    assert not made(jnp.floor, "(Tensor x) -> Tensor", vjp={})(leaf(3)).requires_grad


def test_the_overload_is_found_under_torch_ops():
    name = space()
    op = jax_op(f"{name}::op.some", "(Tensor x) -> Tensor", tags=())(lambda x: x + 1)
    packet = getattr(torch.ops, name).op
    assert packet.some is op and str(op._schema) == f"{name}::op.some(Tensor x) -> Tensor"
    assert packet(torch.zeros(1)).item() == 1
    x = torch.zeros(1, requires_grad=True)
    assert op(x).grad_fn.name() == "OpBackward0"


def test_a_name_that_aten_has_too_stands_for_another_operator():
    op = jax_op(f"{space()}::softmax", "(Tensor x, int dim) -> Tensor")(lambda x, dim: x * dim)
    x = torch.ones(2, requires_grad=True)
    with LoggingMode() as mode:
        assert torch.autograd.grad(op(x, 3).sum(), x)[0].tolist() == [3, 3]
    assert [name for name in mode.names if name.endswith("softmax.default")] == [str(op)]
    assert torch.vmap(lambda a: op(a, 3))(x).tolist() == [3, 3]


class LoggingMode(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_jitted_functions_and_other_callables_are_kernels():
    assert made(jax.jit(lambda a: a + 1), "(Tensor x) -> Tensor")(torch.zeros(1)).item() == 1
    assert made(jnp.square, "(Tensor x) -> Tensor")(torch.full((1,), 3.0)).item() == 9


def scaled_kernel(x_ref, y_ref, out_ref):
    out_ref[...] = x_ref[...] * y_ref[...] + 1.0


def pallas(x, y):
    return pl.pallas_call(scaled_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


def pallas_op():
    formula = {"x": lambda grad, y: grad * y, "y": lambda grad, x: grad * x}
    return made(pallas, "(Tensor x, Tensor y) -> Tensor", vjp=formula)


@pytest.mark.parametrize(
    "use",
    [
        lambda f, x, y: f(x, y),
        lambda f, x, y: torch.autograd.grad(f(x, y).sum(), (x, y)),
        lambda f, x, y: torch.autograd.grad(torch.autograd.grad(f(x, y).pow(2).sum(), x, create_graph=True)[0].sum(),
        (x, y)),
        lambda f, x, y: torch.vmap(f)(x, y),
        lambda f, x, y: torch.compile(lambda a, b: f(a * 2, b), fullgraph=True)(x, y),
        lambda f, x, y: tuple(f(x.detach().to("meta"), y.detach().to("meta")).shape),
    ],
)  # fmt: skip
def test_a_pallas_kernel(use):
    x, y = leaf(2, 4), (leaf(2, 4) * 3).detach().requires_grad_()
    ours, expected = (
        jax.tree.leaves(use(f, x, y), is_leaf=torch.is_tensor) for f in (pallas_op(), lambda x, y: x * y + 1)
    )
    for a, b in zip(ours, expected, strict=True):
        assert a == b if isinstance(a, int) else torch.allclose(a, b)


def named(name):
    """The name of an operator of jax."""
    full = f"{space()}::{name}"
    jax_op(full, "(Tensor x) -> Tensor")(jnp.sin)
    return full


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: jax_op("op", "(Tensor x) -> Tensor"), ValueError, 'form "namespace::name", but got op'),
        (lambda: jax_op("a::b", "(Tensr x) -> Tensor"), RuntimeError, "unknown type specifier 'Tensr'"),
        (lambda: jax_op("a::b", "(Tensor(a!) x) -> Tensor"), NotImplementedError,
         r"neither change nor alias.*custom_op\(\)"),
        (lambda: jax_op("a::b", "(Tensor(a) x) -> Tensor(a)"), NotImplementedError, "neither change nor alias"),
        (lambda: jax_op("a::b", "(Tensor x, Device d) -> Tensor"), NotImplementedError,
         "type Device are not supported"),
        (lambda: jax_op("a::b", "(Tensor x) -> int"), NotImplementedError, "results must be tensors"),
        (lambda: jax_op("a::b", "(Tensor x) -> ()"), NotImplementedError, "must have a result"),
        (lambda: [jax_op("twice::b", "(Tensor x) -> Tensor")(jnp.sin) for _ in range(2)], RuntimeError,
         "twice::b already"),
        (lambda: torch.library.register_autograd(named("a"), plus(1)), NotImplementedError,
         r"declared by jax_op\(\).*vjp="),
        (lambda: torch.library.register_fake(named("b"), plus(1)), NotImplementedError, r"declared by jax_op\(\)"),
        (lambda: torch.library.register_vmap(named("c"), plus(1)), NotImplementedError, r"declared by jax_op\(\)"),
        (lambda: torch.library.register_kernel(named("d"), "cpu", plus(1)), NotImplementedError, r"declared by jax_op"),
        (lambda: torch.library.define(named("e"), "(Tensor x) -> Tensor"), RuntimeError, "same name and overload name"),
        (lambda: made(jnp.sin, "(Tensor x) -> Tensor")(1.0), RuntimeError,
         "Expected a value of type 'Tensor' for argument 'x' but instead found type 'float'"),
        (lambda: made(jnp.sin, "(Tensor x) -> Tensor")(), RuntimeError, "is missing value for argument 'x'"),
        (lambda: made(clip)(torch.ones(1), "a"), RuntimeError, "limit"),
        (lambda: made(clip, vjp={"z": lambda grad: grad}), TypeError, "vjp for unknown input"),
        (lambda: made(jnp.sin, "(Tensor x) -> Tensor", tags="a"), TypeError, "expected torch.Tag"),
    ],
)  # fmt: skip
def test_what_is_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_opcheck_passes():
    result = torch.library.opcheck(made(clip), (leaf(3), 0.5))
    assert set(result.values()) == {"SUCCESS"}
