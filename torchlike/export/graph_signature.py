"""What the inputs and outputs of an exported program are, under PyTorch's names."""

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple


class InputKind(enum.Enum):
    """Where an input comes from."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """Where an output goes."""

    USER_OUTPUT = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    BUFFER_MUTATION = enum.auto()
    USER_INPUT_MUTATION = enum.auto()


class TensorArgument(NamedTuple):
    """A tensor, by name."""

    name: str


class ConstantArgument(NamedTuple):
    """A value that is no tensor."""

    name: str
    value: Any


class InputSpec(NamedTuple):
    """One input: its kind, its name, the parameter, buffer or constant it is, and whether a buffer is persistent."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


class OutputSpec(NamedTuple):
    """One output: its kind, its name, and what it is written to."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


class ExportGraphSignature:
    """The inputs and outputs of a program.

    A program is a function of values: what the exported code changes in place is an output beside the results, so the
    signature is that of PyTorch's ``ExportedProgram.run_decompositions()``.

    Attributes:
        input_specs, output_specs: in order; results after what is written.
    """

    def __init__(self, input_specs: list[InputSpec], output_specs: list[OutputSpec]) -> None:
        self.input_specs, self.output_specs = input_specs, output_specs

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.input_specs if s.kind is kind and s.target is not None}

    def _written(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind and s.target is not None}

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self._targets(InputKind.PARAMETER).values())

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(self._targets(InputKind.BUFFER).values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.persistent is False and s.target is not None)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return tuple(self._targets(InputKind.CONSTANT_TENSOR).values())

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Names of tensors, and the values of other arguments."""
        return tuple(_name_or_value(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Names of tensors, and the values of other results."""
        return tuple(_name_or_value(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.USER_INPUT_MUTATION)

    def __str__(self) -> str:
        lines = ["\n# inputs", *map(str, self.input_specs), "\n# outputs", *map(str, self.output_specs)]
        return "\n".join(lines) + "\n"

    __repr__ = __str__


def _name_or_value(arg: TensorArgument | ConstantArgument) -> Any:
    return arg.name if isinstance(arg, TensorArgument) else arg.value
