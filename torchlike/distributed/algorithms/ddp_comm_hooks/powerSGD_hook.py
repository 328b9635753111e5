"""PowerSGD: gradients travel as products of thin matrices, and what that loses is added to the next ones.

After Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression" (2019).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import zeros
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import Generator
from torchlike._functions.linalg import linalg
from torchlike._functions.random import randn
from torchlike._functions.rearrange import stack
from torchlike.distributed._collectives import all_reduce
from torchlike.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torchlike.distributed.distributed_c10d import ProcessGroup, found
from torchlike.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What :func:`powerSGD_hook` remembers from one backward to the next.

    Args:
        process_group: by default that of all processes.
        matrix_approximation_rank: the rank of the products. start_powerSGD_iter: the first backward that compresses.
        min_compression_rate: tensors are compressed that become at least so many times smaller.
        use_error_feedback: add what was lost to the next gradient. warm_start: begin with the last factor.
        orthogonalization_epsilon: divide by norms that are that much larger, instead of an exact decomposition.
        random_seed: of the first factors, which are equal on all ranks, and PyTorch's.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: without effect.

    ValueError for a start before the third backward with feedback or a warm start, whose buckets may change until then.
    """

    def __init__(
        self, process_group: ProcessGroup | None, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0, compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[tuple[int, int], Tensor] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer numbers were sent by :func:`powerSGD_hook`, how many there were, how many were sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0, before, after

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count backwards, by their last buckets."""
        if bucket.is_last():
            self.iter += 1

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.process_group = None


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:  # noqa: N802
    """The mean of the gradients, those of large matrices as products of thin ones.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    >>> model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
    >>> model(torch.ones(1, 8)).sum().backward()
    >>> torch.distributed.destroy_process_group()
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        whole = _with_error(state, bucket)
        parts = _parts(whole, [p.shape for p in bucket.parameters()])
        matrices = [(i, part.view(part.shape[0], -1)) for i, part in enumerate(parts) if part.dim() > 0]
        thin = [(i, m) for i, m in matrices if _pays(state, m)]
        thick = [part for i, part in enumerate(parts) if i not in dict(thin)]
        _count(state, whole, thick, [m for _, m in thin])
        result = whole.clone()
        outs = _parts(result, [p.shape for p in bucket.parameters()])
        _mean_of(state, thick, [out for i, out in enumerate(outs) if i not in dict(thin)])
        for (i, _), product in zip(thin, _compressed(state, bucket.index(), thin), strict=True):
            outs[i].copy_(product.view(outs[i].shape))
        return _done(state, bucket, whole, result)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:  # noqa: N802
    """As :func:`powerSGD_hook`, of the whole bucket as one square matrix: sends less, and loses more."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        whole = _with_error(state, bucket)
        side = math.ceil(math.sqrt(whole.numel()))
        square = zeros(side * side, dtype=whole.dtype, device=whole.device)
        square[: whole.numel()] = whole
        (product,) = _compressed(state, bucket.index(), [(0, square.view(side, side))])
        return _done(state, bucket, whole, product.reshape(-1)[: whole.numel()].clone())


def _with_error(state: PowerSGDState, bucket: Any) -> Tensor:
    """The gradients of a bucket, and what the last ones lost."""
    flat, lost = bucket.buffer(), state.error_dict.get(bucket.index())
    return flat + lost if lost is not None and lost.shape == flat.shape else flat.clone()


def _done(state: PowerSGDState, bucket: Any, whole: Tensor, result: Tensor) -> Future:
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = whole - result
    state.maybe_increase_iter(bucket)
    future: Future = Future()
    future.set_result(result)
    return future


def _parts(flat: Tensor, shapes: Sequence[Any]) -> list[Tensor]:
    parts, begin = [], 0
    for shape in shapes:
        parts.append(flat[begin : begin + shape.numel()].view(shape))
        begin += shape.numel()
    return parts


def _pays(state: PowerSGDState, m: Tensor) -> bool:
    rows, columns = m.shape
    return (rows + columns) * _rank(state, m) * state.min_compression_rate < rows * columns


def _count(state: PowerSGDState, whole: Tensor, thick: Sequence[Tensor], thin: Sequence[Tensor]) -> None:
    state.total_numel_before_compression += whole.numel()
    sent = sum(part.numel() for part in thick) + sum(sum(m.shape) * _rank(state, m) for m in thin)
    state.total_numel_after_compression += sent


def _rank(state: PowerSGDState, m: Tensor) -> int:
    return min(*m.shape, state.matrix_approximation_rank)


def _mean_of(state: PowerSGDState, tensors: list[Tensor], outs: list[Tensor]) -> None:
    """Let ``outs`` be the means over all processes."""
    group = found(state.process_group)
    for t, out in zip(tensors, outs, strict=True):
        mean: Tensor = t.div(group.size())
        all_reduce(mean, group=group)
        out.copy_(mean)


def _compressed(state: PowerSGDState, bucket: int, matrices: Sequence[tuple[int, Tensor]]) -> list[Tensor]:
    """For each matrix a product of two thin ones near the mean over all processes."""
    group, products = found(state.process_group), []
    for (i, m), q in zip(matrices, _factors(state, bucket, matrices), strict=True):
        p = m @ _orthogonal(q, state.orthogonalization_epsilon)
        all_reduce(p, group=group)
        p = _orthogonal(p, state.orthogonalization_epsilon)
        q = m.t() @ p / group.size()
        all_reduce(q, group=group)
        state.q_memory_dict[bucket, i] = q
        products.append(p @ q.t())
    return products


def _factors(state: PowerSGDState, bucket: int, matrices: Sequence[tuple[int, Tensor]]) -> list[Tensor]:
    """The right factors to begin with: those of the last time, or random ones, from one seed for all of a bucket."""
    shapes = [(m.shape[1], _rank(state, m)) for _, m in matrices]
    last = [state.q_memory_dict.get((bucket, i)) for i, _ in matrices] if state.warm_start else [None]
    if all(q is not None and tuple(q.shape) == shape for q, shape in zip(last, shapes, strict=False)):
        return [q for q in last if q is not None]
    source = Generator().manual_seed(int(state.rng.randint(1_000_000_000)))
    return [
        randn(*shape, generator=source, dtype=m.dtype).to(m.device)
        for (_, m), shape in zip(matrices, shapes, strict=True)
    ]


def _orthogonal(m: Tensor, epsilon: float) -> Tensor:
    """The columns, made orthonormal one after the other."""
    if epsilon == 0 and m.dtype.itemsize >= 4:
        return linalg.qr(m)[0]
    done: list[Tensor] = []
    for i in range(m.shape[1]):
        column = m[:, i]
        for before in done:
            column = column - before * (before * column).sum()
        done.append(column / (column.norm() + epsilon))
    return stack(done, 1)
