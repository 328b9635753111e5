"""Attention whose scores and masks are functions of the user: ``flex_attention``, ``create_block_mask``."""

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from torchlike._base.dtypes import bool as boolean
from torchlike._base.dtypes import float32, float64
from torchlike._core.autocast.composite import in_lower_precision, off
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.attention import attention_weights
from torchlike.func._vmap import vmap
from torchlike.interop.alias import missing_names
from torchlike.nn.attention._block_mask import _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE
from torchlike.nn.attention._block_mask import BlockMask, MaskMod, dense_of, noop_mask, ordered, pair

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_arange, _where = FUNCTIONS["arange"], FUNCTIONS["where"]
_mask_mod_signature = MaskMod
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class AuxRequest(NamedTuple):
    """What else :func:`flex_attention` returns: the logarithm of the sums of weights, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What an :class:`AuxRequest` asked for, [B, Hq, L] each in float32 (float64 of float64), or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's kernels, which are accepted and have no effect: XLA chooses."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


# -- masks ---------------------------------------------------------------------------------------------------
def _checked_masks(mask_mods: tuple[MaskMod, ...]) -> None:
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The ``mask_mod`` that allows what one of several allows.

    Raises:
        RuntimeError: one is not callable.
    """
    _checked_masks(mask_mods)

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=boolean)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The ``mask_mod`` that allows what each of several allows.

    Raises:
        RuntimeError: one is not callable.
    """
    _checked_masks(mask_mods)

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_ones((), dtype=boolean)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def _is_score_mod(mod: Callable) -> bool:
    """Whether a function takes a score before the four positions."""
    parameters = inspect.signature(mod).parameters.values()
    n = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if n not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {n}")
    return n == 5


def _everywhere(mod: Callable[..., Tensor], sizes: tuple[int, ...], device: Any, *scores: Tensor) -> Tensor:
    """``mod`` at every position of [B, H, L, S], of scores of that shape if given."""
    with_scores = (0,) * len(scores)
    for axis in (3, 2, 1, 0):
        mod = vmap(mod, in_dims=(*with_scores, *[0 if i == axis else None for i in range(4)]))
    return mod(*scores, *[_arange(n, device=device) for n in sizes])


def create_mask(
    mod_fn: ScoreMod | MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """[B, H, Q_LEN, KV_LEN] of bool: where a ``mask_mod`` is True, or a ``score_mod`` of zeros is not -inf.

    Args:
        mod_fn: a function of (batch, head, query, key), or of (score, batch, head, query, key), run by ``vmap``.
        B, H: how many batches and heads; None for 1. device: where; the default device otherwise.

    Raises:
        AssertionError: ``mod_fn`` has neither 4 nor 5 arguments.

    >>> from torchlike.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if not _is_score_mod(mod_fn):
        return _everywhere(mod_fn, sizes, device)
    scores = _everywhere(mod_fn, sizes, device, FUNCTIONS["zeros"](sizes, device=device))
    return ~scores.isneginf()


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The :class:`BlockMask` of a function that says which positions attend to which.

    Args:
        mask_mod: a function of tensors (batch, head, query, key) that gives a bool; it is run by ``vmap``.
        B, H: how many batches and heads; None for one that stands for all.
        Q_LEN, KV_LEN: how many queries and keys. device: where; the default device otherwise.
        BLOCK_SIZE: of queries and keys, one number for both.
        separate_full_blocks: whether blocks in which all attend are listed apart.
        dq_kv_order: accepted; the order in which gradients are added is XLA's.

    Raises:
        AssertionError: ``mask_mod`` is no function of 4 arguments.
        NotImplementedError: ``compute_dq_write_order=True``.

    >>> from torchlike.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 6, 6, BLOCK_SIZE=2)
    >>> print(mask)
    BlockMask(shape=(1, 1, 6, 6), sparsity=33.33%,
    (0, 0)
    ██
    ████
    ██████
    )
    """
    if _is_score_mod(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if compute_dq_write_order:
        raise NotImplementedError(
            "create_block_mask(): compute_dq_write_order=True is for PyTorch's CUDA kernels; torchlike's gradients are "
            "deterministic without it"
        )
    if _compile:
        warnings.warn(
            "_compile flag on create_block_mask was originally added to work around a torch.compile limitation: use "
            "torch.compile(create_block_mask)",
            DeprecationWarning,
            stacklevel=2,
        )
    size = pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    counts = _per_block(mask, size)
    whole = size[0] * size[1]
    partial = counts.gt(0) & counts.lt(whole) if separate_full_blocks else counts.gt(0)
    full = ordered(counts.eq(whole)) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *ordered(partial), *full, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def _per_block(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """How many positions of each block attend; positions beyond the end do not."""
    rows, columns = (-(-n // s) for n, s in zip(mask.shape[-2:], size, strict=True))
    more = columns * size[1] - mask.shape[-1], rows * size[0] - mask.shape[-2]
    mask = FUNCTIONS["constant_pad_nd"](mask, [0, more[0], 0, more[1]], False)
    return mask.view(*mask.shape[:-2], rows, size[0], columns, size[1]).sum((-3, -1))


# -- attention -----------------------------------------------------------------------------------------------
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(query @ key.T * scale)) @ value`` where ``block_mask`` allows it.

    Args:
        query: [B, Hq, L, E]. key: [B, Hkv, S, E]. value: [B, Hkv, S, Ev].
        score_mod: a function of a score and the (batch, head, query, key) that it is of, all tensors without
            dimensions, that gives another score. It is run once, by ``vmap``; gradients reach the tensors it uses.
        block_mask: which queries attend to which keys, see :func:`create_block_mask`.
        scale: default ``1 / sqrt(E)``.
        enable_gqa: key and value may have fewer heads, each used for several of query's.
        return_lse: deprecated for ``return_aux=AuxRequest(lse=True)``, which also returns the logarithm of the sum of
            the exponentials of each query's scores. kernel_options: accepted.

    Returns:
        [B, Hq, L, Ev]; with ``return_lse`` a pair with [B, Hq, L], with ``return_aux`` one with an :class:`AuxOutput`.

    All scores are computed and masked, on every device: blocks that attend to nothing are not skipped. Compiled
    (``torch.compile``) it is one program. Queries that attend to nothing give zeros. Scores are float32 (float64 of
    float64), autocast applies to query, key and value. Unlike PyTorch's, gradients work on CPUs too.

    Raises:
        NotImplementedError: inputs that are not of 4 dimensions.
        ValueError: sizes, dtypes or devices that do not fit each other or the mask; both ``return_lse`` and
            ``return_aux``.

    >>> import torchlike as torch
    >>> from torchlike.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> x = torch.eye(4).reshape(1, 1, 4, 4)
    >>> causal = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4)
    >>> flex_attention(x, x, x, lambda score, b, h, q, kv: score - (q - kv), causal)[0, 0, 1]
    tensor([0.1824, 0.8176, 0.0000, 0.0000])
    """
    _check_inputs(query, key, value, enable_gqa)
    _check_mask(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warnings.warn(
            "return_lse is deprecated. Please use return_aux=AuxRequest(lse=True) instead.", FutureWarning, stacklevel=2
        )
    asked = AuxRequest(lse=True) if return_lse else return_aux
    query, key, value = in_lower_precision(query, key, value)
    with off():
        scores = _scores(query, key, scale)
        if score_mod is not None:
            scores = _everywhere(score_mod, tuple(scores.shape), query.device, scores).to(scores.dtype)
        if block_mask is not None:
            scores = _where(_allowed(block_mask, scores), scores, -math.inf)
        masked = score_mod is not None or block_mask is not None
        out, aux = _weighted(scores, value.to(query.dtype), masked, asked)
    if return_lse:
        return out, aux.lse
    return out if return_aux is None else (out, aux)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    if not all(isinstance(x, Tensor) for x in (query, key, value)):
        kinds = ", ".join(type(x).__name__ for x in (query, key, value))
        raise TypeError(f"flex_attention(): expected tensors as query, key and value, got {kinds}")
    if any(x.dim() != 4 for x in (query, key, value)):
        shapes = ", ".join(str(list(x.shape)) for x in (query, key, value))
        raise NotImplementedError(f"NYI: query, key, and value must be 4D tensors; got {shapes}")
    if len({x.device.type for x in (query, key, value)}) > 1:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            f"Expect key and value to have the same batch size, heads and length but got {list(key.shape)} and "
            f"{list(value.shape)}."
        )
    if key.shape[2] == 0:
        raise IndexError("flex_attention(): expected at least one key, got none")
    mine, theirs = query.shape[1], key.shape[1]
    if not enable_gqa and mine != theirs:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={mine} and Hkv={theirs}. Try setting enable_gqa=True for GQA."
        )
    if mine % max(theirs, 1):
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={mine} and Hkv={theirs}."
        )


