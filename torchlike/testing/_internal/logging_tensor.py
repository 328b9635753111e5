"""A wrapper subclass and a mode that log every operator they see, a line each."""

import itertools
import logging
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten.python_dispatch import enable_reentrant_dispatch, modes_set_to
from torchlike._base import dtypes
from torchlike._core.tensor.tensor import Tensor
from torchlike.utils._python_dispatch import TorchDispatchMode
from torchlike.utils._pytree import tree_map

logger = logging.getLogger("LoggingTensor")
logger.propagate = False  # its records are calls, not messages

_dtype_abbrs = {
    getattr(dtypes, name): short
    for name, short in {
        "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
        "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128", "bool": "b8",
        "bfloat16": "bf16", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    }.items()
    if hasattr(dtypes, name)
}  # fmt: skip


def _log(name: str, args: tuple, kwargs: dict, out: Any) -> None:
    logger.info(name, extra={"call": (args, kwargs, out)})


class LoggingTensor(Tensor):
    """A tensor around ``elem`` whose operators run on what it wraps and are logged.

    >>> import torchlike as torch
    >>> with capture_logs() as logs:
    ...     x = LoggingTensor(torch.ones(2), requires_grad=True)
    ...     y = x * 3
    >>> logs
    ['$1: f32[2] = torch._ops.aten.mul.Tensor($0, 3)']
    """

    __slots__ = ["elem"]
    context: Callable = staticmethod(lambda: modes_set_to(()))

    @staticmethod
    def __new__(cls: type, elem: Tensor, *args: Any, **kwargs: Any) -> Any:
        wrapper = Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=kwargs.get("requires_grad", False),
        )  # fmt: skip
        wrapper.elem = elem.detach() if wrapper.requires_grad else elem
        return wrapper

    def __init__(self, elem: Tensor, *args: Any, **kwargs: Any) -> None:
        """All is done in ``__new__``."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        extra = f", grad_fn=<{self.grad_fn.name()}>" if self.grad_fn is not None else ""
        extra = extra or (", requires_grad=True" if self.requires_grad else "")
        return f"LoggingTensor({self.elem}{extra})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        def unwrap(x: Any) -> Any:
            return x.elem if isinstance(x, cls) else x

        def wrap(x: Any) -> Any:
            return cls(x) if isinstance(x, Tensor) else x

        with cls.context():
            out = tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))
        _log(f"{func.__module__}.{func.__name__}", args, kwargs or {}, out)
        return out


class LoggingTensorReentrant(LoggingTensor):
    """As :class:`LoggingTensor`, but what runs on the wrapped tensors is recorded, and seen by the modes outside."""

    context: Callable = enable_reentrant_dispatch


class LoggingTensorMode(TorchDispatchMode):
    """A mode that logs every operator; see :func:`capture_logs`.

    >>> import torchlike as torch
    >>> with capture_logs(is_mode=True) as logs, LoggingTensorMode():
    ...     y = torch.ones(2) * 3
    >>> logs[1]
    '$1: f32[2] = torch._ops.aten.mul.Tensor($0, 3)'
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        _log(f"{func.__module__}.{func.__name__}", args, kwargs or {}, out)
        return out


class LoggingTensorHandler(logging.Handler):
    """Makes of each logged call a line in ``log_list``: results, operator, arguments; tensors by number."""

    def __init__(
        self, log_list: list, use_shortid_for_all_tensors: bool, with_type: bool, tracebacks_list: list | None
    ) -> None:
        super().__init__()
        self.log_list, self.all_tensors, self.with_type = log_list, use_shortid_for_all_tensors, with_type
        self.tracebacks_list = tracebacks_list
        self._next, self._numbers = itertools.count(), {}  # type: ignore[var-annotated]

    def _shortid(self, t: Tensor) -> int:
        """The number of a tensor, given when it is first seen."""
        key = id(t)
        found = self._numbers.get(key)
        if found is None or found[0]() is not t:
            found = self._numbers[key] = (weakref.ref(t), next(self._next))
        return found[1]

    def _fmt(self, x: object, with_type: bool = False) -> str:
        if isinstance(x, Tensor if self.all_tensors else LoggingTensor):
            name = f"${self._shortid(x)}"
            if with_type and self.with_type:
                name += f": {_dtype_abbrs.get(x.dtype, x.dtype)}[{', '.join(map(str, x.shape))}]"
            return name
        if isinstance(x, list):
            return str([self._fmt(y, with_type) for y in x])
        if isinstance(x, tuple):
            return str(tuple([self._fmt(y, with_type) for y in x]))
        return repr(x)

    def emit(self, record: logging.LogRecord) -> None:
        name, (args, kwargs, out) = record.msg, record.call  # type: ignore[attr-defined]
        given = [self._fmt(a) for a in args] + [f"{k}={self._fmt(v)}" for k, v in kwargs.items()]
        self.log_list.append(f"{self._fmt(out, True)} = {name}({', '.join(given)})")
        if self.tracebacks_list is not None:
            self.tracebacks_list.append([
                {"name": f.name, "filename": f.filename, "line": f.lineno} for f in traceback.extract_stack()
            ])  # fmt: skip


def log_input(name: str, var: object) -> None:
    """Log that ``var`` comes from outside, under this name."""
    _log("input", (name,), {}, var)


@contextmanager
def capture_logs(
    is_mode: bool = False, python_tb: bool = False, script_tb: bool = False, cpp_tb: bool = False
) -> Iterator[Any]:
    """Collect what is logged within, as a list of lines; with ``python_tb`` also the stack of each.

    ``is_mode``: number all tensors, as a mode sees plain ones, not only a LoggingTensor.
    """
    if script_tb or cpp_tb:
        raise NotImplementedError(
            "capture_logs: script_tb and cpp_tb are stacks of TorchScript and C++, which are none"
        )
    lines: list[str] = []
    stacks: list | None = [] if python_tb else None
    handler = LoggingTensorHandler(lines, is_mode, True, stacks)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield (lines, stacks) if python_tb else lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def capture_logs_with_logging_tensor_mode(
    python_tb: bool = False, script_tb: bool = False, cpp_tb: bool = False
) -> Iterator[Any]:
    """:func:`capture_logs` under a :class:`LoggingTensorMode`."""
    with capture_logs(True, python_tb, script_tb, cpp_tb) as logs, LoggingTensorMode():
        yield logs


__all__ = [
    "LoggingTensor", "LoggingTensorHandler", "LoggingTensorMode", "LoggingTensorReentrant", "capture_logs",
    "capture_logs_with_logging_tensor_mode", "log_input",
]  # fmt: skip
