"""Losses by margins, embeddings and alignments, and distances."""

from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import apart, as_calls
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import as_float, as_ints, bools
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import function
from torchlike._ops import _composed_functions, class_margins, ctc, similarity
from torchlike._ops import loss as ops
from torchlike.nn.functional._replaced import PUBLIC, REPLACED
from torchlike.nn.functional.loss import _frozen, _logits, _reduction, _subtracted, _tensors

__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "pairwise_distance",
    "pdist",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """``x1 . x2 / (max(|x1|, eps) * max(|x2|, eps))`` along ``dim`` of the broadcast inputs.

    RuntimeError for inputs that are not floating point, and for an ``eps`` below 0.

    >>> import torchlike as torch
    >>> torch.nn.functional.cosine_similarity(torch.ones(1, 2), torch.tensor([[0.0, 2.0]]))
    tensor([0.7071])
    """
    _tensors("cosine_similarity", x1=x1, x2=x2)
    eps = as_float("cosine_similarity", "eps", eps)
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity: eps must be non-negative, got: {eps:g}")
    return call(
        similarity.cosine_similarity,
        (x1, x2, eps),
        (arguments.as_int("cosine_similarity", "dim", dim),),
    )


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    _tensors("pairwise_distance", x1=x1, x2=x2)
    bools("pairwise_distance", keepdim=keepdim)
    _subtracted("pairwise_distance", x1, x2)
    op = similarity.pairwise_distance
    return call(
        op,
        (x1, x2, as_float("pairwise_distance", "eps", eps)),
        op.exactly((as_float("pairwise_distance", "p", p), bool(keepdim))),
    )


def _plain(target):
    """A target that is only compared, so that it has no gradient."""
    return apart(target) if isinstance(target, Tensor) and target.requires_grad else target


def pdist(input, p=2):
    """The p-norm distances of all pairs of rows of [N, M]: [N * (N - 1) / 2]."""
    return call(similarity.pdist, (input,), similarity.pdist.exactly((as_float("pdist", "p", p),)))


@function("margin_ranking_loss")
def _margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    return call(
        ops.margin_ranking_loss[reduction],
        (input1, input2, target, as_float("margin_ranking_loss", "margin", margin)),
        (),
    )


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """``max(0, -target * (input1 - input2) + margin)``: target 1 asks for input1 above input2, -1 for the
    reverse.

    RuntimeError where the numbers of dimensions differ.
    """
    mode = _reduction(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    _subtracted("margin_ranking_loss", input1, input2, target)
    return _margin_ranking_loss(input1, input2, target, margin, mode)


@function("hinge_embedding_loss")
def _hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    return call(
        ops.hinge_embedding_loss[reduction],
        (input, _plain(target), as_float("hinge_embedding_loss", "margin", margin)),
        (),
    )


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1."""
    _tensors("hinge_embedding_loss", input=input, target=target)
    return _hinge_embedding_loss(input, target, margin, _reduction(reduction, size_average, reduce))


@function("cosine_embedding_loss")
def _cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    return call(
        ops.cosine_embedding_loss[reduction],
        (input1, input2, _plain(target), as_float("cosine_embedding_loss", "margin", margin)),
        (),
    )


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Shapes [N, D], [N, D], [N] or [D], [D], []; RuntimeError for others.
    """
    return _cosine_embedding_loss(input1, input2, target, margin, _reduction(reduction, size_average, reduce))


@function("triplet_margin_loss")
def _triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=0):
    _subtracted("triplet_margin_loss", anchor, positive, negative)
    op = similarity.triplet_margin_loss[bool(swap)][reduction]
    return call(
        op,
        (
            anchor,
            positive,
            negative,
            as_float("triplet_margin_loss", "margin", margin),
            as_float("triplet_margin_loss", "eps", eps),
        ),
        op.exactly((as_float("triplet_margin_loss", "p", p),)),
    )


