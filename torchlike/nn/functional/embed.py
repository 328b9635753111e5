"""Embeddings."""

from torchlike._base.frames import warn
from torchlike._base.state import no_grad, state
from torchlike._core.conversion.factories import arange
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools
from torchlike._core.tensor.tensor import alias
from torchlike._executor.level import mapped
from torchlike._functions.bags import differentiable, looked_up, pooled
from torchlike._ops import embed as ops
from torchlike._ops.index import embedding as lookup

__all__ = ["embedding", "embedding_bag"]


def _padding(padding_idx, weight, error):
    """The padded row counted from the front; -1 for none. ``error(rows)`` is raised for one that is not there."""
    if padding_idx is None:
        return -1
    rows = weight.size(0)
    if not -rows <= padding_idx < rows:
        raise error(rows)
    return padding_idx % rows


def _renormalize(weight, indices, max_norm, norm_type):
    for name, x in (("max_norm", max_norm), ("norm_type", norm_type)):
        arguments.without_grad("embedding", name, x)
    with no_grad():
        rows = weight.detach() if state.dispatch_modes else alias(weight)
        call_inplace(ops.embedding_renorm.inplace, (rows, indices, max_norm), (norm_type,))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of ``weight`` [V, D] at the indices ``input`` [*]: [*, D].

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: first scale the rows that are read down to this norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide gradients by how often their row occurs in ``input``.
        sparse: whether the gradient of ``weight`` is of layout ``torch.sparse_coo``, with the rows that were read only.

    Raises:
        IndexError: an index outside [0, V).

    >>> import torchlike as torch
    >>> torch.nn.functional.embedding(torch.tensor([2, 0]), torch.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    bools("embedding", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    padding = -1 if padding_idx is None else _padding(padding_idx, weight, lambda rows: AssertionError(
        f"Padding_idx must be within num_embeddings, but embedding() got {padding_idx} for {rows} rows"
    ))  # fmt: skip
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    sparse = bool(sparse) and not mapped(weight) and not mapped(input)  # of a mapped look-up gradients are dense
    return call(lookup, (weight, input), (padding, bool(scale_grad_by_freq), sparse))


def _bag_layout(input, offsets, per_sample_weights):
    """(indices, offsets, weights) in one dimension."""
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                f"length sequences. However, found offsets of type {type(offsets)}"
            )
        length = input.size(1)
        offsets = arange(0, input.numel(), length, dtype=input.dtype, device=input.device)
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return input.reshape(-1), offsets, weights
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError(f"offsets has to be a 1D Tensor, but got {offsets.dim()}D")
    return input, offsets, per_sample_weights


def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
    sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """Means (sums, maxima) of bags of rows of ``weight`` [V, D]: [bags, D].

    Args:
        input: [bags, L], or [N] with ``offsets`` [bags], the position where each bag starts.
        mode: ``'mean'``, ``'sum'`` or ``'max'``.
        per_sample_weights: as ``input``, factors of the rows (mode sum).
        include_last_offset: ``offsets`` has one more element, the end of the last bag.
        padding_idx: a row that does not count and gets no gradient.
        scale_grad_by_freq: divide gradients by how often their row occurs in ``input``; not of maxima.

    >>> import torchlike as torch
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 2]]), torch.eye(3))
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    bools("embedding_bag", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if weight.dtype.is_floating_point is False and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, "
            "input, ...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.",
        )
        weight, input = input, weight
    indices, offsets, factors = _bag_layout(input, offsets, per_sample_weights)
    if mode not in ops.MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}')."
        )
    if max_norm is not None:
        _renormalize(weight, indices, max_norm, norm_type)
    padding = _padding(padding_idx, weight, lambda rows: RuntimeError(
        f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
    ))  # fmt: skip
    if scale_grad_by_freq and differentiable(weight) or sparse and weight.requires_grad:
        weight, indices, padding = looked_up(weight, indices, padding, bool(scale_grad_by_freq), sparse)
    if input.dim() == 1:
        bools("embedding_bag", include_last_offset=include_last_offset)
    static = (ops.MODES.index(mode), bool(include_last_offset), padding)
    return pooled(weight, indices, offsets, factors, static)
