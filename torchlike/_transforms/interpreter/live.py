"""Numbers that change from call to call: they enter a program as inputs, not as constants.

A number that was read becomes live once a guard on its value has failed. Arithmetic of live numbers is kept as a
recipe that each call follows; a comparison becomes a guard on its outcome; with a tensor they are an input.
What needs the number itself makes it a constant of the program again, with a guard on its value.
"""

from __future__ import annotations

import collections
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import dtypes
from torchlike._base.state import AUTOCAST, DISPATCH, state
from torchlike._core.autograd.node import is_leaf
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._ops import power
from torchlike._transforms.capture.kinds import kind_of
from torchlike._transforms.capture.numbers import INT64, Number
from torchlike._transforms.interpreter.number_arguments import held_places, live_places
from torchlike._transforms.interpreter.reads import Read
from torchlike._transforms.interpreter.trust import own

KINDS = {
    "entry": dict.__getitem__,
    "item": operator.getitem,
    "cell": lambda cell, _: cell.cell_contents,
    "attr": getattr,
    "len": lambda x, _: len(x),
    "class": lambda cls, name: vars(cls)[name],
    "slot": lambda x, descriptor: descriptor.__get__(x),
    "argument": lambda arguments, position: arguments.leaves[position],
}
_NUMERIC = (float, int)
_NEVER = frozenset((bool, str, type(None)))
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_MIRRORED = {
    "<": operator.gt, "<=": operator.ge, ">": operator.lt, ">=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_WITH_TENSORS = frozenset(("+", "-", "*", "/", "+=", "-=", "*=", "/="))
_WEAKLY = _WITH_TENSORS | _COMPARISONS | {"//", "//="}
_POWERS = frozenset(("pow", "pow_"))
# How many arguments have functions whose last one may be a tensor without dimensions.
_LAST = {"lerp": 3, "lerp_": 3, "masked_fill": 3, "masked_fill_": 3, "fill_": 2}
_FILLED = {"full": 2, "full_like": 2, "new_full": 3, "tensor": 1}  # of functions that make a tensor of their last one
_METHODS = frozenset(("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "multiply", "divide", "true_divide"))


_MOST: float = float(np.finfo(np.float32).max)
_OF_SOME_TYPE = frozenset((min, max, pow, operator.pow))  # the type of what they give depends on the numbers
_HOLDS: dict[Any, Callable[[Any], bool]] = {
    dtypes.float32: lambda x: not math.isfinite(x) or abs(x) <= _MOST,
    dtypes.float64: lambda x: type(x) is float or abs(x) < 1 << 1023,
    dtypes.int64: lambda x: type(x) is int and x in INT64,
}


class Live:
    """The part of the interpreter that knows which numbers change.

    Attributes:
        moving: {(kind, id of a holder, key)} of the numbers and tensors that have changed. lives: whether numbers
            were read that did. tensors: {place: (what stands for tensors that did, these)}.
    """

    def live(self, value: Any, kind: str, holder: Any, key: Any) -> Any:
        """A value that was just read, as a live number if it has changed before."""
        if not self.moving or type(value) in _NEVER or not may_live(value):
            return value
        place = kind, id(holder), key
        if place not in self.moving or place in self.fixed:
            return value
        if type(value) not in _NUMERIC:
            return self._live_tensors(value, place, holder, key)
        found = self.reads.found.pop(self.reads.key(kind, holder, key), None)
        name = found.name if found is not None else "a number"
        get = KINDS[kind]
        number = Number(value, lambda: get(holder, key), [(kind, holder, key, value, name)])
        self._kind_of(number)
        self.lives = True
        return number

    def _live_tensors(self, value: Any, place: Any, holder: Any, key: Any) -> Any:
        """A tensor, or a tuple of tensors, that another one replaces from call to call."""
        found, kind = self.reads.found, place[0]
        read = found[self.reads.key(kind, holder, key)]
        if place in self.tensors:
            self._unread(read)
            return self.tensors[place][0]
        get = functools.partial(KINDS[kind], holder, key)
        stand_in = self._stand_in(value, get)
        if stand_in is None:
            self.fixed.add(place)
            return value
        self._unread(read)
        found["kind", id(get)] = Read("kind", get, None, kind_of(value), read.name)
        self.reads._kept.append((get, value))
        self.tensors[place] = stand_in, value
        return stand_in

    def _unread(self, read: Read) -> None:
        """Forget a read, and what it noted of a tensor that was not read before under another name."""
        del self.reads.found[self.reads.key(read.kind, read.holder, read.key)]
        if isinstance(read.value, Tensor):
            self.reads.drop(read.value, read.name)

    def _tensors_of(self, value: Any) -> tuple[Tensor, ...]:
        return value if type(value) is tuple else (value,)

    def _stand_in(self, value: Any, get: Callable[..., Any]) -> Any:
        if type(value) is tuple:
            parts = [self._stand_in(t, lambda i=i: get()[i]) for i, t in enumerate(value)]
            return None if any([t is None for t in parts]) else self.new(tuple(parts))
        if value._ex is not None or state.capture.argument is None:
            return None
        stand_in = state.capture.argument(value, get)
        if stand_in is not None:
            self.arguments.add(id(stand_in))
            if not is_leaf(value):
                self.histories.add(id(stand_in))
        return stand_in

    def shared(self) -> set[Any]:
        """The places of live tensors whose memory the function reads under another name too."""
        read = {id(r.holder._storage) for r in self.reads.found.values() if r.kind == "tensor"}
        for optimizer in self.reads.optimizers:
            read |= {id(p._storage) for group in optimizer.param_groups for p in group["params"]}
        values = self.tensors.items()
        return {place for place, (_, v) in values if any([id(t._storage) in read for t in self._tensors_of(v)])}

    def _kind_of(self, number: Number) -> None:
        """Guard the type of a live number, which decides about dtypes."""
        ((kind, holder, key, value, name),) = number.sources
        known = ("number", kind, id(holder), key)
        self.reads.found.setdefault(known, Read("number", number.get, None, type(value), f"the type of {name}"))

    def constant(self, x: Any) -> Any:
        """``x``; a live number becomes a constant, with a guard."""
        if type(x) is not Number:
            return x
        for kind, holder, key, value, name in x.sources:
            self.fixed.add((kind, id(holder), key))
            self.reads.add(kind, holder, key, value, name)
        return x.value

    def constants(self, x: Any) -> Any:
        """``x`` with no live number in it, or in the containers that it consists of."""
        kind = type(x)
        if kind is tuple:
            return tuple([self.constants(v) for v in x])
        if (kind is list or kind is collections.deque) and self.is_made(x):
            for i, value in enumerate(x):
                x[i] = self.constants(value)
        elif kind is dict and self.is_made(x):
            for key, value in x.items():
                x[key] = self.constants(value)
        return self.constant(x)

    def outcome(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """What a test of numbers gives, as a guard."""
        gets = [_getter(n) for n in numbers]

        def get() -> Any:
            try:
                return function(*[g() for g in gets])
            except ArithmeticError as error:  # as no test gave
                return error

        result = function(*[_value(n) for n in numbers])
        names = [source[-1] for n in numbers if type(n) is Number for source in n.sources]
        self.reads.found["test", id(get)] = Read("number test", get, None, result, " and ".join(names))
        self.reads._kept.append(get)
        return result

    def combined(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """Arithmetic of numbers, some of which are live."""
        value = function(*[_value(n) for n in numbers])
        if type(value) not in _NUMERIC:
            return function(*[self.constant(n) for n in numbers])
        if function in _OF_SOME_TYPE:
            self.outcome(lambda *values: type(function(*values)), *numbers)
        gets = [_getter(n) for n in numbers]
        sources = [source for n in numbers if type(n) is Number for source in n.sources]
        return Number(value, lambda: function(*[g() for g in gets]), sources)

    def of_numbers(self, symbol: str, function: Callable[..., Any], left: Any, right: Any) -> Any:
        """``left + right`` and its like, where at least one is a live number."""
        if _is_number(left) and _is_number(right):
            if symbol in _COMPARISONS:
                return self.outcome(function, left, right)
            return self.combined(_plain(function), left, right)
        if symbol in ("%", "%=") and _fits(left):
            return self.native(function, (left, self._within(right, left.dtype)), {})
        if symbol in _WEAKLY and self._weakly() and isinstance(right if type(left) is Number else left, Tensor):
            if symbol in _COMPARISONS and type(left) is Number:
                function, left, right = _MIRRORED[symbol], right, left
            return self.native(function, (self._as_weak(left), self._as_weak(right)), {})
        if symbol in ("**", "**=") and (_fits(left) or _fits(right)):
            right = self._exponent(right)
            left = self._as_weak(left) if self._weakly() and type(right) is not Number else self.constant(left)
            return self.native(function, (left, right), {})
        if symbol in _WITH_TENSORS:
            if _fits(right):
                return self.native(function, (self.as_tensor(left, right.dtype), right), {})
            if _fits(left):
                return self.native(function, (left, self.as_tensor(right, left.dtype)), {})
        return self.binary(symbol, self.constant(left), self.constant(right))

    def as_tensor(self, number: Number, dtype: Any) -> Tensor:
        """A live number as a tensor without dimensions, which is an input of the program."""
        made = wrap(lax.convert_element_type(self._array(number), dtype.np))
        if self.listener is not None:
            self.listener.number(made, number.get)
        return made

    def _array(self, number: Number) -> Any:
        """The input of the program that a live number is."""
        known = id(number.get)
        array = self.inputs.get(known)
        if array is None:
            array = self.inputs[known] = state.capture.input(number.value, number.get)
            self.reads._kept.append(number.get)
        return array

    def _as_weak(self, x: Any) -> Any:
        """A live number as the tensor that stands for a Python number: jax marks its value as weakly typed."""
        return wrap(jnp.positive(self._array(x))) if type(x) is Number else x

    def _weakly(self) -> bool:
        """Whether nothing looks at calls that would take the tensor for one of the user's."""
        return self.listener is None and not (state.active & (AUTOCAST | DISPATCH) or state.function_modes)

    def _exponent(self, x: Any) -> Any:
        """An exponent; those with an operator of their own are constants."""
        if type(x) is not Number or not self._weakly() or self.outcome(_has_operator, x):
            return self.constant(x)
        return self._as_weak(x)

    def _within(self, number: Number, dtype: Any) -> Any:
        """A number as a tensor of a dtype; a constant where that cannot hold it, which is the operator's error."""
        return self.as_tensor(number, dtype) if self.outcome(_HOLDS[dtype], number) else self.constant(number)

    def _held(self, x: Any, kinds: frozenset[Any]) -> Any:
        """A live number that these dtypes all hold; a constant, which the operator may refuse, where one does not."""
        return x if type(x) is not Number or self.outcome(_held_by(kinds), x) else self.constant(x)

    def filled(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What a function gives that makes a tensor of one live number; None for other calls."""
        given = len(args) == _FILLED.get(getattr(f, "__name__", "")) and type(args[-1]) is Number and own(_module(f))
        if not given or not kwargs.keys() <= {"dtype"}:
            return None
        number = args[-1]
        made = self.native(f, (*args[:-1], type(number.value)()), kwargs)
        if made.dtype not in _HOLDS or not self.outcome(_HOLDS[made.dtype], number):
            return None
        return self.native(Tensor.fill_, (made, self.as_tensor(number, made.dtype)), {})

    def numbers_of(
        self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of something that is not interpreted: operators take live numbers as tensors."""
        if Number not in map(type, (*args, *kwargs.values())):
            return tuple([self.constants(a) for a in args]), {k: self.constants(v) for k, v in kwargs.items()}
        name = getattr(f, "__name__", "")
        if self._weakly() and (places := live_places(f)) and any([isinstance(a, Tensor) for a in args]):
            kinds, held = frozenset([a.dtype for a in args if isinstance(a, Tensor)]), held_places(f)

            def weak(where: int | str, x: Any) -> Any:
                return self._as_weak(self._held(x, kinds) if where in held else x) if where in places else x

            args = tuple([weak(i, a) for i, a in enumerate(args)])
            kwargs = {k: weak(k, v) for k, v in kwargs.items()}
        elif name in _POWERS and len(args) == 2 and _fits(args[0]):
            args = args[0], self._exponent(args[1])
        elif len(args) == _LAST.get(name) and type(args[-1]) is Number and _fits(args[0]) and own(_module(f)):
            args = (*args[:-1], self._within(args[-1], args[0].dtype))
        elif name in _METHODS and args and _fits(args[0]):
            x, *rest = args
            if len(rest) == 1 and type(rest[0]) is Number:
                rest = [self.as_tensor(rest[0], x.dtype)]
            if type(kwargs.get("alpha")) is Number and len(rest) == 1 and _fits(rest[0]):
                alpha = self.as_tensor(kwargs["alpha"], rest[0].dtype)
                rest, kwargs = [rest[0] * alpha], {k: v for k, v in kwargs.items() if k != "alpha"}
            args = (x, *rest)
        return tuple([self.constants(a) for a in args]), {k: self.constants(v) for k, v in kwargs.items()}


@functools.cache
def _held_by(kinds: frozenset[Any]) -> Callable[[Any], bool]:
    """Whether dtypes hold a number for certain."""
    numeric = [d for d in kinds if d is not dtypes.bool]
    limits = [float(jnp.finfo(d.np).max) if d.np.kind not in "iu" else int(jnp.iinfo(d.np).max) for d in numeric]
    most, low = min(limits, default=127), 0 if any([d.np.kind == "u" for d in numeric]) else -1
    floats = all([d.np.kind not in "iu" for d in numeric])
    return lambda x: low * most <= x <= most or (floats and not math.isfinite(x))


def may_live(value: Any) -> bool:
    """Whether a value can be an input: a number, a tensor, a tuple of tensors."""
    kind = type(value)
    if kind is tuple:
        return bool(value) and all([type(t) is Tensor for t in value])
    return kind in _NUMERIC or kind is Tensor


def _module(f: Any) -> str:
    """Where a function is from; that of methods in C is not said."""
    return getattr(f, "__module__", None) or "torchlike"


def _has_operator(exponent: Any) -> bool:
    return exponent in power.SPECIAL_EXPONENTS


def _fits(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype in (dtypes.float32, dtypes.float64)


def _is_number(x: Any) -> bool:
    return type(x) is Number or type(x) in (float, int, bool)


def _value(x: Any) -> Any:
    return x.value if type(x) is Number else x


def _getter(x: Any) -> Callable[[], Any]:
    return x.get if type(x) is Number else lambda: x


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator that an operator in place is for numbers, which cannot change."""
    name = function.__name__
    return getattr(operator, name[1:]) if name.startswith("i") and hasattr(operator, name[1:]) else function
