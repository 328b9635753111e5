"""``torch.distributed.utils``: arguments of modules in several processes, and their parameters and buffers."""

import dataclasses
import traceback
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._collectives import broadcast
from torchlike.distributed._messages import all_gather_object
from torchlike.distributed.distributed_c10d import ProcessGroup, found

__all__: list[str] = []


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """All arguments as positional ones, and the keywords of the last.

    >>> from torchlike.distributed.utils import _pack_kwargs, _unpack_kwargs
    >>> _pack_kwargs(1, b=2), _unpack_kwargs((1, 2), ("b",))
    (((1, 2), ('b',)), ((1,), {'b': 2}))
    """
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: tuple[Any, ...], kwarg_keys: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What :func:`_pack_kwargs` was given."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    own = len(flat_args) - len(kwarg_keys)
    return flat_args[:own], dict(zip(kwarg_keys, flat_args[own:], strict=True))


def _apply_to_tensors(fn: Callable[[Tensor], Any], container: Any) -> Any:
    """The same dicts, lists, tuples, sets and dataclasses with ``fn`` of each tensor."""
    if isinstance(container, Tensor):
        return fn(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        changed = {f.name: _apply_to_tensors(fn, getattr(container, f.name)) for f in dataclasses.fields(container)}
        return dataclasses.replace(container, **changed)
    if isinstance(container, OrderedDict):
        return OrderedDict((k, _apply_to_tensors(fn, v)) for k, v in container.items())
    if isinstance(container, dict):
        return {k: _apply_to_tensors(fn, v) for k, v in container.items()}
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*[_apply_to_tensors(fn, x) for x in container])
    if isinstance(container, list | tuple | set):
        return type(container)([_apply_to_tensors(fn, x) for x in container])
    return container


def _cast_forward_inputs(dtype: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Arguments whose floating tensors are of a dtype, if one is given."""
    if dtype is None:
        return args, kwargs

    def cast(x: Tensor) -> Tensor:
        return x.to(dtype) if x.is_floating_point() and x.dtype != dtype else x

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool = False) -> list[Any]:
    """A list of the inputs on a device: one, as a process has one device."""
    return [_apply_to_tensors(lambda x: x.to(target_device), inputs)] if inputs is not None else []


def _to_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_device: Any, use_side_stream_for_tensor_copies: bool
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and named arguments on a device, each as a tuple of one."""
    return tuple(_recursive_to(inputs, target_device)), tuple(_recursive_to(kwargs or {}, target_device))


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """AssertionError, which is printed first: one in a backward may go by unread."""
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _alloc_storage(tensor: Tensor, size: Any) -> None:
    """Give a tensor's storage room for a size, if it has none."""
    with no_grad():
        storage = tensor.untyped_storage()
        if storage.size() == 0:
            storage.resize_(size.numel() * tensor.element_size())


def _free_storage(tensor: Tensor) -> None:
    """Let go of a tensor's numbers. AssertionError: others share them."""
    with no_grad():
        if tensor.untyped_storage().size() > 0:
            _p_assert(tensor.storage_offset() == 0, "a tensor in the midst of a storage cannot be freed")
            tensor.untyped_storage().resize_(0)


def _data_ptr_allocated(tensor: Tensor) -> bool:
    """Whether a tensor has memory."""
    return tensor.untyped_storage().size() > 0


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Let the names of a state dict that begin with a text begin with another."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for name in [name for name in state_dict if name.startswith(old_prefix)]:
        state_dict[new_prefix + name[len(old_prefix) :]] = state_dict.pop(name)


def _get_root_modules(modules: Sequence[Any]) -> list[Any]:
    """Those of some modules that are in no other one of them."""
    inner = {id(m) for one in modules for m in one.modules() if m is not one}
    return [m for m in modules if id(m) not in inner]


# -- between processes -------------------------------------------------------------------------------------------------


def _sync_params_and_buffers(
    process_group: ProcessGroup, module_states: list[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Let these tensors be those of a rank of the group."""
    with no_grad():
        for t in module_states:
            broadcast(t, group=process_group, group_src=src)


def _sync_module_states(
    module: Any, process_group: ProcessGroup, broadcast_bucket_size: int, src: int,
    params_and_buffers_to_ignore: Container[str], broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Let parameters and buffers be those of a rank of the group."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [t.detach() for name, t in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _verify_param_shape_across_processes(
    process_group: ProcessGroup, tensors: list[Tensor], logger: Any = None
) -> None:
    """RuntimeError where another process has parameters of other shapes."""
    group = found(process_group)
    own, every = [tuple(t.shape) for t in tensors], [None] * group.size()
    all_gather_object(every, own, group)
    for rank, theirs in enumerate(every):
        if theirs != own:
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {group.ranks[group.rank()]} has {len(own)} params "
                f"of shapes {own}, while rank {group.ranks[rank]} has {theirs}"
            )
