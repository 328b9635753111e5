"""Optimizer, the base of all algorithms: parameter groups, state per parameter, and the hooks around a step."""

import functools
import importlib
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any, Self, TypeAlias

from jax.profiler import TraceAnnotation

from torchlike._base.dtypes import float32
from torchlike._base.state import state
from torchlike._core.autograd.hooks import RemovableHandle
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.recorded import cut
from torchlike.interop.alias import missing_names
from torchlike.interop.jax_tree import refuse
from torchlike.optim._extending import *  # noqa: F403
from torchlike.optim._extending import _group_tensors

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_params_t: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
GlobalOptimizerPreHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], None]

_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)
_global_optimizer_pre_hooks: dict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: dict[int, Callable] = OrderedDict()


class _RequiredParameter:
    """The default of an option that every parameter group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


_NOWHERE = nullcontext()
required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of any optimizer; see ``register_step_pre_hook``."""
    return _add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of any optimizer."""
    return _add(_global_optimizer_post_hooks, hook)


def _add(hooks: dict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Optimizer:
    """Base class of optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with the key ``params`` and options of the group.
        defaults: the value of each option in groups that do not set it.

    A subclass defines ``step(closure=None)``. ``closure`` recomputes the loss and returns it.

    Attributes:
        param_groups: a list of dicts, each with its ``params`` and options such as ``lr``.
        state: a dict per parameter, made when first asked for.

    Raises:
        ValueError: there are no parameters, one is not a leaf, or one is in two groups.
        TypeError: ``params`` is a tensor, or holds what is no tensor.
    """

    OptimizerPreHook: TypeAlias = Callable[[Self, Args, Kwargs], tuple[Args, Kwargs] | None]
    OptimizerPostHook: TypeAlias = Callable[[Self, Args, Kwargs], None]

    _unguarded = ("state", "param_groups", "defaults", "_opt_called")  # by torch.compile

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.defaults = defaults
        self._add_hook_dicts()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _add_hook_dicts(self) -> None:
        self._patch_step_function()
        for name in _HOOK_DICTS:
            self.__dict__.setdefault(name, OrderedDict())

    def _patch_step_function(self) -> None:
        """Have ``step`` of this class run the hooks, if it does not yet."""
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)  # type: ignore[method-assign]
            cls.step.hooked = True  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._add_hook_dicts()

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """``func``, a ``step``, with the hooks around it, under its name in traces of JAX's profiler.

        Hooks run once per call also where a step calls the one it overrides.
        """

        @functools.wraps(func)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._opt_called = True  # learning rate schedulers warn where no step came before theirs
            hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
            if type(self).step is not step or not (
                hooks or _global_optimizer_pre_hooks or _global_optimizer_post_hooks
            ):
                with _named(f"Optimizer.step#{type(self).__name__}.step"):
                    result = func(self, *args, **kwargs)
                    cut()
                    return result
            args, kwargs = _run_step_pre_hooks(self, func, (self, *args), kwargs)
            with _named(f"Optimizer.step#{type(self).__name__}.step"):
                result = func(*args, **kwargs)
                self._optimizer_step_code()
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            cut()
            return result

        return step

    def _optimizer_step_code(self) -> None:
        """Called at the end of each step that has hooks, for debuggers to replace."""

    def _accelerator_graph_capture_health_check(self) -> None:
        """Nothing to check: every step can be part of a compiled program."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor, value: Tensor, param_id: int, param_groups: list[dict[Any, Any]], key: Any = None
    ) -> Tensor:
        """A tensor of loaded state in the dtype and on the device of its parameter; step counts stay as they are."""
        options = next((group for group in param_groups if param_id in group["params"]), {})
        return _placed(value, param, options, key)

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> Any:
        """Parallel lists of tensors split by the device and dtype of the first: {key: (lists, indices)}."""
        return _group_tensors(tensorlistlist, with_indices)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once, from their gradients; every algorithm defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        if "_zero_grad_profile_name" not in self.__dict__:  # a wrapper that never ran ``__init__``
            self._patch_step_function()
        with _named(self._zero_grad_profile_name):
            self._zero_grads(set_to_none)

    def _zero_grads(self, set_to_none: bool) -> None:
        for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
            if set_to_none and state.capture is not None:  # whether there is one need not be known
                parameter.grad = None
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif parameter.grad.grad_fn is not None:
                parameter.grad.detach_().zero_()
            else:
                parameter.grad.requires_grad_(False).zero_()

    # -- groups --------------------------------------------------------------------------------------
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, such as layers thawed during training.

        Args:
            param_group: ``params`` (a tensor, tensors, or (name, tensor) pairs) and options.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _params_and_names(param_group["params"])
        for param in params:
            self._check_param(param)
        options = {}
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            options[name] = param_group.get(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "each of them is updated more than once per step",
                stacklevel=3,
            )
        self._check_against_groups(params, names)
        param_group["params"] = params
        if names is not None:
            param_group["param_names"] = names
        for name, value in options.items():
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    def _check_param(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(param)}")
        if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_against_groups(self, params: list[Tensor], names: list[str] | None) -> None:
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in taken for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        named = self.param_groups and "param_names" in self.param_groups[0]
        if self.param_groups and bool(named) != (names is not None):
            which = "without" if named else "with"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {which} names to the optimizer"
            )

    # -- state ---------------------------------------------------------------------------------------
    def state_dict(self) -> StateDict:
        """``state`` and ``param_groups`` with each parameter replaced by its position among all of them.

        The tensors in it are those of the optimizer: copy them to keep a snapshot.
        """
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        index: dict[int, int] = {}
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            index.setdefault(id(param), len(index))
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [index[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {index[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        state_dict: StateDict = {"state": state, "param_groups": groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        return state_dict

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over the state and the options in ``state_dict``, which keep their order of parameters.

        Floating point state takes the dtype and device of its parameter, except under the key ``step``.

        Raises:
            ValueError: the groups differ in number or size from the optimizer's; nothing is changed then.
        """
        state_dict = state_dict.copy()
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(saved, self.param_groups, strict=True))
        if any(len(old["params"]) != len(group["params"]) for old, group in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        owners: dict[Any, tuple[Tensor, dict[str, Any]]] = {}
        for old, group in pairs:
            owners.update((i, (param, old)) for i, param in zip(old["params"], group["params"], strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                param, options = owners[key]
                state[param] = _placed(value, param, options)
            else:
                state[key] = value
        groups = [_updated(group, old) for old, group in pairs]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    # -- hooks ---------------------------------------------------------------------------------------
    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``.

        ``args`` starts with the optimizer itself.
        """
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict``; a result other than None replaces it."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; a result other than None is loaded instead."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _named(name: str) -> AbstractContextManager:
    """A context under ``name`` in profiles and JAX's traces; a program that is being captured has no place for it."""
    if state.capture is not None:
        return _NOWHERE
    if "torchlike.autograd._recording" in sys.modules:  # nothing profiles before it is imported
        profiler = importlib.import_module("torchlike.autograd.profiler")
        if profiler._profiler_enabled():
            return profiler.record_function(name)
    return TraceAnnotation(name)


def hooked_everywhere() -> bool:
    """Whether there are hooks around the steps of all optimizers."""
    return bool(_global_optimizer_pre_hooks or _global_optimizer_post_hooks)


def _run_step_pre_hooks(optimizer: Optimizer, step: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    for hook in (*_global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values()):
        result = hook(optimizer, args, kwargs)
        if result is None:
            continue
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
        args, kwargs = result
    return args, kwargs


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _params_and_names(given: Any) -> tuple[list[Any], list[str] | None]:
    """The parameters of a group as a list, and their names where it is made of (name, tensor) pairs."""
    if isinstance(given, Tensor):
        return [given], None
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
            "in sets will change between runs. Please use a list instead."
        )
    entries = list(given)
    pairs = [isinstance(entry, tuple) for entry in entries]
    if not any(pairs):
        return entries, None
    if not all(pairs):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [param for _, param in entries], [name for name, _ in entries]


def _updated(group: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """The options of ``saved`` with the parameters of ``group``."""
    saved["params"] = group["params"]
    if "param_names" in group:
        saved.setdefault("param_names", group["param_names"])
    return saved


def _placed(value: Any, param: Tensor, options: dict[str, Any], key: Any = None) -> Any:
    """Loaded state with its tensors in the dtype and on the device of ``param``."""
    if isinstance(value, Tensor):
        if key == "step":
            counts_there = options.get("capturable") or options.get("fused")
            return value.to(dtype=float32, device=param.device) if counts_there else value
        dtype = param.dtype if param.is_floating_point() else None
        return value.to(dtype=dtype, device=param.device)
    if isinstance(value, dict):
        return {k: _placed(v, param, options, k) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_placed(v, param, options) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


__getattr__ = missing_names(__name__)


refuse(
    Optimizer,
    "In functions of jax use an optimizer of jax (optax), whose state is a tree; torch.optim.from_optax(parameters, "
    "transform) makes one for tensors, and torchlike.compile compiles whole steps of this one",
)
