"""Which modules run: in forward, and in the part of backward that is theirs."""

import weakref
from typing import Any

from torchlike._core.autograd import engine
from torchlike._core.autograd.graph_task import _current_graph_task_id
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torchlike.utils._pytree import tree_flatten


class ModuleTracker:
    """A context in which ``parents`` is the set of names of the modules that run now.

    ``Global`` always is one. A module is called by its class, or by the path from the outermost one.

    >>> import torchlike as torch
    >>> seen = []
    >>> with ModuleTracker() as tracker:
    ...     model = torch.nn.Sequential(torch.nn.ReLU())
    ...     handle = model[0].register_forward_pre_hook(lambda *_: seen.append(sorted(tracker.parents)))
    ...     y = model(torch.ones(1))
    >>> seen
    [['Global', 'Sequential', 'Sequential.0']]
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._handles: list = []
        self._clears = False

    @property
    def is_bw(self) -> bool:
        """Whether a backward runs."""
        return _current_graph_task_id() != -1

    def __enter__(self) -> "ModuleTracker":
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _name(self, module: Any) -> str:
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        for key, child in module.named_children():
            self._names[child] = f"{name}.{key}"
        return name

    def _before(self, module: Any, inputs: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        for t in _differentiable(inputs):
            t.register_hook(lambda grad, name=name: self.parents.discard(name))

    def _after(self, module: Any, inputs: Any, outputs: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        for t in _differentiable(outputs):
            t.register_hook(lambda grad, name=name: self._begins(name))

    def _begins(self, name: str) -> None:
        if not self._clears:
            self._clears = True
            engine.queue_callback(self._ended)
        self.parents.add(name)

    def _ended(self) -> None:
        self.parents, self._clears = {"Global"}, False


def _differentiable(values: Any) -> list[Tensor]:
    return [t for t in tree_flatten(values)[0] if isinstance(t, Tensor) and t.requires_grad]


__all__ = ["ModuleTracker"]
