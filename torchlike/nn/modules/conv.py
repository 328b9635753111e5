"""Convolutional layers."""

import warnings
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules._start import by_fan_in
from torchlike.nn.modules.lazy import LazyModuleMixin
from torchlike.nn.modules.module import Module
from torchlike.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from torchlike.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutional layers share: the arguments, their checks, and the parameters."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
        "out_channels", "kernel_size",
    ]  # fmt: skip

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
        groups, bias, padding_mode, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._edges()
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _edges(self):
        """The padding as ``F.pad`` takes it: (low, high) of the last dimension first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        edges = []
        for d, k in reversed(list(zip(self.dilation, self.kernel_size, strict=False))):
            total = d * (k - 1) if self.padding == "same" else 0
            edges += [total // 2, total - total // 2]
        return edges

    def reset_parameters(self) -> None:
        """Draw the parameters anew: uniform in +-1 / sqrt(inputs of one output)."""
        by_fan_in(self.weight, self.bias)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        optional = (
            ("padding", self.padding, (0,) * len(self.padding)),
            ("dilation", self.dilation, (1,) * len(self.dilation)),
            ("output_padding", self.output_padding, (0,) * len(self.output_padding)),
            ("groups", self.groups, 1),
        )
        parts += [f"{name}={value}" for name, value, usual in optional if value != usual]
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _padded(self, input: Tensor):
        """(input, padding argument) once a padding mode other than zeros has been applied."""
        if self.padding_mode == "zeros":
            return input, self.padding
        edges = self._reversed_padding_repeated_twice
        return F.pad(input, edges, mode=self.padding_mode), (0,) * len(self.kernel_size)


def _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode={padding_mode!r}")


def _layer(name, n, as_tuple, convolve, doc):
    """The class of the layers of ``n`` dimensions (their constructors differ only in that)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        _ConvNd.__init__(
            self, in_channels, out_channels, as_tuple(kernel_size), as_tuple(stride),
            padding if isinstance(padding, str) else as_tuple(padding), as_tuple(dilation), False,
            as_tuple(0), groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        input, padding = self._padded(input)
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    return _class(name, _ConvNd, doc, __init__, _conv_forward, forward)


def _class(name, base, doc, *methods):
    for f in methods:
        f.__qualname__ = f"{name}.{f.__name__}"
    return type(name, (base,), {"__doc__": doc, "__module__": __name__, **{f.__name__: f for f in methods}})


Conv1d = _layer("Conv1d", 1, _single, F.conv1d,
    """Cross-correlation over one dimension: [N, C, L] or [C, L] with ``weight`` [out, C / groups, k].

    Args:
        padding: a size, or ``'same'`` (stride 1) or ``'valid'``.
        padding_mode: what the padding holds: ``'zeros'``, ``'reflect'``, ``'replicate'``, ``'circular'``.

    Raises:
        ValueError: channels not divisible by ``groups``, or an unknown padding or padding mode.

    >>> import torchlike as torch
    >>> torch.nn.Conv1d(16, 33, 3, stride=2)(torch.ones(20, 16, 50)).shape
    torch.Size([20, 33, 24])
    """)  # fmt: skip
Conv2d = _layer("Conv2d", 2, _pair, F.conv2d,
    """Cross-correlation over two dimensions: [N, C, H, W] or [C, H, W]; arguments as :class:`Conv1d`.

    >>> import torchlike as torch
    >>> torch.nn.Conv2d(16, 33, (3, 5), padding=(4, 2))(torch.ones(2, 16, 50, 100)).shape
    torch.Size([2, 33, 56, 100])
    """)  # fmt: skip
Conv3d = _layer("Conv3d", 3, _triple, F.conv3d,
    """Cross-correlation over three dimensions: [N, C, D, H, W]; arguments as :class:`Conv1d`.

    >>> import torchlike as torch
    >>> torch.nn.Conv3d(1, 2, 3)(torch.ones(1, 1, 4, 5, 6)).shape
    torch.Size([1, 2, 2, 3, 4])
    """)  # fmt: skip


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share: the choice of the output's size."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
        groups, bias, padding_mode, device=None, dtype=None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
            groups, bias, padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size, stride, padding, kernel_size, num_spatial_dims: int, dilation=None
    ):
        """The extra size at the high end that makes the output of size ``output_size``."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        lead = 2 if input.dim() == n + 2 else 1
        if len(output_size) == n + lead:
            output_size = output_size[lead:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + lead} "
                f"elements (got {len(output_size)})"
            )
        dilation = dilation or (1,) * n
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(input.shape[lead:], stride, padding, dilation, kernel_size, strict=True)
        ]
        most = [m + s - 1 for m, s in zip(least, stride, strict=True)]
        if any(not lo <= size <= hi for size, lo, hi in zip(output_size, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.size()[lead:]})"
            )
        return tuple(size - lo for size, lo in zip(output_size, least, strict=True))


class _ConvTransposeMixin(_ConvTransposeNd):
    """The name that libraries of old ask for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        text = "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public APIs."
        warnings.warn(text, FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


def _transposed_layer(name, n, as_tuple, convolve, doc):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0,
        groups: int = 1, bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        _ConvTransposeNd.__init__(
            self, in_channels, out_channels, as_tuple(kernel_size), as_tuple(stride), as_tuple(padding),
            as_tuple(dilation), True, as_tuple(output_padding), groups, bias, padding_mode, device=device,
            dtype=dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, n, self.dilation)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    return _class(name, _ConvTransposeNd, doc, __init__, forward)


ConvTranspose1d = _transposed_layer("ConvTranspose1d", 1, _single, F.conv_transpose1d,
    """The adjoint of :class:`Conv1d`, with ``weight`` [C, out / groups, k].

    ``forward(input, output_size)`` chooses among the sizes that the stride leaves open.

    >>> import torchlike as torch
    >>> up = torch.nn.ConvTranspose1d(3, 4, 3, stride=2)
    >>> up(torch.ones(1, 3, 5)).shape, up(torch.ones(1, 3, 5), output_size=[12]).shape
    (torch.Size([1, 4, 11]), torch.Size([1, 4, 12]))
    """)  # fmt: skip
ConvTranspose2d = _transposed_layer("ConvTranspose2d", 2, _pair, F.conv_transpose2d,
    """The adjoint of :class:`Conv2d`; see :class:`ConvTranspose1d`.

    >>> import torchlike as torch
    >>> torch.nn.ConvTranspose2d(16, 33, 3, stride=2)(torch.ones(2, 16, 5, 7)).shape
    torch.Size([2, 33, 11, 15])
    """)  # fmt: skip
ConvTranspose3d = _transposed_layer("ConvTranspose3d", 3, _triple, F.conv_transpose3d,
    """The adjoint of :class:`Conv3d`; see :class:`ConvTranspose1d`.

    >>> import torchlike as torch
    >>> torch.nn.ConvTranspose3d(1, 2, 2)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 2, 3, 3, 3])
    """)  # fmt: skip


# -- lazy layers -----------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """What lazy convolutions share: the input's channels are those of the first input."""

    _dims: int

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args, **kwargs) -> None:
        """Take the sizes from ``input``."""
        if not self.has_uninitialized_params():
            return  # they were loaded
        channels = self._get_in_channels(input)
        if channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.in_channels = channels
        pair = (channels, self.out_channels // self.groups)
        if not self.transposed:
            pair = (self.out_channels, channels // self.groups)
        with no_grad():
            self.weight.materialize((*pair, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {input.shape}"
            )
        return input.shape[-n - 1]

    def _get_num_spatial_dims(self) -> int:
        return self._dims


def _lazy_layer(base: type, n: int, transposed: bool):
    """The lazy form of a layer of ``n`` dimensions."""

    def finish(self, out_channels, bias, device, dtype):
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def lazy_conv(
        self, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        _LazyConvXdMixin.__init__(
            self, 0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        finish(self, out_channels, bias, device, dtype)

    def lazy_transposed(
        self, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1,
        bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        _LazyConvXdMixin.__init__(
            self,
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        finish(self, out_channels, bias, device, dtype)

    name = f"Lazy{base.__name__}"
    doc = f"A :class:`{base.__name__}` whose ``in_channels`` are those of the first input."
    init = lazy_transposed if transposed else lazy_conv
    init.__name__, init.__qualname__ = "__init__", f"{name}.__init__"
    body = {"__doc__": doc, "__module__": __name__, "__init__": init, "cls_to_become": base, "_dims": n}
    return type(name, (_LazyConvXdMixin, base), body)


LazyConv1d = _lazy_layer(Conv1d, 1, False)
LazyConv2d = _lazy_layer(Conv2d, 2, False)
LazyConv3d = _lazy_layer(Conv3d, 3, False)
LazyConvTranspose1d = _lazy_layer(ConvTranspose1d, 1, True)
LazyConvTranspose2d = _lazy_layer(ConvTranspose2d, 2, True)
LazyConvTranspose3d = _lazy_layer(ConvTranspose3d, 3, True)
