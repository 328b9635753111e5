"""The layers of dispatch: what an operator call passes, in order, before it is recorded and computed.

A front (``front.py``) asks who overrides the call and then hands it on as operator, form, inputs and static arguments.
While ``state.active`` is zero and every input is a plain tensor or number, the form runs it at once: autograd and the
executor, which are never off. Otherwise it walks through :data:`LAYERS` (``dispatch.walk``): the first layer that is
active handles the call, with itself off, by making calls of its own or by running the same one, which walks on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torchlike._base import state as flags


class Form:
    """A way of calling an operator.

    Attributes:
        name: ``new``, ``inplace``, ``view``, ``views`` or ``out``.
        run: ``run(op, inputs, static)``, the call from autograd on; given something that is active, it walks.
        fresh: whether the results are new tensors. writes: whether the first input is changed and returned.
        outputs: whether the last inputs are those of ``out=``, and ``static`` ends with their number.
    """

    __slots__ = ("fresh", "name", "outputs", "run", "writes")

    def __init__(
        self, name: str, run: Callable, *, fresh: bool = False, writes: bool = False, outputs: bool = False
    ) -> None:
        self.name, self.run, self.fresh, self.writes, self.outputs = name, run, fresh, writes, outputs

    def __repr__(self) -> str:
        return f"<form {self.name}>"


class Call(NamedTuple):
    """One operator call on its way through the layers: tensors, numbers and None as ``inputs``, the rest ``static``."""

    op: Any
    form: Form
    inputs: tuple
    static: tuple

    def run(self, inputs: tuple | None = None) -> Any:
        """Make the call, perhaps with other inputs, at the layers that are active now."""
        return self.form.run(self.op, self.inputs if inputs is None else inputs, self.static)


class Layer:
    """One layer.

    Attributes:
        bit: what is set in ``state.active`` while it is active. name: for errors and readers.
        handle: ``handle(call)`` gives the results; set by the module that implements it, None until then.
        switches: whether its bit is cleared while it handles a call; otherwise its handler sees to that.
        outputs: whether it sees calls with ``out=`` as such; to other layers they are calls that make new tensors.
    """

    __slots__ = ("bit", "handle", "name", "outputs", "switches")

    def __init__(self, name: str, bit: int, *, switches: bool = True, outputs: bool = False) -> None:
        self.name, self.bit, self.switches, self.outputs = name, bit, switches, outputs
        self.handle: Callable[[Call], Any] | None = None

    def install(self, handle: Callable[[Call], Any]) -> Callable[[Call], Any]:
        """Let ``handle`` run the calls of this layer; a decorator."""
        self.handle = handle
        return handle

    def __call__(self, call: Call) -> Any:
        """Handle a call while the layer is active."""
        if self.handle is None:
            raise RuntimeError(f"{call.op.name}: the layer of {self.name} is active but nothing implements it")
        if not self.switches:
            return self.handle(call)
        state.active &= ~self.bit
        try:
            return self.handle(call)
        finally:
            state.active |= self.bit

    def __repr__(self) -> str:
        return f"<layer of {self.name}>"


class TransformLayer(Layer):
    """The layer of function transforms.

    Attributes, set by the modules that implement them:
        over_rows: ``over_rows(function, tensors)``, the results of a function for each row of tensors, stacked.
        apply: ``apply(cls, args)``, a call of a custom Function inside of transforms.
        born: ``born(tensor)``, told of a new tensor that no operator call has made.
        veils: ``veils(tensor)``, whether a level that keeps no history of its own hides the one that ``tensor`` has.
    """

    __slots__ = ("apply", "born", "over_rows", "veils")

    def __init__(self) -> None:
        super().__init__("function transforms", flags.LEVELS, switches=False)
        self.over_rows: Any = None
        self.apply: Any = None
        self.born: Any = None
        self.veils: Any = None


class DispatchLayer(Layer):
    """The layer of ``__torch_dispatch__``, which also sees what is no operator call.

    Attributes, set by the modules that implement them:
        has: ``has(cls)``, whether tensors of a class have a ``__torch_dispatch__``: they come here with no bit set.
        takes: ``takes(cls)``, as ``has``, where that is not switched off.
        show: ``show(name, args, kwargs)``, the result of an aten call by the modes and subclasses.
        whole: ``whole(name, function, args, kwargs)``, the results of a function as those of one aten call.
        as_calls: ``as_calls(calls, function, args)``, those of a function, shown as what ``calls(aten, *args)`` calls.
        announce: ``announce(name, tensor, *args)``, a context for a change in place, which is shown to the modes.
        detach: ``detach(tensor)``, as a ``__torch_dispatch__`` gives it, None if none sees it.
        intercept: ``intercept(overload, args, kwargs)``, a call of a ``torch.ops`` object.
        task: ``task()``, the (class, seed of gradients) of a backward that is shown, None where none would be.
        wrappers: how many tensors and nodes a backward may meet whose classes have a ``__torch_dispatch__``.
    """

    __slots__ = ("announce", "as_calls", "detach", "has", "intercept", "show", "takes", "task", "whole", "wrappers")

    def __init__(self) -> None:
        super().__init__("__torch_dispatch__", flags.DISPATCH, switches=False, outputs=True)
        self.has: Callable[[type], bool] = lambda cls: False
        self.takes: Callable[[type], bool] = lambda cls: False
        self.detach: Callable[[Any], Any] = lambda t: None
        self.intercept: Callable[[Any, tuple, dict], Any] = lambda func, args, kwargs: func._op(*args, **kwargs)
        self.task: Callable[[], Any] = lambda: None
        self.show: Any = None
        self.whole: Any = None
        self.as_calls: Any = None
        self.announce: Any = None
        self.wrappers = 0


state = flags.state

TRANSFORMS = TransformLayer()
CHECKPOINT = Layer("selective checkpoints", flags.SELECTIVE)
AUTOCAST = Layer("autocast", flags.AUTOCAST, outputs=True)
INFERENCE = Layer("inference mode", flags.INFERENCE)
STOPPED = Layer("grad modes in functions of jax", flags.STOPPED)
AGAIN = Layer("checkpointed regions that run again", flags.REMAT)
DISPATCH = DispatchLayer()
CAPTURE = Layer("captures", flags.CAPTURE)
# No layer of the walk: a kernel that refuses a sparse value, or a view of one, ends there.
SPARSE = Layer("sparse tensors", 0, switches=False)
# Nor this: a kernel that refuses values of several devices ends there.
DEVICES = Layer("several devices", 0, switches=False)

# PyTorch's order. Above them all is __torch_function__, which sees public functions rather than operators.
LAYERS = (
    TRANSFORMS,
    CHECKPOINT,
    AUTOCAST,
    INFERENCE,
    STOPPED,
    AGAIN,
    # Autograd: the form of a call records its node, around what the next layer returns where that is active.
    DISPATCH,
    # The capture of a function that becomes a program learns what the call reads.
    CAPTURE,
    # The executor.
)

__all__ = [
    "AGAIN", "AUTOCAST", "CAPTURE", "CHECKPOINT", "DEVICES", "DISPATCH", "INFERENCE", "LAYERS", "STOPPED", "TRANSFORMS",
    "Call", "Form", "Layer",
]  # fmt: skip
