"""Functions of jax as functions of tensors, and modules and functions of tensors as pure functions of jax."""

from __future__ import annotations

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor, array_of, is_tensor
from torchlike._decl.derive import Derived
from torchlike._executor.references import lent
from torchlike._functions.functional_call import reparametrized
from torchlike._functions.generator import drawing_from

_KEPT = 256  # programs of one function: one for each structure, shapes and dtypes of its arguments


def from_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of jax arrays as a function of tensors, with gradients.

    Args:
        function: pure and traceable by jax: of ``jax.numpy`` or ``jax.nn``, a ``custom_vjp`` or ``custom_jvp``, a
            Pallas kernel, a jitted function. Its arguments and results are arrays in any pytree.

    Returns:
        A function that takes tensors where ``function`` takes arrays, in dicts, lists, tuples and other pytrees, and
        gives tensors of the shapes and dtypes that jax gives. It is an operator like torchlike's own: the tape,
        ``jvp``, ``vmap`` and ``torch.compile`` see one call, compiled once for each structure and shapes of its
        arguments. It can be differentiated as often as jax can do it, by ``jax.vjp``; gradients of complex tensors have
        PyTorch's convention, the conjugate of jax's. Floats are inputs of the program; ints, bools, strings, None and
        other hashable arguments belong to it, and another value is another program.

    Raises:
        TypeError: ``function`` cannot be called, or an argument is neither array nor tensor nor hashable.

    >>> import jax.numpy as jnp, torchlike as torch
    >>> from torchlike.interop import from_jax
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> from_jax(jnp.linalg.norm)(x).backward()
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    if not callable(function):
        raise TypeError(f"from_jax(): expected a function of jax arrays, got {type(function).__name__}")
    programs, lock = OrderedDict(), threading.Lock()
    name = getattr(function, "__name__", type(function).__name__)

    @functools.wraps(function, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
        values = [_given(name, x) for x in leaves]
        inputs = [x for x in values if isinstance(x, Tensor | float | complex)]
        key = tree, tuple([_kind(v, x) for v, x in zip(values, leaves, strict=True)])
        with lock:
            program = programs.get(key)
        if program is None:
            program = _Program(function, name, tree, values, leaves)
            with lock:
                programs[key] = program
                if len(programs) > _KEPT:
                    programs.popitem(last=False)
        return program(inputs)

    return run


class _Static:
    """An argument that belongs to the program."""

    __slots__ = ("value",)

    def __init__(self, name: str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"{name}(): an argument of from_jax's function must be a tensor, an array, a number or hashable, not "
                f"{type(value).__name__}"
            ) from None
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Static) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _given(name: str, x: Any) -> Any:
    """An argument's leaf as an input (a tensor, float or complex), or as part of the program."""
    if isinstance(x, Tensor) or type(x) in (float, complex):
        return x
    if isinstance(x, jax.Array):
        return from_jax_array(jax.random.key_data(x) if is_key(x) else x)
    return from_jax_array(jnp.asarray(x)) if isinstance(x, np.ndarray | np.generic) else _Static(name, x)


