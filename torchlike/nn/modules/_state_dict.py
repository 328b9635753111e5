"""state_dict and load_state_dict: the part of Module that turns its tensors into a flat mapping and back."""

import threading
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from torchlike.__future__ import get_swap_module_params_on_conversion
from torchlike._base.state import no_grad
from torchlike._core.autograd.hooks import RemovableHandle
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike.nn.modules._hooks import _add, _WrappedHook
from torchlike.nn.parameter import Parameter, is_lazy
from torchlike.utils._swap import swap_tensors

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` found: keys it lacked and keys it had no use for."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _Undo(threading.local):
    """The innermost ``load_state_dict`` of this thread keeps here how to take back what it did."""

    log: list[Callable[[], Any]] | None = None


_undo = _Undo()


class StateMethods:
    """The part of Module that saves and loads state.

    Requires ``_parameters``, ``_buffers``, ``_non_persistent_buffers_set``, ``_modules`` and the hook dicts.
    """

    # -- saving --------------------------------------------------------------------------------
    def state_dict(self, *args, destination=None, prefix: str = "", keep_vars: bool = False):
        """All parameters and persistent buffers, by dotted name, as an OrderedDict.

        Args:
            destination: a mapping to fill instead of a new one.
            prefix: put before every name.
            keep_vars: give the parameters themselves rather than detached aliases of them.

        The values share storage with the module: copy them to keep a snapshot.

        >>> import torchlike as torch
        >>> list(torch.nn.Sequential(torch.nn.Linear(1, 1)).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            positional = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = positional.get("destination") if destination is None else destination
            prefix = positional.get("prefix", prefix) if prefix == "" else prefix
            keep_vars = positional.get("keep_vars", keep_vars) if keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return self._run_state_dict_hooks(destination, prefix, local_metadata)

    def _run_state_dict_hooks(self, destination, prefix, local_metadata):
        for key, hook in tuple(self._state_dict_hooks.items()):
            result = hook(self, destination, prefix, local_metadata)
            if result is None:
                continue
            if key in self._state_dict_post_hooks:
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        """Put this module's own tensors, not its children's, into ``destination``; override to save more."""
        for name, tensor in self._saved_tensors():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _saved_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The module's own parameters and persistent buffers that are not None."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def get_extra_state(self) -> Any:
        """What else ``state_dict`` should hold for this module; override together with set_extra_state."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: override get_extra_state() to save some")

    def set_extra_state(self, state: Any) -> None:
        """Take back what :meth:`get_extra_state` gave; override both."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: override set_extra_state() to load some")

    # -- hooks -----------------------------------------------------------------------------------
    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` reads the module."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` afterwards; it edits in place."""
        return _add(self._state_dict_hooks, hook, (self._state_dict_post_hooks,))

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As the post-hook, but a result other than None replaces the whole mapping.

        RuntimeError for a function that is a post-hook of the module already.
        """
        if any(self._state_dict_hooks.get(key) is hook for key in self._state_dict_post_hooks):
            raise RuntimeError(
                f"Cannot register the same function as the state dict post hook that was previously registered via "
                f"register_state_dict_post_hook: {hook}"
            )
        return _add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call a hook before the module's own tensors are loaded.

        It is called as ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` and may edit ``state_dict`` and the three lists in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False):
        return _add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` once the module and its children are loaded.

        The hook may edit the two lists in place: clearing both makes a strict load succeed.
        """
        return _add(self._load_state_dict_post_hooks, hook)

    # -- loading -----------------------------------------------------------------------------------
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False):
        """Copy the tensors of ``state_dict`` into the module's parameters and buffers of the same names.

        Args:
            state_dict: a mapping as :meth:`state_dict` gives it.
            strict: whether missing and unexpected keys are errors.
            assign: put the given tensors into the module instead of copying their values; dtype and
                device become theirs, ``requires_grad`` stays the module's.

        Returns:
            a named tuple ``(missing_keys, unexpected_keys)``.

        Raises:
            RuntimeError: listing every problem; the module's tensors are then as they were.

        >>> import torchlike as torch
        >>> m = torch.nn.Linear(1, 1)
        >>> m.load_state_dict({"weight": torch.ones(1, 1)}, strict=False)
        _IncompatibleKeys(missing_keys=['bias'], unexpected_keys=[])
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(getattr(state_dict, "_metadata", None), assign)
        outer, _undo.log = _undo.log, []
        try:
            copied = OrderedDict(state_dict)
            copied._metadata = loading.metadata
            loading.load(self, copied, "")
            errors = loading.report(strict)
            if errors:
                raise RuntimeError(
                    f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors)
                )
        except BaseException:
            for take_back in reversed(_undo.log):
                take_back()
            raise
        finally:
            _undo.log = outer
        return loading.found

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Load this module's own tensors, not its children's; problems go to the three lists.

        Override it to read older formats, and call the base method.
        """
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._saved_tensors())
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                _load_tensor(self, name, target, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys.extend(key for key in state_dict if self._is_unexpected(key, prefix, own))

    def _is_unexpected(self, key: str, prefix: str, own) -> bool:
        if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
            return False
        head, dot, _ = key[len(prefix) :].partition(".")
        return head not in (self._modules if dot else own)


class _Loading:
    """One ``load_state_dict``: what it collects on its way down the tree of modules."""

    def __init__(self, metadata, assign: bool):
        self.metadata = {} if metadata is None else metadata
        self.assign = assign
        self.found = _IncompatibleKeys([], [])
        self.errors: list[str] = []

    def load(self, module, state_dict: Mapping[str, Any], prefix: str) -> None:
        local_metadata = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local_metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(state_dict, prefix, local_metadata, True, *self.found, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.load(child, {k: v for k, v in state_dict.items() if k.startswith(inner)}, inner)
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            if hook(module, self.found) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                    "new values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def report(self, strict: bool) -> list[str]:
        lists = (("Missing", self.found.missing_keys), ("Unexpected", self.found.unexpected_keys))
        keys = [
            f"{kind} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in names) + ". "
            for kind, names in lists
            if strict and names
        ]
        return keys + self.errors


def _load_tensor(module, name: str, target: Tensor, key: str, given: Any, assign: bool, errors: list[str]) -> None:
    """Load an entry into ``target``, the module's tensor ``name``; a problem becomes a line of ``errors``."""
    if not isinstance(given, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
            f"from checkpoint but received {type(given)}"
        )
        return
    if is_lazy(target) and is_lazy(given):  # neither has a shape as yet
        return
    if target.ndim == 0 and tuple(given.shape) == (1,):  # a scalar in a format that had no 0-dim tensors
        given = given[0]
    if given.shape != target.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
        return
    if target.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
            "current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the "
            "state dictionary to their corresponding key in the module instead of copying them in place?)",
            stacklevel=5,
        )
    try:
        if get_swap_module_params_on_conversion():
            _swap(target, given, assign)
        else:
            _assign(module, name, target, given) if assign else _copy(target, given)
    except Exception as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are {target.shape} '
            f"and whose dimensions in the checkpoint are {given.shape}, an exception occurred : {error.args}."
        )


def _copy(target: Tensor, given: Tensor) -> None:
    if _undo.log is not None:
        _undo.log.append(partial(write, target, value_of(target)))
    with no_grad():
        target.copy_(given)


def _swap(target: Tensor, given: Tensor, assign: bool) -> None:
    """Let ``target`` become what its ``module_load`` says."""
    if _undo.log is not None and not assign:
        _undo.log.append(partial(write, target, value_of(target)))
    with no_grad():
        new = target.module_load(given, assign=assign)
    if isinstance(target, Parameter) and not isinstance(new, Parameter):
        new = Parameter(new, requires_grad=target.requires_grad)
    swap_tensors(target, new)
    if _undo.log is not None:
        _undo.log.append(partial(swap_tensors, target, new))


def _assign(module, name: str, target: Tensor, given: Tensor) -> None:
    if isinstance(target, Parameter):
        if isinstance(given, Parameter):
            if _undo.log is not None:
                _undo.log.append(partial(given.requires_grad_, given.requires_grad))
            given.requires_grad_(target.requires_grad)
        else:
            given = Parameter(given, requires_grad=target.requires_grad)
    if _undo.log is not None:
        _undo.log.append(partial(setattr, module, name, target))
    setattr(module, name, given)
