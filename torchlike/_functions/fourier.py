"""Fourier transforms: what ``torch.fft`` and ``torch.stft`` compute over the three operators of ``_ops/fourier.py``."""

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dim
from torchlike._base.layout import contiguous_strides
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.out import call_out
from torchlike._core.tensor import arguments
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.linalg import _written
from torchlike._ops import fourier as ops
from torchlike._ops.pad import constant_pad_nd

_NONE, _ROOT, _WHOLE = 0, 1, 2


# -- arguments ---------------------------------------------------------------------------------------


def given(name, input, n, dim, norm):
    """(n, dim) of a transform over one dimension; TypeError for arguments that are none."""
    _demand_tensor(name, input, norm)
    if n is not None and n.__class__ is not int:
        n = arguments.as_int(name, "n", n)
    if dim.__class__ is not int:
        dim = arguments.as_int(name, "dim", dim)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return n, wrap_dim(dim, input.ndim)


def given_n(name, input, s, dim, norm):
    """(lengths, dims) of a transform over several dimensions, all by default; a length of -1 is that of the input."""
    _demand_tensor(name, input, norm)
    ndim = input.ndim
    sizes, dims = (None if v is None else _ints(name, n, v) for n, v in (("s", s), ("dim", dim)))
    if sizes is not None and dims is not None and len(sizes) != len(dims):
        raise RuntimeError(
            f"When given, dim and shape arguments must have the same length ({name}(): s={list(sizes)}, "
            f"dim={list(dims)})"
        )
    if dims is None and sizes is not None and len(sizes) > ndim:
        raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions.")
    if dims is None:
        dims = range(0 if sizes is None else ndim - len(sizes), ndim)
    if not ndim and dims:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    dims = tuple([wrap_dim(d, ndim) for d in dims])
    if len({*dims}) < len(dims):
        raise RuntimeError(f"FFT dims must be unique ({name}(): got {list(dims)})")
    lengths = [input.shape[d] for d in dims]
    if sizes is not None:
        lengths = [n if s == -1 else s for s, n in zip(sizes, lengths, strict=True)]
    for n in lengths:
        _demand_points(n)
    return lengths, dims


def _ints(name, argument, x):
    return (x,) if x.__class__ is int else arguments.as_ints_or_int(1)(name, argument, x)


def _demand_tensor(name, input, norm):
    if not isinstance(input, Tensor):
        raise arguments.no_tensor(name, "input", 0, input)
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"{name}(): argument 'norm' (position 4) must be str, not {type(norm).__name__}")


def _demand_points(n):
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def demand_axes(name, dims):
    """RuntimeError unless there is a dimension to halve."""
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _normalization(norm, forward):
    """PyTorch's number for the name of a normalization."""
    if norm is None or norm == "backward":
        return _NONE if forward else _WHOLE
    if norm == "forward":
        return _WHOLE if forward else _NONE
    if norm == "ortho":
        return _ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}" (it is "forward", "backward" or "ortho")')


def _promoted(input, to_complex):
    """The input in float32 or float64, or in their complex types; integers in the default type."""
    kind = input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        kind = dtypes.get_default_dtype()
    if kind.to_real() not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            f"Unsupported dtype {kind.scalar_name}: Fourier transforms are computed in single and double precision; "
            "convert the input with .float()"
        )
    kind = kind.to_complex() if to_complex else kind
    return input if kind is input.dtype else Tensor.to(input, kind)


def demand_real(name, input, what="real input tensor"):
    """RuntimeError if the input is complex."""
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} expects a {what}, but got {input.dtype.scalar_name}")


