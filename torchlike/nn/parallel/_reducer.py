"""Gradients of the copies of a module in several processes: put in buckets as backward makes them, and averaged."""

import functools
import weakref
from collections.abc import Callable, Sequence, Set
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.dtypes import int32
from torchlike._base.state import no_grad, state
from torchlike._base.threads import cores
from torchlike._core.autograd.engine import queue_callback
from torchlike._core.conversion.factories import tensor
from torchlike._core.tensor.tensor import Tensor, array_of, fresh
from torchlike._transforms.capture.recording import Unsupported
from torchlike.distributed import _xla
from torchlike.distributed._buckets import GradBucket, unflattened
from torchlike.distributed._calls import Work, assign, start, values
from torchlike.distributed._collectives import ReduceOp, all_reduce
from torchlike.distributed._shared_sums import KINDS, Bucket, SharedSums
from torchlike.distributed._sparse_sums import summed
from torchlike.distributed.distributed_c10d import ProcessGroup
from torchlike.futures import Future

FIRST = 1 << 20  # bytes of the first bucket, so that sending begins early
MEGABYTE = 1 << 20
CACHED = 4  # megabytes that a processor's cache holds: sockets take twice the time for each byte of more


def _refuse_program(why: str) -> NoReturn:
    """End a program that is being traced, before anything here has changed."""
    raise Unsupported(f"lets DistributedDataParallel average gradients {why}, which is no part of a program")


def buckets_of(params: Sequence[Tensor], megabytes: float, sparse: Set[int] = frozenset()) -> list[list[Tensor]]:
    """Parameters from the last to the first, a bucket for each dtype and so many bytes.

    ``sparse``: the ids of those whose gradients are sparse, each of which has a bucket of its own.
    """
    done: list[list[Tensor]] = []
    open_: dict[Any, tuple[list[Tensor], int]] = {}
    for p in reversed(params):
        if id(p) in sparse:
            done.append([p])
            continue
        bucket, size = open_.get(p.dtype, ([], 0))
        bucket.append(p)
        size += p.numel() * p.element_size()
        limit = FIRST if not done else megabytes * MEGABYTE
        if size >= min(limit, megabytes * MEGABYTE):
            done.append(bucket)
            bucket, size = [], 0
        open_[p.dtype] = bucket, size
    return done + [bucket for bucket, _ in open_.values() if bucket]


