"""Iteration, truth, length and operators of objects, as the language defines them over the methods of their classes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.interpreter.effects import base_of
from torchlike._transforms.interpreter.operators import COMPARISONS, OPERATORS, UNARY, as_given
from torchlike._transforms.interpreter.reads import is_container
from torchlike._transforms.interpreter.trust import PLAIN

HOLDERS = (tuple, list, dict)
_SIZED = frozenset((*HOLDERS, set, frozenset))


def is_iterator(x: Any) -> bool:
    """Whether taking a value from ``x`` changes it."""
    return hasattr(type(x), "__next__")


class Protocols:
    """The part of the interpreter that iterates, compares and computes."""

    # -- iteration, truth, length ------------------------------------------------------------------
    def iterate(self, x: Any, loops: bool = False) -> Any:
        """``iter(x)``; ``loops``: that nothing but interpreted code reads what it gives."""
        method = self.method(x, "__iter__")
        if method is not None:
            return self.call(method, ())
        if is_iterator(x):
            return x
        if not isinstance(x, Tensor) and self.method(x, "__getitem__") is not None:
            return self.new(self.by_index(x))
        if base_of(x) is not None and not self.is_made(x):
            if base_of(x) is set and len(x) > 1 and self.touched(x):
                self.refuse_change("iterates over a set that it has changed, whose order is not known yet")
            x = self.contents(x)
        if not loops or type(x) not in (list, tuple) or not self.is_made(x):
            self.expose(x)
        return self.new(self.native(iter, (x,), {}) if type(x) not in HOLDERS else self.handed(iter, x))

    def by_index(self, x: Any) -> Iterator[Any]:
        """An iterator over ``x[0]``, ``x[1]``, ..."""
        get, i = self.method(x, "__getitem__"), 0
        while True:
            try:
                value = self.call(get, (i,))
            except (IndexError, StopIteration):
                return
            yield value
            i += 1

    def following(self, x: Any) -> Any:
        """``next(x)``."""
        method = self.method(x, "__next__")
        if method is not None:
            return self.call(method, ())
        if not self.is_made(x):
            self.refuse(f"takes a value from {self.reads.name(x)}, an iterator that was made outside")
        self.change(x, "takes a value from an iterator")
        return self.native(next, (x,), {})

    def truth(self, x: Any) -> bool:
        """``bool(x)``."""
        if x is True or x is False or x is None:
            return bool(x)
        if type(x) is Number:
            return self.outcome(bool, x)
        for name in ("__bool__", "__len__"):
            method = self.method(x, name)
            if method is not None:
                found = self.call(method, ())
                return self.truth(found if type(found) in (bool, Number) else as_given(x, name, found))
        if is_container(x) and not self.is_made(x):
            return self.truth(self.length(x))
        if type(x) in PLAIN or type(x) in _SIZED:
            return bool(x)
        self.expose(x)
        return self.native(bool, (x,), {})

    def length(self, x: Any) -> Any:
        """``len(x)``."""
        method = self.method(x, "__len__")
        if method is not None:
            return self.call(method, ())
        if is_container(x) and not self.is_made(x):
            return self._length_outside(x)
        if type(x) in _SIZED:  # whose numbers its length does not ask for
            return len(x)
        self.expose(x)
        return self.native(len, (x,), {})

    def _length_outside(self, x: Any) -> Any:
        found = self.changed.get(id(x))
        growth = 0 if found is None or not found.dirty() else found.growth()
        if growth is None:
            return len(self.contents(x))
        length = self.live(self.reads.length(x), "len", x, None)
        return self.combined(operator.add, length, growth) if type(length) is Number else length + growth

    # -- operators ---------------------------------------------------------------------------------
    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        """``left + right`` and its like, also in place ("+=")."""
        function, name, reflected = OPERATORS[symbol]
        if self.lives and (type(left) is Number or type(right) is Number):
            return self.of_numbers(symbol, function, left, right)
        if symbol[-1] == "=" and symbol not in COMPARISONS:
            method = self.method(left, f"__i{name[2:]}")
            if method is not None:
                result = self.call(method, (right,))
                if result is not NotImplemented:
                    return result
            elif is_container(left) and not self.is_made(left):
                return self.change_in_place(function, left, right)
            elif not self._any_method(left, name, right, reflected):
                if is_container(left):
                    self.change(left, "changes a container")
                return self.native(function, (left, right), {})
            function, name, reflected = OPERATORS[symbol[:-1]]
        if not self._any_method(left, name, right, reflected):
            left, right = self.present(left), self.present(right)
            self.expose(left, right)
            return self.native(function, (left, right), {})
        return self._dispatch(function, name, reflected, left, right)

    def _any_method(self, left: Any, name: str, right: Any, reflected: str) -> bool:
        return self.method(left, name) is not None or self.method(right, reflected) is not None

    def _dispatch(self, function: Callable[..., Any], name: str, reflected: str, left: Any, right: Any) -> Any:
        attempts = [(left, name, right), (right, reflected, left)]
        if type(right) is not type(left) and isinstance(right, type(left)):
            attempts.reverse()
        for x, method, other in attempts:
            found = self.method(x, method)
            if found is not None:
                result = self.call(found, (other,))
            else:
                written = getattr(type(x), method, None)
                result = NotImplemented if written is None else self.native(written, (x, other), {})
            if result is not NotImplemented:
                return result
        if name in ("__eq__", "__ne__"):
            return (left is right) is (name == "__eq__")
        raise TypeError(f"unsupported operand type(s): {type(left).__name__!r} and {type(right).__name__!r}")

    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        """``left < right`` and its like."""
        if symbol == "!=" and self.method(left, "__ne__") is None and self.method(left, "__eq__") is not None:
            result = self.call(self.method(left, "__eq__"), (right,))
            if result is not NotImplemented:
                return not self.truth(result)
        return self.binary(symbol, left, right)

    def unary(self, symbol: str, x: Any) -> Any:
        """``-x``, ``+x``, ``~x``."""
        function, name = UNARY[symbol]
        if type(x) is Number:
            return self.combined(function, x)
        method = self.method(x, name)
        return self.native(function, (x,), {}) if method is None else self.call(method, ())
