"""The oracle: run the same code on PyTorch and on torchlike, and compare everything a user can see.

``check(lambda t, x: t.exp(x), array)`` is a whole test: value, dtype, shape, strides, gradients of
first and second order, and the same under ``jax.jit``.
"""

from __future__ import annotations

import dis
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import jax
import ml_dtypes
import narrow_kit
import numpy as np
import pytest
import torch

import torchlike
from torchlike._base.bits import X64, narrowed

TOLERANCE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 3e-3,
    "bfloat16": 2e-2,
}
_VIA_BITS = {"bfloat16": (torch.bfloat16, np.uint16), "float8_e4m3fn": (torch.float8_e4m3fn, np.uint8),
             "float8_e5m2": (torch.float8_e5m2, np.uint8)}  # fmt: skip


def to_torch(array: Any) -> torch.Tensor:
    """A torch tensor of a numpy array, ml_dtypes included."""
    array = np.array(array)
    array = array if X64 or array.dtype.kind not in "fc" else narrowed(array)  # its indices are int64
    via = _VIA_BITS.get(array.dtype.name)
    return torch.from_numpy(array) if via is None else torch.from_numpy(array.view(via[1])).view(via[0])


def to_ours(array: Any) -> torchlike.Tensor:
    """A torchlike tensor of a numpy array."""
    return torchlike.from_jax_array(jax.numpy.array(array))


def host(t: Any) -> np.ndarray:
    """The values of a tensor of either library."""
    if isinstance(t, torch.Tensor):
        t = t.detach().resolve_conj().resolve_neg()
        t = t.clone() if t._is_zerotensor() else t
        name = str(t.dtype)[6:]
        return t.view(torch.int16 if t.element_size() == 2 else torch.uint8).numpy().view(getattr(ml_dtypes, name)) \
            if name in _VIA_BITS else t.numpy()  # fmt: skip
    return t.detach()._host()


def flatten(out: Any) -> list:
    """The tensors (and numbers) of a result, in order."""
    if isinstance(out, torch.Tensor | torchlike.Tensor):
        return [out]
    if isinstance(out, dict):
        return [x for v in out.values() for x in flatten(v)]
    if isinstance(out, tuple | list):
        return [x for v in out for x in flatten(v)]
    return [out]


def assert_same(ours: Any, theirs: Any, what: str = "result", *, tol: float = 1.0, stride: bool = False) -> None:
    """Equal dtype, shape and values (NaN equals NaN), and strides if asked."""
    if not isinstance(theirs, torch.Tensor):
        assert type(ours) is type(theirs) or isinstance(theirs, torch.dtype | torch.device), (
            f"{what}: {ours!r} {theirs!r}"
        )
        assert ours == theirs or str(ours) == str(theirs) or ours != ours, f"{what}: {ours!r}, PyTorch: {theirs!r}"
        return
    assert isinstance(ours, torchlike.Tensor), f"{what}: {type(ours)} where PyTorch has a tensor"
    assert str(ours.dtype) == narrow_kit.narrowed(str(theirs.dtype)), f"{what}: {ours.dtype}, PyTorch: {theirs.dtype}"
    assert tuple(ours.shape) == tuple(theirs.shape), f"{what}: {ours.shape}, PyTorch: {theirs.shape}"
    if stride:
        assert ours.stride() == theirs.stride(), f"{what}: strides {ours.stride()}, PyTorch: {theirs.stride()}"
    close(host(ours), host(theirs), what, tol)


def close(a: np.ndarray, b: np.ndarray, what: str, tol: float = 1.0) -> None:
    """Values within the tolerance of their dtype; exactly for integers."""
    bound = TOLERANCE.get(b.dtype.name, 0.0) * tol
    if bound:
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        scale = max(
            1.0,
            float(np.nanmedian(np.abs(np.where(np.isfinite(b), b, np.nan)))) if np.isfinite(b).any() else 1.0,
        )
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * scale, err_msg=what, equal_nan=True)
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def _inputs(arrays: Sequence[Any], grad: bool) -> tuple[list, list]:
    ours, theirs = [], []
    for a in arrays:
        if not isinstance(a, np.ndarray | np.generic):
            ours.append(a)
            theirs.append(a)
            continue
        x, y = to_ours(a), to_torch(a)
        if grad and a.dtype.kind in "fcV":
            x.requires_grad_()
            y.requires_grad_()
        ours.append(x)
        theirs.append(y)
    return ours, theirs


