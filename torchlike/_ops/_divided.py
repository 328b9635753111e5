"""Convolutions of arrays that lie over several devices: which part of one each device computes.

XLA's partitioner (of jaxlib 0.10 and 0.12) gives wrong numbers where it divides a convolution itself: it sums over
devices that hold the same numbers, or over those that pad an image. So where a process has several devices, the three
convolutions that are one another's adjoints are a primitive, which says itself how it is divided: by batch, channels
in and channels out; by groups where there are several. Positions are whole on each device: an image that is cut is
gathered. On one device the primitive is the convolution that it stands for.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax._src.dispatch import prim_requires_devices_during_lowering
from jax._src.sharding_impls import parse_flatten_op_sharding
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from torchlike._base.jaxprs import Primitive
from torchlike._decl import rules
from torchlike._ops import _convolve

# What the first two dimensions of the three arrays are: batch, channels in, channels out.
_DIMENSIONS = {"x": "nc", "weight": "oc", "y": "no"}
# {kind: its two arrays and its result}
_ARRAYS = {"convolve": ("x", "weight", "y"), "transpose": ("y", "weight", "x"), "for_weight": ("y", "x", "weight")}
_COMPUTE = {
    "convolve": _convolve.convolve, "transpose": _convolve.transpose, "for_weight": _convolve.for_weight,
}  # fmt: skip


class _Convolution(NamedTuple):
    """A bilinear function of two arrays, one of the three of which each gives the gradients of the others.

    Attributes:
        given: keywords of what its arrays do not tell: the result's positions.
    """

    kind: str
    numbers: tuple
    groups: int
    given: tuple = ()

    def __call__(self, first, second):
        return _COMPUTE[self.kind](first, second, *self.numbers, groups=self.groups, **dict(self.given))

    def for_result(self, name, sizes):
        """The one of the three that makes the array ``name``, which has these positions."""
        kind = next(kind for kind, arrays in _ARRAYS.items() if arrays[-1] == name)
        given = {"convolve": (), "transpose": (("size", sizes),), "for_weight": (("kernel", sizes),)}[kind]
        return self._replace(kind=kind, given=given)

    @property
    def letters(self):
        """For both arrays and the result, what their first two dimensions are; "-" is whole on each device."""
        found = [_DIMENSIONS[name] for name in _ARRAYS[self.kind]]
        if self.groups == 1:
            return found
        return ["g-" if d == "oc" else d.replace("c", "g").replace("o", "g") for d in found]


def _over_several(conv, first, second):
    """The result, as a primitive where there are several devices and all sizes are known."""
    if jax.device_count() == 1 or not all(type(n) is int for n in first.shape + second.shape):
        return conv(first, second)
    return divided_p.bind(first, second, conv=conv)


def convolve(x, weight, stride, pairs, dilation, groups):
    """Cross-correlation of x [N, C, *size] with weight [out, C / groups, *kernel]; pairs of padding."""
    return _over_several(_Convolution("convolve", _hashable(stride, pairs, dilation), groups), x, weight)


def transpose(x, weight, size, stride, pairs, dilation, groups):
    """The adjoint of ``convolve`` with respect to its input, whose positions are ``size``."""
    given = (("size", tuple(size)),)
    return _over_several(_Convolution("transpose", _hashable(stride, pairs, dilation), groups, given), x, weight)


def _for_weight(grad, x, weight, stride, pairs, dilation, groups):
    """The adjoint of ``convolve`` with respect to its weight, whose positions are those of ``weight``."""
    given = (("kernel", tuple(weight.shape[2:])),)
    return _over_several(_Convolution("for_weight", _hashable(stride, pairs, dilation), groups, given), grad, x)


def _hashable(stride, pairs, dilation):
    return tuple(stride), tuple(map(tuple, pairs)), tuple(dilation)


def gradients(grad, x, weight, stride, pairs, dilation, groups):
    """Gradients of ``convolve`` with respect to x and weight."""
    back, numbers = rules.conj(grad), (stride, pairs, dilation, groups)
    for_input = transpose(back, weight, x.shape[2:], *numbers)
    return rules.conj(for_input), rules.conj(_for_weight(back, x, weight, *numbers))


def transpose_gradients(grad, x, weight, stride, pairs, dilation, groups):
    """Gradients of ``transpose`` with respect to x and weight, both made of plain convolutions."""
    back, numbers = rules.conj(grad), (stride, pairs, dilation, groups)
    for_input = convolve(back, weight, *numbers)
    return rules.conj(for_input), rules.conj(_for_weight(x, back, weight, *numbers))


# -- the primitive -----------------------------------------------------------------------------------

divided_p = Primitive("divided_convolution")
prim_requires_devices_during_lowering.add(divided_p)


@functools.partial(jax.jit, static_argnames="conv")
def _run(first, second, *, conv):
    return divided_p.bind(first, second, conv=conv)


divided_p.def_impl(_run)


@divided_p.def_abstract_eval
def _abstract(first, second, *, conv):
    kinds = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (first, second)]
    out = jax.eval_shape(lambda a, b: conv(a, b), *kinds)
    return jax.core.ShapedArray(out.shape, out.dtype)


def _adjoint(position):
    """The transpose with respect to one of the two arrays: one of the other two convolutions."""

    def rule(cotangent, *arrays, conv):
        names = _ARRAYS[conv.kind]
        wanted, other = arrays[position].aval, arrays[1 - position]
        new = conv.for_result(names[position], tuple(wanted.shape[2:]))
        here = {names[2]: cotangent, names[1 - position]: other}
        return divided_p.bind(*[here[name] for name in _ARRAYS[new.kind][:2]], conv=new)

    return rule


ad.defbilinear(divided_p, _adjoint(0), _adjoint(1))


def _batched(arrays, dims, *, conv):
    """Many convolutions as one: of a larger batch if all have one weight, otherwise of more groups."""
    names = _ARRAYS[conv.kind]
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    if names[1] == "weight" and dims[1] is None:
        first = jnp.moveaxis(arrays[0], dims[0], 0)
        out = divided_p.bind(first.reshape(-1, *first.shape[2:]), arrays[1], conv=conv)
        return out.reshape(size, -1, *out.shape[1:]), 0
    merged = []
    for name, a, d in zip(names, arrays, dims, strict=False):
        at = 0 if name == "weight" else 1
        a = jnp.repeat(jnp.expand_dims(a, at), size, at) if d is None else jnp.moveaxis(a, d, at)
        merged.append(a.reshape(*a.shape[:at], -1, *a.shape[at + 2 :]))
    out = divided_p.bind(*merged, conv=conv._replace(groups=size * conv.groups))
    at = 0 if names[2] == "weight" else 1
    return out.reshape(*out.shape[:at], size, -1, *out.shape[at + 1 :]), at


batching.primitive_batchers[divided_p] = _batched


def _lowered(ctx, first, second, *, conv):
    alone = getattr(ctx.module_context.axis_context, "num_devices", None) == 1
    run = (lambda first, second: conv(first, second)) if alone else _partitioned(conv)
    return mlir.lower_fun(run, multiple_results=False)(ctx, first, second)


mlir.register_lowering(divided_p, _lowered)


# -- how it is divided -------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _partitioned(conv):
    """The convolution as a function that tells XLA's partitioner how to divide it."""
    run = custom_partitioning(lambda first, second: conv(first, second))

    def infer(mesh, arrays, result):
        return _shardings(conv, mesh, _axes(conv, mesh, (*arrays, result)))[2]

    run.def_partition(
        functools.partial(_partition, conv), infer_sharding_from_operands=infer,
        sharding_rule=functools.partial(_rule, conv), decode_shardings=False,
    )  # fmt: skip
    return run


