"""Modules under jax: one that a traced function did not make keeps its parameters and buffers."""

from typing import Any

from jax.core import Tracer

from torchlike._base.state import state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.functional_call import LENT


def note_made(module: Any) -> None:
    """Note that a function which jax traces has made ``module``, where that is so."""
    if not trace_state_clean():
        module.__dict__["_made_while_traced"] = True


def demand_kept(module: Any, kind: str, name: str, value: Any) -> None:
    """Refuse that a function which jax traces gives another's module a parameter or buffer: it would keep a tracer."""
    if trace_state_clean() or state.capture is not None or not _traced(value):
        return
    members = getattr(module, f"_{kind}s")
    if "_made_while_traced" in module.__dict__ or (id(members), name) in LENT:
        return
    raise RuntimeError(
        f"a function that jax traces (jit, grad, vmap, scan) would set the {kind} '{name}' of a module, "
        f"a {type(module).__name__}, that it did not make; return the new value, or use "
        "torchlike.interop.to_jax(module), which returns the new values of the buffers that there were before"
    )


def _traced(value: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(value._storage.form, Tracer)
