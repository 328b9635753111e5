"""Forward hooks and registration hooks: the registries that all modules share, and the hooked call."""

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from torchlike._core.hooks import RemovableHandle

global_forward_pre_hooks: dict[int, Callable] = OrderedDict()
global_forward_hooks: dict[int, Callable] = OrderedDict()
_global_with_kwargs: dict[int, bool] = OrderedDict()
_global_always_called: dict[int, bool] = OrderedDict()
_registration_hooks: dict[str, dict[int, Callable]] = {
    "parameter": OrderedDict(),
    "buffer": OrderedDict(),
    "module": OrderedDict(),
}


class _FlaggedHandle(RemovableHandle):
    """A handle that also forgets the hook's marks in dicts beside the one that holds it."""

    def __init__(self, hooks: dict, flags: Iterable[dict]):
        super().__init__(hooks)
        self._flags = [weakref.ref(flag) for flag in flags]

    def remove(self) -> None:
        super().remove()
        for flag in self._flags:
            if (marks := flag()) is not None:
                marks.pop(self.id, None)


def _add(hooks: dict, hook: Callable, flags: Iterable[dict] = (), prepend: bool = False) -> RemovableHandle:
    """Store ``hook``, mark it in each dict of ``flags``, and return the handle that undoes both."""
    handle = _FlaggedHandle(hooks, flags) if flags else RemovableHandle(hooks)
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, args)`` before each forward of any module; a result other than None is the new args."""
    return _add(global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module.

    A result other than None replaces the output. ``with_kwargs`` passes the keyword arguments as
    a third argument; ``always_call`` runs the hook (with output None) also where forward raised.
    """
    flags = [_global_with_kwargs] * with_kwargs + [_global_always_called] * always_call
    return _add(global_forward_hooks, hook, flags)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when any module registers a parameter; a result replaces it."""
    return _add(_registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when any module registers a buffer; a result replaces it."""
    return _add(_registration_hooks["buffer"], hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when any module registers a child; a result replaces it."""
    return _add(_registration_hooks["module"], hook)


def registered(kind: str, owner: Any, name: str, value: Any) -> Any:
    """What to store for ``value`` after the registration hooks of its kind have seen it."""
    for hook in tuple(_registration_hooks[kind].values()):
        replacement = hook(owner, name, value)
        if replacement is not None:
            value = replacement
    return value


def _unsupported(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torchlike does not have {name} yet; use Tensor.register_hook on the module's inputs or outputs"
    )


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Not supported yet: raises NotImplementedError."""
    _unsupported("register_module_full_backward_hook")


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Not supported yet: raises NotImplementedError."""
    _unsupported("register_module_full_backward_pre_hook")


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Not supported yet: raises NotImplementedError."""
    _unsupported("register_module_backward_hook")


class HookMethods:
    """The part of Module that registers hooks and runs a call through them.

    Requires the dicts that ``Module.__init__`` makes (``_forward_hooks`` and the rest) and ``forward``.
    """

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward.

        A result other than None is the new positional arguments (a single value is wrapped in a
        tuple). With ``with_kwargs`` the hook is called as ``hook(module, args, kwargs)`` and returns
        None or ``(args, kwargs)``. ``prepend`` runs it before the hooks registered so far.

        >>> import torchlike as torch
        >>> m = torch.nn.Identity()
        >>> with m.register_forward_pre_hook(lambda module, args: args[0] + 1):
        ...     m(torch.zeros(1))
        tensor([1.])
        """
        flags = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return _add(self._forward_pre_hooks, hook, flags, prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; a result other than None is the new output.

        With ``with_kwargs`` the hook is called as ``hook(module, args, kwargs, output)``. With
        ``always_call`` it also runs, with output None, where forward or another hook raised.
        """
        flags = [self._forward_hooks_with_kwargs] * with_kwargs
        flags += [self._forward_hooks_always_called] * always_call
        return _add(self._forward_hooks, hook, flags, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Not supported yet: raises NotImplementedError."""
        _unsupported("Module.register_full_backward_hook")

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Not supported yet: raises NotImplementedError."""
        _unsupported("Module.register_full_backward_pre_hook")

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Not supported yet: raises NotImplementedError."""
        _unsupported("Module.register_backward_hook")

    def __call__(self, *args, **kwargs):
        if self._forward_hooks or self._forward_pre_hooks or global_forward_hooks or global_forward_pre_hooks:
            return self._call_impl(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        called: set[int] = set()
        output = None
        try:
            args, kwargs = _run_pre_hooks(self, args, kwargs)
            output = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, always in _all_forward_hooks(self):
                if always:
                    called.add(key)
                output = _run_hook(hook, with_kwargs, self, args, kwargs, output)
            return output
        except Exception:
            _run_always_called(self, args, kwargs, output, called)
            raise


def _run_pre_hooks(module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    for key, hook in (*global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            result = hook(module, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
                )
            args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _all_forward_hooks(module) -> list[tuple[int, Callable, bool, bool]]:
    """Each forward hook, the global ones first, as (key, hook, with kwargs, always called)."""
    shared = [
        (key, hook, key in _global_with_kwargs, key in _global_always_called)
        for key, hook in global_forward_hooks.items()
    ]
    return shared + [
        (key, hook, key in module._forward_hooks_with_kwargs, key in module._forward_hooks_always_called)
        for key, hook in module._forward_hooks.items()
    ]


def _run_hook(hook, with_kwargs: bool, module, args, kwargs, output):
    result = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
    return output if result is None else result


def _run_always_called(module, args, kwargs, output, called: set[int]) -> None:
    """After an error: the always-called hooks that have not run; their own errors become warnings."""
    for key, hook, with_kwargs, always in _all_forward_hooks(module):
        if not always or key in called:
            continue
        try:
            output = _run_hook(hook, with_kwargs, module, args, kwargs, output)
        except Exception as error:
            owner = "global module" if key in global_forward_hooks else "module"
            warnings.warn(
                f"{owner} forward hook with ``always_call=True`` raised an exception that was silenced "
                f"as another error was raised in forward: {error}",
                stacklevel=3,
            )
