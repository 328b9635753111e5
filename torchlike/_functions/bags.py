"""``torch.embedding_bag``: bags of rows, and what PyTorch's kernel notes of them for its derivative."""

import math

import torchlike._base.dtypes as dtypes
from torchlike._aten.python_dispatch import without_dispatch
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.views import followed_by_jax
from torchlike._functions._install import FUNCTIONS as _F
from torchlike._functions._install import function
from torchlike._ops import embed as ops
from torchlike._ops.index import embedding as lookup

# What PyTorch sums without looking for the bag of each index.
_SUMMED = (dtypes.float32, dtypes.float16, dtypes.bfloat16)


@function()
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):  # fmt: skip
    """(bags [B, D], the bag of each index, how many count in each, the rows of maxima) of rows of ``weight`` [V, D].

    ``torch.nn.functional.embedding_bag`` gives the first alone. The others are for PyTorch's derivatives; of sums they
    are zeros, and the bag of each index is empty where PyTorch computes sums without it.

    Args:
        indices: [N], int32 or int64. offsets: [B], where each bag starts; one more with ``include_last_offset``.
        mode: 0 for sums, 1 for means, 2 for maxima.
        per_sample_weights: [N], factors of the rows (mode 0).
        padding_idx: a row that does not count, from the front or (negative) from the back.

    Raises:
        RuntimeError: dtypes, dimensions, indices, offsets or a mode that are no such ones.

    >>> import torchlike as torch
    >>> torch.embedding_bag(torch.eye(3), torch.tensor([0, 2, 1]), torch.tensor([0, 2]))[0]
    tensor([[1., 0., 1.],
            [0., 1., 0.]])
    """
    padding = _checked(weight, indices, offsets, mode, per_sample_weights, padding_idx)
    static = (mode, bool(include_last_offset), padding)
    rows, places, absent = weight, indices, padding
    if scale_grad_by_freq and differentiable(weight) or sparse and weight.requires_grad:
        rows, places, absent = looked_up(weight, indices, padding, bool(scale_grad_by_freq), sparse)
    out = pooled(rows, places, offsets, per_sample_weights, (*static[:2], absent))
    return out, *_notes(weight, indices, offsets, static, padding_idx)


def pooled(weight, indices, offsets, factors, static):
    """The bags alone, in one call; where it is traced with its derivatives, in several."""
    recorded = state.grad and any(t is not None and t.requires_grad for t in (weight, factors))
    if not recorded or state.trace is None:
        return call(ops.embedding_bag, (weight, indices, offsets, factors), static)
    with without_dispatch():  # for the checks of its arguments
        call(ops.embedding_bag, (weight.detach(), indices, offsets, factors), static)
    mode, last, padding = static
    bags, width = offsets.shape[0] - last, weight.shape[1]
    places = _F["arange"](indices.numel(), dtype=offsets.dtype, device=indices.device)
    owner = _F["searchsorted"](offsets[:bags], places, right=True) - 1
    counted = (indices != padding).unsqueeze(1)
    rows = call(lookup, (weight, indices), (padding, False, False))
    counts = counted.new_zeros(bags, 1, dtype=rows.dtype).index_add(0, owner, counted.to(rows.dtype))
    if mode == 2:
        return _largest(rows, owner, counted, counts, bags)
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    summands = counted & (places < offsets[-1]).unsqueeze(1) if last and rows.dtype in _SUMMED else counted
    total = rows.new_zeros(bags, width).index_add(0, owner, _F["where"](summands, rows, 0))
    return total / counts.clamp(min=1) if mode == 1 else total


def _largest(rows, owner, counted, counts, bags):
    """For each bag the largest of its rows that count, in each column the first; 0 of none."""
    (count, width), values = rows.shape, rows.detach()
    within = owner.unsqueeze(1).expand(-1, width)
    best = values.new_full((bags, width), -math.inf)
    best = best.scatter_reduce(0, within, values.masked_fill(counted.logical_not(), -math.inf), "amax")
    tie = counted & (values == best[owner])
    places = _F["arange"](count, device=rows.device).unsqueeze(1)
    first = places.new_full((bags, width), count).scatter_reduce(0, within, _F["where"](tie, places, count), "amin")
    return _F["where"](counts == 0, 0, rows.gather(0, first.clamp(max=max(count - 1, 0))))


