"""An operator that was registered: its kernels, and the way of a call to one of them.

The layers of a call, as PyTorch has them: overrides, autocast, function transforms, autograd,
``__torch_dispatch__``, kernel.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlike._aten.packets import OpOverload, OpOverloadPacket
from torchlike._aten.python_dispatch import handlers, invoke, modes_set_to, wrappers_alive
from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._base.state import AUTOCAST, below_autograd, followed, state
from torchlike._core.autocast.composite import off
from torchlike._core.autocast.custom import all_cast
from torchlike._core.autocast.layer import types_of
from torchlike._core.dispatch.dispatch_keys import DEVICES
from torchlike._core.overrides import torch_function
from torchlike._core.tensor.mutation import bump
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.zero_tensor import is_zero
from torchlike._decl.function_schema import FunctionSchema
from torchlike._library import derivative, fake_impl, keys, numpy_views, results, traced
from torchlike._library.binding import Binder, tensors
from torchlike._library.excluded_keys import EXCLUDED, AutoDispatchBelowAutograd


class Operator:
    """One overload: a schema, and what was registered for it.

    Attributes:
        kernels: {dispatch key: function}. disabled: keys whose kernels are switched off. default: the kernel of a
            ``custom_op`` for devices that have none of their own, or None.
        owner: the object that ``custom_op`` made, or None for operators of a Library.
        fake: the fake implementation. formula: (backward, setup_context). vmap_rule. dispatch_rules: {class: rule}.
        autocast: {type of device: the dtype that autocast casts to}.
        opaque: kernels known to need numbers, so that programs call them on the host.
    """

    def __init__(self, schema: FunctionSchema, owner: Any = None) -> None:
        self.schema, self.owner = schema, owner
        self.binder = Binder(schema)
        self.kernels: dict[str, Callable] = {}
        self.disabled: set[str] = set()
        self.default: Callable | None = None
        self.fake: Callable | None = None
        self.formula: tuple[Callable | None, Callable | None] | None = None
        self.vmap_rule: Callable | None = None
        self.dispatch_rules: dict[type, Callable] = {}
        self.autocast: dict[str, dtype] = {}
        self.opaque: set[Callable] = set()
        self.generated: Any = None
        self.overload: Any = None
        self.aliases = any(r.alias_info is not None for r in schema.returns)

    @property
    def qualname(self) -> str:
        """``ns::name``, and ``.overload`` if it has one."""
        suffix = f".{self.schema.overload_name}" if self.schema.overload_name else ""
        return self.schema.name + suffix

    # -- the layers of a call ----------------------------------------------------------------------

    def call(self, args: tuple, kwargs: dict) -> Any:
        """Run the operator from the top."""
        args, kwargs = self.binder(args, kwargs)
        if state.capture is not None:
            state.capture.check(self._registered)
        if self in EXCLUDED.dispatched:
            return self._dispatched(args, kwargs)
        if state.active & AUTOCAST:
            return self._autocast(args, kwargs)
        return self._transformed(args, kwargs)

    def _registered(self) -> tuple:
        """All that was registered for it, in a form that can be compared."""
        tables = {**self.kernels}, {**self.dispatch_rules}, {**self.autocast}, {*self.disabled}
        return (*tables, self.default, self.fake, self.formula, self.vmap_rule)

    def _autocast(self, args: tuple, kwargs: dict) -> Any:
        """Cast the arguments, if autocast is on where one of them is and the operator says to what; the rest is off.

        A kernel for autocast is called as it is: what it calls itself is under autocast unless it says otherwise.
        """
        places = {t.device.type for t in tensors((*args, *kwargs.values()))}
        for kind in state.autocast.on:
            if not places & types_of(kind):
                continue
            kernel = self.kernels.get(f"Autocast{DEVICES[kind]}")
            if kernel is not None:
                return results.checked(self.schema, followed(kernel)(*args, **kwargs))
            if kind in self.autocast:
                args, kwargs = [all_cast(x, kind, self.autocast[kind]) for x in (args, kwargs)]
                with off():
                    return self._transformed(args, kwargs)
        return self._transformed(args, kwargs)

    def _transformed(self, args: tuple, kwargs: dict) -> Any:
        if state.levels and not self._is_composite(args, kwargs):
            return derivative.apply(self, args, kwargs)
        return self._recorded(args, kwargs)

    def _recorded(self, args: tuple, kwargs: dict) -> Any:
        if not EXCLUDED.autograd:
            kernel = self._autograd_kernel(args, kwargs)
            if kernel is not None:
                return results.checked(self.schema, followed(kernel)(*args, **kwargs))
        if self._is_composite(args, kwargs):
            return results.checked(self.schema, followed(self.kernels[keys.IMPLICIT])(*args, **kwargs))
        if EXCLUDED.autograd:
            return self.run_below_autograd(args, kwargs)
        needs = state.grad and any(t.requires_grad for t in tensors((*args, *kwargs.values())))
        if self.formula is None and self.owner is None:
            out = self.run_below_autograd(args, kwargs)
            if needs and not (self.aliases or self.schema.is_mutable):
                _warn_when_used(self.qualname, out)
            return out
        if needs:
            return derivative.apply(self, args, kwargs)
        with below_autograd():
            return self.run_below_autograd(args, kwargs)

    def run_below_autograd(self, args: tuple, kwargs: dict) -> Any:
        """Run the operator below autograd; what a custom operator declares to change has changed."""
        out = self._dispatched(args, kwargs)
        if self.schema.is_mutable and self.owner is not None:
            for t in self.binder.written(args, kwargs):
                bump(t)
        return out

    def _dispatched(self, args: tuple, kwargs: dict) -> Any:
        """Show the call to the modes and subclasses with a ``__torch_dispatch__``."""
        overloaded = handlers((*args, *kwargs.values())) if wrappers_alive() else []
        modes = state.dispatch_modes
        if not modes and not overloaded:
            return self.compute(*args, **kwargs)
        before = EXCLUDED.dispatched
        EXCLUDED.dispatched = (*before, self)
        try:
            types = tuple([type(t) for t in overloaded])
            if modes and type(modes[-1]) in self.dispatch_rules:
                rule = self.dispatch_rules[type(modes[-1])]
                with modes_set_to(modes[:-1]):
                    return rule(modes[-1], self.overload, types, args, kwargs)
            for cls in types if not modes else ():
                if cls in self.dispatch_rules:
                    return self.dispatch_rules[cls](cls, self.overload, types, args, kwargs)
            return invoke(self.overload, args, kwargs)
        finally:
            EXCLUDED.dispatched = before

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel for the device of the arguments."""
        given = list(tensors((*args, *kwargs.values())))
        place = _place(given, (*args, *kwargs.values()))
        if place == "meta":
            return results.checked(self.schema, self.run_fake(args, kwargs))
        zero = "ZeroTensor" in self.kernels and any(map(is_zero, given))
        kernel = self.kernel_for("ZeroTensor" if zero else keys.of_device(place))
        if traced.is_traced(given):
            out = traced.run(self, kernel, args, kwargs)
        elif self.schema.is_mutable:
            with numpy_views.as_numpy(self.binder.written(args, kwargs), counted=self.owner is not None):
                out = kernel(*args, **kwargs)
        else:
            out = kernel(*args, **kwargs)
        out = results.checked(self.schema, out)
        if self.owner is not None and (self.schema.is_mutable or not self.aliases):
            got = (out,) if isinstance(out, Tensor) else out if isinstance(out, list | tuple) else ()
            results.demand_apart(self.schema.name, given, tensors(got))
        return out

    # -- which kernel ----------------------------------------------------------------------------------

    def kernel_for(self, key: str) -> Callable:
        """The kernel for a dispatch key; NotImplementedError where there is none."""
        if key in self.disabled:
            return self.owner._init_fn
        found = self.kernels.get(key) or self.default
        found = found or self.kernels.get(keys.EXPLICIT) or self.kernels.get(keys.IMPLICIT)
        if found is None:
            name = self.qualname
            raise NotImplementedError(
                f"Could not run '{name}' with arguments from the '{key}' backend: no kernel is registered for it. "
                "Register "
                f"one with torch.library.register_kernel('{name}', '{key.lower()}', function). '{name}' is only "
                "available "
                f"for these backends: [{', '.join(self.kernels)}]."
            )
        return found

    def run_fake(self, args: tuple, kwargs: dict) -> Any:
        """The result in shape, dtype and device alone."""
        fake = self.kernels.get("Meta") or self.fake
        if fake is None and self.owner is None:
            fake = self.kernels.get(keys.EXPLICIT) or self.kernels.get(keys.IMPLICIT)
        if fake is None and not self.schema.returns:
            return None
        if fake is not None:
            return fake_impl.run(self.qualname, followed(fake), args, kwargs)
        if self.owner is not None:
            raise RuntimeError(
                f"There was no fake impl registered for {self.owner!r}. This is necessary for torch.compile/export/fx "
                f"tracing to work. Please use `{self.schema.name.partition('::')[2]}.register_fake` to add an fake "
                "impl."
            )
        raise NotImplementedError(
            f"{self.qualname}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta "
            "kernel "
            f"registered; add one with torch.library.register_fake('{self.qualname}', function)"
        )

    def has_fake(self) -> bool:
        """Whether the results can be told without the numbers."""
        return bool(self.kernels.get("Meta") or self.fake or not self.schema.returns)

    def _is_composite(self, args: tuple, kwargs: dict) -> bool:
        """Whether the call is made of other operators, which see to derivatives and transforms."""
        if keys.IMPLICIT not in self.kernels:
            return False
        values = (*args, *kwargs.values())
        place = _place(list(tensors(values)), values)
        return keys.of_device(place) not in self.kernels and keys.EXPLICIT not in self.kernels

    def _autograd_kernel(self, args: tuple, kwargs: dict) -> Callable | None:
        if not any(key.startswith("Autograd") for key in self.kernels):
            return None
        values = (*args, *kwargs.values())
        key = "Autograd" + keys.of_device(_place(list(tensors(values)), values))
        found = self.kernels.get(key) or self.kernels.get("Autograd")
        return None if found is fallthrough_kernel else found

    def has_autograd(self) -> bool:
        """Whether anything is registered that differentiates it."""
        return self.formula is not None or any(k.startswith("Autograd") or k == keys.IMPLICIT for k in self.kernels)


