"""``torch.library.Library`` and the functions that register something for an operator by its name."""

import contextlib
import functools
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from torchlike._base.dtypes import dtype
from torchlike._core.packets import OpOverload
from torchlike._library import derivative, keys, registry
from torchlike._library.custom_ops import DeviceTypes, definition_of, refuse_autocast
from torchlike._library.operator import Operator, fallthrough_kernel

_RESERVED = ("prim",)
_ANALYSES = ("", "FROM_SCHEMA", "CONSERVATIVE", "PURE_FUNCTION")
_DEF_SPACES: set[str] = set()
_KEPT: list["Library"] = []  # of the functions below: what they register stays


class Library:
    """Defines operators and registers kernels for them, for as long as it lives.

    Args:
        ns: the namespace. kind: ``"DEF"`` (the one library that owns the namespace), ``"FRAGMENT"`` or ``"IMPL"``.
        dispatch_key: what :meth:`impl` registers for by default, ``"CPU"``, ``"Autograd"`` or ``"Meta"``, for example.

    ValueError for another kind or a reserved namespace; RuntimeError for an unknown key or a second ``"DEF"``.

    >>> import torchlike as torch
    >>> lib = torch.library.Library("docs", "FRAGMENT")
    >>> lib.define("double(Tensor x) -> Tensor")
    'double'
    >>> lib.impl("double", lambda x: x * 2, "CPU")
    >>> torch.ops.docs.double(torch.ones(1))
    tensor([2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}; expected 'DEF', 'FRAGMENT' or 'IMPL'")
        if ns in _RESERVED and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if dispatch_key:
            keys.parsed(dispatch_key)
        if kind == "DEF":
            if ns in _DEF_SPACES or ns == "aten":
                raise RuntimeError(
                    f"Only a single Library of the kind DEF can be used to register the namespace {ns}, and there is "
                    "one. To "
                    "specify implementations, use IMPL; to define operators in several places, FRAGMENT."
                )
            _DEF_SPACES.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs: set[str] = set()
        self._op_impls: set[str] = set()
        self._undo: list[tuple[str, str, Callable]] = []
        self._alive = True
        self._finalizer = weakref.finalize(self, _unregister, ns, kind, self._op_defs, self._undo)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define the operator of a schema, ``"name.overload(Tensor x) -> Tensor"``; gives its name.

        RuntimeError for text that is no schema, a name that is taken, or a library of the kind IMPL.
        """
        self._demand_alive()
        if not isinstance(schema, str):
            raise AttributeError(f"define(): expected the schema as a str, but got {type(schema).__name__}")
        if alias_analysis not in _ANALYSES:
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}; expected one of {_ANALYSES}")
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{schema.partition("(")[0]}"): Cannot define an operator inside of a library of the kind IMPL; '
                "use "
                "DEF or FRAGMENT."
            )
        operator = registry.define(self.ns, schema, registry.tag_tuple(tags))
        self._op_defs.add(operator.qualname)
        return operator.schema.name.partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register ``fn`` for an operator (its name or overload) under a dispatch key.

        Without a key it is composed of other operators (``CompositeImplicitAutograd``). ``with_keyset`` is not
        supported, nor are the operators of ``aten`` (NotImplementedError).
        """
        self._demand_alive()
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = keys.parsed(dispatch_key or self.dispatch_key or keys.IMPLICIT)
        name = self._qualified(op_name)
        demand_ours(name)
        keys.demand_used(key, name)
        if with_keyset:
            raise NotImplementedError(f"{name}: impl(with_keyset=True) is not supported; kernels get arguments alone")
        table = registry.kernels_of(name)
        if key == "Meta" and keys.IMPLICIT in table:
            raise RuntimeError(
                f"We should not register a meta kernel directly to the operator '{name}', because it has a "
                "CompositeImplicitAutograd kernel. Let the operator decompose, and ensure that the operators it "
                "decomposes "
                "into have meta kernels."
            )
        if key in table and not allow_override:
            raise RuntimeError(
                f"{name} already has a kernel for the dispatch key {key}; pass allow_override=True to replace it"
            )
        if key in table:
            _warn_of_override(name, key)
        table[key] = fn
        self._op_impls.add(f"{name.replace('::', '/')}/{key if dispatch_key or self.dispatch_key else ''}")
        self._undo.append((name, key, fn))

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> NoReturn:
        """Kernels for all operators at once are not supported.

        RuntimeError outside of the namespace ``_``, else NotImplementedError.
        """
        if self.ns != "_":
            raise RuntimeError(
                'Fallback can only be registered using library fragment on the global namespace "_" but it is '
                f"{self.ns}"
            )
        raise NotImplementedError(
            "Library.fallback() is not supported; a torch.utils._python_dispatch.TorchDispatchMode sees every operator"
        )

    def _register_fake(self, op_name: Any, fn: Callable, _stacklevel: int = 1, *, allow_override: bool = True) -> None:
        self._demand_alive()
        _set_fake(self._qualified(op_name), fn, allow_override)

    def _register_torch_dispatch_rule(self, op_name: Any, torch_dispatch_class: Any, fn: Callable) -> None:
        self._demand_alive()
        registry.demand(self._qualified(op_name)).dispatch_rules[torch_dispatch_class] = fn

    def _qualified(self, op: Any) -> str:
        if isinstance(op, OpOverload):
            name = op.name()
        elif isinstance(op, str):
            name = op if "::" in op else f"{self.ns}::{op}"
        else:
            raise RuntimeError(
                f"impl should be passed either a name or an OpOverload object as the first argument, got {type(op)}"
            )
        if name.partition("::")[0] != self.ns:
            raise RuntimeError(
                f'impl("{name}", ...): Explicitly provided namespace ({name.partition("::")[0]}) in operator name does '
                "not "
                f"match namespace of the enclosing library ({self.ns})"
            )
        return name.removesuffix(".default")

    def _demand_alive(self) -> None:
        if not self._alive:
            raise AssertionError("Library object has been destroyed")

    def _destroy(self) -> None:
        """Take back everything that was defined and registered."""
        self._alive = False
        self._finalizer()


_overridden: list[str] = []


def _warn_of_override(name: str, key: str) -> None:
    if not _overridden:
        _overridden.append(name)
        warnings.warn(
            "Overriding a previously registered kernel for the same operator and the same dispatch key (this is said "
            "only "
            f"once for all operators; others may be overridden too): {name}, {key}",
            stacklevel=3,
        )


def _unregister(ns: str, kind: str, defined: set[str], undo: list[tuple[str, str, Callable]]) -> None:
    for name, key, fn in undo:
        table = registry.kernels_of(name)
        if table.get(key) is fn:
            del table[key]
    for name in defined:
        registry.forget(name)
    if kind == "DEF":
        _DEF_SPACES.discard(ns)


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that is taken back at the end."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def _kept(ns: str, lib: Library | None) -> Library:
    if lib is None:
        lib = Library(ns, "FRAGMENT")
        _KEPT.append(lib)
    return lib


def demand_ours(name: str) -> None:
    """NotImplementedError for an operator of torchlike itself, whose kernels are fixed."""
    if name.partition("::")[0] in ("aten", "torchlike", "prims"):
        raise NotImplementedError(
            f"{name}: kernels of built-in operators cannot be replaced; change what a call does with a "
            "torch.utils._python_dispatch.TorchDispatchMode, or define an operator of your own"
        )


# -- functions ---------------------------------------------------------------------------------------------


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
    demand_ours(name)
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
        demand_ours(name)
        _set_fake(name, function, allow_override)
        return function

    return register if func is None else register(func)


def _set_fake(name: str, function: Callable, allow_override: bool) -> None:
    operator = registry.OPERATORS.get(name)
    if operator is None:
        raise RuntimeError(f"operator {name} does not exist")
    if keys.IMPLICIT in operator.kernels:
        raise RuntimeError(
            f"We should not register a meta kernel directly to the operator '{name}', because it has a "
            "CompositeImplicitAutograd kernel: it will decompose into operators that can have fake implementations."
        )
    if operator.fake is not None and not allow_override:
        raise RuntimeError(f"register_fake(...): the operator {name} already has a fake implementation")
    operator.fake = function


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
    """Autocast is a later addition: NotImplementedError, once the arguments are found to make sense."""
    name = registry.demand_op("register_autocast", op)
    registry.demand(name)
    refuse_autocast(name, device_type)


def triton_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, schema: str | None = None) -> NoReturn:
    """Triton is not supported: NotImplementedError. Write the kernel in Pallas; see :func:`jax_op`."""
    raise NotImplementedError(
        f"triton_op({name!r}): torchlike does not run Triton kernels; write it with jax.experimental.pallas and "
        "declare it "
        "with torch.library.jax_op()"
    )


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


__all__ = [
    "Library", "define", "fallthrough_kernel", "get_kernel", "impl", "impl_abstract", "register_autocast",
    "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op",
    "wrap_triton",
]  # fmt: skip
