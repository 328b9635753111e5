"""Hooks of modules: the registries that all modules share, and the hooked call."""

import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._base.state import state
from torchlike._core.autograd.hooks import RemovableHandle
from torchlike.nn.modules._backward_hooks import BackwardHook, hook_last_node, hooked_output
from torchlike.nn.modules._traced import demand_kept

global_backward_pre_hooks: dict[int, Callable] = OrderedDict()
global_backward_hooks: dict[int, Callable] = OrderedDict()
global_forward_pre_hooks: dict[int, Callable] = OrderedDict()
global_forward_hooks: dict[int, Callable] = OrderedDict()
_global_any: dict[int, bool] = OrderedDict()  # the ids of all in the four above: one look per call
_global_full: list[bool | None] = [None]  # whether the backward hooks have been full ones so far
_global_with_kwargs: dict[int, bool] = OrderedDict()
_global_always_called: dict[int, bool] = OrderedDict()
_registration_hooks: dict[str, dict[int, Callable]] = {
    "parameter": OrderedDict(),
    "buffer": OrderedDict(),
    "module": OrderedDict(),
}


class _WrappedHook:
    """A hook that is called with a module before all else, as pickles of PyTorch hold them."""

    def __init__(self, hook: Callable, module: Any = None):
        self._set(hook, module)

    def _set(self, hook: Callable, module: Any) -> None:
        self.hook, self.with_module = hook, module is not None
        # weakly: the hook belongs to the module, which would otherwise live until the next collection
        self.module = weakref.ref(module) if module is not None else None

    def _owner(self) -> Any:
        module = None if self.module is None else self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.hook(self._owner(), *args, **kwargs) if self.with_module else self.hook(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self._owner()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(state["hook"], state.get("module"))


def _add(hooks: dict, hook: Callable, flags: Iterable[dict] = (), prepend: bool = False) -> RemovableHandle:
    """Store ``hook``, mark it in each dict of ``flags``, and return the handle that undoes both."""
    handle = RemovableHandle(hooks, extra_dict=flags)
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


GLOBAL: dict[str, dict[int, Any]] = {
    "_global_backward_pre_hooks": global_backward_pre_hooks,
    "_global_backward_hooks": global_backward_hooks,
    "_global_forward_pre_hooks": global_forward_pre_hooks,
    "_global_forward_hooks": global_forward_hooks,
    "_global_forward_hooks_with_kwargs": _global_with_kwargs,
    "_global_forward_hooks_always_called": _global_always_called,
    "_global_parameter_registration_hooks": _registration_hooks["parameter"],
    "_global_buffer_registration_hooks": _registration_hooks["buffer"],
    "_global_module_registration_hooks": _registration_hooks["module"],
}


class HooksOfAll(types.ModuleType):
    """A module whose names of :data:`GLOBAL` are these dicts: what is assigned to one becomes its contents."""

    def __setattr__(self, name: str, value: Any) -> None:
        if (known := GLOBAL.get(name)) is None:
            super().__setattr__(name, value)
            return
        entries = dict(value)
        known.clear()
        known.update(entries)
        _global_any.clear()
        for hooks in (global_backward_pre_hooks, global_backward_hooks, global_forward_pre_hooks, global_forward_hooks):
            _global_any.update(dict.fromkeys(hooks, True))


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, args)`` before each forward of any module; a result other than None is the new args."""
    return _add(global_forward_pre_hooks, hook, [_global_any])


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module.

    A result other than None replaces the output. ``with_kwargs`` passes the keyword arguments as
    a third argument; ``always_call`` runs the hook (with output None) also where forward raised.
    """
    flags = [_global_with_kwargs] * with_kwargs + [_global_always_called] * always_call
    return _add(global_forward_hooks, hook, [_global_any, *flags])


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
    if kind != "module":
        demand_kept(owner, kind, name, value)
    return value


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the backward of any module; a result other than None replaces it."""
    return _add(global_backward_pre_hooks, hook, [_global_any])


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of any module's inputs are known.

    A result other than None replaces ``grad_input``.

    Raises:
        RuntimeError: non-full backward hooks have been registered for all modules.
    """
    _choose_global(full=True)
    return _add(global_backward_hooks, hook, [_global_any])


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` around the last node of any module, as PyTorch used to.

    Prefer :func:`register_module_full_backward_hook`, with which this one cannot be combined (RuntimeError).
    """
    _choose_global(full=False)
    return _add(global_backward_hooks, hook, [_global_any])


def _choose_global(full: bool) -> None:
    if _global_full[0] not in (None, full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_full[0] = full


class HookMethods:
    """The part of Module that registers hooks and runs a call through them.

    Requires the dicts that ``Module.__init__`` makes (``_forward_hooks`` and the rest) and ``forward``.
    """

    _is_full_backward_hook: bool | None

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
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known.

        ``grad_input`` has an entry for each positional argument, ``grad_output`` for each output; None
        for what is not a tensor. A result other than None, of as many entries, takes the place of
        ``grad_input``. Where no input requires grad, the hook runs (with a warning) when the gradients
        of the outputs are known. Outputs are looked for in a tensor or a tuple of tensors only; the
        tensors that go in and come out may not be changed in place. ``prepend`` runs the hook before
        those registered so far.

        Raises:
            RuntimeError: the module has non-full backward hooks.

        >>> import torchlike as torch
        >>> m = torch.nn.ReLU()
        >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
        >>> with m.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,)):
        ...     m(x).sum().backward()
        >>> x.grad
        tensor([ 0., 10.])
        """
        self._choose(full=True)
        return _add(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the backward of the module.

        A result other than None, of as many entries, takes the place of ``grad_output``. ``prepend``
        runs the hook before those registered so far.
        """
        return _add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` around the last node of the module, as PyTorch used to.

        ``grad_input`` are the gradients of what the last recorded operation read, which may be more
        or less than the module's inputs. Prefer :meth:`register_full_backward_hook`, with which this
        one cannot be combined (RuntimeError).
        """
        self._choose(full=False)
        return _add(self._backward_hooks, hook)

    def _choose(self, full: bool) -> None:
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """The backward hooks that concern this module, the global ones first: full ones, and the others."""
        full: list[Callable] = []
        last: list[Callable] = []
        own = self._backward_hooks.values()
        (full if _global_full[0] else last).extend(global_backward_hooks.values())
        (full if self._is_full_backward_hook else last).extend(own)
        return full, last

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [*global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def __call__(self, *args, **kwargs):
        own = self.__dict__  # looked up once: an attribute of a module costs as much as four keys
        try:
            hooked = (
                own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
                or own["_backward_pre_hooks"] or _global_any or "_compiled_call_impl" in own
            )  # fmt: skip
        except KeyError:  # no Module.__init__(): what follows says so
            hooked = True
        recorder = state.recorder
        if recorder is not None and not state.grad and not recorder.inside:
            return recorder.around(self, args, kwargs)
        if not hooked:
            return self.forward(*args, **kwargs)
        compiled = own.get("_compiled_call_impl")
        return self._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        called: set[int] = set()
        output = None
        full, last = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        watch = BackwardHook(self, full, pre) if full or pre else None
        try:
            args, kwargs = _run_pre_hooks(self, args, kwargs)
            if watch is not None:
                args = watch.setup_input_hook(args)
            output = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, always in _all_forward_hooks(self):
                if always:
                    called.add(key)
                output = _run_hook(hook, with_kwargs, self, args, kwargs, output)
            if watch is not None:
                output = hooked_output(watch, output)
            if last:
                hook_last_node(self, args, output, last)
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
