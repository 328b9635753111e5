"""torch.distributed._state_dict_utils: nested dicts of tensors, brought together, copied, compared and made flat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed.checkpoint._nested import flattened, visit
from torchlike.distributed.checkpoint._nested import set_element as _set_element  # noqa: F401
from torchlike.distributed.checkpoint._nested_dict import unflatten_state_dict as _unflatten_state_dict  # noqa: F401
from torchlike.distributed.tensor._dtensor import DTensor
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; use torch.distributed.checkpoint.state_dict")

_PLAIN = (int, float, str, bytes, bool, type(None))


class CompanionMismatch(Exception):
    """Two state dicts differ in their keys, their lengths or the shapes of their tensors."""


def _mapped(x: Any, of_tensor: Callable[[Tensor], Any], checked: bool) -> Any:
    if isinstance(x, Tensor):
        return of_tensor(x)
    if isinstance(x, dict):
        return {key: _mapped(value, of_tensor, checked) for key, value in x.items()}
    if isinstance(x, list | tuple):
        items = [_mapped(value, of_tensor, checked) for value in x]
        return type(x)(items)
    if checked and not isinstance(x, _PLAIN):
        raise ValueError(f"Unexpected value type {type(x)}")
    return x


def _left_out(ranks_only: tuple[int, ...]) -> bool:
    return bool(ranks_only) and c10d.get_rank() not in ranks_only


def _gather_state_dict(
    state_dict: dict[str, Any], *, pg: Any = None, device: Any = None, cpu_offload: bool = False,
    ranks_only: tuple[int, ...] = (), type_check: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """With whole tensors in the place of DTensors; every process takes part.

    Args:
        cpu_offload: on CPUs. ranks_only: the others get an empty dict. pg, device: without effect.

    ValueError for a value of another type than numbers, texts and tensors, unless ``type_check`` is False.
    """

    def brought(t: Tensor) -> Tensor:
        t = t.full_tensor() if isinstance(t, DTensor) else t
        return t.cpu() if cpu_offload else t

    made = _mapped(state_dict, brought, type_check)
    return {} if _left_out(ranks_only) else made


def _offload_state_dict_to_cpu(
    state_dict: dict[str, Any], *, ranks_only: tuple[int, ...] = (), type_check: bool = True
) -> dict[str, Any]:
    """With tensors on CPUs; DTensors stay cut. See :func:`_gather_state_dict` for the others."""
    made = _mapped(state_dict, lambda t: t.cpu(), type_check)
    return {} if _left_out(ranks_only) else made


def _create_cpu_state_dict(
    state_dict: dict[str, Any], pin_memory: bool = False, share_memory: bool = False
) -> dict[str, Any]:
    """With tensors on CPUs that have no values yet, perhaps in memory that processes share."""

    def made(t: Tensor) -> Tensor:
        new = t.detach().clone() if isinstance(t, DTensor) else t.new_empty(t.shape, device="cpu")
        return new.share_memory_() if share_memory else new

    return _mapped(state_dict, made, False)


def _copy_state_dict(
    state_dict: dict[str, Any], copy_state_dict: dict[str, Any], non_blocking: bool = False, type_check: bool = True
) -> dict[str, Any]:
    """Write the tensors of one dict into those of another; gives one with the latter and all other values.

    CompanionMismatch, before anything is written, where they do not have the same keys and lengths.
    """
    if not _alike(state_dict, copy_state_dict, shapes=False):
        raise CompanionMismatch("the state dicts have different keys, or lists of different lengths")
    with no_grad():
        return _copied(state_dict, copy_state_dict)


def _copied(x: Any, companion: Any) -> Any:
    if isinstance(x, Tensor):
        return companion.copy_(x)
    if isinstance(x, dict):
        return {key: _copied(value, companion[key]) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)([_copied(a, b) for a, b in zip(x, companion, strict=True)])
    return x


def _check_state_dict_similarity(state_dict: dict[str, Any], compared_state_dict: dict[str, Any]) -> bool:
    """Whether two have the same keys and lengths, and tensors of the same shapes and dtypes."""
    return _alike(state_dict, compared_state_dict, shapes=True)


def _alike(x: Any, y: Any, shapes: bool) -> bool:
    if isinstance(x, Tensor):
        return isinstance(y, Tensor) and not (shapes and (x.shape, x.dtype) != (y.shape, y.dtype))
    if isinstance(x, dict):
        return isinstance(y, dict) and x.keys() == y.keys() and all(_alike(x[k], y[k], shapes) for k in x)
    if isinstance(x, list | tuple):
        same = isinstance(y, list | tuple) and len(x) == len(y)
        return same and all(_alike(a, b, shapes) for a, b in zip(x, y, strict=True))
    return True


def _ends(x: Any) -> bool:
    return not isinstance(x, Mapping | list | tuple)


def _traverse_state_dict(state_dict: Mapping[str, Any], visitor: Callable[[tuple, Any], None]) -> None:
    """Call ``visitor(path, value)`` for each value that is no dict, list or tuple."""
    visit(state_dict, visitor, _ends)


def _flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple]]:
    """The values by names with dots, and the path of each. ValueError where two have one name."""
    return flattened(state_dict, _ends)
