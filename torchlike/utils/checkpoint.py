"""Activation checkpointing: saved tensors are dropped after the forward and computed again by backward."""

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torchlike.cuda as gpus
from torchlike._base.frames import user_stack
from torchlike._base.state import enable_grad, state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.autocast.settings import restored
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import saved_tensors
from torchlike._core.autograd.again import surroundings
from torchlike._core.autograd.node import requires_grad
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._functions.generator import fork_rng, get_rng_state, set_rng_state
from torchlike._transforms.capture import remat
from torchlike.autograd.graph import saved_tensors_hooks
from torchlike.interop.alias import missing_names
from torchlike.utils._checkpoint_reentrant import CheckpointFunction, check_backward_validity, detach_variable
from torchlike.utils._checkpoint_selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from torchlike.utils._pytree import tree_leaves

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The indices of the GPUs of the tensors among the arguments, and the state of each one's generator."""
    indices = sorted({x.get_device() for x in args if isinstance(x, Tensor) and x.is_cuda})
    return indices, [gpus.get_rng_state(index) for index in indices]


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Set the states of generators of GPUs, as :func:`get_device_states` gave them."""
    for device, saved in zip(devices, states, strict=True):
        gpus.set_rng_state(saved, device)


ContextFn = Callable[[], tuple[AbstractContextManager, AbstractContextManager]]


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed call did not save what its forward saved."""


class _StopRecomputation(Exception):
    """Everything that the forward saved has been computed again."""


class _Settings:
    """What the two contexts below set: None leaves the choice to each call."""

    early_stop: bool | None = None
    debug: bool | None = None


