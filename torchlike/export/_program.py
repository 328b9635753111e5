"""An exported program: the StableHLO of one function, and what a call does around it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base import dtypes
from torchlike._base.rng import default_generator
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, array_of, value_of
from torchlike._executor.immediate import Abstract
from torchlike._executor.pending import all_settled
from torchlike._executor.spread import on_several_devices
from torchlike._ops._square import _LinAlgError
from torchlike._transforms.export.output_specs import ExportedProgramBackward, StoredSpec
from torchlike.export._inputs import Inputs
from torchlike.export._piece import Piece
from torchlike.utils._pytree import TreeSpec

_CHECKED = (IndexError, ValueError, TypeError, RuntimeError, OverflowError, ZeroDivisionError, _LinAlgError)
_ERRORS: dict[str, type[Exception]] = {e.__name__: e for e in _CHECKED}


@dataclasses.dataclass
class Slot:
    """A tensor that the program reads beside its arguments.

    Attributes:
        names: where it stands; tied parameters have several. order: the place of each name among all.
        kind: "parameter", "buffer" or "constant". persistent: whether it belongs to the state_dict.
        shape, dtype: of its value.
    """

    names: list[str]
    order: list[int]
    kind: str
    persistent: bool
    shape: list[int]
    dtype: str

    def check(self, t: Tensor) -> None:
        """RuntimeError unless ``t`` can stand here."""
        value = value_of(t)
        if list(value.shape) != self.shape or dtypes.FROM_NP[value.dtype].name != self.dtype:
            raise RuntimeError(
                f"the {self.kind} {self.names[0]} is {t.dtype} of shape {list(t.shape)}, but the program was exported "
                f"for torch.{self.dtype} of shape {self.shape}"
            )


@dataclasses.dataclass
class Plan:
    """What becomes of the outputs of one program.

    Attributes:
        results: how each result is made. state_writes, argument_writes: (number, output). errors: (type, message) of
            each value check, whose flags are the output ``flags``. draws: how many random draws a call makes, of which
            the program takes ``used_draws``. roots: numbers of the results that require grad. sinks: ("state" or
            "argument", number) of each gradient. kept: what the backward takes of inputs and outputs.
    """

    results: list
    state_writes: list
    argument_writes: list
    errors: list
    flags: int
    draws: int
    used_draws: list
    roots: list
    sinks: list
    kept: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class LoadedProgram:
    """The programs of one exported function.

    Attributes:
        name: of the function. slots: its tensors. inputs: its arguments. out_spec: the structure of its results.
        plain, forward: without gradients. graded, forward_vjp, backward: with them, or None; ``ungraded`` says why.
    """

    name: str
    slots: list[Slot]
    inputs: Inputs
    out_spec: TreeSpec
    plain: Plan
    forward: Piece
    graded: Plan | None
    forward_vjp: Piece | None
    backward: Piece | None
    ungraded: str

    def __deepcopy__(self, memo: dict) -> "LoadedProgram":
        return self

    def run(self, tensors: list[Tensor], args: tuple, kwargs: dict) -> Any:
        """The results for these tensors in ``slots`` and these arguments; writes what the function wrote."""
        leaves, lengths = self.inputs.leaves(args, kwargs)
        for slot, t in zip(self.slots, tensors, strict=True):
            slot.check(t)
        own: dict[str, Any] = {"state": tensors, "argument": leaves}
        inputs = [*tensors, *[x for x in leaves if isinstance(x, Tensor)]]
        needed = state.grad and any(t._rg for t in inputs)
        graded = needed and self.graded is not None
        plan, piece = (self.graded, self.forward_vjp) if graded else (self.plain, self.forward)
        assert plan is not None and piece is not None
        self._demand_writable(plan, own, inputs)
        values = [*map(array_of, inputs), *_drawn(plan)]
        outs = _called(piece, values)
        _examine(plan, outs)
        node = self._node(plan, own, values, outs, lengths) if needed else None
        results = _results(plan, outs, own, node)
        for k, out in plan.state_writes:
            write(tensors[k], outs[out])
        for i, out in plan.argument_writes:
            write(leaves[i], outs[out])
        return self.out_spec.unflatten(results)

    def _demand_writable(self, plan: Plan, own: dict, inputs: list[Tensor]) -> None:
        """RuntimeError where writing an input would do something else than the function did."""
        written = [own["state"][k] for k, _ in plan.state_writes]
        written += [own["argument"][i] for i, _ in plan.argument_writes]
        if not written:
            return
        for i, _ in plan.argument_writes:
            t = own["argument"][i]
            if t._rg and state.grad:
                leaf = "a leaf Variable that" if t._edge is None else "an argument that"
                raise RuntimeError(
                    f"{leaf} requires grad is being used in an in-place operation: {self.name} changes its argument "
                    f"{self.inputs.entries[i].name}; pass a detached copy"
                )
        count: dict[int, int] = {}
        for t in inputs:
            count[id(t._storage)] = count.get(id(t._storage), 0) + 1
        if any(count[id(t._storage)] > 1 for t in written):
            raise RuntimeError(
                f"{self.name} changes a tensor in place that shares its memory with another argument or buffer, which "
                "the exported program does not know; pass a clone()"
            )

    def _node(self, plan: Plan, own: dict, values: list, outs: list, lengths: dict[str, int]) -> Any:
        """The history of the results; one that only raises where there is no backward."""
        if self.graded is None:
            return ExportedProgramBackward(_refusal(self.name, self.ungraded), [], [], _edges(own))
        if not plan.roots:
            return None
        source = {"in": values, "out": outs}
        kept = [source[kind][k] for kind, k in plan.kept]
        late = self.backward
        assert late is not None
        edges = [nodes.edge_of(t) if t._rg else None for t in (own[kind][k] for kind, k in plan.sinks)]

        witnesses = [jnp.zeros((lengths[s], 0), bool) for s in self.inputs.ranges]

        def backward(kept: list, seeds: list) -> list:
            return late.call(*kept, *all_settled(seeds), *witnesses)

        return ExportedProgramBackward(backward, kept, [], edges)


def _results(plan: Plan, outs: list, own: dict, node: Any) -> list:
    """What the call returns, with the node's metadata filled in."""
    results = plan.results
    if node is not None and not plan.roots:  # without a backward: everything that could require grad does
        results = _all_rooted(results, outs)
    maker = StoredSpec(outs, own, node)
    for how in results:
        maker.add(how)
    made = maker.results
    if node is not None:
        roots = [t for how, t in zip(results, made, strict=True) if how.get("root") is not None]
        node.metas = [Abstract(tuple(t.shape), t.dtype.np) for t in roots]
        node._arity = len(roots)
    return made


