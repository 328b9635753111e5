"""Optimizers whose step is one compiled program for each parameter group."""

import functools
import inspect
from collections.abc import Callable
from itertools import islice
from typing import Any

import jax

from torchlike._aten.python_dispatch import wrappers_alive
from torchlike._base.home import home
from torchlike._base.layout import preserve_strides
from torchlike._base.state import enable_grad, no_grad, state
from torchlike._core.conversion.convert import tensor
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import subclassed
from torchlike._core.tensor.memory_order import apart, restride
from torchlike._core.tensor.mutation import wholes, write
from torchlike._core.tensor.tensor import Tensor, carried, carry, fresh, shape_of, value_of, wrap
from torchlike._decl.derive import Derived
from torchlike._executor import fused, immediate, spread
from torchlike._executor.sparse import LAYER
from torchlike._executor.spread import on_several_devices
from torchlike._functions.amp import unscale_unless
from torchlike._ops.optim import update_all
from torchlike._transforms.capture.recording import DynamicInput
from torchlike.optim._extending import (
    _device_dtype_check_for_fused,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
)
from torchlike.optim._sparse import has_sparse_grad
from torchlike.optim.optimizer import Optimizer, hooked_everywhere


def _kept(shape, number, dtype, like=None):
    """A state tensor of one number, which needs no kernel, in the memory order and over the devices of ``like``."""
    capture = state.capture
    if capture is None:
        value = None if like is None else like._storage.value
        return _laid_as(wrap(immediate.full(shape, number, dtype.np, value)), like)
    with jax.ensure_compile_time_eval():
        t = wrap(immediate.full(shape, number, dtype.np, None if like is None else capture.outside(like)))
    capture.adopt(_laid_as(t, like)._storage)  # from here on what changes of it is the capture's alone
    return t


def zeros(shape, dtype):
    """A tensor of zeros."""
    return _kept(shape, 0, dtype)


def zeros_like(p):
    """Zeros in the shape, dtype, memory order and layout over devices of a parameter."""
    return filled_like(p, 0)


def filled_like(p, number):
    """One number in the shape, dtype, memory order and layout over devices of a parameter."""
    return as_kind(_kept(tuple(shape_of(p)), number, p.dtype, p), p)


def as_kind(t, p):
    """The new state tensor ``t``, with what a parameter of a mesh of devices knows of that."""
    if type(p)._carried:
        carry(t, carried(p))
    return t


def _laid_as(t, p):
    if p is not None and p._view is not None and (strides := preserve_strides(p._view.layout)) != t.stride():
        restride(t, strides)
    return t


def scalar_count(value=0.0, fused=None):
    """A 0-dim tensor that counts steps: float32, or float64 if that is the default dtype and nothing is fused."""
    dtype = _get_scalar_dtype(fused)
    return tensor(number(value), dtype=dtype) if state.dispatch_modes else _kept((), number(value), dtype)


def step_count(fused=None):
    """The count of steps of a parameter, 0."""
    return scalar_count(0.0, fused)


def number(x):
    """A Python number, from a tensor of one element too."""
    return x.item() if isinstance(x, Tensor) else x


def demand(ok: bool, what: str, value: Any) -> None:
    """ValueError unless ``ok``, worded as PyTorch words it."""
    if not ok:
        raise ValueError(f"Invalid {what}: {value}")


def demand_betas(betas) -> None:
    for i in (0, 1):
        demand(0.0 <= number(betas[i]) < 1.0, f"beta parameter at index {i}", betas[i])


