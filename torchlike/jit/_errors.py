"""What calls of scripts raise: PyTorch's two types, whose text ends with the Python error that was their cause."""

import dis
import functools
import inspect
import linecache
import typing
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType, UnionType
from typing import Any, NoReturn

from torchlike._base.frames import is_users
from torchlike._jit_internal import IGNORED
from torchlike._ops._square import _LinAlgError

_RAISE = dis.opmap["RAISE_VARARGS"]
_FAILED = (
    "The following operation failed in the TorchScript interpreter.\n"
    "Traceback of TorchScript (most recent call last):\n"
)


class Error(Exception):
    """An error that a script raises itself, with ``raise`` or ``assert``; those of operators are RuntimeErrors."""

    __module__ = "torch.jit"


def script_errors(function: Callable) -> Callable:
    """``function``, whose errors are those of a script."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            reraise(error, function, args, kwargs)

    return call


def reraise(error: Exception, function: Callable, args: tuple, kwargs: dict, *, traced: bool = False) -> NoReturn:
    """Raise the error of a script that stands for ``error``; errors of scripts and signals of ours as they are."""
    own = type(error).__module__.partition(".")[0] in ("torch", "torchlike", "jax", "jaxlib")
    if getattr(error, "_of_script", False) or (own and not isinstance(error, _LinAlgError)):
        raise error
    found = _of_arguments(error, function, args, kwargs) or _of_program(error, traced)
    found._of_script = True  # type: ignore[attr-defined]
    raise found from error


def python_error(error: Exception) -> Exception:
    """The error of Python that the error of a script stands for."""
    cause = error.__cause__ if getattr(error, "_of_script", False) else None
    return cause if isinstance(cause, Exception) else error


def _walk(trace: TracebackType | None) -> Iterator[tuple[FrameType, TracebackType]]:
    while trace is not None:
        yield trace.tb_frame, trace
        trace = trace.tb_next


def _of_program(error: Exception, traced: bool) -> Exception:
    """jit.Error for a statement ``raise`` or ``assert`` of the script, RuntimeError for anything else."""
    text, last, python = "", None, None
    for frame, trace in _walk(error.__traceback__):
        if id(frame.f_code) in IGNORED:
            python = frame, trace
            break
        last = frame, trace
        if is_users(frame.f_code.co_filename):
            text += _line(frame, trace)
    if python is not None:
        frame, trace = python
        at = f"  {frame.f_code.co_filename}({trace.tb_lineno}): {frame.f_code.co_name}\n"
        return RuntimeError(f"{_FAILED}{text}RuntimeError: {_named(error)}\n\nAt:\n{at}\n")
    if not traced and last is not None and _raised(error, *last):
        return Error(f"{_FAILED}{text}{_ending(error, *last)}\n")
    kind = NotImplementedError if isinstance(error, NotImplementedError) else RuntimeError
    message = _named(error) if isinstance(error, KeyError) else str(error)
    return kind(f"{_FAILED}{text}RuntimeError: {message}\n")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error.args[0] if len(error.args) == 1 else error}"


def _raised(error: Exception, frame: FrameType, trace: TracebackType) -> bool:
    """Whether a statement of the script raised it; PyTorch's layers, which are scripts too, raise these two types."""
    if not is_users(frame.f_code.co_filename):
        return isinstance(error, ValueError | AssertionError)
    return frame.f_code.co_code[trace.tb_lasti] == _RAISE


def _ending(error: Exception, frame: FrameType, trace: TracebackType) -> str:
    """The last line: an assertion, a class alone (``raise IndexError``) and a call are told apart."""
    line = linecache.getline(frame.f_code.co_filename, trace.tb_lineno).strip()
    said = error.args[0] if len(error.args) == 1 else "(" + ", ".join(map(str, error.args)) + ")" * bool(error.args)
    if isinstance(error, AssertionError) and (line.startswith("assert") or not is_users(frame.f_code.co_filename)):
        return f"RuntimeError: AssertionError: {said if error.args else ''}"
    if not error.args:
        return "RuntimeError: "
    return f"{type(error).__module__}.{type(error).__qualname__}: {said}"


def _line(frame: FrameType, trace: TracebackType) -> str:
    """A frame as TorchScript shows it: the line, and under it what failed."""
    code, number = frame.f_code, trace.tb_lineno
    source = linecache.getline(code.co_filename, number).rstrip()
    positions = list(code.co_positions())[trace.tb_lasti // 2]
    start, end = len(source) - len(source.lstrip()), len(source)
    if positions[0] == positions[1] == number and positions[2] is not None and positions[3] is not None:
        start, end = positions[2], positions[3]
    below = f"{' ' * start}{'~' * max(end - start, 1)} <--- HERE\n"
    return f'  File "{code.co_filename}", line {number}, in {code.co_name}\n{source}\n{below}'


# ----- arguments -----


def _of_arguments(error: Exception, function: Callable, args: tuple, kwargs: dict) -> RuntimeError | None:
    """The error of a call whose arguments fit no signature; None if the function ran."""
    if not isinstance(error, TypeError) or any(is_users(f.f_code.co_filename) for f, _ in _walk(error.__traceback__)):
        return None
    try:
        signature = inspect.signature(function)
        signature.bind(*args, **kwargs)
    except (TypeError, ValueError) as failure:
        return None if isinstance(failure, ValueError) else RuntimeError(_misfit(function, signature, args, kwargs))
    return None


def _misfit(function: Callable, signature: inspect.Signature, args: tuple, kwargs: dict) -> str:
    name, held = getattr(function, "__name__", "function"), signature.parameters
    declared = f"{name}({', '.join(f'{_type(p.annotation)} {p.name}' for p in held.values())})"
    if signature.return_annotation is not inspect.Signature.empty:
        declared += f" -> {_type(signature.return_annotation)}"
    if len(args) > len(held):
        return (
            f"{name}() expected at most {len(held)} argument(s) but received {len(args)} argument(s). "
            f"Declaration: {declared}"
        )
    for p in list(held.values())[len(args) :]:
        if p.default is inspect.Parameter.empty and p.name not in kwargs:
            return f"{name}() is missing value for argument '{p.name}'. Declaration: {declared}"
    unknown = next((key for key in kwargs if key not in held), None)
    if unknown is None:
        return f"{name}() got arguments that do not fit. Declaration: {declared}"
    return f"Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {declared}"


def _type(annotation: Any) -> str:
    """The name of a type in a declaration; what has no annotation is a Tensor."""
    if annotation is inspect.Parameter.empty:
        return "Tensor"
    origin, inner = typing.get_origin(annotation), [_type(x) for x in typing.get_args(annotation)]
    if origin is list:
        return f"{inner[0]}[]"
    if origin in (typing.Union, UnionType) and len(inner) == 2 and "NoneType" in inner:
        return f"{next(x for x in inner if x != 'NoneType')}?"
    if origin is dict:
        return f"Dict({', '.join(inner)})"
    if origin is tuple:
        return f"({', '.join(inner)})"
    return getattr(annotation, "__name__", str(annotation))
