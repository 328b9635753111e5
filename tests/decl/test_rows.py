"""Kernels that run small arrays with more rows than they have, once they have met some numbers of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchlike as torch
from torchlike._decl.op import REGISTRY
from torchlike._executor import compiling, immediate
from torchlike._executor.kernels import CALLS, jit
from torchlike._executor.rows import FEW, LEAST, MOST, Rows
from torchlike.nn import functional as F

SIZES = (5, 9, 12, 31)


@pytest.fixture
def compiled(monkeypatch):
    """The number of programs that are compiled from now on."""
    seen, compile = [], compiling.compiled
    monkeypatch.setattr(compiling, "compiled", lambda *args: (seen.append(args), compile(*args))[1])
    return seen


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def fresh(name, *static):
    """A kernel of an operator that has met nothing, which no store knows."""
    op = REGISTRY[name]
    return jit(op.forward(static), rows=immediate._rows(op, static))


W, B = normal(24, 16), normal(24)
CALLED = {
    "linear": (fresh, ("linear",), lambda n: (normal(2, n, 16), W, B)),
    "linear of matrices": (fresh, ("linear",), lambda n: (normal(n, 16), W, None)),
    "layer norm": (fresh, ("native_layer_norm", (16,)), lambda n: (normal(n, 16), W[0, :16], B[:16], 1e-5)),
    "gelu": (fresh, ("gelu", "none"), lambda n: (normal(2, n, 16),)),
    "exp": (fresh, ("exp",), lambda n: (normal(n, 16),)),
    "softmax": (fresh, ("softmax.int", -1, None), lambda n: (normal(2, n, 16),)),
    "log softmax": (fresh, ("log_softmax.int", 1, None), lambda n: (normal(n, 16),)),
    "attention": (
        fresh, ("_scaled_dot_product_attention", True, False),
        lambda n: (normal(2, 2, n, 8), normal(2, 2, n, 8), normal(2, n, 2, 8).swapaxes(1, 2), None, None, 0.0, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_some_programs_serve_all_sizes(name, compiled):
    make, named, given = CALLED[name]
    kernel, plain = make(*named), jax.jit(REGISTRY[named[0]].forward(named[1:]))
    for n in SIZES:
        args = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in given(n)]
        results, exact = jax.tree.leaves(kernel(*args)), jax.tree.leaves(plain(*args))
        for mine, theirs in zip(results, exact, strict=True):
            assert mine.aval == theirs.aval
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)
    assert len(compiled) <= FEW + 2  # 16 and 32


def test_products_are_those_of_the_own_size_bit_by_bit():
    kernel = fresh("linear")
    for n in (3, 9, 12, 7, 30, 50):
        x = jnp.asarray(normal(2, n, 64))
        w = jnp.asarray(normal(32, 64))
        results = {np.asarray(kernel(x, w, None)).tobytes() for _ in range(CALLS + 2)}
        assert len(results) == 1


@pytest.mark.parametrize(
    ("name", "static", "given"),
    [
        ("linear", (), lambda n: (normal(1, n, 2)[:, :1], normal(3, 2), None)),  # one row
        ("linear", (), lambda n: (normal(n, 2)[: LEAST // 2 - 1], normal(3, 2), None)),  # few elements
        ("exp", (), lambda n: (normal(n, MOST // 4),)),
        ("exp", (), lambda n: (normal(n * 16),)),
        ("softmax.int", (0, None), lambda n: (normal(n, 16),)),
        ("native_layer_norm", ((16, 4),), lambda n: (normal(n, 16, 4), None, None, 1e-5)),
        ("prelu", (), lambda n: (normal(2, n, 8), normal(n))),
        ("_scaled_dot_product_attention", (False, False), lambda n: (*[normal(1, n, 8)] * 3, None, None, 0.0, None)),
        ("_scaled_dot_product_attention", (True, False),
         lambda n: (normal(1, n, 8), *[normal(1, n + 1, 8)] * 2, None, None, 0.0, None)),
    ],
)  # fmt: skip
def test_others_are_compiled_for_their_own_size(name, static, given, monkeypatch):
    monkeypatch.setattr("torchlike._executor.rows.Padded.run", None)
    kernel, plain = fresh(name, *static), jax.jit(REGISTRY[name].forward(static))
    for n in SIZES:
        args = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in given(n)]
        for mine, theirs in zip(jax.tree.leaves(kernel(*args)), jax.tree.leaves(plain(*args)), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def test_errors_name_the_shapes_of_the_call():
    weight = torch.ones(3, 16)
    for n in SIZES:
        F.linear(torch.ones(n, 16), weight)
    for n in SIZES:
        with pytest.raises(RuntimeError, match=rf"\({n}x17 and 16x3\)"):
            F.linear(torch.ones(n, 17), weight)


def test_a_kernel_that_mixes_rows_is_not_cut_where_sizes_agree():
    """Results must have the rows where the inputs have them."""
    kernel, plain = jit(lambda x: x.sum(-1), rows=Rows(lambda values: (0,))), lambda x: x.sum(-1)
    for n in (*SIZES, 15, 14):
        x = jnp.asarray(normal(16, n, 4))
        np.testing.assert_allclose(kernel(x), plain(x), rtol=1e-5)


def test_gradients_and_double_numbers():
    for n in SIZES:
        x = torch.tensor(normal(n, 16), dtype=torch.float64, requires_grad=True)
        w = torch.tensor(W, dtype=torch.float64)
        F.linear(x, w).tanh().sum().backward()
        exact = np.tanh(x.detach().numpy() @ W.T.astype(np.float64))
        np.testing.assert_allclose(x.grad.numpy(), (1 - exact**2) @ W.astype(np.float64), rtol=1e-9, atol=1e-12)
