"""Modules, classes and functions under the names that PyTorch has for them, while this package stands in for torch."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from torchlike._base.home import OURS, THEIRS
from torchlike.interop.function_names import own_name

SHARED = {"_C", "_utils", "_tensor", "_jit_internal", "_pytree", "_internal"}
"""Private modules of this package that PyTorch has under the same name."""

MOVED = {
    (f"{OURS}.{module}", name): f"{OURS}{place and '.' + place}"
    for module, name, place in (
        ("_C._linalg", "*", "_C._linalg"),
        ("_aten.python_dispatch", "enable_reentrant_dispatch", "overrides"),
        ("_base.dtypes", "*", ""),
        ("_base.device", "device", ""),
        ("_base.state", "*", "autograd.grad_mode"),
        ("_base.state", "is_grad_enabled", ""),
        ("_base.state", "is_inference_mode_enabled", ""),
        ("_base.state", "is_multithreading_enabled", "autograd"),
        ("_core.autocast.context", "autocast", "amp.autocast_mode"),
        ("_core.autocast.custom", "*", "amp.autocast_mode"),
        ("_core.autocast.settings", "is_autocast_available", "amp.autocast_mode"),
        ("_core.autograd.anomaly", "*", "autograd.anomaly_mode"),
        ("_core.autograd.anomaly", "is_anomaly_check_nan_enabled", ""),
        ("_core.autograd.anomaly", "is_anomaly_enabled", ""),
        ("_core.autograd.anomaly", "set_anomaly_enabled", ""),
        ("_core.autograd.backward", "*", "autograd"),
        ("_core.autograd.hooks", "*", "utils.hooks"),
        ("_core.autograd.view_tracking", "is_view_replay_enabled", "autograd"),
        ("_core.autograd.saved_tensors", "SavedTensor", "_C._autograd"),
        ("_core.tensor.size", "Size", ""),
        ("_core.tensor.tensor", "Tensor", ""),
        ("_core.tensor.tensor", "_get_layout", "serialization"),
        ("_utils", "_load_from_bytes", "storage"),
        ("_core.tensor.untyped_storage", "*", "storage"),
        ("_functions.functional_call", "functional_call", "func"),
        ("_functions.generator", "Generator", "_C"),
        ("_functions.generator", "fork_rng", "random"),
        ("_library.custom_ops", "*", "library"),
        ("_library.fake_impl", "*", "library"),
        ("_library.functions", "*", "library"),
        ("_library.infer_schema", "*", "library"),
        ("_library.library", "*", "library"),
        ("_library.opcheck", "*", "library"),
        ("_library.operator", "*", "library"),
        ("_ops._square", "_LinAlgError", "_C"),
        ("ao.quantization.observer.histogram", "*", "ao.quantization.observer"),
        ("ao.quantization.observer.running", "*", "ao.quantization.observer"),
        ("distributions._transform", "*", "distributions.transforms"),
        ("nn.modules.attention", "MultiheadAttention", "nn.modules.activation"),
        ("nn.modules.pixelshuffle", "ChannelShuffle", "nn.modules.channelshuffle"),
        ("optim._lr_base", "*", "optim.lr_scheduler"),
        ("optim._lr_compose", "*", "optim.lr_scheduler"),
        ("optim._lr_cycle", "*", "optim.lr_scheduler"),
        ("optim._adafactor", "*", "optim"),
        ("optim._muon", "*", "optim"),
        ("utils._pytree_nodes", "*", "utils._pytree"),
        ("utils._pytree_text", "*", "utils._pytree"),
        ("utils._checkpoint_reentrant", "*", "utils.checkpoint"),
        ("utils._checkpoint_selective", "*", "utils.checkpoint"),
    )
}
"""(module, name) of what stands elsewhere in PyTorch, and the module there, written as if it were ours."""

_before: list[tuple[Any, str, str]] = []  # what was renamed: an object, its attribute, and what that was


def theirs(module: str) -> str:
    """PyTorch's name of a module of ours."""
    return THEIRS + module[len(OURS) :]


def is_private(module: str) -> bool:
    """Whether PyTorch has no such module, by its name."""
    return any(part.startswith("_") and part not in SHARED for part in module.split("."))


def moved(module: str, name: str) -> str | None:
    """The module, written as ours, where PyTorch has what ``module`` has as ``name``, if that is another one."""
    return MOVED.get((module, name)) or MOVED.get((module, "*"))


def rename(module: ModuleType, home: str) -> None:
    """Give a loaded module that PyTorch has too, and what it defines, PyTorch's names.

    Of one that PyTorch has not, what it publishes for others.
    """
    for value in list(vars(module).values()):
        show(value, home)
    if is_private(home):
        return
    _set(module, "__name__", theirs(home))
    if module.__spec__ is not None:  # by which a module is shown
        _set(module.__spec__, "name", theirs(home))


def show(value: Any, holder: str) -> None:
    """Give what the module ``holder`` of this package defines, or publishes for its private parts, PyTorch's name."""
    if not isinstance(value, type | FunctionType):
        return
    now = vars(value).get("__module__") if isinstance(value, type) else value.__module__
    if not isinstance(now, str) or not (now == OURS or now.startswith(OURS + ".")):
        return
    place = moved(now, value.__qualname__)
    if place is None and not is_private(now):
        place = now
    elif place is None and now.startswith(holder + "._") and not is_private(holder):
        place = holder
    if place is None:
        return
    if isinstance(value, type) or "." in value.__qualname__:
        _set(value, "__module__", theirs(place))
        return
    home, _, name = own_name(theirs(place), value.__name__).rpartition(".")
    for attribute, new in (("__module__", home), ("__name__", name), ("__qualname__", name)):
        _set(value, attribute, new)


def restore() -> None:
    """Take back what :func:`rename` and :func:`show` did."""
    while _before:
        value, attribute, was = _before.pop()
        setattr(value, attribute, was)


def _set(value: Any, attribute: str, name: str) -> None:
    was = getattr(value, attribute)
    try:
        setattr(value, attribute, name)
    except (AttributeError, TypeError):  # a class that does not change keeps its name
        return
    _before.append((value, attribute, was))


def renamed() -> Iterator[Any]:
    """What bears PyTorch's name now."""
    return (value for value, *_ in _before)
