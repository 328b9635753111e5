"""ExportedProgram: a function as StableHLO, with its parameters, buffers and constants beside it."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import jax

from torchlike._core.tensor.tensor import Tensor
from torchlike.export._inputs import Inputs
from torchlike.export._piece import Piece
from torchlike.export._program import LoadedProgram, Slot
from torchlike.export.dynamic_shapes import ValueRanges
from torchlike.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torchlike.nn.modules.module import Module
from torchlike.utils._pytree import TreeSpec

_KINDS = {"parameter": InputKind.PARAMETER, "buffer": InputKind.BUFFER, "constant": InputKind.CONSTANT_TENSOR}
_WRITES = {"parameter": OutputKind.PARAMETER_MUTATION, "buffer": OutputKind.BUFFER_MUTATION}
# What PyTorch's programs have of their graphs.
_OF_GRAPHS = frozenset(
    "graph graph_module module_call_graph run_decompositions dialect verifier verifiers validate".split()
)
_LETTERS = {"parameter": "p", "buffer": "b", "constant": "c"}


class NoGraph(NotImplementedError, AttributeError):
    """A program of StableHLO has no graph of operators; ``hasattr`` says so too."""


class CallSpec(NamedTuple):
    """The structures of (args, kwargs) and of the results."""

    in_spec: TreeSpec
    out_spec: TreeSpec


class ExportedProgram:
    """A function or module that runs without its Python code; made by ``torch.export.export`` and ``load``.

    Attributes:
        state_dict: the parameters and persistent buffers, the module's own tensors: nothing was copied. constants:
            non-persistent buffers, and the other tensors that the code reads. example_inputs: (args, kwargs) of the
            export, None in a loaded program. platforms: where it runs.

    >>> import torchlike as torch
    >>> ep = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> list(ep.state_dict), ep.module()(torch.ones(3, 2)).shape
    (['weight', 'bias'], torch.Size([3, 1]))
    """

    def __init__(self, program: LoadedProgram, tensors: list[Tensor], example_inputs: tuple | None = None) -> None:
        self._program, self._tensors, self.example_inputs = program, tensors, example_inputs
        self._placed = placed = _placed(program, tensors)
        self.state_dict = OrderedDict((name, t) for name, slot, t in placed if slot.persistent)
        self.constants = {name: t for name, slot, t in placed if not slot.persistent}
        self.graph_signature = _signature(program)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_GRAPHS:
            raise NoGraph(
                f"ExportedProgram.{name}: the program is StableHLO, read by text(); graphs of operators are made of "
                "the function itself, by torch.fx.symbolic_trace or torch.fx.experimental.proxy_tensor.make_fx"
            )
        raise AttributeError(f"'ExportedProgram' object has no attribute '{name}'")

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """``constants``, all of which are tensors."""
        return self.constants

    @property
    def call_spec(self) -> CallSpec:
        return CallSpec(self._program.inputs.spec, self._program.out_spec)

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The range of each dynamic length."""
        return dict(self._program.inputs.ranges)

    @property
    def platforms(self) -> tuple[str, ...]:
        return self._program.forward.exported.platforms

    def module(self, check_guards: bool = True) -> "ExportedModule":
        """A new module that runs the program, over the tensors of this object.

        ``state_dict``, ``parameters``, ``load_state_dict`` and optimizers work on it as on the module that was
        exported; ``train`` and ``eval`` do not, since its mode is part of the program. Arguments are always checked.
        """
        return ExportedModule(self._program, self._tensors)

    def parameters(self) -> Iterator[Tensor]:
        return (t for _, t in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        return self._named("parameter")

    def buffers(self) -> Iterator[Tensor]:
        return (t for _, t in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return self._named("buffer")

    def _named(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        return ((name, t) for name, slot, t in self._placed if slot.kind == kind)

    # -- for the curious -------------------------------------------------------------------------
    def exported(self, which: str = "forward") -> jax.export.Exported:
        """The program in jax's terms, to be called on arrays: those of ``graph_signature``, then draws.

        Args:
            which: "forward"; or "forward_vjp" and "backward", the halves that compute gradients.
        """
        return self._piece(which).exported

    def text(self, which: str = "forward") -> str:
        """The program in StableHLO; ``which`` as in :meth:`exported`."""
        return self._piece(which).text()

    def cost_analysis(self, which: str = "forward") -> dict[str, float]:
        """XLA's estimate for this machine: "flops", "bytes accessed" and more; of dynamic lengths, for the least.

        >>> import torchlike as torch
        >>> ep = torch.export.export(torch.nn.Linear(8, 4, bias=False), (torch.ones(16, 8),))
        >>> ep.cost_analysis()["flops"]
        1024.0
        """
        piece = self._piece(which)
        least = {name: r.lower for name, r in self._program.inputs.ranges.items()}
        avals = [jax.ShapeDtypeStruct(_at(a.shape, least), a.dtype) for a in piece.exported.in_avals]
        found = piece.lowered(avals).compile().cost_analysis()
        return dict(found[0] if isinstance(found, list) else found)

    def _piece(self, which: str) -> Piece:
        p = self._program
        pieces = {"forward": p.forward, "forward_vjp": p.forward_vjp, "backward": p.backward}
        if which not in pieces:
            raise ValueError(f"which must be one of {list(pieces)}, not {which!r}")
        found = pieces[which]
        if found is None:
            raise ValueError(f"{self._program.name} was exported without its derivative: {self._program.ungraded}")
        return found

    def __repr__(self) -> str:
        arguments = [*_shown_slots(self._program.slots), *_shown_inputs(self._program.inputs)]
        return (
            f"ExportedProgram:\n    {self._program.name}({', '.join(arguments)})\n\nGraph signature: "
            f"{self.graph_signature}\nRange constraints: {self.range_constraints}\n"
        )


class ExportedModule(Module):
    """What runs an exported program: a module without Python code of its own, over the program's tensors."""

    def __init__(self, program: LoadedProgram, tensors: list[Tensor]) -> None:
        super().__init__()
        self.__dict__["_program"] = program
        self.__dict__["_constants"] = {}
        for name, slot, t in _placed(program, tensors):
            self._place(slot, name, t)

    def _place(self, slot: Slot, name: str, t: Tensor) -> None:
        if slot.kind == "constant":
            self._constants[name] = t
            return
        *path, key = name.split(".")
        owner: Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        if slot.kind == "parameter":
            owner._parameters[key] = t
        else:
            owner.register_buffer(key, t, persistent=slot.persistent)

    def _at(self, slot: Slot, name: str) -> Tensor:
        if slot.kind == "constant":
            return self._constants[name]
        *path, key = name.split(".")
        owner: Module = self
        for part in path:
            owner = owner._modules[part]
        return (owner._parameters if slot.kind == "parameter" else owner._buffers)[key]

    def _current(self, slot: Slot) -> Tensor:
        first, *others = [self._at(slot, name) for name in slot.names]
        if any(t is not first for t in others):
            raise RuntimeError(
                f"{' and '.join(slot.names)} were one tensor when the program was exported, and are not any more"
            )
        return first

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return self._program.run([self._current(slot) for slot in self._program.slots], args, kwargs)

    def train(self, mode: bool = True) -> NoReturn:
        """Refused: the mode at the time of the export is part of the program."""
        raise NotImplementedError(f"Calling {'train' if mode else 'eval'}() is not supported yet.")

    def eval(self) -> NoReturn:
        """Refused, as :meth:`train`."""
        raise NotImplementedError("Calling eval() is not supported yet.")

    def extra_repr(self) -> str:
        return self._program.name


def _at(shape: tuple, values: dict[str, int]) -> tuple:
    """The shape where the symbols have these values."""
    return tuple([n if type(n) is int else int(n._evaluate(values)) for n in shape])


def _placed(program: LoadedProgram, things: list) -> list[tuple[str, Slot, Any]]:
    """(name, slot, thing) for every name, in the order of the module's; ``things`` belong to the slots."""
    pairs = zip(program.slots, things, strict=True)
    found = [(n, name, slot, t) for slot, t in pairs for n, name in zip(slot.order, slot.names, strict=True)]
    return [(name, slot, t) for _, name, slot, t in sorted(found, key=lambda entry: entry[0])]


def _signature(program: LoadedProgram) -> ExportGraphSignature:
    inputs = [
        InputSpec(
            _KINDS[slot.kind],
            TensorArgument(f"{_LETTERS[slot.kind]}_{name.replace('.', '_')}"),
            name,
            slot.persistent if slot.kind == "buffer" else None,
        )
        for name, slot, _ in _placed(program, program.slots)
    ]
    for entry in program.inputs.entries:
        arg = TensorArgument(entry.name) if entry.dtype else ConstantArgument(entry.name, entry.value)
        inputs.append(InputSpec(InputKind.USER_INPUT, arg))
    return ExportGraphSignature(inputs, [*_mutations(program), *_user_outputs(program)])


def _mutations(program: LoadedProgram) -> Iterator[OutputSpec]:
    for k, _ in program.plain.state_writes:
        slot = program.slots[k]
        for name in slot.names:
            yield OutputSpec(_WRITES[slot.kind], TensorArgument(f"new_{name.replace('.', '_')}"), name)
    for i, _ in program.plain.argument_writes:
        name = program.inputs.entries[i].name
        yield OutputSpec(OutputKind.USER_INPUT_MUTATION, TensorArgument(f"new_{name}"), name)


def _user_outputs(program: LoadedProgram) -> Iterator[OutputSpec]:
    for k, how in enumerate(program.plain.results):
        arg: TensorArgument | ConstantArgument = TensorArgument(f"output_{k}")
        if "same" in how:
            kind, i = how["same"]
            arg = TensorArgument(program.inputs.entries[i].name if kind == "argument" else program.slots[i].names[0])
        elif "constant" in how or "size" in how:
            arg = ConstantArgument("", how.get("constant", how.get("size")))
        yield OutputSpec(OutputKind.USER_OUTPUT, arg)


def _shown_slots(slots: list[Slot]) -> list[str]:
    return [f"{slot.names[0]}: {slot.dtype}{slot.shape}" for slot in slots]


def _shown_inputs(inputs: Inputs) -> list[str]:
    return [
        f"{e.name}: {e.dtype}[{', '.join(map(str, e.shape))}]" if e.dtype else f"{e.name} == {e.value!r}"
        for e in inputs.entries
    ]
