"""The types that signatures share. They are read by mypy alone: whoever names them imports them under TYPE_CHECKING."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax

# A runtime value of a call: an array, a tracer, a Python number, or None for an argument that is left out.
Value: TypeAlias = Any
Values: TypeAlias = Sequence[Value]
# Shape and dtype of a runtime value; None for one that is left out.
Aval: TypeAlias = jax.ShapeDtypeStruct | None
Avals: TypeAlias = Sequence[Aval]
# What selects a compiled kernel: the static arguments in the order of the schema.
Static: TypeAlias = tuple[Any, ...]
Indices: TypeAlias = tuple[int, ...]
# The mapped axis of each input; None for one that all examples share, a word for one that is split.
Dims: TypeAlias = tuple[Any, ...]
# From runtime values, by position, to a result or a tuple of results: what jax traces.
Forward: TypeAlias = Callable[..., Any]
# A part of a derivative, in jax or in words; its parameters say what is saved.
Formula: TypeAlias = Callable[..., Any]
# What names an operator in every process; None where nothing does.
Identity: TypeAlias = tuple[Any, ...] | None
# A pytree of arrays.
Tree: TypeAlias = Any
# ``saved`` and ``backward`` of a declaration; see :func:`torchlike._decl.op.op`.
Saved: TypeAlias = str | dict[str, Any] | Callable[..., Any] | None
Backward: TypeAlias = str | tuple[str, dict[str, Any]] | Callable[..., Any] | dict[str, Any] | None
# A class of autocast, or what gives it from static arguments; see :func:`torchlike._decl.op.op`.
Autocast: TypeAlias = str | Callable[..., str | None] | None
