"""What code says to and asks of compilation: keep out of programs, is this being traced, forget everything."""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.compiled_function import reset_all
from torchlike.compiler._function import counters
from torchlike.compiler._module import OptimizedModule
from torchlike.compiler._stance import set_stance
from torchlike.nn.modules.module import Module


def is_compiling() -> bool:
    """Whether the code that asks is being traced by ``torch.compile``.

    >>> import torchlike as torch
    >>> torch.compiler.is_compiling(), torch.compile(torch.compiler.is_compiling)()
    (False, True)
    """
    return state.capture is not None


def is_exporting() -> bool:
    """False: no code runs differently while it is exported."""
    return False


def reset() -> None:
    """Forget every compiled program, and what was counted; the next calls compile anew."""
    reset_all()
    counters.clear()


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn`` for eager code only: a compiled function that calls it runs in eager code as a whole.

    Args:
        fn: a function; a module, of which a wrapper comes back; or a class, whose calls are changed in place.
        recursive: whether compiled functions that ``fn`` calls run in eager code too.
        reason: shown where a graph break is logged.

    Raises:
        AssertionError: ``fn`` is not callable.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, Module):
        return OptimizedModule(fn, functools.partial(disable, recursive=recursive, reason=reason))
    if isinstance(fn, type):
        if any("__call__" in vars(cls) for cls in fn.__mro__):
            fn.__call__ = disable(fn.__call__, recursive, reason=reason)
        return fn
    why = f" ({reason})" if reason else ""
    what = f"calls {getattr(fn, '__qualname__', fn)}, which torch.compiler.disable keeps in eager code{why}"

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if state.capture is not None:
            state.capture.refuse(what)
        if not recursive:
            return fn(*args, **kwargs)
        with set_stance("force_eager"):
            return fn(*args, **kwargs)

    wrapper._torchdynamo_disable = True
    wrapper._torchdynamo_orig_callable = fn
    return wrapper


def allow_in_graph(fn: Any) -> Any:
    """Give back ``fn``, or each of a list: functions need no permission to become part of a program.

    Raises:
        AssertionError: not callable.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Callable) -> Callable:
    """Give back ``fn``: what it reads is guarded, so that its result may be anything."""
    return fn


def nested_compile_region(fn: Callable | None = None, **options: Any) -> Any:
    """Give back ``fn``: XLA finds by itself what a program repeats."""
    return functools.partial(nested_compile_region, **options) if fn is None else fn


def substitute_in_graph(original_fn: Callable, **options: bool) -> Callable:
    """A decorator that gives back its function: calls of ``original_fn`` are traced themselves, whatever it is."""
    return lambda traceable_fn: traceable_fn


def graph_break(msg: str = "") -> None:
    """End the program here: the compiled function runs in eager code. In eager code, nothing."""
    if state.capture is not None:
        state.capture.refuse(f"calls torch._dynamo.graph_break({repr(msg) if msg else ''})")


def skip_frame(msg: str = "") -> None:
    """As ``graph_break``."""
    if state.capture is not None:
        state.capture.refuse(f"calls torch._dynamo.skip_frame({repr(msg) if msg else ''})")


def forbid_in_graph(fn: Any) -> Any:
    """``disable``: ``fn`` stays out of programs, which is an error with ``fullgraph``."""
    return disable(fn)


def disallow_in_graph(fn: Any) -> Any:
    """``disable``: ``fn`` stays out of programs."""
    return disable(fn)


def cudagraph_mark_step_begin() -> None:
    """Accepted: XLA programs need no such mark."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accepted: guards of processes are their own. Returns what it was, False."""
    return False


def save_cache_artifacts() -> None:
    """None: there is nothing to carry over; compiled kernels are kept on disk (TORCHLIKE_CACHE)."""


def is_dynamo_supported() -> bool:
    """True: functions can be compiled."""
    return True


def is_inductor_supported() -> bool:
    """True: functions can be compiled."""
    return True


def _refused(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is not supported by torchlike; {instead}")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Not supported: raises NotImplementedError. Instead: {instead}."
    return refuse


_DISK = "programs are compiled again in each process, from kernels that are kept on disk (TORCHLIKE_CACHE)"
wrap_numpy = _refused("torch.compiler.wrap_numpy", "write the function with tensors")
load_cache_artifacts = _refused("torch.compiler.load_cache_artifacts", _DISK)
load_compiled_function = _refused("torch.compiler.load_compiled_function", _DISK)


# -- marks on tensors: accepted, since programs have static shapes -----------------------------------------


def _check_mark(name: str, t: Any, index: Any) -> None:
    if not isinstance(t, Tensor):
        raise TypeError(f"{name} expects a tensor but received {type(t)}")
    if not isinstance(index, int | list | tuple | None):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")


def mark_dynamic(t: Tensor, index: int | list[Any] | tuple[Any], **options: Any) -> None:
    """Accepted: a program is made for each shape; ``torch.compile(options={"bucket": ...})`` makes few.

    Raises:
        TypeError: ``t`` is no tensor. AssertionError: ``index`` is no number or list of numbers.
    """
    _check_mark("mark_dynamic", t, index)


def maybe_mark_dynamic(t: Tensor, index: int | list[Any] | tuple[Any]) -> None:
    """Accepted, as ``mark_dynamic``."""
    _check_mark("maybe_mark_dynamic", t, index)


def mark_static(t: Any, index: int | list[Any] | tuple[Any] | None = None) -> Any:
    """Accepted for tensors and for classes of modules, which are given back: every shape is static."""
    if isinstance(t, type) and issubclass(t, Module):
        return t
    _check_mark("mark_static", t, index)
    return None


def mark_static_address(t: Tensor, guard: bool = False) -> None:
    """Accepted: programs read tensors wherever they are.

    Raises:
        TypeError: ``t`` is no tensor.
    """
    _check_mark("mark_static_address", t, None)


class TransformGetItemToIndex:
    """A context in which ``x[i]`` may be indexed by tensors while it is traced: it always may."""

    def __enter__(self) -> "TransformGetItemToIndex":
        return self

    def __exit__(self, *exc: object) -> None:
        pass