def demand_rate(lr, allow_nan=False) -> None:
    """A learning rate: a number that is not negative, or a tensor of one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, got shape {list(lr.shape)}")
    rate = number(lr)
    demand(0.0 <= rate or (allow_nan and rate != rate), "learning rate", lr)


def demand_flags(foreach=None, fused=None, differentiable=False) -> None:
    """The flags that choose among PyTorch's implementations; torchlike has one, compiled for the whole
    group.
    """
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class GroupOptimizer(Optimizer):
    """Base of the optimizers with a rule for each parameter.

    A subclass gives ``_rule`` (see ``_ops.optim``), ``_numbers(group)``: the numbers that may change
    from step to step, ``_options(group)``: what selects a program, ``_kept(group)``: the names of the
    state that the rule maps, and ``_start(p, group)``: the state of a parameter that has none.
    """

    _rule: Callable
    _counts = True
    _unless: Tensor | None = None  # where it is not 0, the step that is being taken changes nothing
    _scalars: tuple[str, ...] = ("step",)  # state that checkpoints of old hold as numbers
    _flags: dict[str, Any] = {}  # options that checkpoints of old may lack, with what they meant

    def __init__(self, params, defaults):
        super().__init__(params, defaults)
        if defaults.get("fused"):
            self._step_supports_amp_scaling = True

    def __setstate__(self, state):
        super().__setstate__(state)
        known = {
            "maximize": False,
            "foreach": None,
            "differentiable": False,
            "capturable": False,
            "fused": None,
        }
        missing = {k: v for k, v in known.items() if k in self.defaults} | self._flags
        for group in self.param_groups:
            for name, default in missing.items():
                group.setdefault(name, default)
        for kept in self.state.values():
            for name in self._scalars if isinstance(kept, dict) else ():
                if isinstance(kept.get(name), int | float):
                    kept[name] = scalar_count(kept[name])

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _options(self, group: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        raise NotImplementedError

    def _kept(self, group: dict[str, Any]) -> tuple[str, ...]:
        raise NotImplementedError

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _grads(self, params: list[Tensor]) -> list[Tensor]:
        return [p.grad for p in params]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss anew and returns it; called first, with gradients enabled.

        Returns what the closure returned, or None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if "found_inf" in self.__dict__ or "grad_scale" in self.__dict__:
            self._take_scaling()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if LAYER.used:
                params = self._without_sparse(group, params)
            if params:
                self._step_group(group, params)
        return loss

    def _without_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        """Those of the parameters that have dense gradients, after a step of the others."""
        sparse = [p for p in params if has_sparse_grad(p)]
        if sparse:
            with no_grad():
                self._step_sparse(group, sparse)
        return [p for p in params if not has_sparse_grad(p)] if sparse else params

    def _step_sparse(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """A step of parameters with sparse gradients, which most optimizers do not take."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _take_scaling(self) -> None:
        """Divide the gradients by what a GradScaler has put into ``grad_scale``."""
        scale, found = self.__dict__.get("grad_scale"), self.__dict__.get("found_inf")
        if scale is None and found is None:
            return
        if not getattr(self, "_step_supports_amp_scaling", False):
            raise AssertionError(
                f"Expected grad_scale and found_inf to be None: {type(self).__name__} takes them if fused=True"
            )
        self._unscale(scale, found)

    def _unscale(self, scale: Tensor | None, found: Tensor | None) -> None:
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if scale is not None and grads:
            unscale_unless(grads, scale, 0 if found is None else found)

    def _step_unless(self, found: Tensor, scale: Tensor | None = None) -> None:
        """A step that changes nothing if ``found`` is not 0, as the device decides; gradients are divided by
        ``scale`` before.
        """
        self._unscale(scale, found)
        self._unless = found
        try:
            self.step()
        finally:
            del self._unless

    def _is_plain(self) -> bool:
        """Whether a step is this library's, and nobody is told of it."""
        hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or hooked_everywhere()
        owner = next(c for c in type(self).__mro__ if "step" in vars(c))
        return not hooks and "step" not in self.__dict__ and home(owner.__module__).startswith("torchlike.optim.")

    def _state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        kept = self.state[p]
        if not kept:
            if group.get("fused"):
                _device_dtype_check_for_fused(p)
            kept.update(self._start(p, group))
        return kept

    def _step_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        if group.get("capturable") and not group.get("fused"):
            self._demand_capturable(params)
        states = [self._state_of(p, group) for p in params]
        self._advance(group, params, states, self._numbers_now(group))

    def _demand_capturable(self, params: list[Tensor]) -> None:
        """AssertionError unless all parameters are on accelerators; in a program that is being compiled they may be
        anywhere.
        """
        devices = _get_capturable_supported_devices()
        if state.capture is None and any(
            p.device.type not in (*devices, "tpu") and not isinstance(p._storage.form, jax.core.Tracer) for p in params
        ):
            tensors = ", ".join(["params", *[f"{name}s" for name in reversed(self._scalars) if name != "step"]])
            raise AssertionError(
                f"If capturable=True, {tensors} and state_steps must be on supported devices: {devices}. Elsewhere "
                "leave it False: every step can be compiled"
            )

    def _numbers_now(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group's numbers; while a step is traced, inputs that every later call reads anew."""
        numbers, capture = self._numbers(group), state.capture
        unless = self.__dict__.get("found_inf") if self._unless is None else self._unless
        skips = {} if unless is None else {"found_inf": unless}
        if capture is None:
            return numbers | skips if skips else numbers
        capture.optimizers.append(self)
        capture.check(lambda: (self._options(group), group.get("maximize"), group.get("differentiable")))
        later = functools.partial(self._numbers, group)
        inputs = {k: v if isinstance(v, Tensor) else self._input(capture, later, k, v) for k, v in numbers.items()}
        return inputs | skips

    def _input(self, capture: Any, later: Callable[[], Any], key: str, number: Any) -> Any:
        """What stands for a number: a float, since one that is whole now need not be so in the next call."""
        return capture.input(float(number) if type(number) is int else number, DynamicInput(later, key))

    def _advance(self, group, params, states, numbers) -> None:
        """One program for all parameters; those that share memory see each other's new values, one after the other."""
        rest = iter(states)
        for part in apart(params):
            self._advance_apart(group, part, [*islice(rest, len(part))], numbers)

    @fused.in_turn
    def _advance_apart(self, group, params, states, numbers) -> None:
        if group.get("differentiable"):
            if group.get("foreach") and self._counts:
                raise AssertionError("_foreach ops don't support autograd: choose foreach or differentiable")
            with enable_grad():
                self._advance_recorded(group, params, states, numbers)
            return
        if state.dispatch_modes or wrappers_alive() and any(map(subclassed, params)):
            with no_grad():
                self._advance_recorded(group, params, states, numbers)
            return
        kept = self._kept(group)
        old = [tuple([value_of(s[k]) for k in kept]) for s in states]
        steps, which = _distinct([s["step"] for s in states]) if self._counts else ((), (0,) * len(params))
        static = (
            ("rule", _traced_once(type(self)._rule)),
            ("which", which),
            ("maximize", bool(group.get("maximize", False))),
            *self._options(group),
        )
        values, grads = [value_of(p) for p in params], [value_of(g) for g in self._grads(params)]
        numbers = {k: value_of(v) if isinstance(v, Tensor) else v for k, v in numbers.items()}

        def keep(new):
            for p, value in zip(params, new[0], strict=True):
                write(p, value)
            for i, (s, arrays) in enumerate(zip(states, new[1], strict=True)):
                for k, array in zip(kept, arrays, strict=True):
                    write(s[k], array)
                if self._counts:
                    write(s["step"], new[2][which[i]])

        storages = wholes((*params, *[s[k] for s in states for k in kept]))
        try:
            fused.replace(update_all, static, (0, 2), (values, grads, old, steps, numbers), keep, storages)
        except ValueError as error:
            if not on_several_devices(error):
                raise
            if not self._advance_by_device(group, params, states, numbers, values):
                raise

    def _advance_recorded(self, group, params, states, numbers) -> None:
        """The same program as one recorded operator, whose results are copied into parameters and state."""
        kept = self._kept(group)
        if self._counts:
            kept = (*kept, "step")
        static = (
            ("rule", type(self)._rule),
            ("maximize", bool(group.get("maximize", False))),
            *self._options(group),
        )
        op = _recorded(static, len(params), len(kept), self._counts, tuple(numbers))
        old = [s[k] for s in states for k in kept]
        # copies are what the operator may save: the tensors themselves are written below
        inputs = [t.clone() for t in params], self._grads(params), [t.clone() for t in old]
        out = call(op, (*inputs[0], *inputs[1], *inputs[2], *numbers.values()), ())
        counts = [False] * len(params) + [k in self._scalars for _ in states for k in kept]
        for t, new, is_count in zip((*params, *old), out, counts, strict=True):
            t.copy_(new.detach() if is_count else new)

    def _advance_by_device(self, group, params, states, numbers, values) -> bool:
        """One program for each device, or for those that parameters are spread over; what a loaded state holds
        elsewhere is moved to its parameter. False where there was nothing to part or to move.
        """
        homes, changed = [fused.home_of(v) for v in values], False
        for devices in dict.fromkeys(homes):
            chosen = [i for i, other in enumerate(homes) if other == devices]
            like = values[chosen[0]]
            for i in chosen:
                for key, t in [(key, t) for key, t in states[i].items() if isinstance(t, Tensor)]:
                    old = value_of(t)
                    new = fused.moved(old, values[i])
                    changed |= new is not old
                    if new is old or spread.layout_of(old) is None:
                        write(t, new)
                    else:  # its storage would spread it again
                        states[i][key] = fresh(new)
            there = {k: fused.moved(v, like) if isinstance(v, jax.Array) else v for k, v in numbers.items()}
            if len(chosen) == len(params) and not changed and all(there[k] is v for k, v in numbers.items()):
                return False
            self._advance(group, [params[i] for i in chosen], [states[i] for i in chosen], there)
        return True


@functools.lru_cache(None)
def _traced_once(rule):
    """The rule as a function that is traced once for all parameters of a shape."""
    options = [p.name for p in inspect.signature(rule).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return jax.jit(rule, static_argnames=options)


@functools.lru_cache(256)
def _recorded(static, n, kept, counts, names):
    """The update of ``n`` parameters with ``kept`` state tensors each as an operator that autograd can
    record.
    """
    options = dict(static) | {"which": tuple(range(n))}

    def step(*values):
        params, grads, values = values[:n], values[n : 2 * n], values[2 * n :]
        states = [values[i * kept : (i + 1) * kept] for i in range(n)]
        numbers = dict(zip(names, values[n * kept :], strict=True))
        steps = [s[-1] for s in states] if counts else ()
        arrays = [s[:-1] if counts else s for s in states]
        new_params, new_states, new_steps = update_all(params, grads, arrays, steps, numbers, **options)
        tails = [(t,) for t in new_steps] if counts else [()] * n
        return (*new_params, *(x for s, tail in zip(new_states, tails, strict=True) for x in (*s, *tail)))

    return Derived(options["rule"].__name__, "OptimizerStepBackward", step, ("step", static, n, kept, counts, names))


def _distinct(tensors: list[Tensor]) -> tuple[list, tuple[int, ...]]:
    """The distinct step counts as arrays, and for each tensor the index of its own.

    Parameters that step together share one array, so it is enough to compare identities; counts that
    were loaded from a checkpoint are compared by value, once.
    """
    if state.capture is not None:
        state.capture.unite([t._storage for t in tensors])
    values = [value_of(t) for t in tensors]
    seen: dict[int, int] = {}
    which = tuple([seen.setdefault(id(v), len(seen)) for v in values])
    if len(seen) == 1:
        return [values[0]], which
    if any(isinstance(v, jax.core.Tracer) or not isinstance(v, jax.Array) for v in values):
        return list({id(v): v for v in values}.values()), which
    numbers: dict[tuple, int] = {}
    unique = list({id(v): v for v in values}.values())
    of = {id(v): numbers.setdefault((float(v), v.dtype, tuple(v.devices())), len(numbers)) for v in unique}
    first = list({of[id(v)]: v for v in reversed(unique)}.items())
    return [v for _, v in sorted(first, key=lambda item: item[0])], tuple([of[id(v)] for v in values])
