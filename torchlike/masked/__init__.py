"""``torch.masked``: reductions of the elements that a mask lets through, and tensors that carry such a mask."""

from torchlike.interop.alias import missing_names
from torchlike.masked._masks import _canonical_dim, _input_mask, _output_mask, _reduction_identity, _where  # noqa: F401
from torchlike.masked._ops import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)  # fmt: skip
from torchlike.masked.maskedtensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip

__getattr__ = missing_names(__name__)