def is_key(x: Any) -> bool:
    """Whether ``x`` is an array of jax's typed random keys."""
    return isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _kind(value: Any, leaf: Any) -> Any:
    """What a program depends on of an argument."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, jax.random.key_impl(leaf) if is_key(leaf) else None
    return value if isinstance(value, _Static) else type(value)


class _Program:
    """``function`` as an operator of flat inputs, for one structure of the arguments."""

    def __init__(self, function: Callable, name: str, tree: Any, values: list, leaves: list) -> None:
        fixed = [v.value if isinstance(v, _Static) else None for v in values]
        places = [i for i, v in enumerate(values) if not isinstance(v, _Static)]
        keys = {i: jax.random.key_impl(x) for i, x in enumerate(leaves) if is_key(x)}

        def run(*inputs: Any) -> Any:
            given = list(fixed)
            for i, x in zip(places, inputs, strict=True):
                given[i] = jax.random.wrap_key_data(x, impl=keys[i]) if i in keys else x
            args, kwargs = jax.tree.unflatten(tree, given)
            return jax.tree.map(_result, function(*args, **kwargs), is_leaf=is_tensor)

        abstract = [
            jax.ShapeDtypeStruct(tuple(v.shape), v.dtype.np) if isinstance(v, Tensor) else v
            for v in values
            if not isinstance(v, _Static)
        ]
        out = jax.eval_shape(run, *abstract)
        self.tree = jax.tree.structure(out)
        self.single = jax.tree_util.treedef_is_leaf(self.tree)
        self.operator = Derived(name, _node(name), lambda *inputs: _flat(run(*inputs)))
        self.run = run

    def __call__(self, inputs: list) -> Any:
        if not any(isinstance(x, Tensor) for x in inputs):
            return jax.tree.map(from_jax_array, jax.tree.map(jnp.asarray, self.run(*inputs)))
        out = call(self.operator, tuple(inputs), ()) if self.tree.num_leaves else ()
        return jax.tree.unflatten(self.tree, out if isinstance(out, tuple | list) else [out])


def _result(x: Any) -> Any:
    return array_of(x) if is_tensor(x) else jax.random.key_data(x) if is_key(x) else x


def _node(name: str) -> str:
    """What the nodes of a function are called in graphs."""
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", name)) + "Backward"


def _flat(out: Any) -> Any:
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(out)]
    return leaves[0] if len(leaves) == 1 else tuple(leaves)


# -- the other way -----------------------------------------------------------------------------------


def to_jax(function: Any) -> Callable[..., Any]:
    """A module or a function of tensors as a pure function of jax arrays.

    Args:
        function: an ``nn.Module``, or a function of tensors.

    Returns:
        For a module ``pure(parameters, buffers, *args, key=None, **kwargs)``, which gives ``(result, buffers)``: the
        buffers as the call leaves them. The dicts are those of :func:`split`; the module itself is not changed.
        For another function ``pure(*args, key=None, **kwargs)``, which gives its result.
        Arrays in any pytree take the place of tensors, and results are arrays. ``key`` is a jax random key, from which
        dropout and other random operators draw; they raise RuntimeError without one. ``jax.grad`` of it differentiates
        torchlike's kernels by jax's rules, so subgradients at kinks are jax's of those kernels, and gradients of
        complex parameters have jax's convention. What ``detach()`` or ``no_grad`` keep from autograd is constant for
        jax, and custom Functions are differentiated by their ``backward``.

    Raises:
        TypeError: ``function`` cannot be called.
        RuntimeError: names are missing in the dicts, or unknown to the module; or the module changes a parameter.

    >>> import jax, torchlike as torch
    >>> from torchlike.interop import split, to_jax
    >>> model = torch.nn.Linear(2, 1)
    >>> parameters, buffers = split(model)
    >>> loss = lambda parameters, x: to_jax(model)(parameters, buffers, x)[0].sum()
    >>> jax.grad(loss)(parameters, jax.numpy.ones((3, 2), "float32"))["bias"]
    Array([3.], dtype=float32)
    """
    if not callable(function):
        raise TypeError(f"to_jax(): expected a module or a function of tensors, got {type(function).__name__}")
    return _of_module(function) if hasattr(function, "_parameters") else _of_function(function)


def _of_function(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def pure(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        args, kwargs = _tensors((args, kwargs))
        with drawing_from(key), enable_grad():  # a grad mode outside says nothing of what jax differentiates
            return _arrays(function(*args, **kwargs))

    return pure


def _of_module(module: Any) -> Callable[..., Any]:
    def pure(parameters: Any, buffers: Any, /, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        given = {name: _tensor(value) for name, value in {**parameters, **buffers}.items()}
        args, kwargs = _tensors((args, kwargs))
        with drawing_from(key), enable_grad(), reparametrized(module, given, tie_weights=True, strict=True):
            before = {name: array_of(given[name]) for name in parameters}
            out = module(*args, **kwargs)
        _demand_kept(module, before, given)
        return _arrays(out), {name: lent(array_of(given[name])) for name in buffers}

    return pure


def _demand_kept(module: Any, before: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse that the call changed a parameter, which it does not return."""
    changed = [name for name, array in before.items() if array_of(given[name]) is not array]
    if changed:
        raise RuntimeError(
            f"to_jax(): {type(module).__name__} changed its parameter {changed[0]!r} in the call, and only buffers are "
            "returned, so that the change would be lost; make it a buffer (register_buffer), or return the parameters: "
            "to_jax(lambda p, *args: (torch.func.functional_call(module, p, args), p))"
        )


