"""One part of a model on this process, and what it hands to the parts before and behind it."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._executor.immediate import uploaded
from torchlike.autograd import backward, grad
from torchlike.distributed import _messages, _runtime
from torchlike.distributed._calls import values
from torchlike.distributed.distributed_c10d import ProcessGroup, found
from torchlike.distributed.pipelining._orders import BACKWARD, FORWARD
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel import DistributedDataParallel

__all__ = ["PipelineStage"]


class PipelineStage:
    """The part of a model that this process computes.

    The schedule says which rank a stage belongs on: i modulo the size of the group, or along a V and back. What stages
    hand on are tensors, whose shapes need not be known before.

    Args:
        submodule: takes what the stage before it returns: tensors, or a tuple of them.
        stage_index, num_stages: which part this is, of how many. device: where it is.
        group: by default all processes. input_args, output_args, output_grads, input_grads: accepted.

    Raises:
        ValueError: an index out of range. NotImplementedError: DistributedDataParallel within a stage.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any, input_args: Any = None,
        output_args: Any = None, output_grads: Any = None, input_grads: Any = None, group: ProcessGroup | None = None,
        dw_builder: Any = None, get_mesh: Any = None,
    ) -> None:  # fmt: skip
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None or get_mesh is not None:
            raise NotImplementedError("PipelineStage(dw_builder=, get_mesh=) is not supported: leave them out")
        if isinstance(submodule, DistributedDataParallel):
            raise NotImplementedError("PipelineStage: DistributedDataParallel within a stage is not supported")
        self.submod, self.stage_index, self.num_stages, self.device = submodule, stage_index, num_stages, device
        self.group = found(group)
        self.group_size, self.group_rank = self.group.size(), self.group.rank()
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self.has_backward = False
        self._under_way: dict[int, tuple[list[Any], list[Tensor]]] = {}
        self._heads: dict[int, list[tuple[Tensor, Tensor | None]]] = {}  # where the backwards of parts begin

    @property
    def is_first(self) -> bool:
        """Whether it takes the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it returns the results."""
        return self.stage_index == self.num_stages - 1

    def place(self, owners: dict[int, int]) -> None:
        """Take over on which rank each stage is. ValueError where this one belongs on another than this."""
        if owners[self.stage_index] != self.group_rank:
            raise ValueError(
                f"Stage {self.stage_index} belongs on rank {owners[self.stage_index]} of {self.group_size}, not on "
                f"rank {self.group_rank}"
            )
        self.stage_index_to_group_rank = owners

    def clear_runtime_states(self) -> None:
        """Forget what is under way."""
        self._under_way.clear()
        self._heads.clear()

    # -- one part of the batch -----------------------------------------------------------------------------------------
    def forward_one_chunk(self, part: int, args: tuple[Any, ...], kwargs: dict[str, Any], place: "Place") -> Any:
        """Compute a part, and hand it on; gives the result."""
        inputs = list(args) if self.is_first else place.take(FORWARD, self.stage_index, part, self.stage_index - 1)
        output = self.submod(*inputs, **kwargs)
        outs = _tensors(output, self.stage_index)
        self._under_way[part] = inputs, outs
        if not self.is_last:
            place.give(FORWARD, self.stage_index + 1, part, outs)
        return output

    def backward_one_chunk(self, part: int, loss: Tensor | None, place: "Place") -> None:
        """Compute the gradients of a part, and hand those of its inputs back."""
        inputs, outs = self._under_way.pop(part)
        pairs = self._begins(part, outs, loss, place)
        if pairs:
            backward([y for y, _ in pairs], [g for _, g in pairs])
        if not self.is_first:
            place.give(BACKWARD, self.stage_index - 1, part, [x.grad for x in inputs])

    def backward_inputs(self, part: int, loss: Tensor | None, place: "Place") -> None:
        """Compute the gradients of a part's inputs alone, and hand them back."""
        inputs, outs = self._under_way.pop(part)
        pairs = self._heads[part] = self._begins(part, outs, loss, place)
        if self.is_first:
            return
        wanted = [x for x in inputs if x.requires_grad]
        grads: Any = [None] * len(wanted)
        if pairs and wanted:
            heads, firsts = zip(*pairs, strict=True)
            grads = grad(heads, wanted, firsts, retain_graph=True, allow_unused=True)
        found_ = dict(zip(map(id, wanted), grads, strict=True))
        place.give(BACKWARD, self.stage_index - 1, part, [found_.get(id(x)) for x in inputs])

    def backward_weights(self, part: int) -> None:
        """Compute the gradients of a part for everything else, after :meth:`backward_inputs`."""
        pairs = self._heads.pop(part)
        if pairs:
            backward([y for y, _ in pairs], [g for _, g in pairs])

    def _begins(
        self, part: int, outs: list[Tensor], loss: Tensor | None, place: "Place"
    ) -> list[tuple[Tensor, Tensor | None]]:
        """The loss, or results with the gradients that the next stage hands back."""
        if self.is_last:
            assert loss is not None
            return [(loss, None)]
        grads = place.take(BACKWARD, self.stage_index, part, self.stage_index + 1)
        return [(y, g) for y, g in zip(outs, grads, strict=True) if g is not None and y.requires_grad]


def _tensors(output: Any, stage: int) -> list[Tensor]:
    found_ = list(output) if isinstance(output, tuple | list) else [output]
    for x in found_:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"stage {stage} of a pipeline must return tensors or a tuple of them, not {type(x).__name__}"
            )
    return found_


class Place:
    """Where the stages of one step leave for each other what they hand on."""

    def __init__(self, group: ProcessGroup, owners: dict[int, int]) -> None:
        with group.lock:
            number = next(group.calls)
        self.group, self.owners, self.number = group, owners, number
        self._here: dict[tuple[str, int, int], Sequence[Tensor | None]] = {}

    def _key(self, kind: str, stage: int, part: int) -> str:
        return self.group.key("pipe", self.number, kind, stage, part)

    def give(self, kind: str, stage: int, part: int, tensors: Sequence[Tensor | None]) -> None:
        """Leave tensors for a stage; nobody is waited for."""
        if self.owners[stage] == self.group.rank():
            self._here[kind, stage, part] = [None if t is None else t.detach() for t in tensors]
            for t, own in zip(tensors, self._here[kind, stage, part], strict=True):
                if own is not None and t is not None and kind == FORWARD:
                    own.requires_grad_(t.requires_grad)
            return
        told = [None if t is None else (np.asarray(values([t.detach()])[0]), t.requires_grad) for t in tensors]
        _runtime.put(self._key(kind, stage, part), pickle.dumps(told))

    def take(self, kind: str, stage: int, part: int, source: int) -> list[Any]:
        """What was left for a stage, by the stage ``source``. DistBackendError: its rank is late or has ended."""
        if (kind, stage, part) in self._here:
            return list(self._here.pop((kind, stage, part)))
        key, rank = self._key(kind, stage, part), self.group.ranks[self.owners[source]]
        what = "the results" if kind == FORWARD else "the gradients"
        late = f"pipeline: stage {source} on rank {rank} did not hand on {what} of part {part}"
        told = pickle.loads(_messages.sent_by(rank, key, self.group.seconds(), late))
        return [None if x is None else _made(x[0], x[1], kind == FORWARD) for x in told]


def _made(array: np.ndarray, requires_grad: bool, forth: bool) -> Tensor:
    t = wrap(uploaded(array))
    return t.requires_grad_() if forth and requires_grad else t
