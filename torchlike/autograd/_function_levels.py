"""Custom functions under transforms: their ``vmap`` and ``jvp`` static methods, and the rule made from the others."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torchlike._base.state import no_grad, state
from torchlike._core.autograd import custom_function
from torchlike._core.dispatch.layers import TRANSFORMS
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.functional import FunctionalLevel
from torchlike._transforms.levels.grad import GradLevel
from torchlike._transforms.levels.jvp import NONE, JvpLevel, base_of
from torchlike._transforms.levels.levels import level_below
from torchlike._transforms.levels.vmap import VmapLevel, lift, lowered_view
from torchlike.autograd.function import Function, FunctionMeta
from torchlike.utils._pytree import tree_flatten, tree_unflatten

_MORE = "See the docs of torch.autograd.Function on vmap and jvp."


class VmapInfo(NamedTuple):
    """What the ``vmap`` static method is told: the length of the mapped axes, and how random operators behave."""

    batch_size: int
    randomness: str


def apply(cls: Any, args: tuple) -> Any:
    """``cls.apply(*args)`` while a transform is active."""
    level: Any = state.levels[-1]
    if cls.setup_context is Function.setup_context and any(each.functional for each in state.levels):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod ({cls.__name__} does not). {_MORE}"
        )
    if isinstance(level, VmapLevel):
        return _mapped(level, cls, args)
    if isinstance(level, GradLevel):
        return _differentiated(level, cls, args)
    if isinstance(level, FunctionalLevel):
        return _made_functional(level, cls, args)
    tangents = [level.of(a) if level.thread.enabled else None for a in args]
    with level_below(level):
        if all(t is None for t in tangents):
            return cls.apply(*args)
        if _unmapped(args):
            return cls._run(args, lambda node, outputs: _jvp(level, node, cls, args, tangents, outputs))
        output = cls.apply(*args)
        node = cls._backward_cls()
        with no_grad():
            cls.setup_context(node, args, output)
        _jvp(level, node, cls, args, tangents, list(output) if isinstance(output, tuple) else [output])
        return output


def _made_functional(level: FunctionalLevel, cls: Any, args: tuple) -> Any:
    """The call at the level below, whose results are of this one."""
    with level_below(level):
        output = cls.apply(*args)
    for x in output if isinstance(output, tuple) else (output,):
        if isinstance(x, Tensor):
            level.adopt(x)
    return output


def _unmapped(args: tuple) -> bool:
    """Whether autograd records a call of these arguments: there is no level, or only those that map other tensors."""
    return all(
        isinstance(level, VmapLevel) and not level.functional and all(level.of(a) is None for a in args)
        for level in state.levels
    )


# -- grad --------------------------------------------------------------------------------------------


def _differentiated(level: GradLevel, cls: Any, args: tuple) -> Any:
    """The call on the tape of the level, whose forward is the call at the level below."""
    with level_below(level):
        lowered = tuple([level.lower(a) for a in args])
        tracked = level.tracked(args)
    if not tracked:
        return cls._run(args, None)
    given = {id(low): a for low, a in zip(lowered, args, strict=True) if isinstance(low, Tensor)}
    grad = state.grad

    def lifted(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        own = given.get(id(x))
        return level.lift(x) if own is None else own

    def forward(*args: Any) -> Any:
        before, state.grad = state.grad, grad
        try:
            with level_below(level):
                output = level.run_below(cls.apply, *lowered)
                for a in args:
                    if level.holds(a):
                        level.refreshed(a)
        finally:
            state.grad = before
        return tuple([lifted(x) for x in output]) if isinstance(output, tuple) else lifted(output)

    constants = tuple([level.constant(a) for a in args])
    given.update((id(low), a) for low, a in zip(lowered, constants, strict=True) if isinstance(low, Tensor))
    return custom_function.run(cls._backward_cls(), forward, cls.setup_context, constants)


# -- jvp ---------------------------------------------------------------------------------------------


def _jvp(level: JvpLevel, node: Any, cls: Any, args: tuple, tangents: list, outputs: list) -> None:
    """Give the outputs of a call the tangents that the user's ``jvp`` computes."""
    dirty = {id(t) for t in node.dirty_tensors or ()}
    given = [_materialized(node, a, t) for a, t in zip(args, tangents, strict=True)]
    inputs = {
        id(a): (t, t._version) for a, t in zip(args, tangents, strict=True) if isinstance(a, Tensor) and t is not None
    }
    with level.recording():
        got = cls.jvp(node, *given)
    got = got if isinstance(got, tuple) else (got,)
    for i, dot in enumerate(got):
        if dot is not None and not isinstance(dot, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(dot).__name__}) for grad output {i}.")
    if len(got) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
            f"{len(got)})"
        )
    bases = _bases(args, tangents)
    for i, (out, dot) in enumerate(zip(outputs, got, strict=True)):
        if not isinstance(out, Tensor):
            continue
        if id(out) in dirty and id(out) in inputs:
            _demand_same(*inputs[id(out)], dot)
        elif _plain(node, i, out):
            _demand_none(i, dot)
        else:
            _put(level, out, dot, bases)