def noop_context_fn() -> tuple[AbstractContextManager, AbstractContextManager]:
    """Contexts of the forward and of the recomputation that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def _setting(name: str, value: bool) -> Iterator[None]:
    before = getattr(_Settings, name)
    setattr(_Settings, name, value)
    try:
        yield
    finally:
        setattr(_Settings, name, before)


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager:
    """In this context checkpointed calls stop their recomputation once everything is there (or, False, never)."""
    return _setting("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool) -> AbstractContextManager:
    """In this context checkpointed calls are in debug mode (or, False, are not), whatever their argument says."""
    return _setting("debug", enabled)


class _Holder:
    """Stands for a tensor that was not kept: its number in the order of saving."""

    __slots__ = ("index", "taken", "__weakref__")

    def __init__(self, index: int) -> None:
        self.index = index
        self.taken: weakref.WeakSet = weakref.WeakSet()  # the backwards that have had it


class _Input:
    """An argument of the call, kept as the hooks around the checkpoint keep saved tensors."""

    def __init__(self, t: Tensor) -> None:
        self.requires_grad, self.version = requires_grad(t), None if t._vc is UNTRACKED else t._vc.version
        self.hooks = state.pack
        self.kept = t if self.hooks is None else self.hooks[0](t)

    def tensor(self) -> Tensor:
        if self.hooks is not None:
            t = alias(self.hooks[1](self.kept))
            t._rg = self.requires_grad
            return t
        if self.version is not None and self.kept._version != self.version:
            raise RuntimeError(saved_tensors.modified(self.kept, self.version))
        return self.kept


def _metadata(t: Tensor) -> dict[str, Any]:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


_CHECKS: dict[str, Callable[[Tensor], Any]] = {"default": _metadata, "none": lambda t: None}


class _Frame:
    """One checkpointed call: how to run it again, and what its forward saved."""

    def __init__(self, run: Callable[[], Any], early_stop: bool, describe: Callable, debug: bool) -> None:
        self.run, self.early_stop, self.describe, self.debug = run, early_stop, describe, debug
        self.holders: list[weakref.ref] = []
        self.metadata: list[Any] = []
        self.stacks: tuple[list[str], list[str]] = ([], [])  # of the forward and of the recomputation
        self.recomputed: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.fences: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # of backwards that are part of a program

    def reached(self, fence: Any) -> None:
        """A backward has come to the call."""
        if fence is not None:
            self.fences.setdefault(state.task, fence)

    def pack(self, t: Tensor) -> _Holder:
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.metadata.append(self.describe(t))
        if self.debug:
            self.stacks[0].append(_where(t))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        task = state.task or _Access()
        values = self.recomputed.get(task)
        if values is None:
            values = self.recomputed[task] = self.recompute(self.fences.pop(task, None))
        if task in holder.taken:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you "
                "are calling ctx.saved_tensors in backward, make sure to do so only once."
            )
        holder.taken.add(task)
        return values.pop(holder.index)

    def recompute(self, fence: Any) -> dict[int, Tensor]:
        """Run the call again and collect what it saves: {number: tensor} of the holders still alive."""
        values: dict[int, Tensor] = {}
        found: list[Any] = []

        def pack(t: Tensor) -> Tensor:
            index = len(found)
            if index >= len(self.holders):
                raise self.error(
                    "trying to save more tensors during recomputation than during the original forward pass."
                )
            found.append(self.describe(t))
            if self.debug:
                self.stacks[1].append(_where(t))
            detached = t.detach()
            if self.holders[index]() is not None:
                values[index] = detached
            if self.early_stop and len(found) == len(self.holders):
                raise _StopRecomputation
            return detached

        self.stacks[1].clear()
        with remat.Again(fence) as again:
            with contextlib.suppress(_StopRecomputation), saved_tensors_hooks(pack, lambda t: t), enable_grad():
                self.run()
            again.keep(values.values())
        self.compare(found)
        return values

    def compare(self, found: list[Any]) -> None:
        if len(found) != len(self.holders):
            raise self.error(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {len(found)}."
            )
        differing = [
            f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {after}"
            for i, (before, after) in enumerate(zip(self.metadata, found, strict=True))
            if before != after
        ]
        if differing:
            raise self.error(
                "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + "\n".join(differing)
            )

    def error(self, problem: str) -> CheckpointError:
        text = f"torch.utils.checkpoint: {problem}\n"
        if not self.debug:
            return CheckpointError(text + "Pass debug=True to see where each tensor was saved.")
        for name, stacks in zip(("original forward", "recomputation"), self.stacks, strict=True):
            text += f"\nTensors saved in the {name}:\n" + "".join(
                f"{i} of {len(stacks)} in {name}: {entry}" for i, entry in enumerate(stacks, 1)
            )
        return CheckpointError(text)


class _Access:
    """Stands for a backward where a saved tensor is read outside of one."""


def _where(t: Tensor) -> str:
    return f"{list(t.shape)} {t.dtype}\n{''.join(user_stack()[-3:])}\n"


def _again(function: Callable, inputs: list, kwargs: dict, context: AbstractContextManager, rng: Any) -> Callable:
    """The call as a function without arguments, under the random state, autocast and context of its recomputation."""
    autocast, around = restored(), surroundings(function)

    def run() -> None:
        arguments = [x.tensor() if isinstance(x, _Input) else x for x in inputs]
        with fork_rng() if rng is not None else contextlib.nullcontext():
            if rng is not None:
                set_rng_state(rng)
            with autocast, around(), context:
                function(*arguments, **kwargs)

    return run


def _without_reentrance(
    function: Callable, args: tuple, kwargs: dict, preserve: bool, context_fn: ContextFn, check: str, debug: bool,
    early_stop: bool,
) -> Any:  # fmt: skip
    if check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {check}")
    forward_context, recompute_context = context_fn()
    if not state.grad:
        with forward_context:
            return function(*args, **kwargs)
    early_stop = early_stop if _Settings.early_stop is None else _Settings.early_stop
    debug = debug if _Settings.debug is None else _Settings.debug
    inputs = [_Input(x) if isinstance(x, Tensor) else x for x in args]
    rng = get_rng_state() if preserve else None
    frame = _Frame(_again(function, inputs, kwargs, recompute_context, rng), early_stop, _CHECKS[check], debug)
    start = nodes.next_sequence()
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        out = function(*args, **kwargs)
    remat.watch([x for x in tree_leaves(out) if isinstance(x, Tensor)], start, frame.reached)
    return out


_UNSAID = (
    "torch.utils.checkpoint{}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
    "recommended; without it the default is use_reentrant=True."
)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, without keeping what its operators save: backward runs it again instead.

    So does the program of a compiled step, in which XLA would otherwise compute equal things once and keep them.

    Args:
        use_reentrant: False: saved tensors are replaced one by one, everything that autograd can do
            works (``grad``, ``inputs=``, nesting, keyword arguments, double backward). True: the call
            is one node whose backward runs a backward of its own; needs an input that requires grad.
        preserve_rng_state: (keyword, default True) give the recomputation the random numbers of the forward. Its
            autocast is that of the forward anyhow.
        context_fn: gives two contexts, for the forward and for the recomputation.
        determinism_check: "default": the recomputation must save tensors of the same shapes, dtypes
            and devices, else CheckpointError; "none": only as many.
        debug: let errors list where each tensor was saved.
        early_stop: end the recomputation as soon as everything needed is there.

    >>> import torchlike as torch
    >>> from torchlike.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([-2.4783, -2.4783])
    """
    if use_reentrant is None:
        warnings.warn(_UNSAID.format(""), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _without_reentrance(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    recorded = state.grad and any([isinstance(a, Tensor) and a.requires_grad for a in args])
    if state.capture is None and not recorded and not trace_state_clean():  # jax differentiates the function itself
        return function(*args)
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run ``functions`` (a Sequential or a list) in ``segments`` checkpointed parts, the last one plainly.

    >>> import torchlike as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> out = torch.utils.checkpoint.checkpoint_sequential(net, 2, torch.ones(1, 2), use_reentrant=False)
    >>> out.shape
    torch.Size([1, 1])
    """
    if use_reentrant is None:
        warnings.warn(_UNSAID.format(".checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments
    for start in range(0, size * (segments - 1), size) if size else ():
        input = checkpoint(
            _chain(functions[start : start + size]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return _chain(functions[size * (segments - 1) :])(input)


def _chain(functions: list) -> Callable:
    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run


__getattr__ = missing_names(__name__)
