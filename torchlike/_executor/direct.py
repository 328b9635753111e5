"""Whole programs, called without the questions that jax's fast call asks of each array.

``jax.jit`` looks at shape, dtype, place and more of every argument, and finds the code in a table of all calls that it
has seen. A compiled function is called with the same kinds each time: comparing these at once, and handing the arrays
to the executable, is quicker for hundreds of them. Anything else is left to ``jax.jit``.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import jax
from jax.experimental.layout import Layout

from torchlike._base.tracing import trace_state_clean
from torchlike._executor import compiling
from torchlike._executor.pending import Array

if TYPE_CHECKING:
    from torchlike._decl.typed import Values

_kind = attrgetter("aval")
_layout = attrgetter("_pjrt_layout")  # jax.device_put gives arrays another one, which the executable would not notice
_LATER = 2  # calls by jax.jit before this one looks for its executable: many programs are called once


class Direct:
    """The executable of a jitted program, for arrays of the kinds that it was last called with.

    Attributes:
        execute, collect: ``collect(execute(values))`` are the results, once ``takes(values)``. Both are functions of
        C, so that no signal comes between them.
        last: the sum of the epochs of the storages that hold the first values, when the last results were in them; None
            where the executable was not what computed them. epochs: the same, if it had also computed the values
            before. Epochs only grow: while that is the sum, the first values need not be looked at again.
    """

    __slots__ = ("execute", "collect", "epochs", "last", "_jitted", "_kinds", "_layouts", "_settings", "_calls")
    execute: Callable[[Values], Any]
    collect: Callable[[Any], Any]
    _kinds: list[Any] | None
    _layouts: list[Any]
    _settings: tuple[Any, ...] | None

    def __init__(self, jitted: Any) -> None:
        self._jitted, self._kinds, self._settings, self._calls = jitted, None, None, 0
        self.epochs: int | None = None
        self.last: int | None = None

    def takes(self, values: Values, known: int = 0) -> bool:
        """Whether values are of the kinds that the executable is for, and jax as it was.

        The first ``known`` are: they were, or it has computed them from such.
        """
        if self._kinds is None:
            return self._calls >= 0 and self._found(values)
        rest = values[known:]
        try:
            alike = list(map(_kind, rest)) == self._kinds[known:] and list(map(_layout, rest)) == self._layouts[known:]
        except AttributeError:  # numbers, numpy's arrays, values that are recorded
            return False
        return alike and _settings() == self._settings and trace_state_clean()

    def _found(self, values: Values) -> bool:
        """Look for the executable, once the program has been called."""
        self._calls += 1
        if self._calls < _LATER or not one_device() or {*map(type, values)} != {Array} or not trace_state_clean():
            return False
        self._calls = -1
        try:
            found = self._jitted.lower(*values).compile()._executable  # jax keeps it from the call before
            run = found.unsafe_call
            plain = not (run.ordered_effects or run.has_unordered_effects or run.has_host_callbacks or run.keepalive)
            if not plain or len(run.kept_var_idx) != len(values) or len(found.in_avals) != len(values):
                return False
            self.collect = methodcaller("consume_with_handlers", run.out_handler.handlers)
            self.execute = run.xla_executable.execute_sharded
            self._settings, self._layouts = _settings(), list(map(_layout, values))
            if not all(map(_usual, self._layouts, values)):
                return False
        except (AttributeError, TypeError):  # what it uses of jax's own modules is not there
            return False
        self._kinds = list(map(_kind, values))
        return True


def one_device() -> bool:
    """Whether the CPU is the one device there is, and jax computes there as usual."""
    return compiling.host() is not None and len(jax.devices()) == 1 and compiling.usual()


def _usual(layout: Any, array: jax.Array) -> bool:
    """Whether an array lies as XLA lays out arrays by itself."""
    return layout is None or Layout.from_pjrt_layout(layout).major_to_minor == tuple(range(array.ndim))


def _settings() -> tuple[Any, ...]:
    """The settings of jax that ``jax.jit`` asks for at each call."""
    config = jax.config
    checks = config.jax_debug_nans, config.jax_debug_infs, config.jax_disable_jit, config.jax_no_execution
    return compiling.trace_context(), *checks