def _bases(args: tuple, tangents: list) -> dict[int, Tensor | None]:
    """The id of each tensor argument, and of what it is a view of, with the tangent that it had."""
    found: dict[int, Tensor | None] = {}
    for a, t in zip(args, tangents, strict=True):
        if isinstance(a, Tensor):
            for b in (a, base_of(a)):
                if b is not None and found.get(id(b)) is None:
                    found[id(b)] = t
    return found


def _materialized(node: Any, arg: Any, dot: Tensor | None) -> Tensor | None:
    """The tangent that ``jvp`` gets for an argument: zeros where it has none, unless that was switched off."""
    if dot is not None or not isinstance(arg, Tensor) or not node.materialize_grads:
        return dot
    return arg.new_zeros(arg.shape) if arg.dtype.is_floating_point or arg.dtype.is_complex else None


def _plain(node: Any, i: int, out: Tensor) -> bool:
    """Whether the output has no derivative."""
    marked = {id(t) for t in node.non_differentiable or ()}
    return id(out) in marked or not (out.dtype.is_floating_point or out.dtype.is_complex)


def _demand_same(old: Tensor, version: int, dot: Tensor | None) -> None:
    """Refuse what jvp gave for an input that the function changed: its tangent must be the old one, changed too."""
    if old._version == version:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
            "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
        )
    if dot is not old:
        raise RuntimeError(
            "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is modifying "
            "an input inplace, then the jvp function must modify the gradient inplace and return it as-is."
        )


def _demand_none(i: int, dot: Tensor | None) -> None:
    if dot is not None:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
            "differentiable Tensor.You should return None at that position instead."
        )


def _put(level: JvpLevel, out: Tensor, dot: Tensor | None, bases: dict[int, Tensor | None]) -> None:
    if dot is None:
        level.put(out, NONE)
        return
    base = base_of(out)
    if not level.functional and base is not None and id(base) in bases:
        _demand_view(dot, bases[id(base)])
    if tuple(dot.shape) != tuple(out.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(out.shape)} while the given forward gradient is of size "
            f"{list(dot.shape)}."
        )
    level.put(out, dot, None if base is None else level.kept(base)[0])  # what jvp gave, not a view of the base's


def _demand_view(dot: Tensor, of: Tensor | None) -> None:
    """Refuse a tangent that is no view of ``of``, the tangent of the input that the output is a view of."""
    if base_of(dot) is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    if of is not None and base_of(dot) is not (of if base_of(of) is None else base_of(of)):
        given = "given grad input" if base_of(of) is None else "same base as the given grad input"
        raise RuntimeError(f"A custom Function is returning a view but the jvp is not returning a view of the {given}.")


# -- vmap --------------------------------------------------------------------------------------------


def _mapped(level: VmapLevel, cls: Any, args: tuple) -> Any:
    if not level.functional:
        return _mapped_by_autograd(level, cls, args)
    overridden = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and overridden:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            f"ambiguity. {_MORE}"
        )
    if not cls.generate_vmap_rule and not overridden:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            f"the vmap staticmethod or set generate_vmap_rule=True. {_MORE}"
        )
    flat, spec = tree_flatten(args)
    batches = [level.of(x) for x in flat]
    inner = [x if b is None else b.inner for x, b in zip(flat, batches, strict=True)]
    dims = [None if b is None else b.dim for b in batches]
    with level_below(level):
        if all(d is None for d in dims):
            return cls.apply(*args)
        if not cls.generate_vmap_rule:
            info = VmapInfo(level.size, level.randomness)
            got = cls.vmap(info, tree_unflatten(dims, spec), *tree_unflatten(inner, spec))
            output, out_dims = _checked(got)
        else:
            return _by_rule(_Rule(cls, dims, spec, level), level, inner)
    outs, out_spec = tree_flatten(output)
    return tree_unflatten(_lifted(level, outs, _spread(out_dims, out_spec)), out_spec)