def _grads(lib: Any, outs: list, inputs: list, cotangents: list, create: bool) -> Any:
    wrapped = [(to_torch if lib is torch else to_ours)(c) for c in cotangents]
    if create:
        wrapped = [w.requires_grad_() for w in wrapped]
    got = lib.autograd.grad(outs, inputs + [], wrapped, create_graph=create, allow_unused=True)
    return list(got), wrapped


def _differentiable(outs: list) -> list[int]:
    return [i for i, o in enumerate(outs) if isinstance(o, torch.Tensor | torchlike.Tensor) and o.requires_grad]


def check(
    f: Callable,
    *arrays: Any,
    grad: bool = True,
    gradgrad: bool = True,
    jit: bool = True,
    stride: bool = True,
    tol: float = 1.0,
) -> None:
    """Compare ``f(torch_module, *tensors)`` on both libraries.

    Args:
        arrays: numpy arrays become tensors (floating ones require grad); other values are passed on.
        grad, gradgrad: compare gradients for random cotangents, and gradients of those.
        jit: run ours again traced by ``jax.jit`` and compare with the eager result.
        stride: compare the results' strides.
        tol: factor on the tolerance of the dtype.

    Gradients of gradients, and the run under jit, are those of the first case of an operator: see :func:`is_new`.
    """
    new = is_new(f, arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = _inputs(arrays, grad)
        outs, wanted = flatten(f(torchlike, *ours)), flatten(f(torch, *theirs))
        assert len(outs) == len(wanted), f"{len(outs)} results, PyTorch: {len(wanted)}"
        for i, (a, b) in enumerate(zip(outs, wanted, strict=True)):
            assert_same(a, b, f"result {i}", tol=tol, stride=stride)
        if jit and new:
            _check_jit(f, arrays, outs, tol)
        if grad:
            _check_grads(outs, wanted, ours, theirs, gradgrad, gradgrad and new, tol)


_seen: set = set()
SYMBOLS = frozenset({"BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT", "BINARY_SUBSCR", "BINARY_SLICE"})


def is_new(f: Callable, arrays: Sequence[Any], purpose: Any = None) -> bool:
    """Whether no test before, of this purpose, called the same names and symbols, with the same strings, on arguments
    of the same kinds.

    The same test again, in the other execution, counts as before. TORCHLIKE_EVERY=1: every case is new.
    """
    if os.environ.get("TORCHLIKE_EVERY", "0") != "0":
        return True
    kinds = tuple([a.dtype.kind if isinstance(a, np.ndarray | np.generic) else type(a) for a in arrays])
    key = frozenset(_names(f)), kinds, purpose
    new = key not in _seen
    _seen.add(key)
    return new


def _names(f: Any) -> Iterator[str]:
    """The names, symbols and strings that a function mentions or has captured; those tell operators and their modes."""
    if isinstance(f, str):
        yield f
    elif isinstance(f, tuple | frozenset):
        for x in f:
            yield from _names(x)
    elif isinstance(f, FunctionType):
        captured = [cell.cell_contents for cell in f.__closure__ or ()]
        yield from _names((f.__code__, *captured, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()))
    elif isinstance(f, CodeType):
        yield from _names((f.co_names, f.co_consts))
        yield from (f"{i.opname} {i.argval}" for i in dis.get_instructions(f) if i.opname in SYMBOLS)
    elif callable(f):
        yield getattr(f, "__qualname__", type(f).__qualname__)


def _check_jit(f: Callable, arrays: Sequence[Any], eager: list, tol: float) -> None:
    where = [i for i, a in enumerate(arrays) if isinstance(a, np.ndarray)]

    def traced(*values):
        args = list(arrays)
        for i, v in zip(where, values, strict=True):
            args[i] = torchlike.from_jax_array(v)
        return [o.jax() for o in flatten(f(torchlike, *args)) if isinstance(o, torchlike.Tensor)]

    again = jax.jit(traced)(*(jax.numpy.array(arrays[i]) for i in where))
    for i, (a, b) in enumerate(zip(again, [o for o in eager if isinstance(o, torchlike.Tensor)], strict=True)):
        close(np.asarray(a), host(b), f"result {i} under jax.jit", tol)


def _check_grads(outs: list, wanted: list, ours: list, theirs: list, create: bool, second: bool, tol: float) -> None:
    diff = _differentiable(wanted)
    assert _differentiable(outs) == diff, f"outputs that require grad: {_differentiable(outs)}, PyTorch: {diff}"
    if not diff:
        return
    rng = np.random.RandomState(0)
    cotangents = [_random_like(rng, host(wanted[i])) for i in diff]
    leaves = [i for i, x in enumerate(theirs) if isinstance(x, torch.Tensor) and x.requires_grad]
    mine, w = _grads(torchlike, [outs[i] for i in diff], [ours[i] for i in leaves], cotangents, create)
    real, v = _grads(torch, [wanted[i] for i in diff], [theirs[i] for i in leaves], cotangents, create)
    _compare_grads(mine, real, leaves, "gradient", tol)
    if second:
        _check_second(mine, real, [ours[i] for i in leaves] + w, [theirs[i] for i in leaves] + v, rng, tol)


def _check_second(mine: list, real: list, ours: list, theirs: list, rng: Any, tol: float) -> None:
    again = [i for i, g in enumerate(real) if g is not None and g.requires_grad]
    if not again:
        return
    cotangents = [_random_like(rng, host(real[i])) for i in again]
    first, _ = _grads(torchlike, [mine[i] for i in again], ours, cotangents, False)
    second, _ = _grads(torch, [real[i] for i in again], theirs, cotangents, False)
    for i, (a, b) in enumerate(zip(first, second, strict=True)):  # None and zeros are the same here
        if a is not None and b is not None:
            assert_same(a, b, f"second-order gradient {i}", tol=100 * tol)
        elif a is not None or b is not None:
            assert not np.any(np.nan_to_num(host(a if b is None else b))), (
                f"second-order gradient {i}: {a}, PyTorch: {b}"
            )


def _compare_grads(mine: list, real: list, leaves: list, what: str, tol: float) -> None:
    for i, a, b in zip(leaves, mine, real, strict=True):
        assert (a is None) == (b is None), f"{what} of argument {i}: {a}, PyTorch: {b}"
        if b is not None:
            assert_same(a, b, f"{what} of argument {i}", tol=10 * tol)


def _random_like(rng: Any, array: np.ndarray) -> np.ndarray:
    values = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(array.shape)
    return np.asarray(values).astype(array.dtype)


def check_error(f: Callable, *arrays: Any, match: str = "", grad: bool = False) -> None:
    """Both libraries refuse, with the same exception type; ours with a message that fits ``match``.

    The arguments are as they were afterwards.
    """
    ours, theirs = _inputs(arrays, grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as expected:
            f(torch, *theirs)
        with pytest.raises(Exception) as got:
            f(torchlike, *ours)
    assert got.type is expected.type, (
        f"{got.type.__name__}: {got.value}; PyTorch: {expected.type.__name__}: {expected.value}"
    )
    assert re.search(match, str(got.value), re.DOTALL), f"message {str(got.value)!r} does not match {match!r}"
    for x, a in zip(ours, arrays, strict=True):
        if isinstance(a, np.ndarray):
            assert x._version == 0
            np.testing.assert_array_equal(host(x), host(to_ours(a)))
