"""Sums, copies and collections over the processes of a group."""

import warnings
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import jax.numpy as jnp
import numpy as np

from torchlike._base.frames import warn
from torchlike._base.state import no_grad, state
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _runtime
from torchlike.distributed._calls import LENGTHS, Work, assign, concluded, demand_eager, start, values
from torchlike.distributed._sparse_sums import summed
from torchlike.distributed.distributed_c10d import ProcessGroup, found, takes_part

__all__ = [
    "ReduceOp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "broadcast", "gather",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "supports_complex",
]  # fmt: skip


_FORMER = "torch.distributed.all_gather_coalesced will be deprecated: call all_gather for each tensor"


class ReduceOp(Enum):
    """What a reduction computes of the tensors of all processes."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # where PyTorch keeps the values


class _reduce_op:
    """The older name of :class:`ReduceOp`, which warns."""

    def __getattribute__(self, name: str) -> Any:
        if name in ReduceOp.__members__:
            text = "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead"
            warnings.warn(text, FutureWarning, stacklevel=2)
            return ReduceOp[name]
        return object.__getattribute__(self, name)


reduce_op = _reduce_op()


_NOT_COMPLEX = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


# -- arguments ---------------------------------------------------------------------------------------------------------


def demand_tensor(value: Any, name: str) -> None:
    """TypeError for what is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor "
            f"but got {type(value)} instead."
        )


def demand_tensors(value: Any, name: str) -> None:
    """TypeError for what is no list of tensors."""
    if not isinstance(value, list) or not all(isinstance(t, Tensor) for t in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] "
            f"but got {type(value)} instead."
        )


def root_of(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    """The number within the group of the rank that a collective comes from or goes to; 0 by default."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: can't specify both group_{what} and {what}")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise RuntimeError(f"{name}: invalid root rank: {group_rank}; the group has {group.size()} ranks")
        return group_rank
    if rank is None:
        return 0
    if rank not in group.ranks:
        raise RuntimeError(f"{name}: invalid root rank: {rank}; the group has {_runtime.named(group.ranks)}")
    return group.ranks.index(rank)


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether a reduction has a meaning for complex numbers: sums and averages have."""
    return reduceOp not in _NOT_COMPLEX


def _checked_op(op: Any, t: Tensor, name: str) -> str:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}(): argument 'op' must be torch.distributed.ReduceOp, not {type(op).__name__}")
    if t.is_complex() and op in _NOT_COMPLEX:
        raise ValueError(f"{name} does not support {op} on complex tensors")
    if op in _BITS and t.is_floating_point():
        raise RuntimeError(f"{name}: ReduceOp.{op.name} needs integers or bools, got {t.dtype}")
    if op is ReduceOp.AVG and not (t.is_floating_point() or t.is_complex()):
        text = f"{name}: ReduceOp.{op.name} needs floating point or complex numbers, got {t.dtype}; use SUM and divide"
        raise RuntimeError(text)
    return op.name


def demand_alike(name: str, given: Sequence[Tensor], shape: Any, dtype: Any) -> None:
    """RuntimeError where a tensor of a list has another shape, ValueError where another dtype."""
    for i, t in enumerate(given):
        if t.dtype != dtype:
            raise ValueError(f"{name}: tensors with different dtypes: {dtype} and {t.dtype} at index {i}")
        if tuple(t.shape) != tuple(shape):
            raise RuntimeError(
                f"{name}: invalid tensor size at index {i} (expected {tuple(shape)}, got {tuple(t.shape)})"
            )


def _demand_dtype(name: str, given: Sequence[Tensor], dtype: Any) -> None:
    for t in given:
        demand_alike(name, [t], t.shape, dtype)


def _uneven_shapes(given: Sequence[Tensor]) -> bool:
    return any(t.shape != given[0].shape for t in given)


def _shapes(given: Sequence[Tensor]) -> str:
    return "" if not _uneven_shapes(given) else f"of {[list(t.shape) for t in given]}"


def _flat(array: Any, length: int) -> Any:
    """The elements of an array, with zeros up to a length: how parts of different sizes travel."""
    return jnp.pad(array.reshape(-1), (0, length - array.size))


