"""vjp, jvp and vmap of an operator are operators, and agree with PyTorch's transforms."""

import numpy as np
import pytest
import torch
from oracle import assert_same, close, host, to_ours, to_torch

import torchlike
from torchlike._core.dispatch.dispatch import call
from torchlike._decl import derive
from torchlike._decl.op import REGISTRY

RNG = np.random.RandomState(3)
X, Y = RNG.randn(3, 4), RNG.randn(3, 4)
TIES = np.array([[1.0, 1.0, 0.0, -2.0]] * 3)
Z = RNG.randn(3, 4) + 1j * RNG.randn(3, 4)

# operator, its static arguments, inputs, the same in PyTorch
CASES = [
    ("add.Tensor", (), (X, Y, None), lambda x, y: x + y),
    ("mul.Tensor", (), (Z, Z[::-1].copy()), lambda x, y: x * y),
    ("exp", (), (X,), torch.exp),
    ("sin", (), (Z,), torch.sin),
    ("tanh", (), (X,), torch.tanh),
    ("abs", (), (TIES,), torch.abs),
    ("abs", (), (Z,), torch.abs),
    ("relu", (), (TIES,), torch.relu),
    ("maximum", (), (TIES, np.ones((3, 4))), torch.maximum),
    ("mm", (), (X, Y.T.copy()), torch.mm),
]
NAMES = [f"{name}-{inputs[0].dtype}" for name, _, inputs, _ in CASES]


def _plain(inputs):
    return [x for x in inputs if x is not None]


@pytest.mark.parametrize("name, static, inputs, reference", CASES, ids=NAMES)
def test_jvp(name, static, inputs, reference):
    n = len(_plain(inputs))
    dots = [RNG.randn(*x.shape).astype(x.dtype) for x in _plain(inputs)]
    op = REGISTRY[name].jvp(static, tuple(range(n)))
    values = [x if x is None else to_ours(x) for x in inputs]
    out, dot = call(op, (*values, *map(to_ours, dots)), ())
    expected = torch.func.jvp(reference, tuple(map(to_torch, _plain(inputs))), tuple(map(to_torch, dots)))
    assert_same(out, expected[0], "value")
    assert_same(dot, expected[1], "tangent")


@pytest.mark.parametrize("name, static, inputs, reference", CASES, ids=NAMES)
def test_vjp(name, static, inputs, reference):
    wanted = tuple(i for i, x in enumerate(inputs) if x is not None)
    avals = [derive.aval(x) for x in inputs]
    plan = REGISTRY[name].derivative(static, avals, wanted)
    theirs = [to_torch(x).requires_grad_() for x in _plain(inputs)]
    result = reference(*theirs)
    g = RNG.randn(*result.shape).astype(host(result).dtype)
    saved = [to_ours(inputs[i]) for i in plan.inputs] + [to_ours(host(result)) for _ in plan.outputs]
    arguments = (*saved, to_ours(g))
    got = call(plan.kernel, arguments, ()) if plan.kernel else ()
    got = plan.routed(arguments, got if isinstance(got, tuple) else (got,))
    for a, b in zip(got, torch.autograd.grad(result, theirs, to_torch(g)), strict=True):
        assert_same(a, b, "gradient")


@pytest.mark.parametrize("name, static, inputs, reference", CASES[:-1], ids=NAMES[:-1])
def test_vmap(name, static, inputs, reference):
    stacked = tuple(x if x is None else np.stack([x, 2 * x, -x]) for x in inputs)
    op = REGISTRY[name].vmap(static, tuple(None if x is None else 0 for x in inputs))
    got = call(op, tuple(x if x is None else to_ours(x) for x in stacked), ())
    assert_same(got, torch.vmap(reference)(*map(to_torch, _plain(stacked))))


def test_a_derived_operator_records_a_node_and_is_compiled_once():
    op = REGISTRY["exp"].vmap((), (0,))
    x = torchlike.ones(3, 2, requires_grad=True)
    call(op, (x,), ())
    compilations = op.kernels[()]._cache_size()
    for _ in range(3):
        out = call(op, (x,), ())
    out.sum().backward()
    close(host(x.grad), np.full((3, 2), np.e, np.float32), "gradient")
    assert op is REGISTRY["exp"].vmap((), (0,)) and op.kernels[()]._cache_size() == compilations


def test_the_gradient_of_a_gradient_is_dispatched_to_derived_operators():
    x = torchlike.tensor([0.5, 2.0], requires_grad=True)
    y = (x * x * x).sum()
    found = []
    for _ in range(3):
        (y,) = torchlike.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.tolist())
    assert found == [[0.75, 12.0], [3.0, 12.0], [6.0, 6.0]]


def test_what_a_default_derivative_does_not_read_is_not_saved():
    plan = REGISTRY["add.Tensor"].derivative((), [derive.aval(X), derive.aval(Y), None], (0, 1))
    assert plan.inputs == () and plan.kernel is None and plan.route == (0, 0)
    plan = REGISTRY["mul.Tensor"].derivative((), [derive.aval(X), derive.aval(Y)], (0,))
    assert plan.names == ("other",)
