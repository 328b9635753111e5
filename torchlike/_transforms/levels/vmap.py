"""The level of vmap: tensors with a mapped axis, seen by the function without it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import jax

from torchlike._base.device import default_device, jax_device
from torchlike._base.dims import wrap_dim
from torchlike._base.layout import Layout, contiguous_strides
from torchlike._base.state import LEVELS, state
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.layers import TRANSFORMS
from torchlike._core.dispatch.view_calls import VIEW, call_view, call_views
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.memory_order import inherit_strides, restride
from torchlike._core.tensor.storage import Storage
from torchlike._core.tensor.tensor import Tensor, dtype_of, wrap
from torchlike._core.tensor.views import View
from torchlike._decl.batch import SPLIT, Batch, batched
from torchlike._decl.derive import Derived, Kernel, map_outputs
from torchlike._decl.op import Inplace
from torchlike._executor import level as values
from torchlike._executor.pending import Array
from torchlike._ops import view as views
from torchlike._transforms.levels.levels import Level, level_below, set_levels

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call
    from torchlike._decl.derive import Plan
    from torchlike._decl.op import Op, ViewOp
    from torchlike._decl.typed import Avals, Forward, Identity, Indices, Static, Values

_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor: "
    "it stands for several numbers at once. Please try to rewrite what you're doing with other operations."
)
_BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that: "
    "it stands for several values at once. Use torch.where(condition, x, y) instead."
)


@functools.lru_cache(1024)
def _aval(shape: tuple[int, ...], dtype: Any) -> jax.core.ShapedArray:
    return jax.core.ShapedArray(shape, dtype)


@functools.lru_cache(1024)
def _example(whole: jax.core.ShapedArray, dim: int) -> jax.core.ShapedArray:
    """Of one of the arrays that lie along axis ``dim``."""
    return _aval((*whole.shape[:dim], *whole.shape[dim + 1 :]), whole.dtype)


class Batched(values.LevelValue):
    """The value of a tensor inside of vmap: one example of ``inner``, a tensor of the level below.

    Attributes:
        dim: the mapped axis of ``inner``. level: the vmap that it is of.
    """

    __slots__ = ("inner", "dim", "level")

    def __init__(self, inner: Tensor, dim: int, level: VmapLevel) -> None:
        self.inner, self.dim, self.level = inner, dim, level

    weak_type = False

    def run(self, op: Kernel, static: Static, values: Values) -> Any:
        return run_values(op, static, values)

    def one_by_one(self, f: Callable[..., Any], tensors: tuple[Any, ...]) -> Tensor:
        return _one_by_one(f, *tensors)

    @property
    def shape(self) -> tuple[int, ...]:
        inner, dim = self.inner, self.dim
        shape = inner._storage.form.shape if inner._view is None else inner._view.layout.shape
        return shape[1:] if not dim else (*shape[:dim], *shape[dim + 1 :])

    ndim = property(lambda self: self.inner.ndim - 1)
    dtype = property(lambda self: dtype_of(self.inner).np)
    size = property(lambda self: self.inner.numel() // max(self.inner.shape[self.dim], 1))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    @property
    def aval(self) -> jax.core.ShapedArray:
        value = self.inner._storage.form
        if value.__class__ is Array and self.inner._view is None:
            return _example(value.aval, self.dim)
        return _aval(self.shape, self.dtype)

    @property
    def sharding(self) -> Any:
        """Where the level below has its values; a tracer will be where new tensors are."""
        value = self.inner._storage.value
        if isinstance(value, jax.core.Tracer):
            return jax.sharding.SingleDeviceSharding(jax_device(default_device()))
        return value.sharding

    def devices(self) -> Any:
        """Where the level below has its values."""
        return self.inner._storage.form.devices()

    def astype(self, dtype: Any) -> Any:
        """The value in another dtype."""
        return run_values(_caster(dtype), (), (self,))

    def restride(self, strides: tuple[int, ...]) -> None:
        """Give the fresh tensor below the memory order in which an example has these strides."""
        each = 1
        for length in self.shape:
            each *= length
        restride(self.inner, (each, *strides))

    def item(self) -> NoReturn:
        raise RuntimeError(_ITEM)

    def __bool__(self) -> NoReturn:
        raise RuntimeError(_BRANCH)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise RuntimeError(f"Cannot access data pointer of Tensor that doesn't have storage, because of {_ITEM}")

    def __repr__(self) -> str:
        return f"<one of {self.inner.shape[self.dim]}: {self.dtype.name}{list(self.shape)}>"


@functools.lru_cache(None)
def _caster(dtype: Any) -> Derived:
    return Derived("to", "ToCopyBackward", lambda x: x.astype(dtype), ("mapped to", dtype))


class LevelStorage(Storage):
    """The storage of a tensor inside of a transform: it is not memory that can be shared or pointed to."""

    __slots__ = ()

    @property
    def address(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    @property
    def handle(self) -> Any:
        raise NotImplementedError(
            "Cannot access storage of BatchedTensorImpl: a tensor inside of vmap has none of its own"
        )


def lift(inner: Tensor, dim: int, level: VmapLevel) -> Tensor:
    """The tensor that the function of ``level`` sees of ``inner``, of the level below."""
    t = wrap(None)
    storage = t._storage
    storage.__class__ = LevelStorage
    t._vc = inner._vc
    if inner._view is None and not dim:
        storage.value = Batched(inner, 0, level)
        return t
    return _lifted(t, inner, dim, level)


@unseen
def _lifted(t: Tensor, inner: Tensor, dim: int, level: VmapLevel) -> Tensor:
    shape, strides, offset = inner._layout
    dim %= len(shape)
    t._storage.value = Batched(inner, dim, level)
    layout = Layout((*shape[:dim], *shape[dim + 1 :]), (*strides[:dim], *strides[dim + 1 :]), offset)
    if offset or layout.strides != contiguous_strides(layout.shape):
        t._view = View((), (), layout)
    return t


# What torch._vmap_internals._vmap() and batches of gradients say, which have no `randomness`.
NO_RANDOM = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of "
    "vmap as a workaround"
)


class VmapLevel(Level):
    """One call of a function under vmap.

    Attributes:
        size: the length of the mapped axes. randomness: "error", "same" or "different".
        functional: false where autograd maps what it does itself; what is not mapped may require grad there.
    """

    maps = True

    def __init__(self, size: int, randomness: str, functional: bool = True) -> None:
        super().__init__()
        self.size, self.randomness, self.functional = size, randomness, functional

    def handle(self, made: Call) -> Any:
        op, form, inputs, static = made
        if form.fresh:
            return self.call(op, inputs, static)
        if form.writes:
            return self.inplace(op, inputs, static)
        batch = self.of(inputs[0])
        if batch is None:
            return made.run()
        if form is VIEW:
            if op in _SCALARS_STAY and not batch.ndim:
                return inputs[0]
            return self.view(_view(op, inputs[0], batch, static), inputs[0])
        return tuple([self.view(v, inputs[0]) for v in _views(op, batch, *static)])

    def view(self, inner: Tensor, example: Tensor) -> Tensor:
        """What the function sees of ``inner``, made as a view of what it sees as ``example``."""
        t = lift(inner, 0, self)
        base = None if example._ex is None else example._ex.get("base")
        t._ex = {"base": example if base is None else base}
        return t

    def detach(self, t: Tensor) -> Tensor:
        """``t`` without history, at the level below too."""
        batch = self.of(t)
        with level_below(self):
            return t.detach() if batch is None else lift(batch.inner.detach(), batch.dim, self)

    def data(self, t: Tensor) -> Tensor:
        if self.of(t) is not None:
            raise RuntimeError("accessing `data` under vmap transform is not allowed: use detach()")
        return super().data(t)

    def inside(self, t: Tensor) -> Tensor:
        batch = self.of(t)
        return t if batch is None else batch.inner

    def of(self, x: Any) -> Batched | None:
        """The :class:`Batched` of this level that a tensor holds, or None."""
        if isinstance(x, Tensor):
            value = x._storage.value
            if value.__class__ is Batched and value.level is self:
                return value
        return None

    def holds(self, x: Any) -> bool:
        return self.of(x) is not None

    def lowered(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
        """The inputs at the level below, and where each has its mapped axis."""
        inner: list[Any] = []
        dims: list[Any] = []
        for x in inputs:
            value = x._storage.value if isinstance(x, Tensor) else None
            if value.__class__ is Batched and value.level is self:
                inner.append(value.inner)
                dims.append(value.dim)
            else:
                inner.append(x)
                dims.append(None)
        return tuple(inner), dims

    def call(self, op: Kernel, inputs: tuple[Any, ...], static: Static) -> Any:
        """An operator that makes new tensors."""
        inner, dims = self.lowered(inputs)
        mapped = op.derived.get(("mapped", static, tuple(dims)))
        if mapped is None:
            size = self.split(op, static, inputs, dims)
            if dims.count(None) == len(dims):
                return call(op, inputs, static)
            mapped = batched(op, static, tuple(dims), 0, size)
            if drawn(op, static)[1] is None:  # what draws asks for the level's randomness each time
                op.derived["mapped", static, tuple(dims)] = mapped
        out = call(mapped, inner, ())
        out = lift(out, 0, self) if out.__class__ is Tensor else map_outputs(lambda t: lift(t, 0, self), out)
        if op.layout is not None and any([isinstance(x, Tensor) and x._view is not None for x in inputs]):
            inherit_strides(op, inputs, static, out)
        return out if op.returns is None else op.returns(out)

    def at_once(self, op: Kernel, inputs: tuple[Any, ...], static: Static) -> Any:
        """``call``, where this level is the innermost one and no other layer is active."""
        before = state.levels
        state.levels = outer = before[:-1]  # as set_levels, without a call
        if not outer:
            state.active &= ~LEVELS
        try:
            return self.call(op, inputs, static)
        finally:
            state.levels = before
            state.active |= LEVELS

    def split(self, op: Kernel, static: Static, inputs: tuple[Any, ...], dims: list[Any]) -> int | None:
        """Mark the words of a random operator by how the examples share them; the length of the axis if they differ."""
        declared, position = drawn(op, static)
        if position is None or inputs[position] is None:
            return None
        if self.randomness == "error":
            if not self.functional:
                raise RuntimeError(NO_RANDOM)
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        if dims[position] is not None:  # numbers, those of each example
            return self.size
        if self.randomness == "different":
            dims[position] = SPLIT
            return self.size
        if any(dims[i] is not None for i in _PARAMETERS.get(declared.full_name, ())):
            raise RuntimeError(
                f"Vmap does not currently support same randomness with a batched tensor input ({op.name}): what is "
                "drawn depends on it. Use randomness='different'."
            )
        return None

    def inplace(self, op: Kernel, inputs: tuple[Any, ...], static: Static) -> Tensor:
        """An operator that changes its first input, by the same change of the tensor below."""
        inner, dims = self.lowered(inputs)
        shared = dims[0] is None
        size = self.split(op, static, inputs, dims)
        words = drawn(op, static)[1]
        if shared and any(d is not None and i != words for i, d in enumerate(dims)):
            raise RuntimeError(
                f"vmap: {_named(op)}(self, *extra_args) is not possible because there exists a Tensor `other` in "
                "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
                "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "
                f"{_named(op)}, or make `self` from a tensor that is vmapped over (other.new_zeros(...))."
            )
        if size and shared:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                f"randomness. Use a function that gives a new tensor instead of {op.name}."
            )
        if all(d is None for d in dims):
            return call_inplace(op, inputs, static)
        call_inplace(batched(op, static, tuple(dims), dims[0], size), inner, ())
        return inputs[0]


def drawn(op: Kernel, static: Static) -> tuple[Op, int | None]:
    """The declaration of an operator, and the position of the words of a draw among its inputs (None: no draw)."""
    while isinstance(op, Batch):
        op, static = op.base, op.static
    op = op.declaration
    position, lengths = 0, iter(static[len(op.static)] if op.lists else ())
    for arg in op.dynamic:
        if arg.name == "words":
            return op, position
        position += max(next(lengths), 0) if arg.is_list else 1
    return op, None


# The inputs that parametrise what is drawn.
_PARAMETERS = {
    "bernoulli": (0,), "bernoulli.Tensor": (2,), "normal.Tensor_float": (0,), "normal.float_Tensor": (2,),
    "normal.Tensor_Tensor": (0, 2), "poisson": (0,), "_standard_gamma": (0,), "_sample_dirichlet": (0,),
    "binomial": (0, 1), "multinomial": (0,),
}  # fmt: skip


def _named(op: Kernel) -> str:
    return "inplace arithmetic" if isinstance(op, Inplace) and (op.op.operator or op.name == "copy_") else op.name


# Views that PyTorch's vmap skips for an example without dimensions.
_SCALARS_STAY = frozenset({views.transpose, views.t})

# -- views -------------------------------------------------------------------------------------------


class BatchView(Kernel):
    """A view operator over the mapped axis ``dim`` of what it views, which comes first in the view."""

    __slots__ = ("base", "dim")

    def __init__(self, base: Any, dim: int) -> None:
        super().__init__(base.name, base.node)
        self.base, self.dim = base, dim

    def identity(self) -> Identity:
        return self.base.part(("view", self.dim))

    def prepare(self, inner: Tensor, example: Tensor, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """As of the example, whose view the function is to see."""
        layout, static, ints, *rest = self.base.prepare(example, *args)
        return (self.physical(inner, layout, *rest), static, ints, *rest)

    def physical(self, inner: Tensor, layout: Layout, dtype: Any = None) -> Layout:
        """The layout below of the view that an example has as ``layout``."""
        shape, strides, _ = inner._layout
        step = strides[self.dim]
        if dtype is not None:
            step = step * inner.itemsize // dtype.itemsize
        return Layout((shape[self.dim], *layout.shape), (step, *layout.strides), layout.offset)

    def read(self, value: Any, *args: Any) -> jax.Array:
        return jax.vmap(lambda v: self.base.read(v, *args), in_axes=self.dim)(value)

    def write(self, value: Any, new: Any, *args: Any) -> jax.Array:
        return jax.vmap(lambda v, n: self.base.write(v, n, *args), (self.dim, 0), self.dim)(value, new)

    def forward(self, static: Static) -> Forward:
        return lambda value, *ints: self.read(value, *static, *ints)

    def _of(self, static: Static, n: int) -> Batch:
        return batched(self.base, static, (self.dim, *(None,) * (n - 1)))

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
        return self._of(static, len(avals)).derivative((), avals, wanted)


def batch_view(op: Any, dim: int) -> BatchView:
    """The view operator ``op`` over a mapped axis."""
    found = op.derived.get(("view", dim))
    if found is None:
        found = op.derived["view", dim] = BatchView(op, dim)
    return found


def _view(op: ViewOp, example: Tensor, batch: Batched, args: tuple[Any, ...]) -> Tensor:
    """The view below, mapped axis first, of what the function views."""
    inner, dim = batch.inner, batch.dim
    if op is views.as_strided:
        size, stride, *offset = args
        shape, strides, start = inner._layout
        offset = start if not offset or offset[0] is None else offset[0]
        _demand_inside(example._layout, size, stride, offset)
        return call_view(op, (inner,), ((shape[dim], *size), (strides[dim], *stride), offset))
    if op is views.view_dtype and dim:
        order = (dim, *(d for d in range(inner.ndim) if d != dim))
        inner = call_view(views.permute, (inner,), (order,))
        return call_view(op, (inner,), args)
    if op is views.view_dtype:
        return call_view(op, (inner,), args)
    if op is views.squeeze_dim and not example.ndim and not -1 <= args[0] < 1:
        raise RuntimeError(f"Dimension is out of range (expected to be in range of [-1, 0], but got [{args[0]}])")
    return call_view(batch_view(op, dim), (inner,), (example, args))


def _demand_inside(example: Layout, size: Sequence[int], stride: Sequence[int], offset: int) -> None:
    """Refuse what as_strided would read beyond the memory of an example."""
    if len(size) != len(stride):
        raise RuntimeError(
            "Tensor.as_strided(size, stride, ...): size and stride must have the same length! Got size "
            f"{list(size)} and stride {list(stride)}"
        )
    shape, strides, start = example
    if 0 in size:
        return
    last = offset + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
    end = start + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
    if offset < start or last > end or 0 in shape:
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access memory outside of `tensor`:"
            f" the elements {offset} to {last} of the storage, and an example has those from {start} to {end}. This is "
            "not supported inside of vmap, please try to rewrite the `as_strided` call as a sequence of view operations"
        )


def _views(op: Kernel, batch: Batched, static: Static, steps: Iterable[Any]) -> tuple[Tensor, ...]:
    """The views below of an operator that gives several."""
    inner, dim = batch.inner, batch.dim
    pieces = []
    for step, fixed, ints, layout in steps:
        view = batch_view(step, dim)
        pieces.append((view, fixed, ints, view.physical(inner, layout)))
    return call_views(batched(op, static, (dim,)), inner, pieces, ())


# -- values ------------------------------------------------------------------------------------------


def run_values(op: Kernel, static: Static, given: Sequence[Any]) -> Any:
    """The result, as a value or tuple of them, of an operator with a level's value among its inputs."""
    level = max((v.level for v in given if isinstance(v, values.LevelValue)), key=lambda x: x.depth)
    if level not in state.levels:
        raise RuntimeError(
            f"{op.name}(): a tensor of a vmap that has ended is used. Either your tensor may have escaped from inside "
            "a function being vmapped and this is a user error, or there is an internal error: return it from the "
            "function instead of keeping it"
        )
    before, active, grad = state.levels, state.active, state.grad
    set_levels(before[: before.index(level) + 1], LEVELS)  # a level that shows nothing to others may be reading
    state.grad = False
    try:
        out = call(op, tuple([_tensor(v) for v in given]), static)
    finally:
        state.levels, state.active, state.grad = before, active, grad
    return map_outputs(lambda t: t._storage.value, out)


