"""One StableHLO program: made by ``jax.export``, called through it, taken apart for a file and put together again."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.export import Exported, SymbolicScope, symbolic_shape

from torchlike._base import dtypes
from torchlike._executor import shifted

_KEPT = ("calling_convention_version", "nr_devices", "uses_global_constants")


class Piece:
    """A program from arrays to arrays.

    Attributes:
        exported: the ``jax.export.Exported``. limits: the ranges of its symbolic lengths, in jax's words.
    """

    def __init__(self, exported: Exported, limits: Sequence[str] = ()) -> None:
        self.exported, self.limits = exported, list(limits)
        self.call = jax.jit(exported.call)

    def __deepcopy__(self, memo: dict) -> "Piece":
        return self

    @classmethod
    def of(
        cls, name: str, run: Callable, avals: list, platforms: Sequence[str] | None, limits: Sequence[str]
    ) -> "Piece":
        """``run`` lowered for these shapes and platforms; NotImplementedError where it cannot leave this process."""

        def function(*values: Any) -> Any:
            return run(*values)

        function.__name__ = name
        try:
            return cls(jax.export.export(jax.jit(shifted.apart(function)), platforms=platforms)(*avals), limits)
        except ValueError as error:
            if "custom calls" not in str(error):
                raise
            raise NotImplementedError(
                f"torch.export: the {name} program uses what XLA gives no promise to keep: {str(error).splitlines()[0]}"
            ) from None

    def text(self) -> str:
        """The program in StableHLO."""
        return self.exported.mlir_module()

    def lowered(self, avals: Sequence) -> Any:
        """The program as jax lowers it for this machine and these shapes."""
        return self.call.lower(*avals)

    # -- files -----------------------------------------------------------------------------------
    def packed(self) -> tuple[dict, bytes]:
        """(what a file says of it, its bytes)."""
        e = self.exported
        about = {name: getattr(e, name) for name in _KEPT} | {
            "name": e.fun_name,
            "inputs": [_aval_text(a) for a in e.in_avals],
            "outputs": [_aval_text(a) for a in e.out_avals],
            "platforms": list(e.platforms),
            "kept": list(e.module_kept_var_idx),
            "limits": self.limits,
        }
        return about, bytes(e.mlir_module_serialized)

    @classmethod
    def unpacked(cls, about: dict, data: bytes) -> "Piece":
        """What ``packed`` gave, as a program."""
        scope = SymbolicScope(about["limits"])
        inputs, outputs = ([_aval(a, scope) for a in about[k]] for k in ("inputs", "outputs"))
        nothing = (None,) * len(inputs), (None,) * len(outputs)
        fields = {name: about[name] for name in _KEPT} | {
            "fun_name": about["name"],
            "in_tree": jax.tree.structure((tuple(inputs), {})),
            "in_avals": tuple(inputs),
            "out_tree": jax.tree.structure(tuple(outputs)),
            "out_avals": tuple(outputs),
            "_has_named_shardings": True,
            "_in_named_shardings": nothing[0],
            "_out_named_shardings": nothing[1],
            "in_shardings_hlo": nothing[0],
            "out_shardings_hlo": nothing[1],
            "platforms": tuple(about["platforms"]),
            "ordered_effects": (),
            "unordered_effects": (),
            "disabled_safety_checks": (),
            "mlir_module_serialized": data,
            "module_kept_var_idx": tuple(about["kept"]),
            "_get_vjp": None,
        }
        known = [f.name for f in dataclasses.fields(Exported) if f.init]
        return cls(Exported(**{name: fields[name] for name in known if name in fields}), about["limits"])


def _aval_text(aval: Any) -> list:
    """[dtype, lengths]: symbolic lengths as text."""
    return [dtypes.FROM_NP[aval.dtype].name, [n if type(n) is int else str(n) for n in aval.shape]]


def _aval(text: list, scope: SymbolicScope) -> Any:
    name, lengths = text
    shape = symbolic_shape(", ".join(map(str, lengths)), scope=scope) if lengths else ()
    return jax.core.ShapedArray(tuple(shape), _np(name))


def _np(name: str) -> np.dtype:
    return getattr(dtypes, name).np
