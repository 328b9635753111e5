"""Kernels inside of programs: traced if they can be, else called on the host while the program runs."""

import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import followed, no_grad, state
from torchlike._base.threads import in_own_thread
from torchlike._core.conversion.convert import copied_array
from torchlike._core.tensor.mutation import enter, lend, store, write, write_silently
from torchlike._core.tensor.tensor import Tensor, array_of, is_tensor, wrap
from torchlike._executor.immediate import Abstract
from torchlike._executor.pending import settled
from torchlike._library import numpy_views, results
from torchlike._library.binding import tensors
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.native import open_net


def is_traced(given: list[Tensor]) -> bool:
    """Whether jax is tracing any of the values, or a function of them is made a program."""
    return state.capture is not None or any(isinstance(t._storage.form, jax.core.Tracer) for t in given)


def run(operator: Any, kernel: Callable, args: tuple, kwargs: dict) -> Any:
    """The result of ``kernel`` on values that are being traced."""
    given = list(tensors((*args, *kwargs.values())))
    if kernel not in operator.opaque and given:
        attempt = _Attempt(given)
        try:
            with open_net():
                out = followed(kernel)(*args, **kwargs)
        except (jax.errors.JAXTypeError, Unsupported) as error:
            attempt.undo()
            if not operator.has_fake():
                raise _refusal(operator) from error
            traceback.clear_frames(error.__traceback__)  # they hold tensors of the attempt
            operator.opaque.add(kernel)
        except BaseException:
            attempt.undo()
            raise
        else:
            attempt.keep()
            return out
    return _on_host(operator, kernel, args, kwargs) if given else kernel(*args, **kwargs)


class _Attempt:
    """A run of a kernel on tracers, so that it cannot take the numbers of this call for those of every call."""

    def __init__(self, given: list[Tensor]) -> None:
        self.before = []
        for storage in {id(t._storage): t._storage for t in given}.values():
            enter(storage)
            value = storage.value
            tracer = value if isinstance(value, jax.core.Tracer) else jnp.copy(settled(value))
            self.before.append((storage, value, storage.version, tracer))
            lend(storage, tracer)

    def keep(self) -> None:
        """What was not written has its value back."""
        for storage, value, _, tracer in self.before:
            written = storage.value
            lend(storage, value)
            if written is not tracer:
                store(storage, written)

    def undo(self) -> None:
        """Nothing has happened."""
        for storage, value, version, _ in self.before:
            lend(storage, value)
            storage.version = version


def _refusal(operator: Any) -> Exception:
    problem = (
        f"calls {operator.qualname}, whose kernel needs the values of its arguments; give it a fake "
        f"implementation with torch.library.register_fake('{operator.qualname}', function), and it is called on "
        "the host while the program runs"
    )
    return Unsupported(problem) if state.capture is not None else RuntimeError(f"jax {problem}")


def _on_host(operator: Any, kernel: Callable, args: tuple, kwargs: dict) -> Any:
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: isinstance(x, Tensor) or x is None)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    written = operator.binder.written(args, kwargs)
    targets = [i for i in places if any(leaves[i] is t for t in written)]
    expected = _expected(operator, leaves, tree)
    flat, structure = jax.tree.flatten(expected, is_leaf=is_tensor)
    made = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
    if len(made) < sum(x is not None for x in flat):
        raise Unsupported(f"calls {operator.qualname} on the host, which may only return tensors there")
    shapes = [Abstract(tuple(flat[i].shape), flat[i].dtype.np) for i in made]
    shapes += [Abstract(tuple(leaves[i].shape), leaves[i].dtype.np) for i in targets]

    others = [None if isinstance(x, Tensor) else x for x in leaves]

    def host(*values: Any) -> tuple:
        given = list(others)
        for i, value in zip(places, values, strict=True):
            given[i] = copied_array(np.array(value))
        these_args, these_kwargs = jax.tree.unflatten(tree, given)
        with no_grad(), numpy_views.as_numpy([given[i] for i in targets]):
            out = results.checked(operator.schema, kernel(*these_args, **these_kwargs))
        found = [t for t in jax.tree.leaves(out, is_leaf=is_tensor) if isinstance(t, Tensor)]
        arrays = [np.asarray(array_of(t)) for t in (*found, *[given[i] for i in targets])]
        _demand_agreement(operator, arrays, shapes)
        return tuple(arrays)

    values = [array_of(leaves[i]) for i in places]
    got = jax.pure_callback(in_own_thread(host), tuple(shapes), *values, vmap_method="sequential")
    for i, value in zip(targets, got[len(made) :], strict=True):
        (write if operator.owner is None else write_silently)(leaves[i], value)  # else counted by who calls
    for i, value in zip(made, got, strict=False):
        flat[i] = wrap(value)
    return jax.tree.unflatten(structure, flat)


def _expected(operator: Any, leaves: list, tree: Any) -> Any:
    """What the fake implementation says of the results."""
    given = [wrap(Abstract(tuple(x.shape), x.dtype.np)) if isinstance(x, Tensor) else x for x in leaves]
    args, kwargs = jax.tree.unflatten(tree, given)
    before, state.capture = state.capture, None
    try:
        with no_grad(), open_net():
            return results.checked(operator.schema, operator.run_fake(args, kwargs))
    finally:
        state.capture = before


def _demand_agreement(operator: Any, arrays: list, shapes: list) -> None:
    for array, expected in zip(arrays, shapes, strict=True):
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise RuntimeError(
                f"{operator.qualname}: the kernel returned {array.dtype}{list(array.shape)} where the fake "
                "implementation "
                f"says {expected.dtype}{list(expected.shape)}; make them agree (torch.library.opcheck finds out)"
            )