def _by_rule(rule: "_Rule", level: VmapLevel, inner: list) -> Any:
    output = tree_flatten(rule.function.apply(*tree_unflatten(inner, rule.spec)))[0]
    return tree_unflatten(_lifted(level, output, rule.out_dims), rule.out_spec)


def _mapped_by_autograd(level: VmapLevel, cls: Any, args: tuple) -> Any:
    """A call in a mapped backward or tangent: any Function can be called there, in terms of mapped tensors."""
    if _unmapped(args):
        return cls._run(args, None)
    flat, spec = tree_flatten(args)
    batches = [level.of(x) for x in flat]
    if all(b is None for b in batches):
        with level_below(level):
            return cls.apply(*args)
    inner = [x if b is None else b.inner for x, b in zip(flat, batches, strict=True)]
    kind = _Rule if cls.setup_context is not Function.setup_context else _OlderRule
    rule = kind(cls, [None if b is None else b.dim for b in batches], spec, level)
    with level_below(level):
        return _by_rule(rule, level, inner)


def _checked(got: Any) -> tuple:
    problem = None
    if not isinstance(got, tuple):
        problem = f"a {type(got)}"
    elif len(got) != 2:
        problem = f"{len(got)} returns"
    if problem:
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got {problem} instead"
        )
    return got


def _spread(out_dims: Any, spec: Any) -> list:
    """The mapped axis of each output."""
    dims, own = tree_flatten(out_dims)
    if own.is_leaf():
        dims = dims * spec.num_leaves
    elif own != spec:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure {own} but "
            f"output has structure {spec}. {_MORE}"
        )
    for d in dims:
        if d is not None and not isinstance(d, int):
            raise TypeError(
                f"the out_dims that the vmap staticmethod returned must be ints or None, not {type(d).__name__}"
            )
    return dims


def _lifted(level: VmapLevel, given: list, dims: list) -> list:
    return [
        lift(x, d, level) if d is not None and isinstance(x, Tensor) else x for x, d in zip(given, dims, strict=True)
    ]


class _Rule:
    """The Function, over mapped axes, that ``generate_vmap_rule`` asks for.

    Attributes:
        function: it. out_spec, out_dims: the structure of its outputs, and their mapped axes, once it has run.
    """

    def __init__(self, cls: Any, dims: list, spec: Any, level: VmapLevel) -> None:
        self.cls, self.dims, self.spec = cls, dims, spec
        self.level = level
        self.out_spec: Any = None
        self.out_dims: list = []
        self.saved: dict[str, list] = {}
        self.input_shapes: list = []  # not on the ctx, which the rules of nested vmaps share
        names = ("forward", "setup_context", "backward", "jvp")
        methods: dict[str, Any] = {n: staticmethod(getattr(self, n)) for n in names}
        methods["generate_vmap_rule"] = True  # for vmaps around this one
        self.function: Any = FunctionMeta(f"Vmapped{cls.__name__}", (Function,), methods)

    def inside(self) -> VmapLevel:
        return VmapLevel(self.level.size, self.level.randomness, self.level.functional)

    def forward(self, *args: Any) -> Any:
        return self.run(args)

    def run(self, args: tuple, ctx: Any = None) -> Any:
        """The user's forward, given a ctx if there is one."""
        with self.inside() as level:
            given = tree_unflatten(_lifted(level, tree_flatten(args)[0], self.dims), self.spec)
            before = () if ctx is None else (_Ctx(ctx, level, self.saved),)
            outs, self.out_spec = tree_flatten(self.cls.forward(*before, *given))
        self.out_dims = [None if level.of(x) is None else 0 for x in outs]
        flat = [_outside(level, x) for x in outs]
        return tuple(flat) if len(flat) != 1 or not self.out_spec.is_leaf() else flat[0]

    def setup_context(self, ctx: Any, inputs: tuple, output: Any) -> None:
        outs = list(output) if isinstance(output, tuple) else [output]
        with self.inside() as level:
            given = tree_unflatten(_lifted(level, tree_flatten(inputs)[0], self.dims), self.spec)
            made = tree_unflatten(_lifted(level, outs, self.out_dims), self.out_spec)
            self.cls.setup_context(_Ctx(ctx, level, self.saved), given, made)
        self.input_shapes = self.shapes(inputs)

    def shapes(self, inputs: tuple) -> list:
        """The shape of one example of each input."""
        return [_example(x, d) for x, d in zip(tree_flatten(inputs)[0], self.dims, strict=True)]

    def backward(self, ctx: Any, *grads: Any) -> Any:
        with self.inside() as level:
            given = _lifted(level, list(grads), self.out_dims)
            got = ctx_method(self.cls)(_Ctx(ctx, level, self.saved), *given)
            got = got if isinstance(got, tuple) else (got,)
            rest = [None] * (len(got) - len(self.dims))  # too many, which is an error unless they are None
            got = [_fitted(g, s) for g, s in zip(got, [*self.input_shapes, *rest], strict=False)]
        return tuple([_reduced(level, g, d) for g, d in zip(got, [*self.dims, *rest], strict=False)])

    def jvp(self, ctx: Any, *tangents: Any) -> Any:
        with self.inside() as level:
            given = _lifted(level, list(tangents), self.dims)
            got = self.cls.jvp(_Ctx(ctx, level, self.saved), *given)
        got = got if isinstance(got, tuple) else (got,)
        found = [
            _at(level, t, d) if isinstance(t, Tensor) else t
            for t, d in zip(got, [*self.out_dims, *[None] * len(got)], strict=False)
        ]
        return tuple(found)