def _all_rooted(results: list, outs: list) -> list:
    rooted, number = [], 0
    for how in results:
        if "slot" in how and how["view"] is None and outs[how["slot"]].dtype.kind not in "biu":
            how, number = how | {"root": number}, number + 1
        rooted.append(how)
    return rooted


def _edges(own: dict) -> list:
    tensors = [t for t in [*own["state"], *own["argument"]] if isinstance(t, Tensor) and t._rg]
    return [nodes.edge_of(t) for t in tensors]


def _refusal(name: str, reason: str) -> Callable:
    def backward(kept: list, seeds: list) -> list:
        raise RuntimeError(f"{name} was exported without its derivative ({reason}), so it has no backward")

    return backward


def _drawn(plan: Plan) -> list:
    """The words of the draws of one call, which leave the default generator where eager code would."""
    drawn = [default_generator.draw() for _ in range(plan.draws)]
    if state.capture is not None:
        drawn = [state.capture.input(words, default_generator.draw) for words in drawn]
    return [drawn[k] for k in plan.used_draws]


def _called(piece: Piece, values: list) -> list:
    for v in values:
        if type(v) is Abstract:
            raise RuntimeError(f"Cannot run on a meta tensor of shape {list(v.shape)}: it has no numbers")
    try:
        return piece.call(*values)
    except ValueError as error:
        if on_several_devices(error):
            found = sorted({str(d) for v in values if isinstance(v, jax.Array) for d in v.devices()})
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but the exported program found {', '.join(found)}"
            ) from None
        raise


def _examine(plan: Plan, outs: list) -> None:
    """Raise the error of a value check that failed; nothing has been written yet."""
    if not plan.errors:
        return
    errors = [_ERRORS.get(name, RuntimeError)(message) for name, message in plan.errors]
    flags = outs[plan.flags]
    if isinstance(flags, jax.core.Tracer):
        if state.capture is not None:
            state.capture.flags += list(flags)
            state.capture.errors += errors
        return
    failed = np.asarray(flags)
    if failed.any():
        raise errors[int(failed.argmax())]
