"""Whether formulas are traced by name: for a ``__torch_dispatch__``, which is to see PyTorch's operators in them."""

import threading

import jax


class _Naming(threading.local):
    on = False


_naming = _Naming()


def naming():
    """Whether words keep their names in what this thread traces now; see ``words``."""
    return _naming.on


def named_trace(function, *avals):
    """The jaxpr of ``function`` with words in it."""
    before, _naming.on = _naming.on, True
    try:
        return jax.make_jaxpr(lambda *values: function(*values))(*avals)  # a function of its own: traces are cached
    finally:
        _naming.on = before
