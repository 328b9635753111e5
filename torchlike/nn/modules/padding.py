"""Padding layers."""

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules.module import Module
from torchlike.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    __constants__ = ["padding"]
    _mode: str
    _sizes = staticmethod(_pair)

    def __init__(self, padding) -> None:
        super().__init__()
        self.padding = self._sizes(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        n = len(self.padding) // 2
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad:
    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]  # of the ConstantPad it is mixed into

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_ConstantPadNd):
    """[N, C, L] or [C, L] with a border of ``value``.

    ``padding`` is a size for all sides, or one for each: (left, right).

    >>> import torchlike as torch
    >>> torch.nn.ConstantPad1d(1, 3.5)(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.5, 1.0, 2.0, 3.0, 3.5]]
    """


class ConstantPad2d(_ConstantPadNd):
    """[N, C, H, W] or [C, H, W] with a border of ``value``.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom).

    >>> import torchlike as torch
    >>> torch.nn.ConstantPad2d(1, 3.5)(torch.ones(1, 3, 3)).shape
    torch.Size([1, 5, 5])
    """

    _sizes = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """[N, C, D, H, W] or [C, D, H, W] with a border of ``value``.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom, front, back).

    >>> import torchlike as torch
    >>> torch.nn.ConstantPad3d(1, 3.5)(torch.ones(1, 3, 3, 3)).shape
    torch.Size([1, 5, 5, 5])
    """

    _sizes = staticmethod(_sextuple)


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """[N, C, L] or [C, L] with a border of zeros.

    ``padding`` is a size for all sides, or one for each: (left, right).

    >>> import torchlike as torch
    >>> torch.nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """[N, C, H, W] or [C, H, W] with a border of zeros.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom).

    >>> import torchlike as torch
    >>> torch.nn.ZeroPad2d(1)(torch.ones(1, 3, 3)).shape
    torch.Size([1, 5, 5])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """[N, C, D, H, W] or [C, D, H, W] with a border of zeros.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom, front, back).

    >>> import torchlike as torch
    >>> torch.nn.ZeroPad3d(1)(torch.ones(1, 3, 3, 3)).shape
    torch.Size([1, 5, 5, 5])
    """


class ReflectionPad1d(_ReflectionPadNd):
    """[N, C, L] or [C, L] with a border mirrored at its outer elements.

    ``padding`` is a size for all sides, or one for each: (left, right).

    >>> import torchlike as torch
    >>> torch.nn.ReflectionPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """


class ReflectionPad2d(_ReflectionPadNd):
    """[N, C, H, W] or [C, H, W] with a border mirrored at its outer elements.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom).

    >>> import torchlike as torch
    >>> torch.nn.ReflectionPad2d(1)(torch.ones(1, 3, 3)).shape
    torch.Size([1, 5, 5])
    """

    _sizes = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """[N, C, D, H, W] or [C, D, H, W] with a border mirrored at its outer elements.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom, front, back).

    >>> import torchlike as torch
    >>> torch.nn.ReflectionPad3d(1)(torch.ones(1, 3, 3, 3)).shape
    torch.Size([1, 5, 5, 5])
    """

    _sizes = staticmethod(_sextuple)


class ReplicationPad1d(_ReplicationPadNd):
    """[N, C, L] or [C, L] with its outer elements repeated.

    ``padding`` is a size for all sides, or one for each: (left, right).

    >>> import torchlike as torch
    >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """


class ReplicationPad2d(_ReplicationPadNd):
    """[N, C, H, W] or [C, H, W] with its outer elements repeated.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom).

    >>> import torchlike as torch
    >>> torch.nn.ReplicationPad2d(1)(torch.ones(1, 3, 3)).shape
    torch.Size([1, 5, 5])
    """

    _sizes = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """[N, C, D, H, W] or [C, D, H, W] with its outer elements repeated.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom, front, back).

    >>> import torchlike as torch
    >>> torch.nn.ReplicationPad3d(1)(torch.ones(1, 3, 3, 3)).shape
    torch.Size([1, 5, 5, 5])
    """

    _sizes = staticmethod(_sextuple)


class CircularPad1d(_CircularPadNd):
    """[N, C, L] or [C, L] with a border from its other end.

    ``padding`` is a size for all sides, or one for each: (left, right).

    >>> import torchlike as torch
    >>> torch.nn.CircularPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """


class CircularPad2d(_CircularPadNd):
    """[N, C, H, W] or [C, H, W] with a border from its other end.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom).

    >>> import torchlike as torch
    >>> torch.nn.CircularPad2d(1)(torch.ones(1, 3, 3)).shape
    torch.Size([1, 5, 5])
    """

    _sizes = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """[N, C, D, H, W] or [C, D, H, W] with a border from its other end.

    ``padding`` is a size for all sides, or one for each: (left, right, top, bottom, front, back).

    >>> import torchlike as torch
    >>> torch.nn.CircularPad3d(1)(torch.ones(1, 3, 3, 3)).shape
    torch.Size([1, 5, 5, 5])
    """

    _sizes = staticmethod(_sextuple)
