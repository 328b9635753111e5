"""BlockMask: which blocks of queries and keys attend to each other."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._base.dtypes import bool as boolean
from torchlike._base.dtypes import int32
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.utils._pytree import register_pytree_node

_arange, _where, _stack = FUNCTIONS["arange"], FUNCTIONS["where"], FUNCTIONS["stack"]
_DEFAULT_SPARSE_BLOCK_SIZE = 128

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The ``mask_mod`` that lets everything attend to everything."""
    return batch.new_ones(size=(), dtype=boolean, device=batch.device)


def _sliced_mask_mod_error(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is "
        "reset, as the positions that it would be asked of are others: set `sliced.mask_mod` to a function of the "
        "positions within the slice, e.g. one that adds an offset and calls the mask_mod of the whole BlockMask."
    )


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """A block size for queries and for keys."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def dense_of(num_blocks: Tensor, indices: Tensor) -> Tensor:
    """[..., rows, columns] of bool: the first ``num_blocks`` of each row's ``indices`` are True."""
    columns = indices.shape[-1]
    place = _arange(columns, device=indices.device)
    counted = place < num_blocks.unsqueeze(-1)
    hits = (indices.unsqueeze(-1) == place) & counted.unsqueeze(-1)
    return hits.any(-2)


def ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """The number of blocks of each row, and the columns of a row with those of its blocks first."""
    numbers = dense.to(int32)
    return numbers.sum(-1).to(int32), numbers.argsort(dim=-1, descending=True, stable=True).to(int32)


