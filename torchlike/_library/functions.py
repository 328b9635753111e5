"""The functions of ``torch.library`` that register something for an operator by its name."""

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike._base.dtypes import dtype
from torchlike._core.autocast.settings import is_autocast_available
from torchlike._library import derivative, keys, registry
from torchlike._library.custom_ops import DeviceTypes, custom_op, definition_of, set_autocast
from torchlike._library.library import Library, demand_ours, set_fake
from torchlike._library.operator import Operator

_KEPT: list[Library] = []  # what the functions register stays


def _kept(ns: str, lib: Library | None) -> Library:
    if lib is None:
        lib = Library(ns, "FRAGMENT")
        _KEPT.append(lib)
    return lib


@functools.singledispatch
def define(qualname: Any, schema: Any, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define an operator: ``define("ns::name", "(Tensor x) -> Tensor")``.

    ValueError for a name without namespace or text that does not look like a schema, RuntimeError for a name that is
    taken or a malformed schema. With a :class:`Library` as first argument and ``"name(Tensor x) -> Tensor"`` as second
    it decorates the implementation.

    >>> import torchlike as torch
    >>> torch.library.define("docs::same_sign", "(Tensor x, Tensor y) -> Tensor")
    >>> @torch.library.impl("docs::same_sign", "default")
    ... def same_sign(x, y):
    ...     return x * y > 0
    >>> torch.ops.docs.same_sign(torch.tensor([1.0, -1.0]), torch.ones(2))
    tensor([ True, False])
    """
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, name = registry.qualified(qualname)
    if not re.fullmatch(r"\(.*\) -> .*", schema, re.DOTALL):
        raise ValueError(
            'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got '
            f'"{schema}"'
        )
    _kept(namespace, lib).define(name + schema, tags=tags)


@define.register
def _(lib: Library, schema: str, alias_analysis: str = "") -> Callable:
    def decorate(fn: Callable) -> Callable:
        name = lib.define(schema, alias_analysis)
        lib.impl(name, fn)
        return fn

    return decorate


@functools.singledispatch
def impl(qualname: Any, types: Any, func: Callable | None = None, *, lib: Library | None = None) -> Any:
    """Register an implementation for device types (``"cpu"``, ``"default"``: all) or dispatch keys.

    Without ``func`` it decorates one. RuntimeError for an unknown type. With a :class:`Library` as first argument:
    ``impl(lib, name, dispatch_key="")``.
    """
    if not isinstance(qualname, str):
        raise ValueError(f"impl(): expected qualname to be instance of str, got {type(qualname)}")
    namespace, name = registry.qualified(qualname)
    chosen = keys.names(types)

    def register(function: Callable) -> None:
        target = _kept(namespace, lib)
        for key in chosen:
            target.impl(name, function, key)

    return register if func is None else register(func)


@impl.register
def _(lib: Library, name: Any, dispatch_key: str = "") -> Callable:
    def decorate(fn: Callable) -> Callable:
        lib.impl(name, fn, dispatch_key)
        return fn

    return decorate


def register_kernel(
    op: Any, device_types: DeviceTypes, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """Register an implementation for types of devices (None: all) of an operator, given by name or as an object."""
    name = registry.demand_op("register_kernel", op)
    custom = definition_of(op)
    if custom is not None:
        return custom.register_kernel(device_types, *([] if func is None else [func]))
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Register what tells the results' shapes and dtypes from arguments without numbers.

    It runs for meta tensors, and for compiled programs that call the operator on the host. RuntimeError if there is
    no such operator.

    >>> import torchlike as torch
    >>> torch.library.define("docs::rows", "(Tensor x) -> Tensor")
    >>> @torch.library.register_fake("docs::rows")
    ... def _(x):
    ...     return x.new_empty(x.shape[0])
    >>> torch.ops.docs.rows(torch.ones(2, 3, device="meta")).shape
    torch.Size([2])
    """
    name = registry.demand_op("register_fake", op)

    def register(function: Callable) -> Callable:
        set_fake(name, function, allow_override)
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Any, func: Callable | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The old name of :func:`register_fake`."""
    warnings.warn(
        "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. Please use that instead; we will "
        "remove `torch.library.impl_abstract` in a future version of PyTorch.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def _operator(function: str, op: Any) -> Operator:
    name = registry.demand_op(function, op)
    demand_ours(name)
    return registry.demand(name)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Library | None = None
) -> None:
    """Register the derivative of an operator; see :meth:`CustomOpDef.register_autograd`.

    AttributeError if there is no such operator, RuntimeError if it is not functional.
    """
    operator = _operator("register_autograd", op)
    derivative.demand_functional(operator, lambda: operator.owner or operator.overload)
    operator.formula = (backward, setup_context)


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Register ``func(info, in_dims, *args) -> (outputs, out_dims)``: the operator on batches of arguments."""
    registry.demand_op("register_vmap", op)

    def register(function: Callable) -> None:
        _operator("register_vmap", op).vmap_rule = function

    return register if func is None else register(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """Register ``func(mode_or_class, func, types, args, kwargs)`` for a class with ``__torch_dispatch__``."""
    registry.demand_op("register_torch_dispatch", op)

    def register(function: Callable) -> Callable:
        _operator("register_torch_dispatch", op).dispatch_rules[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: dtype, /, *, lib: Library | None = None) -> None:
    """Let autocast cast the floating inputs of an operator; see :meth:`CustomOpDef.register_autocast`.

    Of an operator of a :class:`Library` the last dtype counts.
    """
    name = registry.demand_op("register_autocast", op)
    if not is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    demand_ours(name)
    set_autocast(registry.demand(name), device_type, cast_inputs)


def triton_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """:func:`custom_op` whose function serves the meta device, too.

    Triton kernels do not run: :func:`wrap_triton` refuses in the function, on devices where it calls one.

    >>> import torchlike as torch
    >>> @torch.library.triton_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> twice(torch.ones(2)), twice(torch.ones(2, device="meta")).shape
    (tensor([2., 2.]), torch.Size([2]))
    """

    def made(function: Callable) -> Any:
        found = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        found.register_fake(function)
        return found

    return made if fn is None else made(fn)


def wrap_triton(triton_kernel: Callable, /) -> NoReturn:
    """Triton is not supported: NotImplementedError. Write the kernel in Pallas; see :func:`jax_op`."""
    raise NotImplementedError(
        "wrap_triton(): torchlike does not run Triton kernels; write it with jax.experimental.pallas and declare it "
        "with "
        "torch.library.jax_op()"
    )


class _Kernel:
    """A registered kernel, taken out of its operator."""

    def __init__(self, name: str, key: str, function: Callable) -> None:
        self._name, self._key, self._function = name, key, function

    def call_boxed(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"SafeKernelFunction(debug='{self._name} [{self._key}]')"


def get_kernel(op: Any, dispatch_key: str) -> _Kernel:
    """The kernel that a call of ``op`` with this dispatch key runs, as an object with ``call_boxed(None, *args)``.

    RuntimeError if the operator does not exist or has no such kernel, ValueError for an unknown key.
    """
    name = registry.demand_op("get_kernel", op)
    operator = registry.OPERATORS.get(name)
    if operator is None:
        raise RuntimeError(f"operator {name} does not exist")
    if dispatch_key not in keys.KNOWN:
        raise ValueError(f"Invalid dispatch key: {dispatch_key}")
    try:
        return _Kernel(name, dispatch_key, operator.kernel_for(dispatch_key))
    except NotImplementedError as error:
        raise RuntimeError(str(error)) from None
