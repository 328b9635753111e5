"""Embeddings."""

from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn import init
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _padding(padding_idx, rows, name="Padding_idx"):
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx % rows


def _weight(rows, width, given, freeze, device, dtype):
    """(the parameter, whether it is to be drawn)."""
    if given is None:
        return Parameter(empty((rows, width), device=device, dtype=dtype), requires_grad=not freeze), True
    if list(given.shape) != [rows, width]:
        raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
    return Parameter(given, requires_grad=not freeze), False


class _Table(Module):
    def reset_parameters(self) -> None:
        """Draw the weight anew from the standard normal distribution; the padding row is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _two_dimensional(embeddings):
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    return embeddings.shape


class Embedding(_Table):
    """A table of vectors: indices [*] to rows [*, embedding_dim] of ``weight`` [num_embeddings,
    embedding_dim].

    Args:
        padding_idx: a row that starts as zeros and gets no gradient.
        max_norm: scale the rows that are read down to this p-norm, in place. norm_type: the p.
        scale_grad_by_freq: divide gradients by how often their row occurs.

    Raises:
        IndexError: an index outside [0, num_embeddings).

    >>> import torchlike as torch
    >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2, 4, 5], [4, 3, 2, 9]])).shape
    torch.Size([2, 4, 3])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq",
        "sparse",
    ]  # fmt: skip

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _padding(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.weight, fresh = _weight_of(self, _weight, _freeze, device, dtype)
        if fresh:
            self.reset_parameters()
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        usual = (("padding_idx", None), ("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False))
        parts += [f"{name}={getattr(self, name)}" for name, value in usual if getattr(self, name) != value]
        return ", ".join(parts + ["sparse=True"] * (self.sparse is not False))

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ):  # fmt: skip
        """A table with the rows of ``embeddings``; learned only if ``freeze`` is False.

        >>> import torchlike as torch
        >>> torch.nn.Embedding.from_pretrained(torch.eye(2))(torch.tensor([1]))
        tensor([[0., 1.]])
        """
        rows, width = _two_dimensional(embeddings)
        return cls(
            rows,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


def _weight_of(module, given, freeze, device, dtype):
    return _weight(module.num_embeddings, module.embedding_dim, given, freeze, device, dtype)


class EmbeddingBag(_Table):
    """Means (sums, maxima) of bags of rows of ``weight``; see ``F.embedding_bag``.

    >>> import torchlike as torch
    >>> bags = torch.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bags(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3])).shape
    torch.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "include_last_offset", "padding_idx",
    ]  # fmt: skip

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
        device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _padding(padding_idx, num_embeddings, "padding_idx")
        self.weight, fresh = _weight_of(self, _weight, False, device, dtype)
        if fresh:
            self.reset_parameters()
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        usual = (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False))
        parts += [f"{name}={getattr(self, name)}" for name, value in usual if getattr(self, name) != value]
        parts.append(f"mode={self.mode!r}")
        return ", ".join(parts + ([f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []))

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        include_last_offset: bool = False, padding_idx: int | None = None,
    ):  # fmt: skip
        """Bags over the rows of ``embeddings``; learned only if ``freeze`` is False."""
        rows, width = _two_dimensional(embeddings)
        new = cls(
            rows, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight=embeddings,
            include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        new.weight.requires_grad = not freeze
        return new
