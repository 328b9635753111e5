"""Derivatives are the same formula whether a dispatch mode sees their calls or not: every operator, kinks included."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from sample_kit import complex_sample, operators, sample

import torchlike
from torchlike._core.dispatch.dispatch import call
from torchlike._decl import rules
from torchlike._decl.op import REGISTRY
from torchlike.utils._python_dispatch import TorchDispatchMode

OPERATORS = operators()
KINKS = [-np.inf, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan]
PAGE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_kinks.py"))


class Pass(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def gradients(values, static, op, second=False):
    """Results, and gradients of the differentiable inputs, of a call of ``op``."""
    inputs = [torchlike.tensor(v) if isinstance(v, np.ndarray) else v for v in values]
    leaves = [x for x in inputs if isinstance(x, torchlike.Tensor) and rules.differentiable(x.dtype.np)]
    for x in leaves:
        x.requires_grad_("batch_norm" not in op.name or x is leaves[0])
    leaves = [x for x in leaves if x.requires_grad]
    out = call(op, tuple(inputs), static)
    outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.requires_grad]
    rng = np.random.RandomState(1)
    phases = any(hasattr(f, "check") for f in (op.formulas or {}).values())
    grads = [torchlike.tensor(cotangent(rng, o, phases)) for o in outs]
    found = torchlike.autograd.grad(outs, leaves, grads, allow_unused=True, create_graph=second)
    if second:
        roots = [(g * g.detach()).sum().real for g in found if g is not None and g.requires_grad]
        if roots:
            found += torchlike.autograd.grad(sum(roots), leaves, allow_unused=True)
    return [*outs, *[g for g in found if g is not None]]


def cotangent(rng, out, phases):
    """A gradient of an output; ``phases``: one of a loss that does not depend on the phases of complex vectors."""
    shape = tuple(out.shape)
    real = rng.uniform(0.5, 1.5, shape)
    if phases and out.is_complex():
        return real * out.detach().numpy()
    return (real + 1j * rng.uniform(0.5, 1.5, shape) if out.is_complex() else real).astype(out.dtype.np)


def same(run):
    plain = run()
    with Pass():
        shown = run()
    assert len(plain) == len(shown)
    for a, b in zip(shown, plain, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype
        a, b = a.detach().resolve_conj().resolve_neg().numpy(), b.detach().resolve_conj().resolve_neg().numpy()
        tol = 2e-6 if a.dtype.itemsize <= 4 or a.dtype == np.complex64 else 1e-12
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def refuses(op):
    return any(hasattr(f, "error") for f in (op.formulas or {}).values())


def pointwise(op):
    alike = op.pointwise and all(a.is_tensor for a in op.dynamic)
    return alike and {a.name for a in op.dynamic} <= {"self", "other", "exponent", "min", "max"}


@pytest.mark.parametrize("op", [o for o in OPERATORS if not refuses(o)], ids=lambda o: o.full_name)
def test_at_ordinary_points(op):
    found = sample(op)
    assert found is not None, "no call of it was found: add one to sample_kit.EXPLICIT"
    same(lambda: gradients(*found, op))
    of_complex = complex_sample(op)
    if of_complex is not None:
        same(lambda: gradients(*of_complex, op))


@pytest.mark.parametrize("name", ["mul.Tensor", "pow.Scalar", "cat", "index_put", "linalg_svd", "convolution"])
def test_complex_calls_are_found(name):
    assert complex_sample(REGISTRY[name]) is not None


@pytest.mark.parametrize("op", [o for o in OPERATORS if pointwise(o) and not refuses(o)], ids=lambda o: o.full_name)
def test_at_kinks(op):
    _, static = sample(op)
    grid = np.meshgrid(*[np.array(KINKS)] * len(op.dynamic))
    same(lambda: gradients([g.ravel() for g in grid], static, op))


# Those of torchlike by itself are others than PyTorch's, whose calls a mode sees.
SINGULAR = "t.det(x.reshape(2, 2))"


@pytest.mark.parametrize("text", sorted({text for text, _ in PAGE["cases"]()} - {SINGULAR}))
def test_at_the_points_of_the_page(text):
    def run():
        found = []
        for case, point in PAGE["cases"]():
            if case == text:
                slopes = PAGE["derivatives"](torchlike, text, point)
                found += [torchlike.tensor(d, dtype=torchlike.float64) for d in slopes]
        return found

    same(run)


def test_at_a_singular_matrix_a_mode_sees_pytorchs_zeros():
    ours = torchlike.ones(2, 2, requires_grad=True)
    with Pass():
        (shown,) = torchlike.autograd.grad(ours.det(), ours)
    x = torch.ones(2, 2, requires_grad=True)
    assert shown.tolist() == torch.autograd.grad(x.det(), x)[0].tolist() == [[0, 0], [0, 0]]
    assert PAGE["derivatives"](torchlike, SINGULAR, [1.0] * 4)[0] == pytest.approx([1, -1, -1, 1])


def test_the_list_of_opaque_derivatives_is_current():
    docs = Path(__file__).parents[2] / "docs"
    made_with = re.search(r"with jax (\d+\.\d+)\.", (docs / "opaque.md").read_text()).group(1)
    if not jax.__version__.startswith(f"{made_with}."):
        pytest.skip(f"the page tells of the primitives of jax {made_with}")
    page = runpy.run_path(str(docs / "make_opaque.py"), run_name="make_opaque")["page"]()
    assert (docs / "opaque.md").read_text() == page, "run python docs/make_opaque.py"
