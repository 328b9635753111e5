"""Gradients of convolutions: ``torch.nn.grad``."""

from collections.abc import Callable, Sequence
from typing import Any

from torchlike._aten.grad import convolution_backward
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.utils import _pair, _single, _triple


def _backward(
    as_tuple: Callable, input: Tensor, weight: Tensor, grad: Tensor, mask: list[bool], numbers: Sequence
) -> Any:
    stride, padding, dilation = (as_tuple(v) for v in numbers[:3])
    n = weight.dim() - 2
    if input.dim() != n + 2:
        raise RuntimeError(
            f"Expected {n + 2}-dimensional input for {n + 2}-dimensional weight {list(weight.shape)}, but got "
            f"{input.dim()}-dimensional input of size {list(input.shape)} instead"
        )
    for d in range(n):
        room = input.shape[d + 2] + 2 * padding[d] - dilation[d] * (weight.shape[d + 2] - 1) - 1
        if grad.dim() != n + 2 or grad.shape[d + 2] != room // stride[d] + 1:
            got = grad.shape[d + 2] if grad.dim() == n + 2 else None
            raise RuntimeError(
                f"Expected a tensor of dimension {n + 2} and tensor.size[{d + 2}] == {room // stride[d] + 1} but got: "
                f"dimension {grad.dim()} and tensor.size[{d + 2}] = {got}"
            )
    zeros = (0,) * n
    return convolution_backward(grad, input, weight, None, stride, padding, dilation, False, zeros, numbers[3], mask)


def _pair_of(n: int, as_tuple: Callable) -> tuple[Callable, Callable]:
    """The functions for ``n`` dimensions: the gradient of the input, and that of the weight."""

    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        if input_size is None:
            raise TypeError(f"conv{n}d_input(): argument 'input_size' must be tuple of ints, not NoneType")
        numbers = (stride, padding, dilation, groups)
        blank = weight.new_empty(1).expand(input_size)
        return _backward(as_tuple, blank, weight, grad_output, [True, False, False], numbers)[0]

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        numbers = (stride, padding, dilation, groups)
        blank = grad_output.new_empty(1).expand(weight_size)
        return _backward(as_tuple, input, blank, grad_output, [False, True, False], numbers)[1]

    of_input.__name__ = of_input.__qualname__ = f"conv{n}d_input"
    of_weight.__name__ = of_weight.__qualname__ = f"conv{n}d_weight"
    of_input.__doc__ = (
        f"The gradient of the input, of size ``input_size``, of a conv{n}d whose result has ``grad_output``."
    )
    of_weight.__doc__ = (
        f"The gradient of the weight, of size ``weight_size``, of a conv{n}d whose result has ``grad_output``."
    )
    return of_input, of_weight


conv1d_input, conv1d_weight = _pair_of(1, _single)
conv2d_input, conv2d_weight = _pair_of(2, _pair)
conv3d_input, conv3d_weight = _pair_of(3, _triple)