def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)`` in the p-norm over the last dimension.

    Args:
        swap: use the distance of positive and negative where it is the smaller.

    Raises:
        ValueError: ``margin <= 0``. RuntimeError: numbers of dimensions that differ.
    """
    bools("triplet_margin_loss", swap=swap)
    mode = _reduction(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, mode)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """:func:`triplet_margin_loss` with a distance of one's own (default: :func:`pairwise_distance`)."""
    mode = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            "but got: anchor "
            f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    measure = pairwise_distance if distance_function is None else distance_function
    near, far = measure(anchor, positive), measure(anchor, negative)
    if swap:
        far = far.minimum(measure(positive, negative))
    found = (margin + near - far).clamp_min(0)
    return found.mean() if mode == 1 else found.sum() if mode == 2 else found


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Margins of 1 between each listed class and each other class: [N, C] scores, [N, C] lists that end at
    the first -1.

    RuntimeError for a class outside [-1, C) or shapes that differ.
    """
    mode = _reduction(reduction, size_average, reduce)
    _tensors("multilabel_margin_loss", input=input, target=target)
    return call(class_margins.multilabel_margin_loss, (input, target), (mode,))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """``max(0, margin - x[target] + x[i]) ** p`` summed over the other classes, over C: [N, C] scores, [N]
    classes.

    Raises:
        ValueError: ``p`` other than 1 or 2, a weight that is not 1-dimensional. RuntimeError: a class
            outside [0, C).
    """
    mode = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"weight must be one-dimensional, got shape {list(weight.shape)}")
    _tensors("multi_margin_loss", input=input, target=target)
    margin = as_float("multi_margin_loss", "margin", margin)
    _frozen("multi_margin_loss", weight=weight)
    op = class_margins.multi_margin_loss
    return call(op, (input, target, margin, weight), op.exactly((p, mode)))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """:func:`binary_cross_entropy_with_logits` averaged over the last dimension, the classes."""
    mode = _reduction(reduction, size_average, reduce)
    _tensors("multilabel_soft_margin_loss", input=input, target=target)
    _logits("log_sigmoid_cpu", input)
    _subtracted("multilabel_soft_margin_loss", target)
    if "logsigmoid" in REPLACED:
        logsigmoid = PUBLIC["logsigmoid"]
        lost = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
        lost = (lost if weight is None else lost * weight).sum(-1) / input.shape[-1]
        return lost if mode == 0 else lost.mean() if mode == 1 else lost.sum()
    return call(ops.multilabel_soft_margin_loss[mode], (input, target, weight), ())


def _lengths(name, given, n):
    """Lengths as an int64 tensor of size [n], and as numbers where they were given as such."""
    if isinstance(given, Tensor):
        if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype.name == "bool":
            raise RuntimeError(f"ctc_loss: {name} must be integral, got {given.dtype}")
        found = given.reshape(-1).long()
    elif isinstance(given, list | tuple):
        found = as_tensor(as_ints("ctc_loss", name, given), dtype=int64)
    else:
        raise TypeError(
            f"ctc_loss() received an invalid combination of arguments: {name} must be a Tensor or tuple of ints"
        )
    if found.numel() != n:
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size ({n}), got {found.numel()}")
    return found


def _rows(targets, lengths, longest):
    """Targets that were given end to end, as padded rows [N, S]."""
    rows, start = [], 0
    for n in lengths:
        rows.append(targets[start : start + n].tolist() + [0] * (longest - n))
        start += n
    return as_tensor(rows, device=targets.device).reshape(len(lengths), longest).long()


def _demand_sequences(log_probs, targets):
    """PyTorch's refusals of scores and labels of other shapes than :func:`ctc_loss` takes."""
    if not log_probs.numel():
        raise RuntimeError(f"log_probs tensor must not be empty: ctc_loss() got {list(log_probs.shape)}")
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for argument #1 'log_probs' "
            "(ctc_loss; a sequence alone has 2, beside targets and lengths of its own)"
        )
    if not 1 <= targets.dim() <= 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument #2 'targets' "
            "(ctc_loss takes [N, S], or all labels end to end)"
        )


def sequences(log_probs, targets, input_lengths, target_lengths, blank):
    """Scores [T, N, C], labels [N, S] and the lengths of both as tensors, or PyTorch's refusal."""
    _demand_sequences(log_probs, targets)
    steps, n, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    inputs, wanted = (
        _lengths("input_lengths", input_lengths, n),
        _lengths("target_lengths", target_lengths, n),
    )
    if targets.dim() == 1:
        lengths = wanted.tolist()
        if targets.numel() != sum(lengths):
            raise RuntimeError(
                f"ctc_loss: Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.numel()} "
                "for argument 'targets': target_lengths add up to the first"
            )
        targets = _rows(targets, lengths, max(lengths, default=0))
    return log_probs, targets.long(), inputs, wanted


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification: minus the log probability of label sequences over all
    alignments.

    Args:
        log_probs: [T, N, C] or [T, C] log_softmax of scores; the gradient is that of the scores, as in
            PyTorch.
        targets: [N, S] padded, or all labels end to end [sum(target_lengths)].
        input_lengths, target_lengths: [N] ints. blank: the class of the blank.
        reduction: ``'mean'`` divides by the target lengths and averages over the batch.
        zero_infinity: losses of sequences that cannot be aligned are 0, and so are their gradients.

    Raises:
        RuntimeError: lengths that do not fit, a blank outside the classes. TypeError: no tensors.
    """
    bools("ctc_loss", zero_infinity=zero_infinity)
    mode = _reduction(reduction)
    for name, given in (("log_probs", log_probs), ("targets", targets)):
        if not isinstance(given, Tensor):
            raise TypeError(
                f"ctc_loss() received an invalid combination of arguments: {name} must be Tensor, not "
                f"{type(given).__name__}"
            )
    if isinstance(input_lengths, Tensor) != isinstance(target_lengths, Tensor):
        raise TypeError(
            "ctc_loss() received an invalid combination of arguments: input_lengths and target_lengths must both be "
            "tensors or both be tuples of ints"
        )
    return _ctc(log_probs, targets, input_lengths, target_lengths, int(blank), mode, bool(zero_infinity))


@as_calls(_composed_functions.ctc_loss)
def _ctc(log_probs, targets, input_lengths, target_lengths, blank, mode, zero_infinity):
    single = log_probs.dim() == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    arrays = sequences(log_probs, targets, input_lengths, target_lengths, blank)
    found = call(ctc.ctc_loss, arrays, (blank, zero_infinity))
    if mode == 1:
        return (found / arrays[3].clamp_min(1).to(found)).mean()
    if mode == 2:
        return found.sum()
    return found.squeeze(0) if single else found


@function("ctc_loss")
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    name = ("none", "mean", "sum")[reduction]
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity)