def _check_mask(query: Tensor, key: Tensor, block_mask: BlockMask | None) -> None:
    """ValueError where batches, heads or lengths do not fit."""
    batches = query.shape[0], key.shape[0]
    if block_mask is None:
        if batches[0] != batches[1]:
            raise ValueError(
                "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
                f"block_mask=None, Bq={batches[0]}, and Bkv={batches[1]}."
            )
        return
    if not isinstance(block_mask, BlockMask):
        raise TypeError(f"flex_attention(): expected block_mask to be a BlockMask, got {type(block_mask).__name__}")
    *lead, rows, columns = block_mask.shape
    if batches[0] != batches[1] and (batches[1] != 1 or not lead or lead[0] != batches[0]):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={batches[0]}, Bkv={batches[1]}, B_block_mask={lead[0] if lead else 1}."
        )
    for name, n, own in zip("BH", query.shape, lead, strict=False):
        if own not in (1, n):
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got a query of "
                f"{list(query.shape)}: expected {name} to be 1 or {n}"
            )
    q_len, kv_len = query.shape[2], key.shape[2]
    if rows == q_len and columns == kv_len:
        return
    told = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} and kv_len={kv_len}. "
    if rows < q_len or columns < kv_len:
        raise ValueError(
            f"{told}As the block mask was created for a smaller length than you're using it for, you likely need to "
            "create a new block mask."
        )
    raise ValueError(
        f"{told}As the block mask was created for a larger length than you're using it for, you can either 1. create a "
        "new block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by "
        "calling block_mask._adjust(q_len, kv_len)."
    )


