"""How a program's tensors are made again in every call: those it returns, and gradients it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.view_calls import DiffView, tie
from torchlike._core.tensor.storage import UNTRACKED, Storage, holding
from torchlike._core.tensor.tensor import Tensor, alias, carry, wrap
from torchlike._core.tensor.views import View

if TYPE_CHECKING:
    from torchlike._decl.typed import Values


class New(NamedTuple):
    """A tensor whose storage the program makes.

    Attributes:
        slot: which output of the program is the storage's value. strides: the storage's strides or None.
        view: the View of the tensor, or None. root: which root of the graph it is, None if it needs no grad.
        retains: whether it keeps its gradient.
        carried: its class and attributes that go with it, see ``carried`` of ``tensor.py``.
        leaf: whether it is a leaf that requires grad.
        key: of a tensor whose memory others share that the program makes. of: if it is a view for autograd, its base
            and how it is tied to it (the last arguments of ``DiffView``).
    """

    slot: int
    strides: tuple | None
    view: object
    root: int | None
    retains: bool = False
    carried: tuple = ()
    leaf: bool = False
    key: int | None = None
    of: tuple | None = None


class Alias(NamedTuple):
    """A new tensor over a storage from outside, an argument's (``arg``) or a fixed one.

    Attributes:
        tied: (why it may not be changed in place, or None,) if it is a view of that tensor for autograd, else None.
    """

    arg: int | None
    tensor: Tensor | None
    view: object
    root: int | None
    tied: tuple | None
    retains: bool = False
    carried: tuple = ()
    leaf: bool = False


class Same(NamedTuple):
    """A tensor from outside as it is: an argument or a fixed one."""

    arg: int | None
    tensor: Tensor | None


class Constant(NamedTuple):
    """Anything that is no tensor."""

    value: object


class Computed(NamedTuple):
    """A number that ``get()`` gives, before the call changes anything."""

    get: Callable[[], Any]


def placed(what: Any, places: Mapping[int, int]) -> Any:
    """``what`` with the output of the program that ``places`` gives for its slot."""
    if not isinstance(what, New):
        return what
    of = None if what.of is None else (placed(what.of[0], places), *what.of[1:])
    return what._replace(slot=places[what.slot], of=of)


def _within(outer: View | None, view: View | None) -> View | None:
    """The view ``view`` of what an argument, itself the view ``outer``, shows; traced as a base of the same layout."""
    if outer is None or not outer.steps:
        return view
    if view is None or not view.steps:
        return outer
    return View(outer.steps + view.steps, (*outer.ints, *view.ints), view.layout, view.dtype or outer.dtype)


class OutputSpec:
    """Makes the tensors of one call: ``values`` are the program's outputs, ``leaves`` the arguments."""

    def __init__(self, values: Values, leaves: list[Any], history: Callable[..., Any]) -> None:
        self.values, self.leaves, self.history = values, leaves, history
        self.storages: dict[int, Storage] = {}
        self.made: dict[int, Tensor] = {}  # {key: a tensor whose memory others share}

    def make(self, what: Any) -> Any:
        key = what.key if isinstance(what, New) else None
        if key is None:
            return self._make(what)
        if key not in self.made:
            self.made[key] = self._make(what)
        return self.made[key]

    def _make(self, what: Any) -> Any:
        if isinstance(what, Constant):
            return what.value
        if isinstance(what, Same):
            return what.tensor if what.arg is None else self.leaves[what.arg]
        if isinstance(what, New):
            t = self._new(what)
        else:
            base = what.tensor if what.arg is None else self.leaves[what.arg]
            t = alias(base, Tensor)
        own = isinstance(what, New) or what.arg is None
        t._view, t._cache = what.view if own else _within(t._view, what.view), None
        if what.root is not None:
            t._rg, t._edge = True, self.history(what.root)
        elif what.leaf:
            t._rg = True
        if what.retains:
            nodes.retain(t)
        if isinstance(what, Alias) and what.tied is not None:
            tie(base, t, *what.tied)
        if isinstance(what, New) and what.of is not None and not state.inference:
            t._diff = DiffView(self.make(what.of[0]), t._vc.version, *what.of[1:])
        if what.carried:
            carry(t, what.carried)
        return t

    def _new(self, what: Any) -> Tensor:
        storage = self.storages.get(what.slot)
        if storage is None:
            storage = self.storages[what.slot] = holding(self.values[what.slot])
            storage.strides = what.strides
        t = wrap(None)
        t._storage = t._vc = storage
        if state.inference:
            t._vc = UNTRACKED
        return t
