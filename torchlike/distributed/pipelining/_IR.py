"""Models cut into the stages of a pipeline: traced as one graph of aten calls, and divided at marks.

A stage takes what the one before it returns. A value that a later stage needs goes through all stages between.
"""

import inspect
import operator
from collections.abc import Callable
from enum import Enum
from typing import Any

from torchlike._aten.packets import ops
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.distributed_c10d import ProcessGroup
from torchlike.distributed.pipelining._utils import PipeInfo
from torchlike.distributed.pipelining.stage import PipelineStage
from torchlike.fx.experimental.proxy_tensor import get_innermost_proxy_mode, make_fx
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule, _copy_attr
from torchlike.fx.node import Node, map_arg
from torchlike.nn.modules.module import Module
from torchlike.utils import _pytree as pytree

__all__ = ["Pipe", "SplitPoint", "annotate_split_points", "build_stage", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a stage ends: before a module, or after it."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Where a stage ends, in the forward of a model that :func:`pipeline` traces; does nothing elsewhere."""
    mode = get_innermost_proxy_mode()
    if mode is not None:
        mode.tracer.create_proxy("call_function", pipe_split, (), {})


def annotate_split_points(mod: Module, spec: dict[str, SplitPoint]) -> list[Any]:
    """Let the modules at some paths call :func:`pipe_split` before or after their forward; gives handles of the hooks.

    ValueError for what is no :class:`SplitPoint`, AttributeError for a path that is not there.
    """
    found = [(mod.get_submodule(path), point) for path, point in spec.items()]
    for _, point in found:
        if not isinstance(point, SplitPoint):
            raise ValueError(f"Unknown split point type: {point!r}. Give SplitPoint.BEGINNING or SplitPoint.END")
    return [
        m.register_forward_pre_hook(_mark, prepend=True)
        if point is SplitPoint.BEGINNING
        else m.register_forward_hook(_mark)
        for m, point in found
    ]


def _mark(*_: Any) -> None:
    pipe_split()


class Pipe(Module):
    """A model cut into stages, as :func:`pipeline` makes it.

    Attributes: split_gm: a GraphModule with the stages ``submod_pp_0``, ``submod_pp_1``..., which share the parameters
    of the model. num_stages.
    """

    def __init__(self, split_gm: GraphModule, num_stages: int, has_loss_and_backward: bool, loss_spec: Any) -> None:
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results of all stages, one after the other, as a tuple of tensors."""
        return self.split_gm(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.split_gm)

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage. ValueError for a number out of range."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}: there are stages 0 to {self.num_stages - 1}")
        return self.split_gm.get_submodule(f"submod_pp_{stage_idx}")

    def info(self) -> PipeInfo:
        """How many stages there are, and their graph."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device: Any, group: ProcessGroup | None = None) -> PipelineStage:
        """A stage for the schedules on this process; its parameters move to ``device``."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: ProcessGroup | None = None
) -> PipelineStage:
    """A stage for the schedules, of a module of a :class:`Pipe`, whose parameters move to ``device``."""
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)


def pipeline(
    module: Module, mb_args: tuple[Any, ...], mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None, split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:  # fmt: skip
    """Cut a model into stages.

    The model is run once on one part of a batch, and its aten calls are recorded; control flow, training mode and the
    shapes of the part are those of this run. Stages share the parameters of the model, under their names.

    Args:
        mb_args, mb_kwargs: of one part of a batch: tensors, and whatever else ``forward`` takes, which is fixed.
        split_spec: paths of modules before or after which a stage ends. A ``forward`` that calls :func:`pipe_split`
            needs none.
        split_policy: a function that is given the whole graph and adds calls of :func:`pipe_split` to it.

    Raises:
        RuntimeError: control flow depends on values. ValueError: an unknown split point.
        NotImplementedError: containers of tensors as arguments.

    >>> import torchlike as torch
    >>> from torchlike.distributed.pipelining import SplitPoint, pipeline
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> pipe = pipeline(model, (torch.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]
    [['0.weight', '0.bias'], ['2.weight', '2.bias']]
    """
    if not isinstance(module, Module):
        raise TypeError(f"pipeline(): module must be a torch.nn.Module, got {type(module).__name__}")
    if not isinstance(mb_args, tuple):
        raise TypeError(f"pipeline(): mb_args must be a tuple of arguments, got {type(mb_args).__name__}")
    # Copies: no two arguments are one tensor then.
    mb_args, mb_kwargs = pytree.tree_map_only(Tensor, Tensor.clone, (mb_args, mb_kwargs or {}))
    arguments = _bound(module, mb_args, mb_kwargs)
    state = dict([*module.named_parameters(), *module.named_buffers()])
    handles = annotate_split_points(module, split_spec or {})
    try:
        tensors = [x for x in arguments.values() if isinstance(x, Tensor)]
        traced = _traced(module, [*state.values(), *tensors], mb_args, mb_kwargs)
    finally:
        for handle in handles:
            handle.remove()
    if split_policy is not None:
        traced = split_policy(traced)
    return _Cut(module, list(state), arguments, traced).pipe()


def _bound(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, in the order of ``forward``."""
    found: dict[str, Any] = {}
    signature = inspect.signature(module.forward)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"{name}_{i}": x for i, x in enumerate(value)}
        else:
            found |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    for name, value in found.items():
        if not isinstance(value, Tensor) and any(isinstance(x, Tensor) for x in pytree.tree_leaves(value)):
            raise NotImplementedError(
                f"pipeline(): argument {name!r} of forward is a {type(value).__name__} of tensors; give each tensor as "
                "an argument of its own"
            )
    return found


def _demand_same(name: str, fixed: Any, given: Any) -> None:
    if given is not fixed and given != fixed:
        raise ValueError(f"pipeline: the model was cut with {name}={fixed!r}, which is fixed; got {given!r}")


def _traced(module: Module, values: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphModule:
    """The graph of a call, whose placeholders stand for ``values``."""

    def call(*_: Tensor) -> tuple[Any, ...]:
        return tuple(pytree.tree_leaves(module(*args, **kwargs)))

    try:
        return make_fx(call)(*values)
    except RuntimeError as error:
        raise RuntimeError(
            "It seems that we cannot capture your model as a full graph: control flow that depends on values is a "
            "typical reason. Write the stages by hand (PipelineStage), or compute with torch.where"
        ) from error


class _Cut:
    """A graph on its way into stages."""

    def __init__(self, module: Module, state: list[str], arguments: dict[str, Any], traced: GraphModule) -> None:
        self._module, self._arguments, self._traced = module, arguments, traced
        placeholders = [n for n in traced.graph.nodes if n.op == "placeholder"]
        self._state = dict(zip(placeholders, state, strict=False))
        self._inputs = placeholders[len(state) :]
        self._parts: list[list[Node]] = [[]]
        for node in traced.graph.nodes:
            if node.target is pipe_split:
                self._parts += [[]] if self._parts[-1] else []
            elif node.op == "output":
                self._results = list(node.args[0])
            elif node.op != "placeholder" and (node.users or node.target is not ops.aten.detach.default):
                self._parts[-1].append(node)
        if not self._parts[-1] and len(self._parts) > 1:
            self._parts.pop()

    def pipe(self) -> Pipe:
        """The stages, each of which takes what the one before it returns."""
        whole, root = Graph(), Module()
        handed = self._inputs
        passed: Any = [whole.placeholder(name) for name in self._arguments]
        for i in range(len(self._parts)):
            returned = self._returned(i)
            root.add_module(f"submod_pp_{i}", self._stage(i, handed, returned))
            out = whole.call_module(f"submod_pp_{i}", tuple(passed))
            several = i + 1 == len(self._parts) and len(returned) != 1 or len(returned) > 1
            passed = (
                [whole.call_function(operator.getitem, (out, k)) for k in range(len(returned))] if several else [out]
            )
            handed = returned
        whole.output(tuple(passed))
        return Pipe(GraphModule(root, whole), len(self._parts), False, None)

    def _returned(self, i: int) -> list[Any]:
        """What stage ``i`` returns: the results, or what later stages need of what is there by then."""
        if i + 1 == len(self._parts):
            return self._results
        later = [n for part in self._parts[i + 1 :] for n in part]
        needed = {x for n in later for x in n.all_input_nodes} | {x for x in self._results if isinstance(x, Node)}
        there = [*self._inputs, *[n for part in self._parts[: i + 1] for n in part]]
        return [n for n in there if n in needed]

    def _stage(self, i: int, handed: list[Any], returned: list[Any]) -> GraphModule:
        graph, root = Graph(), Module()
        made: dict[Any, Node] = {}
        for node in handed if i else ():
            made[node] = graph.placeholder(node.name)
        if i == 0:
            made |= self._first_placeholders(graph)
        nodes = self._parts[i]
        results = returned if i + 1 == len(self._parts) else []
        used = {x for n in nodes for x in n.all_input_nodes} | {x for x in results if isinstance(x, Node)}
        for node, name in self._as_called(nodes):
            if node in used:
                _copy_attr(self._module, root, name)
                made[node] = graph.get_attr(name)
        for node in nodes:
            if node.op == "get_attr":  # a constant of the trace
                _copy_attr(self._traced, root, str(node.target))
            made[node] = graph.node_copy(node, made.__getitem__)
        outs = map_arg(returned, made.__getitem__)
        graph.output(outs[0] if len(outs) == 1 else tuple(outs))
        return GraphModule(root, graph)

    def _as_called(self, nodes: list[Node]) -> list[tuple[Node, str]]:
        """Parameters and buffers with their names, module by module in the order in which the stage first uses them."""
        first: dict[str, int] = {}
        for i, node in enumerate(nodes):
            for x in node.all_input_nodes:
                if x in self._state:
                    first.setdefault(self._state[x].rpartition(".")[0], i)
        return sorted(self._state.items(), key=lambda item: first.get(item[1].rpartition(".")[0], len(nodes)))

    def _first_placeholders(self, graph: Graph) -> dict[Any, Node]:
        """Those of the arguments of the model, of which whatever is no tensor must be what it was."""
        made = {name: graph.placeholder(name) for name in self._arguments}
        for name, value in self._arguments.items():
            if not isinstance(value, Tensor):
                graph.call_function(_demand_same, (name, value, made[name]))
        tensors = [made[name] for name, value in self._arguments.items() if isinstance(value, Tensor)]
        return dict(zip(self._inputs, tensors, strict=True))