def looked_up(weight, indices, padding, scaled, sparse):
    """Rows, the places of a bag's indices among them, and the padded place: the gradient is that of a look-up."""
    if scaled and sparse:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients; use sparse=False"
        )
    rows = call(lookup, (weight, indices), (padding, False, sparse))
    count = indices.numel()
    if scaled and count:
        rows = call(ops.gradient_divided, (rows, frequencies(indices).to(rows.dtype).unsqueeze(1)), ())
    places = _F["arange"](count, dtype=indices.dtype, device=indices.device)
    if padding < 0:
        return rows, places, -1
    rows = _F["cat"]([rows, rows.new_zeros(1, rows.shape[1])])
    return rows, _F["where"](indices == padding, count, places), count


def differentiable(t):
    """Whether a derivative with respect to ``t`` may be asked for, by autograd or by jax."""
    return t.requires_grad or followed_by_jax(t._storage.form)


def frequencies(indices):
    """What PyTorch divides the gradient of each index by: of the k-th smallest, how often the k-th of all occurs."""
    ordered = indices.sort()[0]
    place = _F["searchsorted"]
    before = _F["cat"]([ordered[:1] - 1, ordered[:-1]])
    other = ordered[((ordered != before).cumsum(0) - 1)[place(ordered, indices)]]
    return place(ordered, other, right=True) - place(ordered, other)


def _checked(weight, indices, offsets, mode, factors, padding_idx):
    """The padded row counted from the front, -1 for none; RuntimeError for arguments that go with no bags."""
    for name, x in (("weight", weight), ("indices", indices), ("offsets", offsets)):
        if not isinstance(x, Tensor):
            raise TypeError(f"embedding_bag(): argument '{name}' must be Tensor, not {type(x).__name__}")
    if not isinstance(mode, int):
        raise TypeError(f"embedding_bag(): argument 'mode' must be int, not {type(mode).__name__}")
    if mode not in (0, 1, 2):
        raise RuntimeError(f"embedding_bag(): `mode` must be sum, mean, or max (0, 1, 2), but got {mode}")
    for name, x, n in (("weight", weight, 2), ("indices", indices, 1), ("offsets", offsets, 1)):
        if x.dim() != n:
            raise RuntimeError(f"embedding_bag(): {name} has to be a {n}D Tensor, but got one of dimension {x.dim()}")
    if factors is not None and mode != 0:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"embedding_bag(): padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
            f"but got {padding_idx}"
        )
    return -1 if padding_idx is None else padding_idx % rows


def _notes(weight, indices, offsets, static, padding_idx):
    """The results beside the bags: integers that nothing is differentiated by."""
    mode, last, padding = static
    bags, like = max(offsets.shape[0] - last, 0), {"dtype": indices.dtype, "device": indices.device}
    zeros = _F["zeros"](offsets.shape[0] if mode == 0 else bags, **like)
    quick = mode == 0 and padding_idx is None and weight.dtype in _SUMMED and weight.stride(1) == 1
    if quick or not indices.numel():
        owner = _F["empty"](0, **like)
    else:
        places = _F["arange"](indices.numel(), **like)
        owner = _F["searchsorted"](offsets[:bags], places, right=True).to(indices.dtype) - 1
    if mode == 0:
        return owner, zeros, zeros.clone()
    counts = zeros if not indices.numel() else zeros.index_add(0, owner, (indices != padding).to(indices.dtype))
    if mode == 1:
        return owner, counts, counts.clone()
    return owner, counts, call(ops.rows_of_maxima, (weight.detach(), indices, offsets), (last, padding))
