"""``torch._functorch.aot_autograd``: graphs of a function and of its backward for a compiler of one's own."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import OpOverload
from torchlike._base.state import no_grad, state
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import default_generator
from torchlike._functorch.partitioners import default_partition as default_partition
from torchlike._functorch.partitioners import flat_nodes
from torchlike.autograd import Function, grad
from torchlike.func import functional_call
from torchlike.fx.experimental.proxy_tensor import make_fx
from torchlike.fx.graph_module import GraphModule
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module
from torchlike.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["aot_function", "aot_module", "make_boxed_compiler", "make_boxed_func"]

__getattr__ = missing_names(__name__)


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """``f`` as a function of a list of arguments.

    >>> from torchlike.functorch.compile import make_boxed_func
    >>> make_boxed_func(max)([1, 3])
    3
    """

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[[Any, Any], Callable[..., Any]]) -> Callable[[Any, Any], Any]:
    """A compiler of graphs whose results take a list of arguments."""
    return lambda graph, inputs: make_boxed_func(compiler(graph, inputs))


def aot_function(
    fn: Callable,
    fw_compiler: Callable,
    bw_compiler: Callable | None = None,
    partition_fn: Callable = default_partition,
    decompositions: dict | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable | None = None,
    *,
    dynamic: bool = False,
    **unused: Any,
) -> Callable:
    """A function that runs what the compilers make of the graphs of ``fn`` and of its backward.

    At the first call with tensors of these shapes, dtypes and ``requires_grad``, and these other arguments, ``fn`` is
    traced with its backward by :func:`make_fx`, cut apart, and compiled.

    Args:
        fn: a function of tensors and other values in containers; it gives tensors in containers.
        fw_compiler, bw_compiler: ``compiler(module, example_inputs)`` gives what runs: a callable of the inputs.
        partition_fn: cuts the graph of both apart, as :func:`default_partition`.
        decompositions: as those of ``make_fx``.
        inference_compiler: for calls that need no gradient; by default ``fw_compiler``.

    Raises:
        NotImplementedError: ``dynamic``; ``fn`` changes an argument in place, gives back one of its arguments or a view
            of one, gives what is no tensor, or uses a tensor that requires grad and is no argument. What ``make_fx``
            refuses.

    >>> import torchlike as torch
    >>> from torchlike._functorch.aot_autograd import aot_function
    >>> double = aot_function(lambda x: x * 2, fw_compiler=lambda graph, inputs: graph)
    >>> x = torch.ones(2, requires_grad=True)
    >>> double(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if dynamic or unused:
        raise NotImplementedError(
            f"aot_function({', '.join(['dynamic'] * dynamic + [*unused])}): graphs have one shape"
        )
    compilers = fw_compiler, bw_compiler or fw_compiler, inference_compiler or fw_compiler
    cache: dict[Any, tuple[Callable, TreeSpec]] = {}

    @functools.wraps(fn)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten((args, kwargs))
        at = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
        recorded = state.grad and any(flat[i].requires_grad for i in at)
        key = repr(spec), recorded, state.active, tuple([_key(x) for x in flat])
        if key not in cache:
            source = _Source(fn, flat, spec, at)
            cache[key] = (_with_backward if recorded else _without)(source, compilers, partition_fn, decompositions)
        run, out_spec = cache[key]
        return tree_unflatten(run([flat[i] for i in at]), out_spec)

    return compiled


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """A module that computes as ``mod``, whose parameters and buffers it has, by :func:`aot_function`."""

    def call(named: dict, training: tuple, args: tuple, kwargs: dict) -> Any:
        return functional_call(mod, named, args, kwargs)

    call.__name__ = type(mod).__name__
    compiled = aot_function(call, *args, **kwargs)

    class AOTModule(Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            named = dict(mod.named_parameters()) | dict(mod.named_buffers())
            return compiled(named, tuple([m.training for m in mod.modules()]), args, kwargs)

    return AOTModule()


def _key(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return type(x), x
    return tuple(x.shape), tuple(x.stride()), x.dtype, x.device, x.requires_grad


class _Source:
    """A function of the tensors among its arguments."""

    def __init__(self, fn: Callable, flat: list, spec: TreeSpec, at: list[int]) -> None:
        self.fn, self.flat, self.spec, self.at = fn, list(flat), spec, at
        self.examples = [flat[i].detach().clone().requires_grad_(flat[i].requires_grad) for i in at]
        self.flat = [None if i in at else x for i, x in enumerate(flat)]
        self.out_spec: Any = None

    def __call__(self, tensors: Any) -> list[Tensor]:
        flat = list(self.flat)
        for i, t in zip(self.at, tensors, strict=True):
            flat[i] = t
        args, kwargs = tree_unflatten(flat, self.spec)
        outs, self.out_spec = tree_flatten(self.fn(*args, **kwargs))
        for o in outs:
            if not isinstance(o, Tensor):
                raise NotImplementedError(f"aot_function: the function gave a {type(o).__name__}, not a tensor")
            if any(o._storage is t._storage for t in tensors):
                raise NotImplementedError(
                    "aot_function: a result is an argument or a view of one; return a clone of it"
                )
        return outs


def _demand_pure(graph: GraphModule) -> None:
    """Refuse a graph that changes its inputs, or has constants that require grad."""
    outside = {n for n in graph.graph.nodes if n.op in ("placeholder", "get_attr")}  # and views of them
    for n in graph.graph.nodes:
        if n.op == "get_attr" and getattr(graph, str(n.target)).requires_grad:
            raise NotImplementedError("aot_function: a tensor that requires grad is no argument; pass it in")
        if isinstance(n.target, OpOverload):
            if not outside.isdisjoint(_written(n)):
                raise NotImplementedError(f"aot_function: {n.target} changes an argument, or a tensor of the outside")
            if n.target.is_view and not outside.isdisjoint(n.all_input_nodes):
                outside.add(n)


def _written(n: Any) -> list:
    """What a step changes."""
    if "native_batch_norm" in str(n.target) and "backward" not in str(n.target):
        return list(n.args[3:5]) if n.args[5] else []
    if not n.target._schema.is_mutable:
        return []
    return [x for x in flat_nodes((n.args[:1], [v for k, v in n.kwargs.items() if k.startswith("out")]))]


def _called(f: Callable, args: list) -> Any:
    return f(args) if getattr(f, "_boxed_call", False) else f(*args)


def _listed(out: Any) -> list:
    return list(out) if isinstance(out, tuple | list) else [out]


def _traced(f: Callable, decompositions: dict | None, *args: Any) -> GraphModule:
    """A graph, for which no random number is drawn."""
    before = default_generator.get_state()
    try:
        graph = make_fx(f, decompositions)(*args)
    finally:
        default_generator.set_state(before)
    _demand_pure(graph)
    return graph


def _without(source: _Source, compilers: tuple, partition: Callable, decompositions: dict | None) -> tuple:
    """What computes the results alone."""

    def inference(*args: Any) -> tuple:
        return tuple(source(args))

    examples = [t.detach() for t in source.examples]
    run = compilers[2](_traced(inference, decompositions, *examples), examples)
    return lambda tensors: _listed(_called(run, [t.detach() for t in tensors])), source.out_spec


def _with_backward(source: _Source, compilers: tuple, partition: Callable, decompositions: dict | None) -> tuple:
    """What computes the results, recorded, and their gradients."""
    before = default_generator.get_state()
    outs = source(source.examples)
    default_generator.set_state(before)
    diff = [i for i, o in enumerate(outs) if o.requires_grad]
    wanted = [i for i, t in enumerate(source.examples) if t.requires_grad]
    if not diff:
        return _without(source, compilers, partition, decompositions)
    tangents = [FUNCTIONS["ones_like"](outs[i]).detach() for i in diff]

    def joint(primals: list, tangents: list) -> tuple:
        outs = source(primals)
        inputs = [primals[i] for i in wanted]
        found = iter(grad([outs[i] for i in diff], inputs, tangents, allow_unused=True))
        return tuple(outs), tuple([next(found) if p.requires_grad else None for p in primals])

    graph = _traced(joint, decompositions, source.examples, tangents)
    examples, n = [t.detach() for t in source.examples], len(outs)
    forward, backward = partition(graph, (examples, tangents), num_fwd_outputs=n)
    with no_grad():
        kept = _listed(forward(*examples))[n:]
    default_generator.set_state(before)
    run, back = compilers[0](forward, examples), compilers[1](backward, [*kept, *tangents])
    return _recorded(run, back, n, diff), source.out_spec


class _Once(Function):
    """The backward of a compiled function, which has no derivative; its other arguments are what it would go on to."""

    @staticmethod
    def forward(ctx: Any, back: Callable, given: list, *others: Any) -> tuple:
        return tuple([t if t is None else t.clone() for t in _listed(_called(back, given))])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def _recorded(run: Callable, back: Callable, n: int, diff: list[int]) -> Callable:
    """A function of tensors that gives the results of ``run``, whose gradients are those of ``back``."""

    class CompiledFunction(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            outs = _listed(_called(run, list(args)))
            ctx.others = args
            ctx.save_for_backward(*outs[n:])
            ctx.mark_non_differentiable(*[o for i, o in enumerate(outs[:n]) if i not in diff])
            return tuple(outs[:n])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            given = [*ctx.saved_tensors, *[grads[i] for i in diff]]
            if state.grad:
                return _Once.apply(back, given, *grads, *ctx.others)
            return tuple(_listed(_called(back, given)))

    return lambda tensors: list(CompiledFunction.apply(*tensors))
