"""Methods and functions of PyTorch that few programs call: memory order, former names."""

from typing import Any, NoReturn

import torchlike._base.dtypes as dtypes
from torchlike._base.layout import has_overlap, is_dense, memory_order
from torchlike._base.once import warn_once
from torchlike._core.conversion.factories import into
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.tensor.tensor import MemoryFormat, Tensor, sparse_coo, strided, value_of
from torchlike._functions._install import FUNCTIONS, both, function, method, prop
from torchlike._ops import embed


@method()
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory.

    ``ambiguity_check``: True, or a list of memory formats: RuntimeError where sizes of 1 leave the order open, unless
    exactly one of the formats fits.

    >>> import torchlike as torch
    >>> torch.ones(2, 3).t().dim_order()
    (1, 0)
    """
    if self.layout is not strided:
        raise AttributeError(
            f"Can't get dim order on sparse type: {self.type()}. Use Tensor.to_dense() to convert to a dense one first"
        )
    given = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, bool | list) or not all(isinstance(f, MemoryFormat) for f in given):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    fitting = sum(self.is_contiguous(memory_format=f) for f in given)
    strides = self.stride()
    ambiguous = 1 in self.shape or 0 in strides or len(set(strides)) < self.ndim
    if ambiguity_check is not False and ambiguous and fitting != 1:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
        )
    return memory_order(self._layout)[::-1]


@both()
def is_distributed(input: Tensor) -> bool:
    """False: no tensor is of the kind that PyTorch once called distributed."""
    return False


@prop()
def is_vulkan(self: Tensor) -> bool:
    """False: jax does not compute by Vulkan."""
    return False


@method()
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, as :meth:`data_ptr`."""
    return self.data_ptr()


@method()
def module_load(self: Tensor, other: Any, assign: bool = False) -> Any:
    """What ``load_state_dict`` puts in the place of this tensor where modules swap: it with the values of ``other``,
    or ``other`` itself with ``assign``.
    """
    return other.detach() if assign else self.copy_(other).detach()


@both()
def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """What a slice was taken of: a view of the same memory, of the size, strides and place of ``src``."""
    return Tensor.as_strided(input, tuple(src.shape), src.stride(), src.storage_offset())


@method()
def record_stream(self: Tensor, s: Any) -> None:
    """Nothing to record: XLA keeps memory until what reads it is done. RuntimeError for what is no stream."""
    if not hasattr(s, "synchronize"):
        raise RuntimeError(f"record_stream(): unknown parameter type: expected a Stream, got {type(s).__name__}")


@method()
def chalf(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The numbers as complex32, which no tensor can have here: the error of ``to``."""
    return Tensor.to(self, dtypes.complex32)


def _cast(name: str, kind: dtypes.dtype) -> None:
    """The function of old ``torch._cast_<Name>``: ``to`` with its dtype."""

    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        if not isinstance(input, Tensor):
            said = f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
            raise TypeError(f"_cast_{name}(): {said}")
        return Tensor.to(input, kind)

    cast.__name__, cast.__doc__ = f"_cast_{name}", f"The numbers as {kind}, as ``to`` gives them."
    function(cast.__name__)(cast)


for _name, _kind in (
    ("Byte", dtypes.uint8), ("Char", dtypes.int8), ("Short", dtypes.int16), ("Int", dtypes.int32),
    ("Long", dtypes.int64), ("Half", dtypes.float16), ("Float", dtypes.float32), ("Double", dtypes.float64),
):  # fmt: skip
    _cast(_name, _kind)


@function("_debug_has_internal_overlap")
def _debug_has_internal_overlap(input: Tensor) -> int:
    """Whether elements share a place in memory: 0 no, 1 yes (it is expanded), 2 unknown: they are not dense.

    >>> import torchlike as torch
    >>> torch._debug_has_internal_overlap(torch.zeros(1).expand(2))
    1
    """
    return 1 if has_overlap(input._layout) else 0 if is_dense(input._layout) else 2


# -- what is refused -------------------------------------------------------------------------------------------


def _absent(name: str, error: type[Exception], message: str) -> None:
    """A method that raises an error, whatever it is given."""

    def absent(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"{name}(): {message}")

    absent.__name__, absent.__doc__ = name, f"{error.__name__}: {message}."
    method(name)(absent)


_absent("to_mkldnn", NotImplementedError, "tensors have no layout of oneDNN; XLA chooses how it computes")
_absent("to_padded_tensor", NotImplementedError, "it is for nested tensors; see torch.nested.to_padded_tensor")
_absent("index", NotImplementedError, "first-class dimensions of functorch are not supported by torchlike")
_absent("xpu", AssertionError, "Torch not compiled with XPU enabled: jax does not compute on such devices")
_absent("mtia", AssertionError, "Torch not compiled with MTIA enabled: jax does not compute on such devices")
_absent("ipu", RuntimeError, "PyTorch is not linked with support for ipu devices")
for _name, _instead in (
    ("eig", "torch.linalg.eig"),
    ("lstsq", "torch.linalg.lstsq, which takes its arguments the other way round"),
    ("solve", "torch.linalg.solve, which takes its arguments the other way round"),
    ("symeig", "torch.linalg.eigh"),
):
    _absent(_name, RuntimeError, f"This function was deprecated since version 1.9 and is now removed: use {_instead}")


# -- functions -------------------------------------------------------------------------------------------------


@function("addmv_")
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``input.addmv_(mat, vec)``."""
    return input.addmv_(mat, vec, beta=beta, alpha=alpha)


@function("embedding_renorm_")
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """``input`` with the rows at ``indices`` scaled down in place to a norm of at most ``max_norm``.

    >>> import torchlike as torch
    >>> torch.embedding_renorm_(torch.full((1, 1), 2.0), torch.tensor([0]), 1.0, 2.0).round()
    tensor([[1.]])
    """
    return call_inplace(embed.embedding_renorm.inplace, (input, indices, max_norm), (norm_type,))


def _refused(name: str, message: str) -> None:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name}(): {message}")

    refused.__name__, refused.__doc__ = name, f"NotImplementedError: {message}."
    function(name)(refused)


@function("_aminmax")
def _aminmax(input, dim=None, keepdim=False):
    """The older form of :func:`torch.aminmax`."""
    warn_once("_aminmax is deprecated as of PyTorch 1.11 and will be removed in a future release. Use aminmax instead.")
    return tuple(FUNCTIONS["aminmax"](input, dim=dim, keepdim=keepdim))


@function("values_copy")
def _values_copy(input, *, out=None):
    """A copy of ``input.values()``, of compressed sparse tensors; in ``out``, of their dtype, where that is given."""
    if input.layout in (strided, sparse_coo):
        raise NotImplementedError(
            f"values_copy(): the layout {input.layout} has no kernel in PyTorch either; use input.values().clone()"
        )
    found = input.values().clone()
    if out is None:
        return found
    if out.dtype is not found.dtype:
        raise RuntimeError(f"values_copy(): out has the dtype {out.dtype}, but the values have {found.dtype}")
    return into(value_of(found.detach()), None, out)


_refused("native_norm", "it is PyTorch's kernel for sparse tensors; use torch.linalg.vector_norm")
_refused("indices_copy", "PyTorch has no kernel for it either; use input.indices().clone()")
_refused("hsmm", "its result is half sparse; use torch.sparse.mm(mat1, mat2)")
_refused("saddmm", "use torch.sspaddmm")