def _unpadded(tensors: Sequence[Tensor], rows: Any) -> list[Tensor]:
    arrays = [row[: t.numel()].reshape(t.shape) for t, row in zip(tensors, rows, strict=True)]
    return _assign_all(tensors, arrays)


def _demand_count(name: str, given: Sequence[Any], group: ProcessGroup, what: str) -> None:
    if len(given) != group.size():
        raise RuntimeError(
            f"{name}: invalid {what} tensor list (expected length {group.size()}, got {len(given)}): one for each rank"
        )


def _assign_all(tensors: Sequence[Tensor], arrays: Sequence[Any]) -> list[Tensor]:
    for t, array in zip(tensors, arrays, strict=True):
        assign(t, array)
    return list(tensors)


# -- reductions --------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Let ``tensor`` be the sum (or what ``op`` says) of those of all processes, which have one shape and dtype.

    Bools count as PyTorch's: SUM is "or", PRODUCT "and". Sparse tensors, in COO layout, have sums alone.

    TypeError for what is no tensor or no :class:`ReduceOp`, ValueError for an ``op`` without meaning for complex
    numbers, RuntimeError for bits of floating point numbers and averages of integers. DistBackendError where a
    process dies or does not come in time.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> torch.distributed.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> torch.distributed.destroy_process_group()
    """
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "all_reduce"):
        return None
    found_, name = found(group), _checked_op(op, tensor, "all_reduce")
    if found_.size() == 1:
        return concluded(Work(lambda _: [tensor]), async_op)
    if tensor.is_sparse and name == "SUM":
        with no_grad():
            tensor.copy_(summed(tensor, found_, "all_reduce"))
        return concluded(Work(lambda _: [tensor]), async_op)
    work = start(found_, "all_reduce", "reduce", (name,), values([tensor]), lambda outs: _assign_all([tensor], outs))
    return concluded(work, async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """:func:`all_reduce` of several tensors of one dtype, as one collective."""
    demand_tensors(tensors, "tensors")
    if not takes_part(group, "all_reduce_coalesced"):
        return None
    found_ = found(group)
    names = [_checked_op(op, t, "all_reduce_coalesced") for t in tensors]
    for t in tensors[1:]:
        if t.dtype != tensors[0].dtype:
            raise ValueError(f"all_reduce_coalesced: tensors with different dtypes: {tensors[0].dtype} and {t.dtype}")
    work = start(
        found_, "all_reduce_coalesced", "bucket", (names[0],), values(tensors),
        lambda outs: _assign_all(tensors, outs),
    )  # fmt: skip
    return concluded(work, async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """As :func:`all_reduce`, for the process ``dst`` alone; the tensors of the others stay as they are."""
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "reduce"):
        return None
    found_, name = found(group), _checked_op(op, tensor, "reduce")
    root = root_of("reduce", found_, dst, group_dst, "dst")

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([tensor], outs) if found_.rank() == root else [tensor]

    return concluded(start(found_, "reduce", "reduce", (name,), values([tensor]), finish, f"to {root}"), async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Let ``output`` be this process's part of the sum of all ``input``: as many rows, or one of a first dimension.

    RuntimeError where the input has not as many elements as the outputs of all processes; dtypes are equal.
    """
    demand_tensor(output, "output")
    demand_tensor(input, "input")
    if not takes_part(group, "reduce_scatter_single"):
        return None
    found_, name = found(group), _checked_op(op, input, "reduce_scatter_tensor")
    if output.dtype != input.dtype:
        raise RuntimeError(f"reduce_scatter_tensor: output is {output.dtype}, input {input.dtype}; expected one dtype")
    if output.numel() * found_.size() != input.numel():
        raise RuntimeError(
            f"reduce_scatter_tensor: input {tuple(input.shape)} must have {found_.size()} times the elements of output "
            f"{tuple(output.shape)}"
        )
    parts = [a.reshape(found_.size(), *output.shape) for a in values([input])]

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([output], [outs[0].reshape(output.shape)])

    return concluded(start(found_, "reduce_scatter_tensor", "scatter_reduce", (name,), parts, finish), async_op)