class _OlderRule(_Rule):
    """The same of a Function whose ``forward`` is given the ctx."""

    def __init__(self, cls: Any, dims: list, spec: Any, level: VmapLevel) -> None:
        super().__init__(cls, dims, spec, level)
        self.function.setup_context = Function.setup_context

    def forward(self, ctx: Any, *args: Any) -> Any:  # type: ignore[override]
        self.input_shapes = self.shapes(args)
        return self.run(args, ctx)


def ctx_method(cls: Any) -> Callable:
    """The user's ``backward``, or ``vjp``."""
    return cls._backward_cls._get_user_fn(cls._backward_cls())


def _example(x: Any, dim: int | None) -> tuple | None:
    """The shape of one example of an input."""
    if not isinstance(x, Tensor):
        return None
    shape = list(x.shape)
    if dim is not None:
        del shape[dim]
    return tuple(shape)


def _fitted(g: Any, shape: tuple | None) -> Any:
    """A gradient summed to the shape of an example of the input."""
    if not isinstance(g, Tensor) or shape is None or tuple(g.shape) == shape:
        return g
    return g.sum_to_size(shape)


def _reduced(level: VmapLevel, g: Any, dim: int | None) -> Any:
    """A gradient, for all examples, of an input with this mapped axis."""
    if not isinstance(g, Tensor):
        return g
    batch = level.of(g)
    if dim is None:
        return g if batch is None else batch.inner.sum(batch.dim)
    return _at(level, g, dim)


def _at(level: VmapLevel, t: Tensor, dim: int | None) -> Tensor:
    """What ``t`` stands for, with its mapped axis at ``dim``."""
    batch = level.of(t)
    if batch is not None:
        return lowered_view(batch, 0 if dim is None else dim)
    if dim is None:
        return t
    return t.unsqueeze(dim).expand(*t.shape[:dim], level.size, *t.shape[dim:])


def _outside(level: VmapLevel, x: Any) -> Any:
    batch = level.of(x)
    return x if batch is None else lowered_view(batch, 0)


class _Ctx:
    """The ctx of the function over mapped axes, as the user's methods know it: it keeps what is below the level."""

    def __init__(self, ctx: Any, level: VmapLevel, saved: dict) -> None:
        vars(self).update(_inner=ctx, _level=level, _saved=saved)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def _unwrapped(self, kind: str, tensors: tuple) -> list:
        batches = [self._level.of(t) for t in tensors]
        self._saved[kind] = [None if b is None else b.dim for b in batches]
        return [t if b is None else b.inner for t, b in zip(tensors, batches, strict=True)]

    def save_for_backward(self, *tensors: Any) -> None:
        self._inner.save_for_backward(*self._unwrapped("backward", tensors))

    def save_for_forward(self, *tensors: Any) -> None:
        self._inner.save_for_forward(*self._unwrapped("forward", tensors))

    def mark_dirty(self, *tensors: Any) -> None:
        self._inner.mark_dirty(*self._unwrapped("dirty", tensors))

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._inner.mark_non_differentiable(*self._unwrapped("plain", tensors))

    @property
    def saved_tensors(self) -> tuple:
        kind = "backward" if self._inner.saved_for_forward is None else "forward"
        given = list(self._inner.saved_tensors)
        return tuple(_lifted(self._level, given, self._saved.get(kind, [None] * len(given))))


TRANSFORMS.apply = apply