def demand_out(name, out, to_complex):
    """RuntimeError unless ``out`` is of the kind of the result."""
    if out is None:
        return
    if not isinstance(out, Tensor):
        raise TypeError(f"fft_{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if out.dtype.is_complex is not to_complex or not (to_complex or out.dtype.is_floating_point):
        kind = "complex" if to_complex else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {out.dtype.scalar_name}")


def resized(input, dims, lengths):
    """The input cut, then filled with zeros, to these lengths."""
    pad = [0, 0] * input.ndim
    for d, n in zip(dims, lengths, strict=True):
        if n < input.shape[d]:
            input = Tensor.narrow(input, d, 0, n)
        pad[2 * (input.ndim - 1 - d) + 1] = n - input.shape[d]
    return call(constant_pad_nd, (input, 0), (tuple(pad),)) if any(pad) else input


# -- the operators, with the memory order of their results -------------------------------------------


def _run(op, input, static, out, ordered):
    if out is not None:
        return call_out(op, (input,), static, out)
    result, dims, ndim = call(op, (input,), static), static[0], input.ndim
    if dims and not (Tensor.is_contiguous(input) and dims == tuple(range(ndim - len(dims), ndim))):
        _order(result, input.stride(), dims, ordered)
    return result


def _order(result, strides, dims, ordered):
    """The dimensions that were transformed are innermost, in the order of the input's; the last if it was halved."""
    outward = sorted(range(len(strides)), key=lambda d: -strides[d])
    last = [] if ordered else [dims[-1]]
    outward = [d for d in outward if d not in dims] + [d for d in outward if d in dims and d not in last] + last
    size, new = 1, [0] * len(strides)
    for d in reversed(outward):
        new[d], size = size, size * max(result.shape[d], 1)
    if tuple(new) != contiguous_strides(tuple(result.shape)):
        restride(result, tuple(new))


def c2c(input, dims, norm, forward, out=None):
    return _run(ops.fft_c2c, input, (dims, _normalization(norm, forward), forward), out, True)


def mirrored(input, dims, norm, forward, onesided, out=None):
    """The transform of real numbers forward, with the normalization of one forward or back."""
    return _run(ops.fft_r2c, input, (dims, _normalization(norm, forward), onesided), out, False)


def r2c(input, dims, norm, forward, onesided, out=None):
    """The transform of real numbers; back, it is the conjugate of the one forward."""
    if forward:
        return mirrored(input, dims, norm, True, onesided, out)
    result = mirrored(input, dims, norm, False, onesided)
    if out is not None and out.dtype is not result.dtype:
        raise RuntimeError(
            f"Found dtype {out.dtype.scalar_name} but expected {result.dtype.scalar_name}: out= has another "
            "precision than the result"
        )
    return Tensor.conj(result) if out is None else _written("_fft_r2c", Tensor.conj(result), out)


def c2r(input, dims, norm, forward, n, out=None):
    return _run(ops.fft_c2r, input, (dims, _normalization(norm, forward), n), out, False)


# -- over one dimension ------------------------------------------------------------------------------


def one_complex(name, input, n, dim, norm, forward, out):
    """``fft`` and ``ifft``."""
    n, dim = given(f"fft_{name}", input, n, dim, norm)
    x = _promoted(input, False)
    demand_out(name, out, True)
    n = x.shape[dim] if n is None else n
    _demand_points(n)
    x = resized(x, (dim,), (n,))
    if x.dtype.is_complex:
        return c2c(x, (dim,), norm, forward, out)
    return r2c(x, (dim,), norm, forward, False, out)


def one_halved(name, input, n, dim, norm, forward, out):
    """``rfft`` and ``ihfft``."""
    n, dim = given(f"fft_{name}", input, n, dim, norm)
    demand_real(name, input)
    x = _promoted(input, False)
    demand_out(name, out, True)
    n = x.shape[dim] if n is None else n
    _demand_points(n)
    return r2c(resized(x, (dim,), (n,)), (dim,), norm, forward, True, out)


def one_real(name, input, n, dim, norm, forward, out):
    """``irfft`` and ``hfft``."""
    n, dim = given(f"fft_{name}", input, n, dim, norm)
    x = _promoted(input, True)
    demand_out(name, out, False)
    n = 2 * (x.shape[dim] - 1) if n is None else n
    _demand_points(n)
    x = resized(x, (dim,), (n // 2 + 1,))
    return c2r(Tensor.conj(x) if forward else x, (dim,), norm, forward, n, out)


# -- over several ------------------------------------------------------------------------------------


def many_complex(name, input, s, dim, norm, forward, out):
    """``fftn`` and ``ifftn``."""
    lengths, dims = given_n(f"fft_{name}", input, s, dim, norm)
    x = resized(_promoted(input, True), dims, lengths)
    demand_out("fftn", out, True)
    return c2c(x, dims, norm, forward, out)


def rfftn(name, input, s, dim, norm, out):
    if isinstance(input, Tensor):
        demand_real("rfftn", input, "real-valued input tensor")
    lengths, dims = given_n(f"fft_{name}", input, s, dim, norm)
    demand_axes("rfftn", dims)
    x = resized(_promoted(input, False), dims, lengths)
    demand_out("rfftn", out, True)
    return r2c(x, dims, norm, True, True, out)


def _half(input, s, dim, name, norm):
    """(lengths, dims, the length of the last in the result) of what takes half a spectrum."""
    lengths, dims = given_n(f"fft_{name}", input, s, dim, norm)
    demand_axes(name.rstrip("2n") + "n", dims)
    known = s is not None and _ints(name, "s", s)[-1] != -1
    n = lengths[-1] if known else 2 * (lengths[-1] - 1)
    _demand_points(n)
    return [*lengths[:-1], n // 2 + 1], dims, n


def irfftn(name, input, s, dim, norm, out):
    lengths, dims, n = _half(input, s, dim, name, norm)
    x = resized(_promoted(input, True), dims, lengths)
    demand_out("irfftn", out, False)
    return c2r(x, dims, norm, False, n, out)


def hfftn(name, input, s, dim, norm, out):
    lengths, dims, n = _half(input, s, dim, name, norm)
    x = resized(_promoted(input, True), dims, lengths)
    demand_out("hfftn", out, False)
    if len(dims) > 1:
        x = c2c(x, dims[:-1], norm, True)
    return c2r(Tensor.conj(x), dims[-1:], norm, True, n, out)


def ihfftn(name, input, s, dim, norm, out):
    lengths, dims = given_n(f"fft_{name}", input, s, dim, norm)
    demand_axes("ihfftn", dims)
    if input.dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {input.dtype.scalar_name}")
    x = resized(_promoted(input, False), dims, lengths)
    demand_out("ihfftn", out, True)
    if len(dims) == 1:
        return r2c(x, dims, norm, False, True, out)
    half = mirrored(x, dims[-1:], norm, False, True)
    return c2c(half.conj_physical(), dims[:-1], norm, False, out)
