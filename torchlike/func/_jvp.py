"""``jvp``: a function and its derivative in a direction."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import followed
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.like import zeros_like
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import level_below
from torchlike.func._arguments import made
from torchlike.utils._pytree import tree_flatten, tree_map, tree_unflatten


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """``func(*primals)``, and its derivative in the direction of ``tangents``: the Jacobian times the tangents.

    Both are computed in one run, forwards. It nests with itself and with :func:`vmap`, and what it returns is
    recorded by autograd as any other result.

    Args:
        func: takes ``primals``, tensors nested in tuples, lists and dicts, and returns such a nest.
        primals: a tuple of arguments. tangents: of the same structure and shapes.
        strict: raise where an output does not depend on the primals, instead of giving zeros.
        has_aux: ``func`` returns ``(output, aux)``; the result is ``(output, jvp, aux)``.

    Raises:
        RuntimeError: another structure or shape of tangents, values that are no tensors.
        ValueError: primals or tangents that are not floating point.
        NotImplementedError: an operator without forward mode.

    >>> import torchlike as torch
    >>> torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.tensor([1.0, 2.0]),))
    (tensor([0., 0.]), tensor([1., 2.]))
    """
    flat, spec = _leaves(primals, tangents)
    with JvpLevel() as level:
        duals = [level.dual(p, t) for p, t in flat]
        out = followed(func)(*made(tree_unflatten(duals, spec)))
        aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(
                    "jvp(f, primals, tangents): output of function f should be a tuple: (output, aux) if has_aux is "
                    "True"
                )
            out, aux = out
    outs, out_spec = _outputs(out)
    with level:
        pairs = [pair(level, o, strict) for o in outs]
    results = tuple(tree_unflatten([pair[i] for pair in pairs], out_spec) for i in (0, 1))
    return (*results, tree_map(lambda x: _plain(level, x), aux)) if has_aux else results


@unseen
def _leaves(primals: Any, tangents: Any) -> tuple:
    """([(primal, tangent)], structure of the primals), after the checks."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, spec = tree_flatten(primals)
    dots, dots_spec = tree_flatten(tangents)
    if spec != dots_spec:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec} and tangents with structure {dots_spec}"
        )
    for name, given in (("primals", flat), ("tangents", dots)):
        for x in given:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(x)}")
        if not given:
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")
    for name, given in (("primal", flat), ("tangent", dots)):
        for x in given:
            if not (x.dtype.is_floating_point or x.dtype.is_complex):
                raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    for x, dot in zip(flat, dots, strict=True):
        if x.is_meta != dot.is_meta:
            raise RuntimeError(f"Tensor on device {x.device} is not on the expected device {dot.device}!")
    return list(zip(flat, dots, strict=True)), spec


def _outputs(out: Any) -> tuple:
    outs, spec = tree_flatten(out)
    if not outs or out is None:
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected f to be a function that has non-empty output (got output = {outs})"
        )
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(
                "jvp(f, primals, tangents): expected f(*primals) to return only tensors, got unsupported type "
                f"{type(o)}"
            )
    return outs, spec


@unseen
def pair(level: JvpLevel, out: Tensor, strict: bool = False) -> tuple[Tensor, Tensor]:
    """The output and its tangent, as tensors of the level below."""
    dot = level.of(out)
    with level_below(level):
        if dot is None and strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        return (out, zeros_like(out)) if dot is None else (level.primal(out), dot)


def _plain(level: JvpLevel, x: Any) -> Any:
    if not isinstance(x, Tensor):
        raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return x if level.kept(x)[0] is None else level.primal(x)