# PyTorch's newer name
reduce_scatter_single = reduce_scatter_tensor


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Let ``output`` be the sum of those tensors in the lists of all processes that are for this one.

    Shapes may differ between processes: those of a list are the same on all. RuntimeError where the output has another
    shape than this process's entry, ValueError for another dtype.
    """
    demand_tensor(output, "output")
    demand_tensors(input_list, "input_list")
    if not takes_part(group, "reduce_scatter"):
        return None
    found_, name = found(group), _checked_op(op, output, "reduce_scatter")
    _demand_count("reduce_scatter", input_list, found_, "input")
    _demand_dtype("reduce_scatter", input_list, output.dtype)
    own = input_list[found_.rank()]
    demand_alike("reduce_scatter", [output], own.shape, own.dtype)
    longest = max(t.numel() for t in input_list)
    parts = [jnp.stack([_flat(a, longest) for a in values(input_list)])]
    finish = lambda outs: _unpadded([output], outs)  # noqa: E731
    work = start(found_, "reduce_scatter", "scatter_reduce", (name,), parts, finish, _shapes(input_list))
    return concluded(work, async_op)


# -- copies ------------------------------------------------------------------------------------------------------------


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Let ``tensor`` be that of the process ``src``, bit by bit. RuntimeError for one that is not in the group."""
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "broadcast"):
        return None
    found_ = found(group)
    root = root_of("broadcast", found_, src, group_src, "src")

    def finish(outs: list) -> list[Tensor]:
        return [tensor] if found_.rank() == root else _assign_all([tensor], outs)

    return concluded(start(found_, "broadcast", "broadcast", (root,), values([tensor]), finish), async_op)


def _broadcast_coalesced(process_group: Any, tensors: Iterable[Tensor], buffer_size: int, src: int = 0) -> None:
    """Let each of ``tensors`` be that of the process ``src`` of a group; XLA chooses what goes together."""
    for work in [broadcast(t, group=process_group, group_src=src, async_op=True) for t in tensors]:
        if work is not None:
            work.wait()


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Let the tensors of a list be those of all processes, in the order of ranks.

    Processes may have tensors of different shapes, where the list on all of them says which. RuntimeError where the
    list has another length, or its entry for this process another shape; ValueError for another dtype.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> found = [torch.zeros(2)]
    >>> torch.distributed.all_gather(found, torch.ones(2))
    >>> found
    [tensor([1., 1.])]
    >>> torch.distributed.destroy_process_group()
    """
    demand_tensors(tensor_list, "tensor_list")
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "all_gather"):
        return None
    found_ = found(group)
    _demand_count("all_gather", tensor_list, found_, "output")
    _demand_dtype("all_gather", tensor_list, tensor.dtype)
    if not _uneven_shapes([tensor, *tensor_list]):
        work = start(
            found_, "all_gather", "gather", (), values([tensor]), lambda outs: _assign_all(tensor_list, list(outs[0]))
        )
        return concluded(work, async_op)
    own = tensor_list[found_.rank()].shape
    if own != tensor.shape:
        raise RuntimeError(
            f"all_gather: invalid tensor size at index {found_.rank()} (expected {tuple(tensor.shape)}, "
            f"got {tuple(own)})"
        )
    padded = [_flat(a, max(t.numel() for t in tensor_list)) for a in values([tensor])]
    finish = lambda outs: _unpadded(tensor_list, outs[0])  # noqa: E731
    work = start(found_, "all_gather", "gather", (), padded, finish, _shapes(tensor_list))
    return concluded(work, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Let ``output_tensor`` be the inputs of all processes, one after the other or in a new first dimension.

    RuntimeError where it has another number of elements, or another dtype.
    """
    demand_tensor(output_tensor, "output_tensor")
    demand_tensor(input_tensor, "input_tensor")
    if not takes_part(group, "all_gather_single"):
        return None
    found_ = found(group)
    if output_tensor.dtype != input_tensor.dtype:
        raise RuntimeError(
            f"all_gather_into_tensor: output is {output_tensor.dtype}, input {input_tensor.dtype}; expected one dtype"
        )
    if output_tensor.numel() != input_tensor.numel() * found_.size():
        raise RuntimeError(
            f"all_gather_into_tensor: output {tuple(output_tensor.shape)} must have {found_.size()} times the elements "
            f"of input {tuple(input_tensor.shape)}"
        )

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([output_tensor], [outs[0].reshape(output_tensor.shape)])

    return concluded(start(found_, "all_gather_into_tensor", "gather", (), values([input_tensor]), finish), async_op)