def _transposed(num_blocks: Tensor | None, indices: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if num_blocks is None or indices is None:
        return None, None
    return ordered(dense_of(num_blocks, indices).transpose(-2, -1))


class BlockMask:
    """A sparse mask of attention by blocks, made by :func:`create_block_mask` or :meth:`from_kv_blocks`.

    Queries and keys are cut into blocks of ``BLOCK_SIZE``. For each row of blocks of queries, ``kv_num_blocks`` [B, H,
    rows] says how many of the columns ``kv_indices`` [B, H, rows, columns] it attends to; in those ``mask_mod`` decides
    about each position. ``full_kv_num_blocks`` and ``full_kv_indices`` name blocks that attend to each other whole.
    Elsewhere nothing attends. The attributes with ``q`` in place of ``kv`` say the same by columns.

    On all devices attention is computed over all positions and masked: blocks without attention are not skipped.

    ``mask[b, h]`` (integers, slices or tensors; a third index is of rows of blocks) is the mask of some batches and
    heads, whose ``mask_mod`` has to be set anew.

    Raises:
        RuntimeError: ``kv_indices`` has less than 2 dimensions.
        AssertionError: of numbers and indices of full blocks only one is given.
    """

    _TENSOR_ATTRS = [
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
        "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices",
        "dq_write_order", "dq_write_order_full", "dq_kv_order",
    ]  # fmt: skip
    _CONTEXT_ATTRS = ["seq_lengths", "BLOCK_SIZE", "mask_mod", "dq_kv_order_spt"]
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for side, given in (
            ("full_kv", (full_kv_num_blocks, full_kv_indices)),
            ("q", (q_num_blocks, q_indices)),
            ("full_q", (full_q_num_blocks, full_q_indices)),
        ):
            if (given[0] is None) != (given[1] is None):
                raise AssertionError(f"{side}_num_blocks and {side}_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Any = None,
    ) -> "BlockMask":
        """A mask from the blocks of keys that each block of queries attends to.

        Args:
            kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices: see :class:`BlockMask`.
            BLOCK_SIZE: of queries and keys, one number for both. mask_mod: default :func:`noop_mask`.
            seq_lengths: of queries and keys; by default all that the blocks cover.
            compute_q_blocks: whether to compute the same by columns.
            dq_write_order, dq_write_order_full, dq_kv_order: kept, and without effect.

        Raises:
            RuntimeError: ``kv_indices`` has less than 2 dimensions.
            AssertionError: of numbers and indices of full blocks only one is given.

        >>> import torchlike as torch
        >>> from torchlike.nn.attention.flex_attention import BlockMask
        >>> numbers, columns = torch.tensor([1, 2]), torch.tensor([[0, 1], [0, 1]])
        >>> BlockMask.from_kv_blocks(numbers, columns, BLOCK_SIZE=4).to_dense()
        tensor([[1, 0],
                [1, 1]], dtype=torch.int32)
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        columns: tuple[Any, ...] = (None,) * 4
        if compute_q_blocks:
            columns = *_transposed(kv_num_blocks, kv_indices), *_transposed(full_kv_num_blocks, full_kv_indices)
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *columns,
            BLOCK_SIZE=size, mask_mod=mask_mod or noop_mask, dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, Tensor) else None,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )  # fmt: skip

    # -- what it holds ---------------------------------------------------------------------------------
    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, tensors, block sizes and ``mask_mod``; pairs of numbers as one item each unless ``flatten``."""
        lengths, size = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        tensors = [getattr(self, name) for name in self._TENSOR_ATTRS]
        return (*lengths, *tensors, self.dq_kv_order_spt, *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """[B, H, queries, keys]."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of positions, with or without attention."""
        n = 1
        for size in self.shape:
            n *= size
        return n

    def sparsity(self) -> float:
        """The percentage of positions in blocks without attention; below 0 where blocks reach beyond the lengths."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """[B, H, rows, columns] of int32: 1 for the blocks that attend to each other."""
        dense = dense_of(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | dense_of(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(int32)

    def to(self, device: Any) -> "BlockMask":
        """The same mask on another device."""
        return self._with(lambda x: x.to(device))

    def _with(self, change: Callable[[Tensor], Tensor], **context: Any) -> "BlockMask":
        parts = {name: getattr(self, name) for name in self._TENSOR_ATTRS}
        parts = {name: x if x is None else change(x) for name, x in parts.items()}
        return type(self)(**{name: getattr(self, name) for name in self._CONTEXT_ATTRS} | parts | context)

    # -- other masks -----------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> "BlockMask":
        given = index if isinstance(index, tuple) else (index,)
        if any(i is Ellipsis for i in given) or len(given) > self.kv_indices.dim() - 1:
            raise IndexError(
                f"BlockMask: expected at most {self.kv_indices.dim() - 1} indices (batch, head, row of blocks), each "
                f"an integer, a slice or a tensor; got {index!r}"
            )
        whole = tuple([_kept(i, n) for i, n in zip(given, self.kv_num_blocks.shape, strict=False)])
        rows: list[Any] = [x if x is None else x[whole] for x in self._rows()]
        return type(self).from_kv_blocks(
            rows[0], rows[1], rows[2], rows[3], BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_sliced_mask_mod_error,
            seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def _rows(self) -> list[Any]:
        return [self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices]

    def _adjust(self, new_q_len: int, new_kv_len: int) -> "BlockMask":
        """The mask for other lengths, cut off at the end; blocks beyond those of this mask attend to nothing."""
        rows, columns = (-(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True))
        cut: list[Any] = []
        for numbers, indices in ((self.kv_num_blocks, self.kv_indices), self._rows()[2:]):
            whole = numbers is None or indices.shape[-2] <= rows and indices.shape[-1] <= columns
            cut += (numbers, indices) if whole else ordered(dense_of(numbers, indices)[..., :rows, :columns])
        return type(self).from_kv_blocks(
            cut[0], cut[1], cut[2], cut[3], BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len), compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    # -- text ------------------------------------------------------------------------------------------
    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks of each batch and head: full, partly full, or empty.

        Args:
            grid_size: the most rows and columns of a picture; -1 for one character pair a block.
            limit: the most pictures.
        """
        dense = self.to_dense()
        parts = []
        for n, place in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if n == limit:
                parts += ["...", "To print out more, set BlockMask.to_string(limit=N)"]
                parts += ["You can also index (BlockMask[batch, head]) to choose a specific batch or head"]
                break
            parts.append(f"{place}\n{_picture(dense[place].tolist(), grid_size)}")
        return "\n".join(parts)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        def told(x: Any) -> Any:
            return None if x is None else x.shape

        lines = [f"{name}={told(getattr(self, name))}" for name in self._TENSOR_ATTRS[:8]]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines += [f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _kept(index: Any, size: int) -> Any:
    """An index that keeps its dimension."""
    if isinstance(index, int):
        first = index + size if index < 0 else index
        return slice(first, first + 1)
    return index


def _picture(dense: list[list[int]], grid_size: int | tuple[int, int]) -> str:
    rows, columns = len(dense), len(dense[0]) if dense else 0
    most = pair(grid_size)
    tall, wide = (
        1 if n < 1 or m == -1 else max(1, -(-n // m)) for n, m in zip((rows, columns), most, strict=True)
    )  # fmt: skip
    text = ""
    for top in range(0, rows, tall):
        for left in range(0, columns, wide):
            text += _shade([x for row in dense[top : top + tall] for x in row[left : left + wide]])
        text += "\n"
    return text


def _shade(cells: Sequence[int]) -> str:
    if all(cells):
        return "██"
    return "░░" if any(cells) else "  "


def _flat(mask: BlockMask) -> tuple[list[Any], tuple]:
    context = tuple([getattr(mask, name) for name in BlockMask._CONTEXT_ATTRS])
    return [getattr(mask, name) for name in BlockMask._TENSOR_ATTRS], (type(mask), context)


def _made(children: Any, context: tuple) -> BlockMask:
    cls, options = context
    mask = cls.__new__(cls)
    mask.__dict__.update(zip(BlockMask._TENSOR_ATTRS, children, strict=True))
    mask.__dict__.update(zip(BlockMask._CONTEXT_ATTRS, options, strict=True))
    return mask


register_pytree_node(BlockMask, _flat, _made)
