"""Questions about the backward that runs in this thread."""

from heapq import heapify, heappop, heappush

from torchlike._base.state import state
from torchlike._base.volatile import volatile
from torchlike._core.autograd.node import AccumulateGrad, Node


@volatile
def _current_graph_task_id() -> int:
    """The number of the backward that runs, -1 outside of one."""
    return -1 if state.task is None else state.task.id


@volatile
def _current_autograd_node() -> Node | None:
    """The node that runs, as its hooks and its own backward see it; None outside of a backward."""
    return None if state.task is None else state.task.node


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the backward that runs reaches ``node``, and so runs its hooks.

    Raises:
        RuntimeError: no backward runs; ``node`` is no node; or it is a leaf's and ``autograd.grad`` runs, which
            does not tell leaves that it differentiates by from leaves that it adds to.
    """
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    task = state.task
    if task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if isinstance(node, AccumulateGrad) and not task.accumulate and node in task.wanted:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). "
            "This is currently not supported."
        )
    return node in task.awaited and (task.needed is None or node in task.needed)


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes that the backward still runs, the one that runs now first, in order.

    Raises:
        RuntimeError: no backward runs, or it may use several threads (``set_multithreading_enabled``).
    """
    task = state.task
    if task is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    if state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled: call it within `with torch.autograd.set_multithreading_enabled(False):`"
        )
    awaited, ready = dict(task.awaited), list(task.ready)
    if task.node is not None:
        ready.append((-task.node._seq, -1, task.node))
    heapify(ready)
    pushed, order = len(awaited), []
    while ready:
        node = heappop(ready)[2]
        if task.needed is None or node in task.needed:
            order.append(node)
        for edge in node._edges:
            target = None if edge is None else edge[0]
            if target is None:
                continue
            awaited[target] -= 1
            if not awaited[target]:
                pushed += 1
                heappush(ready, (-target._seq, pushed, target))
    return order