def _tensor(v: Any) -> Any:
    """A value as an argument of dispatch."""
    if v is None or isinstance(v, bool | int | float | complex):
        return v
    return wrap(v)


def _one_by_one(f: Callable[..., Any], *tensors: Any) -> Tensor:
    """``f(*tensors)`` for one example after the other, which give results of one shape."""
    value = max((t._storage.value for t in tensors if values.mapped(t)), key=lambda v: v.level.depth)
    level = value.level
    inner, dims = level.lowered(tensors)
    with level_below(level):
        rows = [
            f(*[x if d is None else x.select(d, i) for x, d in zip(inner, dims, strict=True)])
            for i in range(value.inner._layout.shape[value.dim])
        ]
        if not rows:
            raise RuntimeError(
                "Batching rule not implemented: what is computed for one example after the other cannot be mapped over "
                "dims of size 0"
            )
        whole = FUNCTIONS["stack"](rows)
    return lift(whole, 0, level)


@unseen
def lowered_view(batch: Batched, dim: int) -> Tensor:
    """The tensor below, its mapped axis at ``dim``: itself where it is there already."""
    inner, n = batch.inner, batch.inner.ndim
    dim = wrap_dim(dim, n)
    if batch.dim == dim:
        return inner
    order = [d for d in range(n) if d != batch.dim]
    order.insert(dim, batch.dim)
    return call_view(views.permute, (inner,), (tuple(order),))