class Reducer:
    """Averages gradients over a group, while it is armed: once for each backward that a forward announced.

    A bucket is sent as soon as its gradients and those of all buckets before it are there, so that all processes send
    in one order, or at the end of backward where processes of one machine share memory and no processor is to spare;
    that end waits for what comes back. In a compiled function that holds the forward and its whole backward, sums are
    a part of the program, at the end of backward.
    """

    def __init__(
        self, params: Sequence[Tensor], group: ProcessGroup, megabytes: float, find_unused: bool, static: bool,
        sparse: Set[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.params, self.group, self.find_unused, self.static = list(params), group, find_unused, static
        self.megabytes, self._sparse = megabytes, sparse
        self._on_cpu = all(p.device.type == "cpu" for p in self.params)
        limit = min(megabytes, CACHED) if self._on_cpu else megabytes
        self.buckets = buckets_of(self.params, limit, sparse)
        self.hook: tuple[Any, Callable] | None = None
        self.armed = self.queued = self._ended = False
        self.divisor: int | None = None
        self._ready: set[int] = set()
        self._touched: set[int] = set()  # what got a gradient since the last average, under no_sync too
        self._used: set[int] | None = None  # of a static graph, once known
        self._sent: list[tuple[list[Tensor], Any]] = []
        self._shared: SharedSums | None = None  # from the first bucket on, of parameters on CPUs
        self._capture: weakref.ref | None = None  # in which a forward was, whose backward is to come
        self.after: dict[int, Callable[[Tensor], None]] = {}  # what is done with a parameter once it has its mean
        self.apart = False  # whether forward and backward were seen not to be one program
        self._handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in self.params]

    def use_hook(self, state: object, hook: Callable) -> None:
        """Let ``hook(state, bucket)`` bring together buckets as large as the user said."""
        self.hook, self.buckets = (state, hook), buckets_of(self.params, self.megabytes, self._sparse)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    # -- one backward --------------------------------------------------------------------------------------------------
    def arm(self) -> None:
        """A forward whose backward is to be averaged. RuntimeError: the one before was not, for want of gradients."""
        if state.capture is not None:
            self._arm_program(state.capture)
            return
        if self.armed and self.queued:
            late = [i for i, p in enumerate(self.params) if id(p) not in self._ready]
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. Parameters got "
                "no gradient in it, so that this process sent less than all of them: pass find_unused_parameters=True "
                "to DistributedDataParallel, and let all outputs of forward take part in the loss. Parameter indices "
                f"which did not receive grad for rank {self.group.rank()}: {' '.join(map(str, late))}"
            )
        self.armed, self.queued = True, False
        self._ready.clear()
        self._sent.clear()

    def _arrived(self, p: Tensor) -> None:
        if state.capture is not None:
            self._arrived_in_program(p, state.capture)
            return
        self._touched.add(id(p))
        if not self.armed:
            return
        if id(p) in self._ready and not self.static:
            raise RuntimeError(
                "Expected to mark a variable ready only once: a parameter got a gradient twice in one backward, as in "
                "reentrant checkpoints; pass static_graph=True to DistributedDataParallel, or checkpoint with "
                "use_reentrant=False"
            )
        self._ready.add(id(p))
        if not self.queued or self._ended:
            self.queued, self._ended = True, False
            queue_callback(self._finish)
        if not (self.find_unused or self.static or self._adds_here()):
            self._send_ready()

    # -- within a program that is being traced -------------------------------------------------------------------------
    def _arm_program(self, capture: Any) -> None:
        hooked = self.hook is not None or bool(self.after) or bool(self._sparse)
        if self.apart or self.find_unused or self.static or hooked or self.divisor is not None:
            why = "of a backward elsewhere" if self.apart else "by a hook, of a static graph, sparse ones or some"
            _refuse_program(why)
        self._capture = weakref.ref(capture)
        self._ready.clear()
        capture.ends.append(lambda: self._end_program(capture))

    def _end_program(self, capture: Any) -> None:
        """Refuse a program with a forward and without the backward that follows it."""
        if self._capture is not None and self._capture() is capture:
            self._capture, self.apart = None, True
            _refuse_program("of a backward elsewhere, or of some parameters")

    def _arrived_in_program(self, p: Tensor, capture: Any) -> None:
        if self._capture is None or self._capture() is not capture:
            if self.armed or self.find_unused or self.static:
                _refuse_program("of a forward before it" if self.armed else "of some parameters")
            return
        if not self._ready:
            queue_callback(self._finish_in_program)
        self._ready.add(id(p))

    def _finish_in_program(self) -> None:
        if len(self._ready) < len(self.params):
            return
        self._capture = None
        for number, bucket in enumerate(self.buckets):
            divided = [(a / self.group.size()).astype(a.dtype) for a in values(self._gradients(bucket))]
            work = start(self.group, f"gradients of bucket {number}", "bucket", ("SUM",), divided, list)
            _give(bucket, _result(work), None)

    # -- one backward, eager -------------------------------------------------------------------------------------------
    def _adds_here(self) -> bool:
        """Whether the processors that compute add up, too: in the midst of backward that would only interrupt it."""
        shared = self.hook is None and self._shared is not None and self._shared.in_use
        return shared and cores() <= self.group.size()

    def _send_ready(self) -> None:
        for bucket in self.buckets[len(self._sent) :]:
            if not all(id(p) in self._ready for p in bucket):
                return
            self._send(bucket)

    def _finish(self) -> None:
        """At the end of backward, and of those within it."""
        self._ended = True
        if not self.armed or len(self._ready) < len(self.params) and not (self.find_unused or self.static):
            return
        self.armed = self.queued = False  # whatever goes wrong now, the next forward is not the one to tell
        used = self._used_anywhere() if self.find_unused or self.static else None
        for bucket in self.buckets[len(self._sent) :]:
            self._send(bucket)
        self._take(used)

    def _take(self, used: set[int] | None) -> None:
        self._touched.clear()
        sent, self._sent = self._sent, []
        for bucket, work in sent:
            _give(bucket, _result(work), used)
            for p in bucket:
                if id(p) in self.after and (used is None or id(p) in used):
                    self.after[id(p)](p)

    def _used_anywhere(self) -> set[int]:
        """The parameters that got a gradient in some process; the gradients of the others stay as they are.

        Those of a static graph are the ones of its first backward.
        """
        if self._used is not None:
            return self._used
        flags = tensor([id(p) in self._touched for p in self.params], dtype=int32)
        all_reduce(flags, ReduceOp.MAX, self.group)
        used = {id(p) for p, flag in zip(self.params, flags.tolist(), strict=True) if flag}
        self._used = used if self.static else None
        return used

    def _send(self, bucket: list[Tensor]) -> None:
        self._sent.append((bucket, self._begun(bucket, self._gradients(bucket))))

    def _gradients(self, bucket: list[Tensor]) -> list[Tensor]:
        with no_grad():
            grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in bucket]
        for p, g in zip(bucket, grads, strict=True):
            if g.dtype != p.dtype:
                raise RuntimeError(f"DistributedDataParallel: a gradient is {g.dtype}, its parameter {p.dtype}")
        return grads

    def _begun(self, bucket: list[Tensor], grads: list[Tensor]) -> Any:
        number = len(self._sent)
        if id(bucket[0]) in self._sparse:
            return self._sum_of_sparse(bucket[0], grads[0])
        if self.hook is not None:
            state, hook = self.hook
            with no_grad():
                flat = fresh(_joined(values(grads), 1))
                told = GradBucket(number, flat, bucket, number == len(self.buckets) - 1)
                return hook(state, told)
        name, divisor = f"gradients of bucket {number}", self.divisor or self.group.size()
        kind, static = ("addends", ()) if self._on_cpu else ("reduce", ("SUM",))
        arrays, shapes, shared = values(grads), tuple(p.shape for p in bucket), self._shared_by(bucket)
        if shared is None:
            flat = [_joined(arrays, divisor)]
            return start(self.group, name, kind, static, flat, lambda addends: _summed(addends, shapes))

        def launch() -> list[jax.Array]:
            if shared.usable():
                return shared.mean(number, arrays, divisor)
            return _summed(_xla.launch(kind, self.group.ranks, static, [_joined(arrays, divisor)]), shapes)

        return start(self.group, name, kind, static, arrays, list, launch=launch)

    def _sum_of_sparse(self, p: Tensor, grad: Tensor) -> Any:
        if self.hook is not None:
            raise NotImplementedError(
                "DistributedDataParallel: a communication hook beside sparse gradients, as of Embedding(sparse=True), "
                "is not supported; use sparse=False"
            )
        with no_grad():
            grad = grad if grad.is_sparse else grad.to_sparse(1)
            mean = summed(grad, self.group, "sparse gradients") / (self.divisor or self.group.size())
        return Work(lambda _: [mean])

    def _shared_by(self, bucket: list[Tensor]) -> SharedSums | None:
        """The memory in which processes of one machine add up a bucket; None where XLA does."""
        if not self._on_cpu or bucket[0].dtype.np not in KINDS:
            return None
        if self._shared is None:
            every = [[(1,)] if id(ps[0]) in self._sparse else [tuple(p.shape) for p in ps] for ps in self.buckets]
            laid = [Bucket(shapes, ps[0].dtype.np) for shapes, ps in zip(every, self.buckets, strict=True)]
            self._shared = SharedSums(self.group, laid)
        return self._shared

    # -- for processes that have run out of inputs ---------------------------------------------------------------------
    def shadow(self) -> None:
        """Take part in a backward of the others, with zeros."""
        if self.find_unused or self.static:
            self._touched.clear()
            self._used_anywhere()
        for bucket in self.buckets:
            zeros = [p.new_zeros(p.shape) for p in bucket]
            self._sent.append((bucket, self._begun(bucket, zeros)))
        sent, self._sent = self._sent, []
        for _, work in sent:
            _result(work)


