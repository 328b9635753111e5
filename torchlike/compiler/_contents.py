"""What a program depends on beside what its function reads: the modes of the process, and how its arguments overlap."""

from torchlike._base.deterministic import determinism
from torchlike._base.device import default_device
from torchlike._base.state import state
from torchlike._core.autograd.anomaly import current as anomaly
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.matmul import precision
from torchlike._transforms.capture.capture import Trace


def modes() -> tuple:
    """The modes that change what operators do, beside those that select a program."""
    return (
        precision(), default_device(), determinism.enabled, determinism.fill, state.pack is None, state.selective,
        anomaly.enabled, anomaly.check_nan, state.pack_refused,
    )  # fmt: skip


def overlapping(trace: Trace) -> str | None:
    """What is wrong if a view is an argument, and its memory is written and seen by other ways too."""
    groups: dict[int, list[int]] = {}
    for i, x in enumerate(trace.leaves):
        if isinstance(x, Tensor):
            groups.setdefault(id(x._storage), []).append(i)
    written = {i for i, _ in trace.arg_writes}
    outside, read = {id(s) for s, _ in trace.writes}, {id(s) for s in trace.sources}
    for key, group in groups.items():
        views = [trace.leaves[i]._view for i in group]
        if not any(view is not None and view.steps for view in views):
            continue
        others = len(group) > 1 or key in outside or key in read
        if others and (key in outside or written.intersection(group)):
            return "writes to memory of which an argument is a view, and which it is given in another way too"
    return None
