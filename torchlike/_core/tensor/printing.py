"""The text of a tensor, and the options that shape it.

A tensor is read through a few attributes only: `shape`, `dtype`, `device`, `requires_grad`,
`grad_fn`, and `_host()`, a numpy array of its values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from torchlike._base import dtypes
from torchlike._base.state import state, untraced
from torchlike._core.tensor.storage import Stand
from torchlike._executor.pending import NUMPYS
from torchlike._executor.sparse import SparseValue

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.tensor.tensor import Tensor

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
# Shared by all threads, as in PyTorch.
_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}

_TRACED = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


# ----- options


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, in every thread, until set again.

    Args:
        precision: digits after the point of a non-integral value (int >= 0, at first 4).
        threshold: a tensor with more elements than this is summarised (at first 1000).
        edgeitems: how many entries a summary keeps at either end of a dimension (int >= 0, at
            first 3). With 0, nothing is kept and `size=` is always shown.
        linewidth: characters in a line, after which rows wrap (at first 80).
        profile: ``"default"``, ``"short"`` (2 digits, 2 edge items) or ``"full"`` (never
            summarise), applied before the other arguments; any other value changes nothing.
        sci_mode: True or False forces scientific notation on or off. None decides by the values;
            as it is also what leaving the argument out means, every call sets it.

    Raises:
        TypeError: `precision` or `edgeitems` is not an integer, `threshold` or `linewidth` not a number.
        ValueError: `precision` or `edgeitems` is negative, `linewidth` is NaN.
        OverflowError: `linewidth` is infinite.

    After an error all options are as before.

    Example::

        >>> import torchlike as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.12345])
        tensor([1.12])
        >>> torch.set_printoptions(threshold=5)
        >>> torch.arange(10)
        tensor([0, 1, 2,  ..., 7, 8, 9])
        >>> torch.set_printoptions(profile="default")
    """
    known = isinstance(profile, str) and profile in _PROFILES
    changed = dict(_PROFILES[profile]) if known else {}
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            changed[name] = _checked(name, value)
    _options.update(changed, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The options in force, a new dict: precision, threshold, edgeitems, linewidth, sci_mode."""
    return dict(_options)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Apply `set_printoptions(**kwargs)` inside a `with` block, and put all options back at its end."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options.update(before)


def _checked(name: str, value: Any) -> Any:
    """`value` if the option `name` can take it, else the error that printing with it would raise."""
    wants = "a number" if name in ("threshold", "linewidth") else "an integer >= 0"
    try:
        if name == "threshold":
            bool(0 > value)
        elif name == "linewidth":
            math.floor(value)
        elif operator.index(value) < 0:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"set_printoptions(): {name} must be {wants}, got {value!r}") from None
    return operator.index(value) if wants.startswith("an") else value


# ----- one element


class _PlainFormat:
    """Integers and bools: str(), right-aligned."""

    def __init__(self, values: np.ndarray) -> None:
        self.width = max(len(str(value)) for value in values.ravel().tolist())
        self.advance = self.width

    def __call__(self, value: object) -> str:
        return str(value).rjust(self.width)


class _FloatFormat:
    """Real values, all in one notation chosen from the nonzero finite ones."""

    def __init__(self, values: np.ndarray, dtype_name: str) -> None:
        if dtype_name == "float8_e8m0fnu":
            # It has no zero: PyTorch takes the smallest value for one, and lets NaN take part.
            decisive = values[values != 2.0**-127]
        else:
            decisive = values[np.isfinite(values) & (values != 0)]
        self.integral = bool(np.all(decisive == np.ceil(decisive)))
        self.scientific = decisive.size > 0 and _scientific(np.abs(decisive))
        self.width = max((len(self._digits(value)) for value in decisive.tolist()), default=1)
        self.advance = self.width

    def _digits(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{_options['precision']}e}"
        if self.integral:
            return f"{value:.0f}." if math.isfinite(value) else str(value)
        return f"{value:.{_options['precision']}f}"

    def __call__(self, value: float) -> str:
        return self._digits(value).rjust(self.width)


def _scientific(magnitudes: np.ndarray) -> bool:
    if _options["sci_mode"] is not None:
        return bool(_options["sci_mode"])
    low, high = magnitudes.min(), magnitudes.max()
    with np.errstate(over="ignore"):
        return bool(high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4)


class _ComplexFormat:
    """Real and imaginary parts, each in its own notation; only the real part is aligned."""

    def __init__(self, values: np.ndarray, dtype_name: str) -> None:
        self.real = _FloatFormat(values.real, dtype_name)
        self.imag = _FloatFormat(values.imag, dtype_name)
        self.advance = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real(value.real)}{sign}{imag}j"


# ----- the block of values


def _summarised(count: int) -> bool:
    return bool(count > _options["threshold"])


def _edges(values: np.ndarray) -> tuple[np.ndarray, tuple[bool, ...]]:
    """The entries a summary shows, and which dimensions it cuts."""
    keep = _options["edgeitems"]
    if not _summarised(values.size):
        return values, (False,) * values.ndim
    cut = tuple(length > 2 * keep for length in values.shape)
    for axis in np.flatnonzero(cut):
        length = values.shape[axis]
        values = np.take(values, [*range(keep), *range(length - keep, length)], axis)
    return values, cut


def _values_str(values: np.ndarray, dtype: dtype, indent: int) -> str:
    shown, cut = _edges(values)
    element: Callable[[Any], str]
    if dtype.is_complex:
        shown = shown.astype(np.complex128)
        element = _ComplexFormat(shown, dtype.name)
    elif dtype.is_floating_point:
        shown = shown.astype(np.float64)
        element = _FloatFormat(shown, dtype.name)
    else:
        element = _PlainFormat(shown)
    return _nested(shown, cut, element, indent)


def _nested(values: np.ndarray, cut: tuple[bool, ...], element: Any, indent: int) -> str:
    if values.ndim == 0:
        return element(values.item())
    if values.ndim == 1:
        return "[" + _row(values, cut[0], element, indent) + "]"
    parts = [_nested(part, cut[1:], element, indent + 1) for part in values]
    if cut[0]:
        parts.insert(_options["edgeitems"], "...")
    between = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def _row(values: np.ndarray, cut: bool, element: Any, indent: int) -> str:
    words = [element(value) for value in values.tolist()]
    if cut:
        words.insert(_options["edgeitems"], " ...")
    per_line = max(1, math.floor((_options["linewidth"] - indent) / (element.advance + 2)))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return (",\n" + " " * (indent + 1)).join(lines)


# ----- the whole text

_Class = TypeVar("_Class", bound=type)
_plain_classes: set[type] = set()


def prints_as_tensor(cls: _Class) -> _Class:
    """Class decorator: `cls` itself, not its subclasses, prints as ``tensor(...)``, not under its name."""
    _plain_classes.add(cls)
    return cls


def tensor_str(t: Tensor, *, contents: str | None = None, tangent: object = None) -> str:
    """The repr of tensor `t`, character by character PyTorch's.

    An instance of a subclass prints under the name of its class, inside ``Parameter(...)`` if it
    has a true attribute `_is_param`. While jax traces, the values are not known: then
    ``<traced>`` stands for them, with size and dtype.

    Args:
        contents: stands in place of the values, which are then not read.
        tangent: the forward-mode tangent of `t`, shown as the last suffix.
    """
    plain = type(t) in _plain_classes
    if isinstance(stored := getattr(getattr(t, "_storage", None), "value", None), SparseValue):
        if stored.quantizer is not None:
            return _quantized_str(t, type(t).__name__ + "(" if not plain else "tensor(")
        return _sparse_str(t, type(t).__name__ + "(" if not plain else "tensor(")
    opening = "tensor(" if plain else type(t).__name__ + "("
    if type(stand := getattr(getattr(t, "_storage", None), "value", None)) is Stand:
        return f"{opening}<{stand.leaf!r} in a tree of jax>)"
    body, described = _body(t, contents, len(opening))
    suffixes = _describe(t, described)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    text = _append(opening + body, suffixes, len(opening))
    return text if plain or not getattr(t, "_is_param", False) else f"Parameter({text})"


def _quantized_str(t: Tensor, opening: str) -> str:
    """The repr of a quantized tensor: its numbers, and what the integers that stand for them are."""
    q, indent = t._storage.value.quantizer, len(opening)
    body, _ = _body(t.dequantize(), None, indent)
    suffixes = [f"size={tuple(t.shape)}", f"dtype={t.dtype}"]
    suffixes += [] if t.device.type == "cpu" else [f"device='{t.device}'"]
    suffixes += [f"quantization_scheme={q.scheme}", f"scale={q.scale}", f"zero_point={q.zero_point}"]
    suffixes += [] if q.axis is None else [f"axis={q.axis}"]
    return _append(opening + body, suffixes, indent)


def _sparse_str(t: Tensor, opening: str) -> str:
    """The repr of a sparse tensor: its parts, of which dtype and device are said once."""
    v, indent = t._storage.value, len(opening)
    names = PARTS[repr(t.layout)]
    parts = [(name, getattr(v, part)) for name, part in names]
    body = []
    for name, part in parts:
        # PyTorch indents what is in the brackets as if they stood at the opening of the whole.
        inner, _ = _body(part, None, indent + len(f"{name}=tensor("))
        suffixes = [f"size={tuple(part.shape)}"] if not part.numel() else []
        body.append(f"{name}=tensor({', '.join([inner, *suffixes])})")
    suffixes = [] if t.device.type == "cpu" else [f"device='{t.device}'"]
    suffixes += [f"size={tuple(t.shape)}", f"nnz={v.nnz}"]
    if t.dtype.name not in _unnamed_dtypes(False):
        suffixes.append(f"dtype={t.dtype}")
    suffixes += [f"layout={t.layout}", *autograd_suffix(t)]
    separated = ",\n" + " " * indent
    text = opening + separated.join(body)
    if repr(t.layout) != "torch.sparse_coo":
        return _append(text, suffixes, indent)
    return _append(text + separated + suffixes.pop(0), suffixes, indent, counted=0)


PARTS = {
    "torch.sparse_coo": (("indices", "indices"), ("values", "values")),
    "torch.sparse_csr": (("crow_indices", "compressed"), ("col_indices", "plain"), ("values", "values")),
    "torch.sparse_csc": (("ccol_indices", "compressed"), ("row_indices", "plain"), ("values", "values")),
}
PARTS |= {"torch.sparse_bsr": PARTS["torch.sparse_csr"], "torch.sparse_bsc": PARTS["torch.sparse_csc"]}


PARAMETER = "Parameter containing:\n"


def parameter_str(p: Tensor, *, contents: str | None = None) -> str:
    """The repr of an `nn.Parameter`: a heading, then `tensor_str`."""
    return PARAMETER + tensor_str(p, contents=contents)


def level_str(kind: str, value: str, **fields: object) -> str:
    """The repr of a tensor inside vmap or grad: `value`, the repr of what it wraps, under its level.

    >>> print(level_str("BatchedTensor", "tensor([1., 2.])", lvl=1, bdim=0))
    BatchedTensor(lvl=1, bdim=0, value=
        tensor([1., 2.])
    )
    """
    head = "".join(f"{name}={field}, " for name, field in fields.items())
    return f"{kind}({head}value=\n" + "\n".join("    " + line for line in value.split("\n")) + "\n)"


def _body(t: Tensor, contents: str | None, indent: int) -> tuple[str, bool]:
    """What stands for the values, and whether it needs size and dtype beside it to be understood."""
    count = math.prod(t.shape)
    if t.device.type == "meta":
        return contents or "...", True
    if contents is not None:
        return contents, False
    if count == 0:
        return "[]", False
    if _options["edgeitems"] == 0 and _summarised(count) and len(t.shape) > 0:
        return "[...]", False
    ones = next((i for i, n in enumerate(t.shape) if n != 1), len(t.shape) - 1) if len(t.shape) > NUMPYS else 0
    try:
        with untraced():
            values = (t.reshape(t.shape[ones:]) if ones else t)._host()
    except _TRACED:
        if state.capture is not None:  # a compiled program cannot print; eager code can
            raise
        return "<traced>", True
    return "[" * ones + _values_str(values, t.dtype, indent + ones) + "]" * ones, False


def _describe(t: Tensor, described: bool) -> list[str]:
    suffixes = []
    empty = math.prod(t.shape) == 0
    traced = described and t.device.type != "meta"
    if t.device.type != "cpu":
        suffixes.append(f"device='{t.device}'")
    if described or (empty and len(t.shape) != 1) or (_options["edgeitems"] == 0 and not empty):
        suffixes.append(f"size={tuple(t.shape)}")
    if traced or t.dtype.name not in _unnamed_dtypes(described or empty):
        suffixes.append(f"dtype={t.dtype}")
    return suffixes + autograd_suffix(t)


def _unnamed_dtypes(valueless: bool) -> set[str]:
    """The dtypes that the values make clear; without values, only the default one is."""
    default = dtypes.get_default_dtype().name
    if valueless:
        return {default}
    return {default, "complex128" if default == "float64" else "complex64", dtypes.int64.name, "bool"}


def autograd_suffix(t: Tensor) -> list[str]:
    """How a repr names the history of ``t``, in a list of one; an empty one for none."""
    try:
        grad_fn = t.grad_fn
    except RuntimeError:  # a view whose history an in-place operation made unusable
        return ["grad_fn=<Invalid>"]
    if grad_fn is not None:
        return [f"grad_fn=<{type(grad_fn).__name__}>"]
    return ["requires_grad=True"] if t.requires_grad else []


def _append(text: str, suffixes: list[str], indent: int, counted: int = 2) -> str:
    # PyTorch counts two characters more on the line of the values than on a line of suffixes.
    used = len(text) - text.rfind("\n") - 1 + counted
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"
