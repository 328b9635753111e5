"""Parts of a batch: arguments cut up, results brought together."""

from collections.abc import Sequence
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike.utils import _pytree as pytree

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is cut.

    >>> from torchlike.distributed.pipelining.microbatch import TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: Sequence[int]) -> tuple["TensorChunkSpec", ...]:
        """One for each positional argument."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, "TensorChunkSpec"]:
        """One for each keyword argument."""
        return {key: TensorChunkSpec(dim) for key, dim in chunk_dims.items()}


class _Replicate:
    """In the place of a :class:`TensorChunkSpec`: every part gets the whole."""


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int, args_chunk_spec: Any = None,
    kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:  # fmt: skip
    """The arguments of each part: tensors cut along dimension 0, or that of their spec; other objects are the same.

    There are as many parts as the shortest tensor has rows, if those are fewer. IndexError for a tensor without any.
    """
    pairs = [(x, args_chunk_spec[i] if args_chunk_spec else None) for i, x in enumerate(args)]
    pairs_by_name = {key: (x, (kwargs_chunk_spec or {}).get(key)) for key, x in (kwargs or {}).items()}
    rows = [_rows(leaf, spec) for x, spec in [*pairs, *pairs_by_name.values()] for leaf in pytree.tree_leaves(x)]
    chunks = min([chunks, *[n for n in rows if n is not None]])
    positional = [in_parts(x, chunks, spec) for x, spec in pairs]
    by_name = {key: in_parts(x, chunks, spec) for key, (x, spec) in pairs_by_name.items()}
    return [tuple(parts[i] for parts in positional) for i in range(chunks)], [
        {key: parts[i] for key, parts in by_name.items()} for i in range(chunks)
    ]


def _rows(x: Any, spec: Any) -> int | None:
    """How many parts there can be; None for what is not cut."""
    if not isinstance(x, Tensor) or isinstance(spec, _Replicate):
        return None
    dim = spec.split_dim if spec is not None else 0
    if x.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return x.shape[dim]


def in_parts(x: Any, chunks: int, spec: Any = None) -> list[Any]:
    """What each part gets of an argument. AssertionError for a tensor that is too short."""
    leaves, tree = pytree.tree_flatten(x)
    cut = [_parts(leaf, chunks, spec) for leaf in leaves]
    return [pytree.tree_unflatten([parts[i] for parts in cut], tree) for i in range(chunks)]


def _parts(x: Any, chunks: int, spec: Any) -> Sequence[Any]:
    if not isinstance(x, Tensor) or isinstance(spec, _Replicate):
        return [x] * chunks
    dim = spec.split_dim if spec is not None else 0
    if x.shape[dim] < chunks:
        raise AssertionError(f"Tensor size {x.shape[dim]} is smaller than num_chunks")
    return x.tensor_split(chunks, dim)


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any = None) -> Any:
    """The results of all parts as one: tensors are joined along dimension 0, or that of their spec."""
    found = [pytree.tree_flatten(x) for x in chunks]
    specs = pytree.tree_leaves(chunk_spec) if chunk_spec is not None else []
    merged = []
    for i, values in enumerate(zip(*[leaves for leaves, _ in found], strict=True)):
        spec = specs[i] if i < len(specs) else None
        whole = not isinstance(values[0], Tensor) or isinstance(spec, _Replicate)
        merged.append(values[0] if whole else FUNCTIONS["cat"](list(values), spec.split_dim if spec is not None else 0))
    return pytree.tree_unflatten(merged, found[0][1])