def _scores(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    """[B, Hq, L, S], in double precision of double precision and otherwise in single."""
    kind = float64 if query.dtype is float64 else float32
    query, key = query.to(kind), key.to(kind)
    number = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    groups = query.shape[1] // max(key.shape[1], 1)
    if groups == 1:
        return (query @ key.transpose(-2, -1)) * number
    query = query.unflatten(1, (key.shape[1], groups))
    return (query @ key.unsqueeze(2).transpose(-2, -1)).flatten(1, 2) * number


def _allowed(mask: BlockMask, scores: Tensor) -> Tensor:
    """Where there is attention: in full blocks, and where ``mask_mod`` says so in others; broadcasts to scores."""
    sizes = tuple(scores.shape)
    allowed = _positions(dense_of(mask.kv_num_blocks, mask.kv_indices), mask, sizes)
    if mask.mask_mod is not noop_mask:
        allowed = allowed & _everywhere(mask.mask_mod, sizes, scores.device)
    if mask.full_kv_num_blocks is not None and mask.full_kv_indices is not None:
        allowed = allowed | _positions(dense_of(mask.full_kv_num_blocks, mask.full_kv_indices), mask, sizes)
    return allowed


def _positions(blocks: Tensor, mask: BlockMask, sizes: tuple[int, ...]) -> Tensor:
    """What is said of blocks, said of each of their positions."""
    for dim, n, size in zip((-2, -1), sizes[2:], mask.BLOCK_SIZE, strict=True):
        if -(-n // size) > blocks.shape[dim]:
            raise ValueError(
                f"flex_attention(): block_mask has {blocks.shape[dim]} blocks of {size} in dimension {dim}, which do "
                f"not reach the end of {n} positions"
            )
        place = _arange(n, device=blocks.device).div(size, rounding_mode="floor")
        blocks = blocks.index_select(dim, place)
    return blocks


def _weighted(scores: Tensor, value: Tensor, masked: bool, asked: AuxRequest | None) -> tuple[Tensor, AuxOutput]:
    """The sum of values by the softmax of scores, and what else is asked for; rows of -inf give zeros."""
    weights = call(attention_weights, (scores,), ()) if masked else scores.softmax(-1)
    weights = weights.to(value.dtype)
    groups = weights.shape[1] // max(value.shape[1], 1)
    if groups == 1:
        out = weights @ value
    else:
        out = (weights.unflatten(1, (value.shape[1], groups)) @ value.unsqueeze(2)).flatten(1, 2)
    lse = top = None
    if asked is not None and asked.lse:
        empty = scores.eq(-math.inf).all(-1)
        lse = scores.masked_fill(empty.unsqueeze(-1), 0.0).logsumexp(-1).masked_fill(empty, -math.inf)
    if asked is not None and asked.max_scores:
        top = scores.detach().amax(-1)
    return out, AuxOutput(lse, top)


__getattr__ = missing_names(__name__)