def fallthrough_kernel() -> None:
    """Registered as a kernel, it passes a call on to the next layer; it is never called itself."""
    raise NotImplementedError("fallthrough_kernel() should never be called: register it with Library.impl() instead.")


def _place(given: list[Tensor], values: tuple) -> str:
    """The type of the device that a call is for."""
    if given:
        found = {t.device.type for t in given}
        return "meta" if "meta" in found else next((p for p in found if p != "cpu"), "cpu")
    named = next((v for v in values if isinstance(v, device)), None)
    return named.type if named is not None else "cpu"


def _warn_when_used(name: str, out: Any) -> None:
    """Let a gradient that arrives at a result warn that the operator has no derivative of its own."""
    message = (
        f"{name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through "
        "it. "
        "This may lead to silently incorrect behavior. If your operator is differentiable, register its derivative "
        "with "
        "torch.library.register_autograd(); if it is composed of differentiable operators, register it as "
        "CompositeImplicitAutograd."
    )
    for t in tensors((out,)):
        if t.requires_grad and not t.is_leaf:
            t.register_hook(lambda grad: warnings.warn(message, stacklevel=2))


def _strangers(values: Iterable) -> Iterator:
    """The arguments that may override the call."""
    for x in values:
        kind = type(x)
        if kind is list or kind is tuple:
            yield from _strangers(x)
        elif kind is not Tensor and kind not in torch_function.PLAIN:
            yield x


class RegisteredOverload(OpOverload):
    """``torch.ops.<ns>.<name>.<overload>`` of a registered operator."""

    def __init__(self, packet: OpOverloadPacket, operator: Operator, tags: tuple) -> None:
        super().__init__(packet, operator.schema, operator.compute, tags)
        self._operator = operator
        operator.overload = self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if state.overrides_off < 2:
            given = (*args, *kwargs.values())
            found = [] if state.overrides_off else torch_function.overloaded(_strangers(given))
            if found or state.function_modes:
                return torch_function.dispatch(self, found, args, kwargs, f"torch.ops.{self}")
        return self._operator.call(args, kwargs)

    @property
    def _schema(self) -> FunctionSchema:
        return self._operator.schema

    @_schema.setter
    def _schema(self, schema: FunctionSchema) -> None:
        """Given by the operator."""

    def redispatch(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operator below autograd."""
        with AutoDispatchBelowAutograd():
            return self._operator.call(args, kwargs)