@jax.jit
def _joined(arrays: list[jax.Array], divisor: int) -> jax.Array:
    """Arrays over ``divisor``, before they are added up: their sum may be too large where the mean is not."""
    flat = jnp.concatenate([a.reshape(-1) for a in arrays])
    return (flat / divisor).astype(flat.dtype)


@functools.partial(jax.jit, static_argnums=1)
def _summed(addends: list[jax.Array], shapes: tuple[tuple[int, ...], ...]) -> list[jax.Array]:
    """Arrays of these shapes, one after the other in the sum of ``addends``."""
    flat = functools.reduce(jnp.add, addends)
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1].tolist()
    return [part.reshape(shape) for part, shape in zip(jnp.split(flat, ends), shapes, strict=True)]


def _result(work: Any) -> Any:
    """What came back: arrays, or a tensor or tensors of a hook."""
    if isinstance(work, Work):
        work.wait()
        return work.result()
    if not isinstance(work, Future):
        raise TypeError(f"a communication hook must return a torch.futures.Future, not {type(work).__name__}")
    return work.wait()


def _give(bucket: list[Tensor], result: Any, used: set[int] | None) -> None:
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], Tensor) and not result[0].is_sparse:
        result = result[0]
    with no_grad():
        parts = unflattened(result, bucket) if isinstance(result, Tensor) else result
        for p, part in zip(bucket, parts, strict=True):
            if used is not None and id(p) not in used:
                continue
            if isinstance(part, Tensor) and part.is_sparse:
                p.grad = part
                continue
            if p.grad is None:
                p.grad = p.new_zeros(p.shape)
            assign(p.grad, array_of(part) if isinstance(part, Tensor) else part)
