"""``export``: trace a function, find the tensors that it reads, lower it with and without its derivative."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.export import SymbolicScope

from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.export.tracing import ExportTrace, Wanted
from torchlike.export._errors import UserError, explained
from torchlike.export._examples import AdditionalInputs, ShapesCollection, named_arguments, signature_of
from torchlike.export._inputs import Input, Inputs, dtype_name, names_of
from torchlike.export._piece import Piece
from torchlike.export._program import LoadedProgram, Plan
from torchlike.export._state import State
from torchlike.export.dynamic_shapes import Extent, Shapes, limits_of, symbolic
from torchlike.export.exported_program import ExportedProgram
from torchlike.nn.modules.module import Module
from torchlike.utils._pytree import tree_flatten, tree_unflatten

DynamicShapes = dict[str, Any] | tuple[Any, ...] | list[Any] | ShapesCollection | AdditionalInputs | None
_PLAIN = (bool, int, float, str, tuple, type(None))


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A module as an :class:`ExportedProgram`, which runs without the module's code.

    Args:
        mod: the module; ``torchlike.export`` itself takes any function too. args, kwargs: of an example call. The
            program is for these dtypes, structures and constants, and these shapes except for ``dynamic_shapes``.
        dynamic_shapes: for each argument, by name or position, None or {dimension: Dim}; nested as the arguments are,
            with a list of the children of other containers. Or a ShapesCollection, or AdditionalInputs.
        strict, prefer_deferred_runtime_asserts_over_guards: accepted; there is one way to trace.

    Raises:
        UserError: a RuntimeError: the module needs the value of a tensor, or does what a program cannot do again.
        ValueError: ``mod`` is no module, or an argument is no tensor, number, text, None or container of such.
        ConstraintViolationError: a RuntimeError: the example is outside the range of a Dim.

    >>> import torchlike as torch
    >>> batch = torch.export.Dim("batch", min=2)
    >>> model = torch.nn.Linear(3, 1)
    >>> ep = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes={"input": {0: batch}})
    >>> ep.module()(torch.ones(9, 3)).shape
    torch.Size([9, 1])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if preserve_module_call_signature:
        raise NotImplementedError("torch.export: preserve_module_call_signature: submodules are inlined, without calls")
    return export_function(mod, args, kwargs, dynamic_shapes=dynamic_shapes)


def export_function(
    fn: Callable,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: DynamicShapes = None,
    platforms: Sequence[str] | None = None,
    vjp_order: int | None = None,
) -> ExportedProgram:
    """A function or module as an :class:`ExportedProgram`, in StableHLO for one or several platforms.

    Args:
        fn: a module, a method of one, or any function. Parameters and buffers of the module are its ``state_dict``;
            other tensors that the code reads are its ``constants``: none is baked into the program.
        args, kwargs, dynamic_shapes: as in ``torchlike.export.export``, and the errors too.
        platforms: of "cpu", "cuda", "rocm" and "tpu"; None for the one that jax works on.
        vjp_order: 1 exports the derivative too, so that results can require grad, 0 does not; None does if it can.

    >>> import torchlike as torch
    >>> scale = torch.tensor([2.0, 3.0])
    >>> ep = torch.export(lambda x: (x * scale).sum(), (torch.ones(2),), platforms=("cpu", "tpu"))
    >>> x = torch.ones(2, requires_grad=True)
    >>> ep.module()(x).backward()
    >>> x.grad
    tensor([2., 3.])
    """
    if not callable(fn):
        raise TypeError(f"torchlike.export: expected a function or a module, got {type(fn).__name__}")
    if vjp_order not in (None, 0, 1):
        raise ValueError(f"torchlike.export: vjp_order must be 0, 1 or None, not {vjp_order!r}")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if isinstance(dynamic_shapes, ShapesCollection | AdditionalInputs):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(fn, args, kwargs)
    return _Exporter(fn, args, dict(kwargs or {}), platforms).result(dynamic_shapes, vjp_order)


class _Exporter:
    """One export: what is traced, and for which inputs."""

    def __init__(self, fn: Callable, args: tuple, kwargs: dict, platforms: Sequence[str] | None) -> None:
        self.fn, self.args, self.kwargs, self.platforms = fn, args, kwargs, platforms
        self.name = getattr(fn, "__qualname__", type(fn).__name__)
        self.leaves, self.spec = tree_flatten((args, kwargs))
        for x in self.leaves:
            if not isinstance(x, (Tensor, *_PLAIN)):
                raise ValueError(
                    f"Unsupported input type {type(x)}. Export only supports pytree containers of basic types (Tensor, "
                    "int, float, bool, str, None) as input. torch.utils._pytree.register_pytree_node makes a class a "
                    "container"
                )
        self.state = State(fn)

    def result(self, dynamic_shapes: Any, vjp_order: int | None) -> ExportedProgram:
        shapes = Shapes(dynamic_shapes, self._arguments(), self.leaves)
        while True:
            try:
                program = self._program(shapes, vjp_order)
                break
            except UserError as error:
                if not error.by_length or not shapes.narrow(error.reason):
                    raise
        return ExportedProgram(program, self.state.tensors, (self.args, self.kwargs))

    def _arguments(self) -> dict[str, Any]:
        """{name: argument}, with leaves as their numbers."""
        args, kwargs = tree_unflatten(range(len(self.leaves)), self.spec)
        return named_arguments(self.fn, args, kwargs)

    def _inputs(self, shapes: Shapes) -> Inputs:
        args, kwargs = self.spec.child(0), self.spec.child(1)
        names = _positional_names(signature_of(self.fn), len(args.children()))
        children = [*zip(args.children(), names, strict=True), *zip(kwargs.children(), kwargs.context, strict=True)]
        flat = [name for spec, prefix in children for name in names_of(spec, prefix)]
        entries = [
            Input(name, dtype_name(x), shapes.shapes[i]) if isinstance(x, Tensor) else Input(name, None, (), x)
            for i, (name, x) in enumerate(zip(flat, self.leaves, strict=True))
        ]
        return Inputs(self.spec, entries, shapes.ranges)

    def _program(self, shapes: Shapes, vjp_order: int | None) -> LoadedProgram:
        limits = limits_of(shapes.ranges)
        scope = SymbolicScope(limits)
        avals = {
            i: jax.ShapeDtypeStruct(symbolic(shape, scope), value_of(self.leaves[i]).dtype)
            for i, shape in shapes.shapes.items()
        }
        plain = self._settled(avals, shapes)
        forward = self._piece("forward", plain.forward(), limits)
        graded, early, late, why = None, None, None, "vjp_order=0"
        if vjp_order != 0:
            try:
                graded, early, late = self._graded(plain, avals, shapes, scope)
            except Exception as error:
                if vjp_order == 1 or (getattr(error, "by_length", False) and shapes.open):
                    raise
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
        slots = self.state.slots()
        return LoadedProgram(
            self.name, slots, self._inputs(shapes), self.out_spec, _plan(plain), forward, graded, early, late, why
        )

    def _graded(
        self, plain: ExportTrace, avals: dict, shapes: Shapes, scope: SymbolicScope
    ) -> tuple[Plan, Piece, Piece]:
        limits = limits_of(shapes.ranges)
        written = {i for i, _ in plain.argument_writes}
        floats = {i for i, a in avals.items() if jax.numpy.issubdtype(a.dtype, jax.numpy.inexact)}
        seeds = [plain.metas.get(k) for k in range(len(plain.results))]
        wanted = Wanted(self.state.parameters(), floats - written, seeds)
        trace = self._trace(avals, shapes, wanted)
        if (len(trace.results), trace.draws) != (len(plain.results), plain.draws):
            raise UserError(f"torch.export: {self.name} does something else where its arguments require grad")
        (early, late), kept = trace.halves()
        plan = _plan(trace)
        plan.kept = kept
        late = _witnessed(late, list(shapes.ranges), scope)
        return plan, self._piece("forward_vjp", early, limits), self._piece("backward", late, limits)

    def _piece(self, name: str, what: tuple[Callable, list], limits: list) -> Piece:
        return Piece.of(name, *what, self.platforms, limits)

    def _settled(self, avals: dict, shapes: Shapes) -> ExportTrace:
        """The trace in which every tensor from outside is an input."""
        trace = self._trace(avals, shapes)
        while self.state.add(trace.found):
            trace = self._trace(avals, shapes)
        for k, _ in trace.state_writes:
            slot = self.state.slots()[k]
            if slot.kind == "constant":
                raise UserError(
                    f"torch.export: Constant {slot.names[0]} is mutated by {self.name}. Register it as a buffer"
                )
        return trace

    def _flat(self, leaves: list) -> list:
        """The function, from leaves to leaves."""
        args, kwargs = tree_unflatten(leaves, self.spec)
        out, self.out_spec = tree_flatten(self.fn(*args, **kwargs))
        return out

    def _trace(self, avals: dict, shapes: Shapes, wanted: Wanted | None = None) -> ExportTrace:
        try:
            with self.state.restored():
                return ExportTrace(self._flat, self.leaves, avals, self.state.tensors, self.state.current, wanted)
        except Exception as error:
            known = explained(error, self.name, shapes.ranges if self._fits_example(shapes, wanted) else ())
            if known is error:
                raise
            raise known from (None if isinstance(error, Unsupported) else error)

    def _fits_example(self, shapes: Shapes, wanted: Wanted | None) -> bool:
        """Whether the function can be traced for the lengths of the example, so that dynamic ones are to blame."""
        if not shapes.ranges or wanted is not None:
            return bool(shapes.ranges)
        avals = {i: value_of(x) for i, x in enumerate(self.leaves) if isinstance(x, Tensor)}
        avals = {i: jax.ShapeDtypeStruct(v.shape, v.dtype) for i, v in avals.items()}
        try:
            with self.state.restored():
                ExportTrace(self._flat, self.leaves, avals, self.state.tensors, self.state.current)
        except Exception:
            return False
        return True


def _plan(trace: ExportTrace) -> Plan:
    errors = [[type(e).__name__, str(e.args[0]) if e.args else str(e)] for e in trace.errors]
    return Plan(
        trace.results, trace.state_writes, trace.argument_writes, errors, trace.flags, trace.draws, trace.used_draws,
        trace.roots, trace.sinks,
    )  # fmt: skip


def _positional_names(signature: inspect.Signature, count: int) -> list[str]:
    names: list[str] = []
    for p in signature.parameters.values():
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(count - len(names))]
        elif p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return names[:count]


def _witnessed(what: tuple[Callable, list], symbols: list[str], scope: SymbolicScope) -> tuple[Callable, list]:
    """A program with empty arrays more, one as long as each symbol: gradients alone may not show the lengths."""
    run, avals = what
    shapes = [symbolic((Extent(1, s, 0), 0), scope) for s in symbols]
    extra = [jax.ShapeDtypeStruct(shape, "bool") for shape in shapes]
    return lambda *values: run(*values[: len(avals)]), [*avals, *extra]
