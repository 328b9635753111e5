"""Steps of a pipeline: the parts of a batch go through the stages of all ranks, forth and back."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import is_grad_enabled, no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.pipelining._orders import (
    FORWARD,
    INPUTS,
    WEIGHTS,
    Action,
    all_then_back,
    around,
    interleaved,
    one_forth_one_back,
    there_and_back,
    without_bubbles,
)
from torchlike.distributed.pipelining.microbatch import in_parts, merge_chunks, split_args_kwargs_into_chunks
from torchlike.distributed.pipelining.stage import PipelineStage, Place
from torchlike.utils import _pytree as pytree

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
    "get_schedule_class",
]  # fmt: skip


class PipeliningMetadataError(RuntimeError):
    """A step was not given what it needs."""


class _PipelineSchedule:
    """What all schedules share; a subclass says in which order this rank does what."""

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:  # fmt: skip
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._specs, self._output_merge_spec = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec
        for stage in stages:
            stage.has_backward = loss_fn is not None
            stage.place(self._owners(stage.group_size, stage.num_stages))

    def _owners(self, ranks: int, stages: int) -> dict[int, int]:
        return around(ranks, stages)

    _history = False  # whether results have one; in PyTorch those of a single stage do

    def _order(self) -> list[Action]:
        raise NotImplementedError

    def step(
        self, *args: Any, target: Any = None, losses: list | None = None, return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Run a batch through the pipeline; all ranks call it. With a loss function gradients are added to ``.grad``.

        Args:
            args: the batch, on the rank of the first stage. kwargs: for the stages of this rank.
            target: what the loss function compares with, on the rank of the last stage.
            losses: a list that gets the loss of each part there. loss_kwargs: for the loss function.
            return_outputs: whether the results are returned.

        Returns:
            On the rank of the last stage the results of the batch, else None.

        Raises:
            RuntimeError: under ``no_grad``, or without a target. ValueError: fewer rows than parts. AssertionError: as
                few targets.
            DistBackendError: another stage does not answer in time; it is named.
        """
        if self._loss_fn is not None and not is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under "
                "torch.no_grad() context. Please call eval() instead."
            )
        return self._run(self._loss_fn is not None, args, kwargs, target, losses, return_outputs, loss_kwargs)

    def eval(
        self, *args: Any, target: Any = None, losses: list | None = None, loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """As :meth:`step`, without gradients."""
        return self._run(False, args, kwargs, target, losses, True, loss_kwargs)

    def _run(
        self, back: bool, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, losses: list | None,
        return_outputs: bool, loss_kwargs: dict[str, Any] | None,
    ) -> Any:  # fmt: skip
        parts, last = self._n_microbatches, next((s for s in self._stages.values() if s.is_last), None)
        positional, named = split_args_kwargs_into_chunks(args, kwargs, parts, *self._specs)
        targets = in_parts(target, parts)
        if len(positional) != parts:
            raise ValueError(f"Expecting {parts} arg_mbs but got {len(positional)}")
        if last is not None and back and target is None:
            raise PipeliningMetadataError(f"Stage {last.stage_index}: loss_fn and target required for last stage")
        some = next(iter(self._stages.values()))
        place = Place(some.group, some.stage_index_to_group_rank)
        outputs: dict[int, Any] = {}
        told: dict[int, Tensor] = {}
        try:
            for action in self._order():
                stage = self._stages[action.stage]
                if action.kind != FORWARD:
                    if back:
                        _back(stage, action, told.get(action.part), place)
                    continue
                out = stage.forward_one_chunk(action.part, positional[action.part], named[action.part], place)
                if stage.is_last:
                    outputs[action.part] = out
                    if self._loss_fn is not None and target is not None:
                        told[action.part] = self._loss_fn(out, targets[action.part], **(loss_kwargs or {}))
        finally:
            for stage in self._stages.values():
                stage.clear_runtime_states()
        if back and self.scale_grads:
            self._scale()
        return self._results(last, outputs, told, losses, return_outputs)

    def _results(
        self, last: PipelineStage | None, outputs: dict[int, Any], told: dict[int, Tensor], losses: list | None,
        return_outputs: bool,
    ) -> Any:  # fmt: skip
        if last is None:
            return None
        parts = range(self._n_microbatches)
        if losses is not None:
            if len(told) != self._n_microbatches:
                raise RuntimeError(f"Expecting {self._n_microbatches} losses but got {len(told)}")
            losses[:] = [told[part] for part in parts]
        if not return_outputs:
            return None
        merged = merge_chunks([outputs[part] for part in parts], self._output_merge_spec)
        return merged if self._history else pytree.tree_map(_detached, merged)

    def _scale(self) -> None:
        with no_grad():
            for stage in self._stages.values():
                for p in stage.submod.parameters():
                    if p.grad is not None:
                        p.grad.div_(self._n_microbatches)


def _back(stage: PipelineStage, action: Action, loss: Tensor | None, place: Place) -> None:
    if action.kind == WEIGHTS:
        stage.backward_weights(action.part)
    elif action.kind == INPUTS:
        stage.backward_inputs(action.part, loss, place)
    else:
        stage.backward_one_chunk(action.part, loss, place)


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


class PipelineScheduleSingle(_PipelineSchedule):
    """What schedules with one stage on each rank share."""

    _history = True

    def __init__(self, stage: PipelineStage, n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__([stage], n_microbatches, *args, **kwargs)
        self._stage = stage


class ScheduleGPipe(PipelineScheduleSingle):
    """All parts of a batch forth, then all of them back.

    Args:
        stage: of this rank. n_microbatches: into how many parts a batch is cut.
        loss_fn: (output, target) to loss; without it there are no gradients.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: along which dimensions, by default 0.
        scale_grads: divide ``.grad`` by the number of parts, as for a loss that is the mean of theirs.

    >>> import torchlike as torch
    >>> from torchlike.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
    >>> losses = []
    >>> out = ScheduleGPipe(stage, 2, torch.nn.functional.mse_loss).step(
    ...     torch.ones(4, 2), target=torch.ones(4, 2), losses=losses
    ... )
    >>> out.shape, len(losses), stage.submod.bias.grad.shape
    (torch.Size([4, 2]), 2, torch.Size([2]))
    >>> torch.distributed.destroy_process_group()
    """

    def _order(self) -> list[Action]:
        return all_then_back([self._stage.stage_index], self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """As :class:`ScheduleGPipe`, with fewer parts under way: a backward follows each forward once the pipe is full.

    ValueError for fewer parts than stages.
    """

    def __init__(self, stage: PipelineStage, n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stage, n_microbatches, *args, **kwargs)
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({stage.num_stages})."
            )

    def _order(self) -> list[Action]:
        return one_forth_one_back(self._stage.stage_index, self._stage.num_stages, self._n_microbatches)


class PipelineScheduleMulti(_PipelineSchedule):
    """What schedules with several stages on each rank share."""


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Several stages on each rank: all parts through the first of them, then through the second..., and back.

    Args:
        stages: those of this rank, in their order; the others as for :class:`ScheduleGPipe`.
    """

    def _order(self) -> list[Action]:
        return all_then_back(sorted(self._stages), self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Several stages on each rank, and a backward as soon as one can be computed.

    Args:
        stages: those of this rank, in their order; the others as for :class:`ScheduleGPipe`.
    """

    def _order(self) -> list[Action]:
        some = next(iter(self._stages.values()))
        return interleaved(some.group_rank, some.group_size, some.num_stages, self._n_microbatches)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Backwards in two halves: what the stage before waits for at once, gradients of parameters when nothing else is.

    Each half walks through the stage's graph, so hooks of tensors between run twice; gradients are added once.

    Args:
        stages: those of this rank, in their order; the others as for :class:`ScheduleGPipe`.
    """

    _in_turns = False

    def _order(self) -> list[Action]:
        some = next(iter(self._stages.values()))
        return without_bubbles(some.stage_index_to_group_rank, self._n_microbatches, self._in_turns)[some.group_rank]


class ScheduleZBVZeroBubble(ScheduleInterleavedZeroBubble):
    """As :class:`ScheduleInterleavedZeroBubble`, with two stages on each rank that lie along a V.

    Of n ranks, rank i has the stages i and 2 * n - 1 - i. ValueError for another number of stages.
    """

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        if len(stages) != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {len(stages)}.")
        super().__init__(stages, n_microbatches, *args, **kwargs)

    def _owners(self, ranks: int, stages: int) -> dict[int, int]:
        return there_and_back(ranks, stages)


class ScheduleDualPipeV(ScheduleZBVZeroBubble):
    """As :class:`ScheduleZBVZeroBubble`, with a forward after each backward where there is one.

    ValueError for fewer parts than stages.
    """

    _in_turns = True

    def __init__(self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        if stages and n_microbatches < stages[0].num_stages:
            raise ValueError(
                f"DualPipeV requires at least as many microbatches as stages, but got {n_microbatches} microbatches "
                f"and {stages[0].num_stages} stages."
            )
        super().__init__(stages, n_microbatches, *args, **kwargs)


_NAMES = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
}  # fmt: skip


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """The class of a schedule's name, whatever its case. ValueError for another one.

    >>> from torchlike.distributed.pipelining.schedules import get_schedule_class
    >>> get_schedule_class("gpipe").__name__
    'ScheduleGPipe'
    """
    found_ = {name.lower(): cls for name, cls in _NAMES.items()}.get(schedule_name.lower())
    if found_ is None:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_NAMES)}")
    return found_
