"""How one module of a tensor parallel plan lies over the mesh, and what it takes and gives."""

from __future__ import annotations

from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._dtensor import DTensor, as_partial, distribute_tensor
from torchlike.distributed.tensor._modules import distribute_module
from torchlike.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from torchlike.nn.modules.linear import Linear
from torchlike.nn.modules.module import Module
from torchlike.nn.modules.sparse import Embedding
from torchlike.nn.parameter import Parameter

Layouts = Placement | tuple[Placement | None, ...] | None


class ParallelStyle:
    """An entry of a plan. Subclasses say in ``_apply(module, device_mesh)`` what becomes of a module."""

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError(f"{type(self).__name__} has no _apply(module, device_mesh)")


def _taken(x: Any, mesh: DeviceMesh, given: Placement, wanted: Placement | None) -> Any:
    """A tensor, which lies as ``given`` if it is a plain one, as a DTensor that lies as ``wanted``."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [given])
    return x if wanted is None else x.redistribute(mesh, [wanted])


def _given(x: Any, mesh: DeviceMesh, wanted: Placement | None, local: bool) -> Any:
    if wanted is not None:
        x = as_partial(x, (wanted,)) if isinstance(wanted, Partial) else x.redistribute(mesh, [wanted])
    return x.to_local() if local else x


class _Linewise(ParallelStyle):
    """What the styles of Linear and Embedding have in common."""

    _layouts: dict[type, dict[str, Placement]]
    _input: Placement
    _output: Placement

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input_layouts = (input_layouts or self._input,)
        self.output_layouts = (output_layouts or self._output,)
        self.use_local_output = use_local_output

    def _wanted(self, module: Module) -> Placement:
        raise NotImplementedError

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        kind = next((k for k in self._layouts if isinstance(module, k)), None)
        if kind is None:
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding! Got {type(module).__name__}"
            )
        layouts, wanted = self._layouts[kind], self._wanted(module)

        def partition(_: str, part: Module, mesh: DeviceMesh) -> None:
            for name, p in part._parameters.items():
                if p is not None:
                    new = distribute_tensor(p, mesh, [layouts[name]], src_data_rank=self.src_data_rank)
                    part.register_parameter(name, Parameter(new, p.requires_grad))

        def take(_: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return (_taken(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def give(_: Module, out: Any, mesh: DeviceMesh) -> Any:
            return _given(out, mesh, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, take, give)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Linewise):
    """Each device computes some of the outputs of a Linear or Embedding.

    Args:
        input_layouts: how a plain input lies, by default replicated.
        output_layouts: of the result, by default cut along the last dimension.
        use_local_output: whether the result is a plain tensor: this process's part.
    """

    _layouts = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}
    _input, _output = Replicate(), Shard(-1)

    def _wanted(self, module: Module) -> Placement:
        return Replicate()


class RowwiseParallel(_Linewise):
    """Each device computes from some of the inputs of a Linear, or some of the rows of an Embedding.

    Args:
        input_layouts: how a plain input lies, by default cut along the last dimension.
        output_layouts: of the result, by default replicated; Shard(1) for sequence parallelism.
        use_local_output: whether the result is a plain tensor: this process's part.
    """

    _layouts = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}
    _input, _output = Shard(-1), Replicate()

    def _wanted(self, module: Module) -> Placement:
        return Shard(-1) if isinstance(module, Linear) else Replicate()


class SequenceParallel(ParallelStyle):
    """A LayerNorm, RMSNorm or Dropout whose parameters are replicated and whose input is cut along the sequence.

    Args:
        sequence_dim: the dimension that is cut.
        use_local_output: whether the result is a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        cut = Shard(self.sequence_dim)

        def take(_: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return (_taken(inputs[0], mesh, cut, cut), *inputs[1:])

        def give(_: Module, out: Any, mesh: DeviceMesh) -> Any:
            return _given(out, mesh, None, self.use_local_output)

        return distribute_module(module, device_mesh, None, take, give)

    def __repr__(self) -> str:
        return f"SequenceParallel(sequence_dim={self.sequence_dim}, use_local_output={self.use_local_output})"


def _tuple(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts if layouts is None else tuple(layouts)


def _each(values: Any, given: Any, wanted: Any, mesh: DeviceMesh, local: bool, what: str) -> tuple[Any, ...]:
    if len(given) != len(values) or len(wanted) != len(values):
        raise ValueError(f"module {what}s and {what}_layouts should have same length! {len(values)} and {len(given)}")
    found = []
    for x, a, b in zip(values, given, wanted, strict=True):
        if a is not None and isinstance(x, Tensor):
            x = _taken(x, mesh, a, b)
            x = x.to_local() if local else x
        found.append(x)
    return tuple(found)


class PrepareModuleInput(ParallelStyle):
    """A module whose inputs are made DTensors and laid out.

    Args:
        input_layouts: how the positional inputs lie, None for those to leave alone.
        desired_input_layouts: how they are to lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for keyword inputs.
        use_local_output: whether the module gets plain tensors: this process's parts.

    AssertionError where there are not as many desired layouts as layouts.
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts, self.desired_input_layouts = _tuple(input_layouts), _tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if {*self.input_kwarg_layouts} != {*self.desired_input_kwarg_layouts}:
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same keys!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def take(_: Module, args: Any, kwargs: Any) -> Any:
            if self.input_layouts is not None:
                given = self.input_layouts, self.desired_input_layouts
                args = _each(args, *given, device_mesh, self.use_local_output, "input")
            kwargs = dict(kwargs)
            for name, layout in self.input_kwarg_layouts.items():
                if isinstance(kwargs.get(name), Tensor):
                    x = _taken(kwargs[name], device_mesh, layout, self.desired_input_kwarg_layouts[name])
                    kwargs[name] = x.to_local() if self.use_local_output else x
            return args, kwargs

        module.register_forward_pre_hook(take, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """A module whose outputs are laid out.

    Args:
        output_layouts: how they lie if they are plain tensors, None for those to leave alone.
        desired_output_layouts: how they are to lie.
        use_local_output: whether they become plain tensors: this process's parts.

    AssertionError where there are not as many desired layouts as layouts.
    """

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.output_layouts, self.desired_output_layouts = _tuple(output_layouts), _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts or ()) != len(self.desired_output_layouts or ()):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def give(_: Module, inputs: Any, out: Any) -> Any:
            values = out if isinstance(out, tuple) else (out,)
            given = self.output_layouts, self.desired_output_layouts
            found = _each(values, *given, device_mesh, self.use_local_output, "output")
            return found if isinstance(out, tuple) else found[0]

        module.register_forward_hook(give)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """:class:`PrepareModuleInput` and :class:`PrepareModuleOutput` of one module."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_input: bool = False,
        output_layouts: Layouts = None, desired_output_layouts: Layouts = None, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
