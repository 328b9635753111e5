"""Multi-head attention."""

from torchlike._base.state import is_grad_enabled
from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.functional._replaced import REPLACED
from torchlike.nn.functional.attention import at_once
from torchlike.nn.init import _OWN as START
from torchlike.nn.modules.linear import NonDynamicallyQuantizableLinear
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]

constant_, xavier_normal_, xavier_uniform_ = (
    START[name] for name in ("constant_", "xavier_normal_", "xavier_uniform_")
)
_SEPARATE = "use_separate_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"


class MultiheadAttention(Module):
    """Attention of several heads, each on its own projection of query, key and value (Vaswani et al. 2017).

    Args:
        embed_dim: size of query and result; the heads share it equally.
        num_heads: number of heads.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections have biases.
        add_bias_kv: learn one more key and value. add_zero_attn: add one of zeros.
        kdim, vdim: sizes of key and value (default ``embed_dim``).
        batch_first: inputs are [N, L, E] rather than [L, N, E].

    >>> import torchlike as torch
    >>> attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    >>> x = torch.ones(3, 5, 4)
    >>> result, weights = attention(x, x, x)
    >>> result.shape, weights.shape
    (torch.Size([3, 5, 4]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None, batch_first=False, device=None, dtype=None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._register(embed_dim, bias, add_bias_kv, {"device": device, "dtype": dtype})
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _register(self, size, bias, add_bias_kv, factory):
        own = {"in_proj_weight": (3 * size, size)} if self._qkv_same_embed_dim else {}
        if not own:
            own = {
                "q_proj_weight": (size, size),
                "k_proj_weight": (size, self.kdim),
                "v_proj_weight": (size, self.vdim),
            }
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight"):
            self.register_parameter(name, Parameter(empty(own[name], **factory)) if name in own else None)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * size, **factory)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(size, size, bias=bias, **factory)
        for name in ("bias_k", "bias_v"):
            if add_bias_kv:
                setattr(self, name, Parameter(empty((1, 1, size), **factory)))
            else:
                setattr(self, name, None)

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                xavier_normal_(bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(result, weights or None); arguments as of ``F.multi_head_attention_forward``."""
        nested = query.is_nested or key.is_nested or value.is_nested
        if nested and not self.batch_first:
            raise AssertionError("MultiheadAttention takes a NestedTensor with batch_first=True only")
        swap = self.batch_first and not nested and query.dim() == 3
        if swap:
            distinct = {id(x): x for x in (query, key, value)}
            made = {i: x.transpose(1, 0) for i, x in distinct.items()}
            query, key, value = made[id(query)], made[id(key)], made[id(value)]
        separate = {}
        if not self._qkv_same_embed_dim:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
            separate = dict(zip(_SEPARATE, (True, *weights), strict=True))
        if REPLACED and swap and self._at_once(query, key, value):
            projections = (self.in_proj_weight, self.in_proj_bias), (self.out_proj.weight, self.out_proj.bias)
            masks, flags = (attn_mask, key_padding_mask), (False, need_weights, average_attn_weights)
            out, weights = at_once(query, self.num_heads, *projections, masks, flags)
            return out.transpose(1, 0), weights
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight,
            self.out_proj.bias, training=self.training, key_padding_mask=key_padding_mask,
            need_weights=need_weights, attn_mask=attn_mask, average_attn_weights=average_attn_weights,
            is_causal=is_causal, **separate,
        )  # fmt: skip
        return (out.transpose(1, 0) if swap else out), weights

    def _at_once(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        """Whether PyTorch has one kernel for this call, so that it calls nothing of ``torch.nn.functional``."""
        if self.training or not (query is key and key is value):
            return False
        if self.in_proj_bias is None or not self._qkv_same_embed_dim or self.bias_k is not None or self.add_zero_attn:
            return False
        used = query, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias
        return not (is_grad_enabled() and any(t.requires_grad for t in used))

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, of shape (batch, heads, queries, keys), and 2; a padding mask alone as it is, and 1.

        ``query``: of shape (batch, queries, ...), for its sizes. (None, None) where there is no mask.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, self.num_heads, -1, length)
        else:
            merged = attn_mask.view(1, 1, length, -1).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2
