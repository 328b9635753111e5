"""Whether formulas are traced by name: for a ``__torch_dispatch__``, which is to see PyTorch's operators in them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Aval, Forward


class _Naming(threading.local):
    on = False


_naming = _Naming()


def naming() -> bool:
    """Whether words keep their names in what this thread traces now; see ``words``."""
    return _naming.on


def named_trace(function: Forward, *avals: Aval) -> ClosedJaxpr:
    """The jaxpr of ``function`` with words in it."""
    before, _naming.on = _naming.on, True
    try:
        return jax.make_jaxpr(lambda *values: function(*values))(*avals)  # a function of its own: traces are cached
    finally:
        _naming.on = before
