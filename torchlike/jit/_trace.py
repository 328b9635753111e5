"""``torch.jit.trace``: functions and modules whose calls are compiled."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.compiler._compile import compile
from torchlike.jit._errors import python_error, reraise
from torchlike.jit._script import ENABLED
from torchlike.jit._types import RUNNING, RecursiveScriptModule, ScriptFunction, ScriptModule, copied
from torchlike.nn.modules.module import Module


def _type(x: Any) -> str:
    if isinstance(x, Tensor):
        return "Tensor"
    if isinstance(x, tuple):
        return f"Tuple[{', '.join(map(_type, x))}]"
    if isinstance(x, list):
        return f"List[{_type(x[0]) if x else 'Tensor'}]"
    return type(x).__name__


def _cloned(x: Any) -> Any:
    """A copy of example inputs, which the trace may write to. None where one is nothing that can be traced."""
    if isinstance(x, Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad) if x.requires_grad else x.clone()
    if isinstance(x, dict):
        return {k: _cloned(v) for k, v in x.items()}
    if isinstance(x, tuple | list):
        items = [_cloned(v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    raise TypeError


def _examples(inputs: Any) -> tuple:
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    try:
        return _cloned(given)
    except TypeError:
        raise RuntimeError(
            f"Type '{_type(given)}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
            "Tensors can be traced"
        ) from None


def _named(inputs: dict | None) -> dict:
    return dict(zip(inputs or {}, _examples(tuple((inputs or {}).values())), strict=True))


def trace(
    func: Callable, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False,
    _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: dict | None = None,
    _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """A function or module whose calls are compiled, as by :func:`torch.compile`, and which ran once with the examples.

    What Python decides on (shapes, values, attributes of the module) is decided in every call, so that a call with
    other shapes is right too. Modules keep the mode (``training``) and the Python attributes that they had; their
    parameters and buffers are the module's own.

    Args:
        example_inputs: a tensor, or a tuple of them and of lists, tuples and dicts of them. example_kwarg_inputs: the
            same by name. check_trace, check_inputs, check_tolerance, strict: accepted.

    Returns:
        a :class:`ScriptFunction` or :class:`RecursiveScriptModule`, which :func:`torch.jit.save` can write.

    Raises:
        RuntimeError: an example is no tensor, nor list, tuple or dict of them; or both or none of the inputs are given.

    >>> import torchlike as torch
    >>> double = torch.jit.trace(lambda x: x * 2, torch.ones(2))
    >>> double(torch.ones(3))
    tensor([2., 2., 2.])
    """
    if optimize is not None:
        message = "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead"
        warnings.warn(message, FutureWarning, stacklevel=2)
    if not ENABLED[0]:
        return func
    if isinstance(func, ScriptModule | ScriptFunction):
        message = "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is."
        warnings.warn(message, stacklevel=2)
        return func
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("example_kwarg_inputs should be a dict, or example_inputs a tuple: exactly one of them")
    args = () if example_inputs is None else _examples(example_inputs)
    kwargs = _named(example_kwarg_inputs)
    owner = getattr(func, "__self__", None)
    if isinstance(func, Module):
        made: Any = traced_module(func, {"forward": (args, kwargs)})
    elif isinstance(owner, Module) and func.__name__ == "forward":
        made = traced_module(owner, {"forward": (args, kwargs)})
    else:
        made = ScriptFunction(func, compile(func), (args, kwargs))
    _first(made, args, kwargs)
    return made


def _first(made: Callable, args: tuple, kwargs: dict) -> None:
    """The call with the examples, which is still Python's: so are its errors."""
    try:
        made(*args, **kwargs)
    except Exception as error:
        raise python_error(error) from None


def traced_module(module: Module, calls: dict[str, tuple[tuple, dict]]) -> RecursiveScriptModule:
    """A copy of ``module`` whose methods in ``calls`` are compiled calls of a further copy, which nobody changes."""
    kept = copied(module, Module, {})
    made = copied(kept, RecursiveScriptModule, {}, shared=True)
    examples = {}
    for name, (args, kwargs) in calls.items():
        made.__dict__[name] = _runs(compile(getattr(kept, name)))
        examples[name] = args, kwargs
    made.__dict__["_kept"] = Kept(kept, examples)
    return made


class Kept:
    """The module that a traced one calls, and its example inputs: no submodule of it."""

    def __init__(self, module: Module, examples: dict) -> None:
        self.module, self.examples = module, examples


def _runs(compiled: Callable) -> Callable:
    @functools.wraps(compiled)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with RUNNING:
                return compiled(*args, **kwargs)
        except Exception as error:
            reraise(error, compiled, args, kwargs, traced=True)

    return run


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """A module with several methods traced as :func:`trace` does: ``inputs`` is {name of a method: examples}.

    Raises:
        AttributeError: ``mod`` is no module, or ``inputs`` no dict. RuntimeError: an example that is no tensor.
    """
    if not ENABLED[0]:
        return mod
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    keyed = example_inputs_is_kwarg
    calls = {name: ((), _named(x)) if keyed else (_examples(x), {}) for name, x in inputs.items()}
    made = traced_module(mod, calls)
    for name, (args, kwargs) in calls.items():
        _first(getattr(made, name), args, kwargs)
    return made