# PyTorch's newer name
all_gather_single = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """:func:`all_gather` of each tensor of a list.

    RuntimeError where there is not a list of outputs for each process, of one output for each input.
    """
    warn(_FORMER, FutureWarning)
    demand_tensors(input_tensor_list, "input_tensor_list")
    if not takes_part(group, "all_gather_coalesced"):
        return None
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    _demand_count("all_gather_coalesced", output_tensor_lists, found(group), "output_tensor_lists")
    for row in output_tensor_lists:
        demand_tensors(row, "output_tensor_lists")
        if len(row) != len(input_tensor_list):
            raise RuntimeError(
                f"all_gather_coalesced: invalid output size: (expected length {len(input_tensor_list)}, got {len(row)})"
            )
    columns = zip(*output_tensor_lists, strict=True)
    works = [all_gather([*c], x, group, True) for c, x in zip(columns, input_tensor_list, strict=True)]
    for work in works:
        work.wait()
    return works[-1] if async_op else None


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Let the tensors of a list on the process ``dst`` be those of all processes.

    ValueError where ``dst`` gives no list, or another process gives one.
    """
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "gather"):
        return None
    found_ = found(group)
    root = root_of("gather", found_, dst, group_dst, "dst")
    if found_.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        demand_tensors(gather_list, "gather_list")
        _demand_count("gather", gather_list, found_, "output")
        demand_alike("gather", gather_list, tensor.shape, tensor.dtype)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")

    def finish(outs: list) -> list[Tensor]:
        return _assign_all(gather_list or [], list(outs[0])) if found_.rank() == root else []

    return concluded(start(found_, "gather", "gather", (), values([tensor]), finish, f"to {root}"), async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Let ``tensor`` be the one for this process in the list that the process ``src`` gives.

    ValueError where ``src`` gives no list, or another process gives one.
    """
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "scatter"):
        return None
    found_ = found(group)
    root = root_of("scatter", found_, src, group_src, "src")
    if found_.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        demand_tensors(scatter_list, "scatter_list")
        _demand_count("scatter", scatter_list, found_, "input")
        demand_alike("scatter", scatter_list, tensor.shape, tensor.dtype)
        parts = jnp.stack(values(scatter_list))
    else:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
        (own,) = values([tensor])
        parts = jnp.zeros((found_.size(), *own.shape), own.dtype)
        parts = parts + own if found_.is_fake else parts

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([tensor], [outs[0][root]])

    return concluded(start(found_, "scatter", "exchange", (), [parts], finish, f"from {root}"), async_op)