def _rule(conv, mesh, types, results):
    """How layouts follow from one another, in the notation of ``def_partition``."""
    if mesh.empty:
        raise NotImplementedError("a convolution over devices whose layout has no mesh: lay it out by a NamedSharding")
    shapes = [tuple(t.shape) for t in (*types, *results)]
    weight, groups = shapes[_ARRAYS[conv.kind].index("weight")], conv.groups
    outputs, inputs = weight[0] // groups, weight[1]
    if groups == 1:
        dimensions, sizes = {"x": "n c", "weight": "o c", "y": "n o"}, {}
    else:
        into, out = ("(g c)" if inputs > 1 else "g"), ("(g o)" if outputs > 1 else "g")
        dimensions = {"x": f"n {into}", "weight": f"{out} c", "y": f"n {out}"}
        sizes = {"o": outputs} if outputs > 1 else {}
        sizes |= {"g": groups} if inputs > 1 and outputs > 1 else {}
    names = _ARRAYS[conv.kind]
    positions = [[f"{name}{i}" for i in range(len(weight) - 2)] for name in names]
    first, second, result = [" ".join([dimensions[n], *p]) for n, p in zip(names, positions, strict=True)]
    return f"{first}, {second} -> {result}", sizes


def _axes(conv, mesh, arrays):
    """{letter: the axes of the mesh that cut it}, as the arrays lie; each axis cuts one letter."""
    found, used = {}, set()
    letters = conv.letters
    for letter in sorted({d for both in letters for d in both} - {"-"}, key="ngoc".index):
        size, axes = None, ()
        for both, array in zip(letters, arrays, strict=True):
            if letter not in both:
                continue
            at = both.index(letter)
            size = conv.groups if letter == "g" else array.shape[at]
            axes = axes or _cut_by(array, at, mesh)
        kept = []
        for axis in axes:
            if axis not in used and size % math.prod(mesh.shape[a] for a in (*kept, axis)) == 0:
                kept.append(axis)
        found[letter] = tuple(kept)
        used |= set(kept)
    return found


def _cut_by(array, dimension, mesh):
    """The axes that cut a dimension; none where a part of an axis does, which has no name."""
    sharding = getattr(array, "sharding", None)
    if sharding is None:
        return ()
    try:
        spec = parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(len(array.shape)), mesh)[0]
    except (AssertionError, LookupError, ValueError):
        return ()
    entry = spec[dimension] if dimension < len(spec) else None
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def _shardings(conv, mesh, axes):
    """The layouts of both arrays and of the result."""
    return [NamedSharding(mesh, PartitionSpec(*[axes.get(d) or None for d in both])) for both in conv.letters]


def _partition(conv, mesh, arrays, result):
    """What ``def_partition`` asks: (mesh, what each device computes, layout of the result, of the arrays)."""
    axes = _axes(conv, mesh, (*arrays, result))
    first, second, out = _shardings(conv, mesh, axes)
    of_result = conv.letters[2]
    summed = tuple(a for letter, found in axes.items() if letter not in of_result for a in found)
    pieces = math.prod(mesh.shape[a] for a in axes.get("g", ()))
    local = conv._replace(groups=conv.groups // pieces)

    def part(first, second):
        y = local(first, second)
        return jax.lax.psum(y, summed) if summed else y

    return mesh, part, out, (first, second)
