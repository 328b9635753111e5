"""``torch.library.custom_op``: a Python function as an operator."""

import contextlib
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torchlike._aten.tags import Tag
from torchlike._base.dtypes import dtype
from torchlike._core.autocast.settings import is_autocast_available, kind_of
from torchlike._decl.function_schema import FunctionSchema
from torchlike._library import derivative, keys, registry
from torchlike._library.infer_schema import infer_schema
from torchlike._library.operator import Operator

DeviceTypes = str | Sequence[str] | None
_log = logging.getLogger(__name__)
_defined: weakref.WeakValueDictionary[str, "CustomOpDef"] = weakref.WeakValueDictionary()


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operator that transforms, programs and modes treat as a whole.

    Args:
        name: ``"namespace::name"``. fn: the function; without it, a decorator is returned.
        mutates_args: names of the tensors that it changes in place, or ``"unknown"``. Their versions are bumped.
        device_types: the devices that ``fn`` is for; None for all.
        schema: ``"(Tensor x) -> Tensor"``; by default it follows from the annotations.
        tags: ``torch.Tag`` or several.

    Inside, use torchlike, jax (``x.jax()``, ``torch.from_jax_array``) or numpy: a function that needs values is
    called on the host by compiled programs, if it has a fake implementation (:meth:`CustomOpDef.register_fake`); a
    program may leave out a call whose results are not used. What is written into the ``.numpy()`` of an argument in
    ``mutates_args`` reaches that argument when the function returns. Results must not share memory with arguments
    (RuntimeError). ValueError for a schema that contradicts ``mutates_args`` or cannot be inferred.

    >>> import numpy as np, torchlike as torch
    >>> @torch.library.custom_op("doc::sin", mutates_args=())
    ... def sin(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(np.sin(x.numpy()))
    >>> @sin.register_fake
    ... def _(x):
    ...     return torch.empty_like(x)
    >>> def backward(ctx, grad):
    ...     return grad * ctx.saved_tensors[0].cos()
    >>> sin.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    >>> x = torch.zeros(2, requires_grad=True)
    >>> torch.autograd.grad(sin(x).sum(), x)
    (tensor([1., 1.]),)
    >>> torch.ops.doc.sin.default._schema
    doc::sin(Tensor x) -> Tensor
    """

    def define(function: Callable) -> "CustomOpDef":
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        namespace, rest = registry.qualified(name)
        made = CustomOpDef(namespace, rest, text, function, tags)
        if schema is not None:
            try:
                _demand_consistent(made._operator.schema, mutates_args, schema)
            except BaseException:
                registry.forget(made._operator.qualname)
                raise
        made.register_kernel(device_types)(function)
        return made

    return define if fn is None else define(fn)


def _demand_consistent(schema: FunctionSchema, mutates_args: Any, text: str) -> None:
    """The arguments that an explicit schema marks as written are those of ``mutates_args``."""
    found = {a.name for a in schema.arguments if a.is_write}
    if mutates_args != "unknown" and found != set(mutates_args):
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={text}. The schema "
            "suggests "
            f"that the op mutates {found} which is different from what was provided to us in `mutates_args`. Please "
            "make "
            "these consistent."
        )


class CustomOpDef:
    """An operator made by :func:`custom_op`. Call it, or ``torch.ops.<namespace>.<name>``."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable, tags: Any = None) -> None:
        self._namespace, self._name, self._init_fn = namespace, name, fn
        before = registry.OPERATORS.get(f"{namespace}::{name}")
        if before is not None and before.owner is not None:  # as a module that is run again
            registry.forget(before.qualname)
        found = registry.tag_tuple(tags)
        self._operator: Operator = registry.define(namespace, name + schema, (Tag.pt2_compliant_tag, *found), self)
        try:
            self._demand_supported()
        except BaseException:
            registry.forget(self._operator.qualname)
            raise
        _defined[self._qualname] = self

    def _demand_supported(self) -> None:
        schema = self._operator.schema
        if schema.name != self._qualname.split(".")[0]:
            raise AttributeError(
                f"'_OpNamespace' '{self._namespace}' object has no attribute '{self._name}': the schema names "
                f"{schema.name}; "
                "leave the name out of schema="
            )
        if any(a.kwarg_only and "Tensor" in str(a.type) for a in schema.arguments):
            raise NotImplementedError(
                f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
            )

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        return self._operator.overload

    @property
    def _schema(self) -> FunctionSchema:
        return self._operator.schema

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return registry.OPERATORS.get(self._qualname, self._operator).overload(*args, **kwargs)

    # -- what can be registered ------------------------------------------------------------------

    def register_kernel(self, device_types: DeviceTypes, fn: Callable | None = None, /) -> Callable:
        """Register ``fn`` as the implementation for some types of devices; None: for those without one of their own.

        RuntimeError for an unknown type of device; ValueError where nothing in the schema says which device a call
        is for.

        >>> import torchlike as torch
        >>> @torch.library.custom_op("doc::twice", mutates_args=(), device_types="cuda")
        ... def twice(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 2
        >>> @twice.register_kernel("cpu")
        ... def _(x):
        ...     return x + x
        >>> twice(torch.ones(1))
        tensor([2.])
        """
        return _decorated(lambda function: self._register_kernel(device_types, function), fn)

    def _register_kernel(self, device_types: DeviceTypes, function: Callable) -> None:
        operator = self._operator
        if device_types is None:
            operator.default = function
            return
        chosen = [device_types] if isinstance(device_types, str) else list(device_types)
        found = [keys.of_device(kind) for kind in chosen]
        arguments = operator.schema.arguments
        if not any("Tensor" in str(a.type) or str(a.type) == "Device" for a in arguments):
            raise ValueError("Functions without tensor inputs are required to have a `device: torch.device` argument")
        for key in found:
            operator.kernels[key] = function

    def register_fake(self, fn: Callable, /) -> Callable:
        """Register what tells the results' shapes, strides, dtypes and devices from arguments without numbers.

        It is run for meta tensors, and for compiled programs that call the operator on the host.
        """
        self._operator.fake = fn
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Register the derivative.

        Args:
            backward: ``backward(ctx, *grads)`` gives one gradient for each argument, None where there is none; a list
                of them for a list of tensors.
            setup_context: ``setup_context(ctx, inputs, output)`` saves what backward needs; operators with
                keyword-only arguments pass them as ``keyword_only_inputs``. Both are called by name.

        RuntimeError if the schema declares mutation or aliasing.
        """
        derivative.demand_functional(self._operator, lambda: self)
        self._operator.formula = (backward, setup_context)

    def register_vmap(self, func: Callable | None = None) -> Any:
        """Register ``func(info, in_dims, *args) -> (outputs, out_dims)``, the operator on batches of arguments.

        ``info`` has ``batch_size`` and ``randomness``. Without a rule ``torch.vmap`` calls the operator in a loop.
        """
        return _decorated(lambda function: setattr(self._operator, "vmap_rule", function), func, returns=False)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable | None = None, /) -> Callable:
        """Register ``fn(mode_or_class, func, types, args, kwargs)`` for a mode or subclass with __torch_dispatch__."""
        return _decorated(lambda f: self._operator.dispatch_rules.__setitem__(torch_dispatch_class, f), fn)

    def register_autocast(self, device_type: str, cast_inputs: dtype) -> None:
        """Under autocast on devices of that type, cast the floating inputs (not float64) to ``cast_inputs``.

        The operator then runs with autocast off. Without this it runs as its kernel does under autocast. ValueError
        for a type of device that has no autocast; of two dtypes for one type the first stays.

        >>> import torchlike as torch
        >>> @torch.library.custom_op("doc::copied", mutates_args=())
        ... def copied(x: torch.Tensor) -> torch.Tensor:
        ...     return x.clone()
        >>> copied.register_autocast("cpu", torch.float16)
        >>> with torch.autocast("cpu"):
        ...     copied(torch.ones(1)).dtype
        torch.float16
        """
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        set_autocast(self._operator, device_type, cast_inputs)

    def register_effect(self, effect: Any) -> None:
        """Ordering of side effects is not supported: None alone is accepted, else NotImplementedError."""
        if effect is not None:
            raise NotImplementedError(
                f"{self._qualname}: register_effect({effect!r}) is not supported; programs order writes only"
            )

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within the context, switch off (or on) the kernel for a type of device: calls run the original function.

        >>> import torchlike as torch
        >>> @torch.library.custom_op("doc::one", mutates_args=())
        ... def one(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.ones_like(x)
        >>> _ = one.register_kernel("cpu", lambda x: torch.zeros_like(x))
        >>> with one.set_kernel_enabled("cpu", enabled=False):
        ...     one(torch.ones(1))
        tensor([1.])
        """
        operator, key = self._operator, keys.of_device(device_type)
        if key not in operator.kernels:
            _log.warning(
                "Attempted to disable kernel for %s but no kernel was registered for this device type.", device_type
            )
        before = set(operator.disabled)
        operator.disabled = before - {key} if enabled else before | {key}
        try:
            yield
        finally:
            operator.disabled = before


def set_autocast(operator: Operator, device_type: str, cast_inputs: dtype) -> None:
    """Let autocast cast the floating inputs of ``operator``; what was said first of a custom operator stays."""
    if not isinstance(cast_inputs, dtype):
        raise TypeError(f"{operator.qualname}: cast_inputs must be a torch.dtype, not {type(cast_inputs).__name__}")
    if not is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    kind = kind_of("register_autocast", device_type)
    if operator.owner is None or kind not in operator.autocast:
        operator.autocast[kind] = cast_inputs


def _decorated(register: Callable[[Callable], Any], fn: Callable | None, returns: bool = True) -> Any:
    """Register ``fn`` now, or give the decorator that does."""

    def decorate(function: Callable) -> Any:
        register(function)
        return function if returns else None

    return decorate if fn is None else decorate(fn)


def definition_of(op: Any) -> CustomOpDef | None:
    """The CustomOpDef behind a name, an overload or itself."""
    if isinstance(op, CustomOpDef):
        return op
    operator = registry.find(op)
    return None if operator is None else operator.owner
