"""The inputs of a program that are no tensors, read anew at each call: those of an optimizer are one array."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from torchlike._base.rng import Generator
from torchlike._core.conversion.convert import item
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.recording import DynamicInput, Samples

if TYPE_CHECKING:
    from torchlike._decl.typed import Values


class Number:
    """A live number: its value now, what gives it in a later call, and the reads that it is made of."""

    __slots__ = ("value", "get", "sources")

    def __init__(self, value: Any, get: Callable[[], Any], sources: Sequence[Any]) -> None:
        self.value, self.get, self.sources = value, get, sources


class ArgumentNumbers(threading.local):
    """Which numbers among a function's arguments are live, and those of the call that this thread makes.

    Attributes:
        leaves: the arguments of the call, as a flat list; none while there is no call.
    """

    leaves: Sequence[Any] = ()

    def live_key(self, key: Any, positions: Collection[int]) -> Any:
        """``key``, of ``CompiledFunction``, with nothing but the type of the numbers at these positions."""
        tree, kinds, *rest = key
        kinds = list(kinds)
        for i in positions:
            x = self.leaves[i]
            if type(x) is float or (type(x) is int and x in INT64):
                kinds[i] = _LIVE, type(x)
        return tree, tuple(kinds), *rest

    def standing(self, key: Any) -> list[Any]:
        """The arguments of the call, with what stands for those that are live."""
        return [
            self._number(i) if kind[0] is _LIVE else x
            for i, (x, kind) in enumerate(zip(self.leaves, key[1], strict=True))
        ]

    def _number(self, position: int) -> Number:
        value = self.leaves[position]
        sources = [("argument", self, position, value, f"argument {position}")]
        return Number(value, lambda: self.leaves[position], sources)


NUMBERS = (float, int)
_LIVE = "a number of each call"
INT64 = range(-(1 << 63), 1 << 63)


class Unknown(Exception):
    """A number of this call cannot be computed, as the function may expect; nothing has been done."""


class Numbers:
    """Numbers, in the order of the program; what is the same as in the last call is not sent again.

    Args:
        dynamic: (array of the first call, getter) of each. The numbers of optimizers, of one dtype, travel in one
            array, because each input of a program costs a call as much as a small kernel.
        samples: what each call draws from PyTorch's streams, some of which ``dynamic`` are; None for nothing.

    Attributes:
        first: the inputs of the first call. pure: whether to ask for the numbers changes nothing.
    """

    def __init__(self, dynamic: Sequence[Any], samples: Samples | None = None) -> None:
        self._places = _places(dynamic)
        self._together = {}  # {input: numbers in it}
        for i, (place, within) in enumerate(self._places):
            if within is not None:
                self._together.setdefault(place, []).append(i)
        tables = {}
        self._computed, self._drawn = [], []  # in this order, as one that fails leaves nothing drawn
        for i, (_, getter) in enumerate(dynamic):
            if isinstance(getter, DynamicInput):
                tables.setdefault(getter.source, []).append((i, getter.key))
            elif isinstance(getattr(getter, "__self__", None), Generator):
                self._drawn.append((i, getter))
            else:
                self._computed.append((i, getter))
        self.pure = all([getter is float for _, getter in self._computed]) and not self._drawn and samples is None
        if samples is not None:
            tables.setdefault(samples, [])  # to be drawn, whether or not the program has use for the numbers
        self._tables = list(tables.items())
        self._dtypes = [array.dtype for array, _ in dynamic]
        self.first = [None] * len({place for place, _ in self._places})
        for (array, _), (place, within) in zip(dynamic, self._places, strict=True):
            if within is None:
                self.first[place] = array
        for place, members in self._together.items():
            self.first[place] = self._packed([dynamic[i][0] for i in members], members)
        self._state = [None] * len(dynamic), self.first

    def spread(self, inputs: Sequence[Any]) -> list[Any]:
        """The numbers, in their order, of the inputs that the program is given."""
        return [inputs[place] if within is None else inputs[place][within] for place, within in self._places]

    def __call__(self) -> list[Any]:
        held, inputs = self._state  # other threads call too
        changed = {}
        try:
            for i, getter in self._computed:
                value = getter()
                if value is not held[i] or isinstance(value, jax.Array):
                    changed[i] = value
        except ArithmeticError as error:
            raise Unknown from error
        for source, entries in self._tables:
            table = source()
            for i, key in entries:
                if table[key] is not held[i]:
                    changed[i] = table[key]
        for i, getter in self._drawn:
            changed[i] = getter()
        return self._sent(list(held), list(inputs), changed) if changed else inputs

    def _sent(self, held: list[Any], inputs: list[Any], changed: dict[Any, Any]) -> list[Any]:
        """The inputs with those numbers that have changed."""
        stale = set()
        for i, value in changed.items():
            value = item(value) if isinstance(value, Tensor) else value  # read anew each time: it changes in place
            before, held[i] = held[i], value
            if type(value) is type(before) is float and repr(value) == repr(before):  # 0.0 == -0.0
                continue
            place, within = self._places[i]
            if within is None:
                inputs[place] = value if isinstance(value, jax.Array) else jax.device_put(self._as_first(i, value))
            else:
                stale.add(place)
        for place in stale:
            members = self._together[place]
            inputs[place] = self._packed([held[i] for i in members], members)
        self._state = held, inputs
        return inputs

    def _packed(self, values: Values, members: Sequence[int]) -> jax.Array:
        values = [np.asarray(v) for v in values]
        return jax.device_put(np.array(values).astype(self._dtypes[members[0]], casting="same_kind"))

    def _as_first(self, i: int, value: Any) -> Any:
        """A number of the kind that the program was made for; TypeError where that would round it."""
        kind = self._dtypes[i].kind
        if kind == "f" and type(value) is int:
            return float(value)
        if kind in "iub" and type(value) is float:
            raise TypeError(f"{value} where the compiled function was given a whole number")
        return value


def _places(dynamic: Sequence[Any]) -> list[Any]:
    """For each number (input, position in it); None for the position of a number that is an input of its own."""
    kinds = [array.dtype if isinstance(g, DynamicInput) and array.ndim == 0 else None for array, g in dynamic]
    inputs, counts, places = {}, {}, []
    for i, kind in enumerate(kinds):
        together = kind is not None and kinds.count(kind) > 1
        place = inputs.setdefault(kind if together else i, len(inputs))
        places.append((place, counts.get(place, 0) if together else None))
        counts[place] = counts.get(place, 0) + 1
    return places
