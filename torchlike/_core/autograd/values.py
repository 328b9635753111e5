"""The usual way of a backward: gradients are values, all of them go to the leaves, and nobody watches the nodes."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from itertools import repeat
from typing import TYPE_CHECKING, Any

from torchlike._base.state import UNUSUAL, state
from torchlike._base.threads import alone
from torchlike._core.autograd.node import AccumulateGrad
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import wrap
from torchlike._decl.derive import Derived
from torchlike._executor import immediate
from torchlike._executor.immediate import SHARED
from torchlike._executor.pending import Array
from torchlike._executor.spread import USED

if TYPE_CHECKING:
    from torchlike._core.autograd.node import Node
    from torchlike._core.typed import Grads

plus = Derived("add", "AddBackward", lambda a, b: a + b, ("sum of gradients",))

adding = threading.RLock()  # two threads may reach the same leaf


def total(old: Any, grad: Any) -> Any:
    """The sum of two gradients, of one shape and dtype."""
    return immediate.run(plus, (), (old, grad))


def run(task: Any, follows: Node | None = None, flowing: Grads | None = None) -> None:
    """Run the nodes of ``task`` that are ready, and those that become so.

    What may run Python code of users, or calls of operators, is preceded by ``task.enter()``.

    follows, flowing: the node that is alone ready, and the gradients of its outputs.
    """
    ready, buffers, awaited, release, sink = task.ready, task.buffers, task.awaited, not task.keep, AccumulateGrad
    pushed, recorder, plain = len(ready), None, True
    if UNUSUAL:
        recorder, plain = state.recorder, not (state.inference or state.levels)
    while True:
        if follows is not None:  # what alone is ready after a node needs no queue
            node, grads, follows = follows, flowing, None
        elif ready:
            node = heappop(ready)[2]
            grads = buffers.pop(node, None)
        else:
            break
        leaves = False  # whether leaves have to wait for their turn
        if grads is not None and node._ex is None and node._simple:
            plan = node.plan
            results = None if plan.back is None else plan.back(node, plan, grads, recorder)
            if results is None:
                task.enter()
                results = node.apply(grads)
            if release and node._kept:
                if plan.frees and not plan.numbers:
                    node._kept = node._versions = None
                else:
                    node._release()
            if node._ex is not None:  # an unpack hook has registered one
                results = task.after(node, results, grads)
        elif grads is None and node._is_quiet():
            results = repeat(None)
        else:
            task.enter()
            results = task.step(node, [None] * node._arity if grads is None else grads) or repeat(None)
            recorder, plain = state.recorder, not (state.inference or state.levels)
        for edge, grad in zip(node._edges, results):  # noqa: B905  (the keyword costs as much as two rounds)
            if edge is None:
                continue
            target, nr = edge
            if target is None:
                continue
            left = awaited[target] - 1
            if left:
                awaited[target] = left
            if grad is not None:
                leaf = None
                if target._ex is not None:
                    task.enter()
                    grad = task.fitting(target, nr, grad, node)
                elif target.__class__ is sink:
                    if not (left or leaves):  # it would be the next to run
                        leaf = target.variable
                        if not leaf._rg or leaf._ex is not None:
                            leaf = None
                elif not (left or ready) and follows is None and target._arity == 1 and target not in buffers:
                    follows, flowing = target, [grad]  # it is the next to run, and all that is ready
                    continue
                if leaf is not None:
                    if buffers and target in buffers:
                        grad = _both(task, buffers.pop(target)[0], grad, recorder)
                    if not (plain and leaf._grad is None and _becomes(leaf, grad)):
                        task.enter()
                        task.accumulate_into(leaf, grad)
                    continue
                if target._arity == 1 and target not in buffers:
                    if left or ready or follows is not None:
                        buffers[target] = [grad]
                    else:
                        follows, flowing, leaves = target, [grad], target.__class__ is sink
                        continue
                else:
                    task.enter()
                    task.deliver(target, nr, grad)
            if left:
                continue
            if target.__class__ is sink:
                leaves = True
            if follows is None and not ready:
                follows, flowing = target, buffers.pop(target, None)
                continue
            if follows is not None:
                pushed += 1
                heappush(ready, (-follows._seq, pushed, follows))
                if flowing is not None:
                    buffers[follows] = flowing
                follows = None
            pushed += 1
            heappush(ready, (-target._seq, pushed, target))
    task.node = None


def _both(task: Any, old: Any, grad: Any, recorder: Any) -> Any:
    """As :func:`total`, before which the task is entered unless both are arrays."""
    if not old.__class__ is grad.__class__ is Array:
        task.enter()
    elif recorder is None and (kernel := plus.kernels.get(())) is not None:
        return kernel(old, grad)
    return total(old, grad)


def _becomes(leaf: Any, grad: Any) -> bool:
    """Let the gradient be ``.grad`` of a leaf that had none, where that is all there is to do; whether it was."""
    if CAPTURES or USED or grad.__class__ is not Array or leaf._view is not None or id(grad) in SHARED:
        return False
    new = wrap(grad)
    if not alone():  # threads that may reach the leaf too
        with adding:
            if leaf._grad is not None:
                return False
            leaf._grad = new
    else:
        leaf._grad = new
    return True
