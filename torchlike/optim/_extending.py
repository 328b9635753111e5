"""What optimizers written elsewhere import from ``torch.optim.optimizer`` beside ``Optimizer``."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._base.device import device
from torchlike._base.dtypes import dtype, float32, float64, get_default_dtype
from torchlike._base.state import enable_grad, no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike.nn.parameter import Parameter

__all__ = [
    "_capturable_doc",
    "_default_to_fused_or_foreach",
    "_device_dtype_check_for_fused",
    "_differentiable_doc",
    "_disable_dynamo_if_unsupported",
    "_foreach_doc",
    "_foreach_supported_types",
    "_fused_doc",
    "_get_capturable_supported_devices",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_get_scalar_dtype",
    "_get_value",
    "_group_tensors",
    "_maximize_doc",
    "_params_doc",
    "_stack_if_compiling",
    "_to_scalar",
    "_use_grad_for_differentiable",
    "_view_as_real",
]

_params_doc = """params (iterable): tensors, (name, tensor) pairs, or dicts of them with options of their own."""
_foreach_doc = """foreach (bool, optional): accepted; every step is one program for all tensors of a group."""
_fused_doc = """fused (bool, optional): accepted; every step is one program for all tensors of a group."""
_capturable_doc = (
    """capturable (bool, optional): every step can be compiled; outside of programs, for accelerators only."""
)
_differentiable_doc = """differentiable (bool, optional): record the step, so that gradients flow through it."""
_maximize_doc = """maximize (bool, optional): climb instead of descending."""

_foreach_supported_types = [Tensor, Parameter]


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """A ``step`` that records what it computes only if the option ``differentiable`` says so."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with enable_grad() if self.defaults["differentiable"] else no_grad():
            return func(self, *args, **kwargs)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    """A decorator that changes nothing: whatever can be compiled is."""
    return lambda func: func


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element; anything else as it is."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without its dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace each complex parameter, and what the other lists hold at its place, by its real view."""
    for i, param in enumerate(params):
        if param.is_complex():
            params[i] = FUNCTIONS["view_as_real"](param)
            for tensors in state_and_grads:
                tensors[i] = FUNCTIONS["view_as_real"](tensors[i])


def _get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    """The dtype of step counts."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone"] + ["xla"] * supports_xla


def _fits_fused(p: Tensor) -> bool:
    return p.device.type in _get_fused_kernels_supported_devices() and p.is_floating_point()


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """RuntimeError unless ``fused=True`` is possible for a parameter."""
    devices = _get_fused_kernels_supported_devices()
    if cuda_unsupported:
        devices.remove("cuda")
    if not (p.device.type in devices and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"{devices} but {p.dtype} and {p.device.type}"
        )


def _default_to_fused_or_foreach(
    params: Iterable[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): fused where asked for and possible; lists of tensors are never quicker here."""
    return use_fused and not differentiable and all(p is None or _fits_fused(p) for p in params), False


def _group_tensors(lists: list[list[Any]], with_indices: bool) -> dict[Any, tuple[list[list[Any]], list[int]]]:
    """Parallel lists of tensors split by the device and dtype of the first, and the places if asked."""
    grouped: dict[tuple[device, dtype], tuple[list[list[Any]], list[int]]] = {}
    for i, first in enumerate(lists[0]):
        tensors, places = grouped.setdefault((first.device, first.dtype), ([[] for _ in lists], []))
        for column, whole in zip(tensors, lists, strict=True):
            column.append(whole[i])
        if with_indices:
            places.append(i)
    return grouped