def over_rows(f: Callable[..., Sequence[Tensor | None]], rows: Sequence[Tensor]) -> list[Tensor | None]:
    """What ``f`` returns, a list of tensors and None, of a row of each tensor, stacked: of all rows at once."""
    size = len(rows[0])
    with VmapLevel(size, "error", functional=False) as level:
        found = f(*[lift(r, 0, level) for r in rows])
    return [None if t is None else stacked(level, t) for t in found]


def stacked(level: VmapLevel, t: Tensor) -> Tensor:
    """What ``t`` stands for, mapped axis first; repeated where all examples share it."""
    batch = level.of(t)
    return t.expand(level.size, *t.shape) if batch is None else lowered_view(batch, 0)


TRANSFORMS.over_rows = over_rows


def levels_of(t: Tensor) -> set[VmapLevel]:
    """The levels at which a tensor has a mapped axis."""
    found, value = set(), t._storage.value
    while value.__class__ is Batched:
        found.add(value.level)
        value = value.inner._storage.value
    return found


def alike(make: Callable[..., Any], like: Tensor, shape: Sequence[int]) -> Tensor:
    """``make(shape)`` for each example that the tensor ``like`` stands for, each with memory of its own."""
    found, value = [], like._storage.value
    while value.__class__ is Batched:
        found.append((value.level, value.inner._layout.shape[value.dim]))
        value = value.inner._storage.value
    before = state.levels
    set_levels((), 0)
    try:
        t = make((*[n for _, n in reversed(found)], *shape))
    finally:
        set_levels(before, LEVELS if before else 0)
    for level, _ in reversed(found):
        t = lift(t, 0, level)
    if before:
        TRANSFORMS.born(t)
    return t
