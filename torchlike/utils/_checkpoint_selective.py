"""Selective checkpointing: a policy says which operators' results are kept, the others run again."""

import enum
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.source import overload_of
from torchlike._base.state import SELECTIVE, state
from torchlike._core.dispatch.dispatch import call, with_results
from torchlike._core.dispatch.layers import CHECKPOINT, Call
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._decl.op import Op
from torchlike._ops.matmul import linear, matmul
from torchlike._transforms.capture import remat


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's results: kept, kept on the host, or computed again.

    ``MUST_`` and ``PREFER_`` mean the same here; a compiler may override the latter.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = frozenset({CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE})


class SelectiveCheckpointContext:
    """The first argument of a policy: ``is_recompute`` tells the forward from the recomputation."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def _overload_for_policy(op: Op, inputs: tuple) -> OpOverload:
    """What a policy is asked about. Products of tensors of any rank appear as the product that computes them."""
    if op is linear:
        return ops.aten.mm.default if inputs[2] is None else ops.aten.addmm.default
    if op is not matmul:
        return overload_of(op)
    ranks = inputs[0].ndim, inputs[1].ndim
    if min(ranks) > 2:
        return ops.aten.bmm.default
    if ranks[1] == 1 or (ranks[0] == 1 and ranks[1] > 2):
        return ops.aten.dot.default if ranks == (1, 1) else ops.aten.mv.default
    return ops.aten.mm.default


class _Entry:
    """The results of one call: their values, and the versions of the tensors that hold them."""

    def __init__(self, out: Any) -> None:
        self.is_tuple = isinstance(out, tuple)
        self.tensors = tuple(out) if self.is_tuple else (out,)
        self.tensors = tuple(t.detach() for t in self.tensors)
        self.versions = [t._version for t in self.tensors]

    def results(self, allow_mutation: bool) -> Any:
        if not allow_mutation and self.versions != [t._version for t in self.tensors]:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        values = tuple(value_of(t) for t in self.tensors)
        return values if self.is_tuple else values[0]


class _Mode:
    """A context in which every call of an operator goes through ``self.run``."""

    def __enter__(self) -> None:
        self._before = state.selective, state.active & SELECTIVE
        state.selective = self
        state.active |= SELECTIVE

    def __exit__(self, *exc: object) -> None:
        state.selective, bit = self._before
        state.active = (state.active & ~SELECTIVE) | bit

    def run(self, op: Op, inputs: tuple, static: tuple) -> Any:
        raise NotImplementedError


class _Caching(_Mode):
    """The forward: asks the policy and keeps what it wants kept."""

    def __init__(self, policy: Callable, entries: dict) -> None:
        self.policy, self.entries = policy, entries

    def run(self, op: Op, inputs: tuple, static: tuple) -> Any:
        out = call(op, inputs, static)
        verdict = self.policy(SelectiveCheckpointContext(is_recompute=False), _overload_for_policy(op, inputs), *inputs)
        if isinstance(verdict, bool):
            verdict = CheckpointPolicy.MUST_SAVE if verdict else CheckpointPolicy.PREFER_RECOMPUTE
        self.entries[op].append(None if verdict in _RECOMPUTED else _Entry(out))
        return out


class _Cached(_Mode):
    """The recomputation: takes what was kept and computes the rest."""

    def __init__(self, entries: dict, allow_mutation: bool) -> None:
        self.entries, self.allow_mutation = entries, allow_mutation

    def run(self, op: Op, inputs: tuple, static: tuple) -> Any:
        if not self.entries[op]:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        entry = self.entries[op].popleft()
        if entry is None:
            return call(op, inputs, static)
        results = entry.results(self.allow_mutation)
        return remat.replayed(lambda x, known: with_results(op, x, static, known), inputs, results)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | list, allow_cache_entry_mutation: bool = False
) -> tuple[_Caching, _Cached]:
    """The two contexts for ``checkpoint(context_fn=...)`` that keep the results of some operators.

    Args:
        policy_fn_or_list: the operators to keep (``torch.ops.aten.mm.default``...), or
            ``policy(context, op, *args) -> CheckpointPolicy`` (or a bool: whether to keep).
        allow_cache_entry_mutation: do not raise where a kept result was changed in place.

    >>> import functools
    >>> import torchlike as torch
    >>> from torchlike.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.exp.default])
    >>> x = torch.zeros(2, requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False, context_fn=keep).sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}; give an overload, "
                    "as torch.ops.aten.mm.default"
                )
        kept = frozenset(policy_fn_or_list)
        policy: Callable = lambda context, op, *args: op in kept  # noqa: E731
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    entries: dict = defaultdict(deque)
    return _Caching(policy, entries), _Cached(entries, allow_cache_entry_mutation)


@CHECKPOINT.install
def _layer(made: Call) -> Any:
    op, form, inputs, static = made
    if form.fresh and isinstance(op, Op) and any(isinstance(x, Tensor) for x in inputs):
        return state.selective.run(op, inputs, static)
    return made.run()