def _tensor(x: Any) -> Any:
    """A tensor of its own for an array, so that changes in place stay inside."""
    if isinstance(x, Tensor):
        x = array_of(x)
    return from_jax_array(jnp.asarray(x)) if isinstance(x, jax.Array | np.ndarray) and not is_key(x) else x


def _tensors(tree: Any) -> Any:
    return jax.tree.map(_tensor, tree, is_leaf=is_tensor)


def _arrays(tree: Any) -> Any:
    return jax.tree.map(lambda x: lent(array_of(x)) if is_tensor(x) else x, tree, is_leaf=is_tensor)


def split(module: Any) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """The parameters and the buffers of a module as two dicts of jax arrays by name, without copies.

    >>> import torchlike as torch
    >>> from torchlike.interop import split
    >>> parameters, buffers = split(torch.nn.BatchNorm1d(2))
    >>> sorted(parameters), sorted(buffers)
    (['bias', 'weight'], ['num_batches_tracked', 'running_mean', 'running_var'])
    """
    if not hasattr(module, "named_parameters"):
        raise TypeError(f"split(): expected a module, got {type(module).__name__}")
    found = module.named_parameters(), module.named_buffers()
    parameters, buffers = [{n: lent(array_of(t)) for n, t in named} for named in found]
    return parameters, buffers


def merge(module: Any, parameters: Mapping[str, Any], buffers: Mapping[str, Any] | None = None) -> Any:
    """Write arrays into the parameters and buffers of a module, in place; returns the module.

    Args:
        module: an ``nn.Module``.
        parameters, buffers: arrays by name, as :func:`split` gave them; names may be left out.

    Raises:
        KeyError: the module has no parameter or buffer of a name.
        ValueError: a shape or dtype is not that of the module's. Nothing is written then.

    >>> import torchlike as torch
    >>> from torchlike.interop import merge, split
    >>> model = torch.nn.Linear(1, 1)
    >>> parameters, _ = split(model)
    >>> _ = merge(model, {"bias": parameters["bias"] * 0 + 2})
    >>> model.bias.item()
    2.0
    """
    groups = ((parameters, dict(module.named_parameters())), (buffers or {}, dict(module.named_buffers())))
    writes = [(_member(module, name, own), name, value) for given, own in groups for name, value in given.items()]
    arrays = [_fitting(name, t, value) for t, name, value in writes]
    with no_grad():
        for (t, _, _), array in zip(writes, arrays, strict=True):
            t.copy_(array)
    return module


def _member(module: Any, name: str, own: Mapping[str, Tensor]) -> Tensor:
    if name not in own:
        raise KeyError(f"merge(): {type(module).__name__} has no parameter or buffer {name!r}; it has {sorted(own)}")
    return own[name]


def _fitting(name: str, t: Tensor, value: Any) -> Tensor:
    array = _tensor(value)
    if not isinstance(array, Tensor) or array.shape != t.shape or array.dtype != t.dtype:
        got = f"{list(array.shape)} of {array.dtype}" if isinstance(array, Tensor) else type(value).__name__
        raise ValueError(f"merge(): {name!r} is {list(t.shape)} of {t.dtype} in the module, but {got} was given")
    return array
