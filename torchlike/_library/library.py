"""``torch.library.Library``: definitions and kernels that live as long as it does."""

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from torchlike._aten.packets import OpOverload
from torchlike._decl.op import EXTENSIONS
from torchlike._library import keys, registry
from torchlike._library.replaced import replace

_RESERVED = ("prim",)
_ANALYSES = ("", "FROM_SCHEMA", "CONSERVATIVE", "PURE_FUNCTION")
_DEF_SPACES: set[str] = set()


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
        self._restore: list[Callable[[], None]] = []
        self._finalizer = weakref.finalize(self, _unregister, ns, kind, self._op_defs, self._undo, self._restore)
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

        Without a key it is composed of other operators (``CompositeImplicitAutograd``). In the namespace ``aten`` it
        replaces the kernel of an operator, which keeps its derivative; the function is compiled, so what it does
        beside computing its result is done once. NotImplementedError for ``with_keyset``, and for operators of
        ``aten`` that are composed of others or give views.
        """
        self._demand_alive()
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = keys.parsed(dispatch_key or self.dispatch_key or keys.IMPLICIT)
        name = self._qualified(op_name)
        if dispatch_key and self.dispatch_key and dispatch_key != self.dispatch_key:
            raise RuntimeError(
                f"impl({str(op_name)!r}, ...): Explicitly provided dispatch key ({dispatch_key}) is inconsistent with "
                f"the dispatch key of the Library ({self.dispatch_key}); make another Library for it"
            )
        keys.demand_used(key, name)
        if with_keyset:
            raise NotImplementedError(f"{name}: impl(with_keyset=True) is not supported; kernels get arguments alone")
        if self.ns == "aten":
            self._restore.append(replace(name.partition("::")[2], key, fn))
            return
        demand_ours(name)
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
        set_fake(self._qualified(op_name), fn, allow_override)

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


def _unregister(ns: str, kind: str, defined: set[str], undo: list, restore: list) -> None:
    for put_back in reversed(restore):
        put_back()
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


def demand_ours(name: str) -> None:
    """NotImplementedError for an operator whose kernels are fixed: torchlike's own, and those of ``jax_op``."""
    if name in EXTENSIONS and name not in registry.OPERATORS:
        raise NotImplementedError(
            f"{name} was declared by jax_op(): its kernel, derivative and batching are those of the declaration; pass "
            "vjp= "
            "there, or write a torch.library.custom_op() that calls it"
        )
    if name.partition("::")[0] in ("aten", "torchlike", "prims"):
        raise NotImplementedError(
            f"{name}: kernels of built-in operators cannot be replaced; change what a call does with a "
            "torch.utils._python_dispatch.TorchDispatchMode, or define an operator of your own"
        )


def set_fake(name: str, function: Callable, allow_override: bool) -> None:
    """Register a fake implementation; RuntimeError where there is no operator that could have one."""
    demand_ours(name)
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