# -- exchanges ---------------------------------------------------------------------------------------------------------


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send a part of the rows of ``input`` to each process; ``output`` is what came, in the order of ranks.

    Args:
        output_split_sizes, input_split_sizes: how many rows come from, and go to, each process; equal parts by default.

    RuntimeError where the sizes do not add up to the rows, or rows cannot be divided.
    """
    demand_tensor(output, "output")
    demand_tensor(input, "input")
    if not takes_part(group, "all_to_all_single"):
        return None
    found_ = found(group)
    if output.dtype != input.dtype or output.shape[1:] != input.shape[1:]:
        raise RuntimeError(
            f"all_to_all_single: output {tuple(output.shape)} of {output.dtype} and input {tuple(input.shape)} of "
            f"{input.dtype}; expected one dtype and equal rows"
        )
    given = _rows("output", output, output_split_sizes, found_), _rows("input", input, input_split_sizes, found_)
    sizes = [len_ for part in given for len_ in part]
    if output_split_sizes or input_split_sizes:
        return concluded(_uneven(found_, output, input, *given), async_op)
    if len(set(sizes)) > 1:
        raise RuntimeError(f"all_to_all_single: output has {given[0]} rows of each rank, input {given[1]} for each")
    parts = [a.reshape(found_.size(), -1, *a.shape[1:]) for a in values([input])]

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([output], [outs[0].reshape(output.shape)])

    return concluded(start(found_, "all_to_all_single", "exchange", (), parts, finish), async_op)


def _rows(name: str, t: Tensor, sizes: list[int] | None, group: ProcessGroup) -> list[int]:
    rows, size = t.shape[0] if t.dim() else 1, group.size()
    if not sizes:
        if rows % size:
            raise RuntimeError(f"all_to_all_single: {name} has {rows} rows for {size} ranks: give split sizes")
        return [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows:
        raise RuntimeError(f"all_to_all_single: {name} has {rows} rows, which its split sizes {sizes} must add up to, "
                           f"one for each of {size} ranks")  # fmt: skip
    return list(sizes)


def _uneven(group: ProcessGroup, output: Tensor, input: Tensor, come: list[int], go: list[int]) -> Work:
    """Parts of different lengths travel as long as the longest of all, which the ranks agree on."""
    longest = _longest(group, "all_to_all_single", come, go)
    (rows,) = values([input])
    ends = [sum(go[: i + 1]) for i in range(len(go))]
    pieces = [rows[end - n : end] for n, end in zip(go, ends, strict=True)]
    tail = [(0, 0)] * (rows.ndim - 1)
    padded = jnp.stack([jnp.pad(p, [(0, longest - len(p)), *tail]) for p in pieces])

    def finish(outs: list) -> list[Tensor]:
        return _assign_all([output], [jnp.concatenate([outs[0][i, :n] for i, n in enumerate(come)])])

    return start(group, "all_to_all_single", "exchange", (), [padded], finish)


def _longest(group: ProcessGroup, name: str, come: Sequence[int], go: Sequence[int]) -> int:
    """The longest part of all that travel. RuntimeError, on all ranks, where one expects another than is sent."""
    demand_eager("parts whose lengths differ")
    told: list[Any] = []
    sizes = [jnp.array([come, go])]
    start(group, name, "gather", (), sizes, lambda outs: told.append(np.asarray(outs[0])), LENGTHS).wait()
    expected, sent = told[0][:, 0], told[0][:, 1].T
    for i, j in zip(*np.nonzero(expected != sent), strict=True):
        raise RuntimeError(
            f"{name}: rank {group.ranks[i]} expects {expected[i, j]} of rank {group.ranks[j]}, which sends {sent[i, j]}"
        )
    return int(sent.max())


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Send a tensor of a list to each process; the tensors of the other list are what came, in the order of ranks.

    Shapes may differ; the one who receives has a tensor of the sender's shape. RuntimeError where a list has not a
    tensor for each process, ValueError for different dtypes.
    """
    demand_tensors(output_tensor_list, "output_tensor_list")
    demand_tensors(input_tensor_list, "input_tensor_list")
    if not takes_part(group, "all_to_all"):
        return None
    found_ = found(group)
    _demand_count("all_to_all", output_tensor_list, found_, "output")
    _demand_count("all_to_all", input_tensor_list, found_, "input")
    every = [*input_tensor_list, *output_tensor_list]
    _demand_dtype("all_to_all", every, every[0].dtype)
    uneven = _uneven_shapes(every)
    # in a program all parts are alike, which nobody needs to be asked
    if found_.size() == 1 or not uneven and state.capture is not None:
        demand_alike("all_to_all", every, every[0].shape, every[0].dtype)
        longest = every[0].numel()
    else:
        come, go = ([t.numel() for t in ts] for ts in (output_tensor_list, input_tensor_list))
        longest = _longest(found_, "all_to_all", come, go)
    parts = [jnp.stack([_flat(a, longest) for a in values(input_tensor_list)])]
    work = start(found_, "all_to_all", "exchange", (), parts, lambda outs: _unpadded(output_tensor_list, outs[0]))
    return concluded(work, async_op)


_OVERRIDABLE = """
all_gather all_reduce all_reduce_coalesced all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter
""".split()  # fmt: skip
globals().update(_publish("torch.distributed.distributed_c10d", {name: globals()[name] for name in _OVERRIDABLE}))
