"""Modules whose tensors are taken out and put back by name: what functorch had first."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter


def create_names_map(named: Any, tied: Any) -> dict[str, list[str]]:
    """For each name, all the names that its tensor has in ``tied``, itself among them."""
    named, tied = dict(named), dict(tied)
    if not set(named) <= set(tied):
        raise ValueError("named_params must be a subset of tied_named_params")
    return {name: [other for other, t in tied.items() if t is tensor] for name, tensor in named.items()}


def extract_weights(mod: Module) -> tuple[tuple[Tensor, ...], tuple[str, ...], dict[str, list[str]]]:
    """The parameters of a module, which is left with ones that hold no numbers; their names; all names of each."""
    return _extracted(
        mod,
        mod.named_parameters(),
        mod.named_parameters(remove_duplicate=False),
        lambda p: Parameter(p.detach().to("meta"), p.requires_grad),
    )


def extract_buffers(mod: Module) -> tuple[tuple[Tensor, ...], tuple[str, ...], dict[str, list[str]]]:
    """As :func:`extract_weights`, of the buffers."""
    return _extracted(mod, mod.named_buffers(), mod.named_buffers(remove_duplicate=False), lambda b: b.to("meta"))


def _extracted(mod: Module, named: Iterable, tied: Iterable, empty: Callable) -> Any:
    members = dict(named)
    names = create_names_map(members, tied)
    for name, tensor in members.items():
        for each in names[name]:
            _put(mod, each, empty(tensor))
    return tuple(members.values()), tuple(members), names


def _holder(mod: Module, name: str) -> tuple[Any, str]:
    path, _, last = name.rpartition(".")
    return mod.get_submodule(path), last


def _put(mod: Module, name: str, value: Any) -> Any:
    """Let a member of that dotted name be ``value``, whatever it was; what it was."""
    holder, last = _holder(mod, name)
    for members in (holder._parameters, holder._buffers):
        if last in members:
            before, members[last] = members[last], value
            return before
    before = holder.__dict__.get(last)
    setattr(holder, last, value)
    return before


def load_weights(mod: Module, names: Sequence[str], params: Sequence[Tensor], as_params: bool = False) -> None:
    """Give a module these tensors in the place of its parameters of these names.

    Args:
        as_params: as new Parameters, instead of the tensors themselves.
    """
    for name, given in zip(names, params, strict=False):
        _put(mod, name, Parameter(given) if as_params else given)


def load_buffers(mod: Module, names: Sequence[str], buffers: Sequence[Tensor], as_params: bool = False) -> None:
    """As :func:`load_weights`, of the buffers."""
    for name, given in zip(names, buffers, strict=False):
        _put(mod, name, given)


def load_state(
    model: Module,
    weights: Sequence[Tensor],
    weight_names: Sequence[str],
    buffers: Sequence[Tensor] = (),
    buffer_names: Sequence[str] = (),
) -> Module:
    """The model itself, given these tensors; AssertionError where there are not as many as names."""
    for what, names, given in (("weight", weight_names, weights), ("buffer", buffer_names, buffers)):
        if len(names) != len(given):
            raise AssertionError(f"len({what}_names)={len(names)} != len({what}s)={len(given)}")
    load_weights(model, weight_names, weights)
    load_buffers(model, buffer_names, buffers)
    return model


def _swap_state(mod: Module, names_map: dict[str, list[str]], elems: Iterable[Tensor]) -> list[Tensor]:
    """Give a module tensors for the groups of names; those that it had."""
    found = []
    for names, given in zip(names_map.values(), elems, strict=False):
        before = [_put(mod, name, given) for name in names]
        found.append(before[0])
    return found


def transpose_stack(tuple_of_tuple_of_tensors: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """The first tensors of all tuples, stacked and without history; the second; and so on.

    >>> import torchlike as torch
    >>> from torchlike._functorch.make_functional import transpose_stack
    >>> transpose_stack([(torch.zeros(1),), (torch.ones(1),)])
    (tensor([[0.],
            [1.]]),)
    """
    columns = zip(*tuple_of_tuple_of_tensors, strict=True)
    return tuple(FUNCTIONS["stack"](list(column)).detach() for column in columns)


def make_functional_deprecated_v1(model: Module) -> tuple[tuple[Tensor, ...], Callable, tuple[str, ...]]:
    """The weights of a model, ``f(weights, args)`` and the names of the weights; RuntimeError for one with buffers."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional_deprecated_v1(model): `model` has buffers. Please use "
            "make_functional_with_buffers_deprecated_v1(model) instead."
        )
    weights, names, groups = extract_weights(model)

    def fun(weights: Sequence[Tensor], data: tuple) -> Any:
        _swap_state(model, groups, weights)
        return model(*data)

    return weights, fun, names


def make_functional_with_buffers_deprecated_v1(model: Module) -> tuple:
    """The weights of a model, its buffers, ``f(weights, buffers, args)``, and the names of both."""
    weights, names, groups = extract_weights(model)
    buffers, buffer_names, buffer_groups = extract_buffers(model)

    def fun(weights: Sequence[Tensor], buffers: Sequence[Tensor], data: tuple) -> Any:
        _swap_state(model, groups, weights)
        _swap_state(model, buffer_groups, buffers)
        return model(*data)

    return weights, buffers, fun, names, buffer_names


def functional_init(model_class: Any, ensemble_shape: Sequence[int] = (), device: Any = "cpu") -> Callable:
    """The function that makes a model, or an ensemble of them, from the arguments of the class.

    Args:
        ensemble_shape: none, or how many models: their weights are stacked along a new first axis.

    The function gives what :func:`make_functional_deprecated_v1` does: ``(weights, f, names)``. ValueError for an
    ensemble of no models or of more axes.
    """
    return _initializer(model_class, ensemble_shape, device, make_functional_deprecated_v1, 1)


def functional_init_with_buffers(model_class: Any, ensemble_shape: Sequence[int] = (), device: Any = "cpu") -> Callable:
    """As :func:`functional_init`, for models with buffers: ``(weights, buffers, f, names, buffer_names)``."""
    with_buffers = make_functional_with_buffers_deprecated_v1 if ensemble_shape else make_functional_deprecated_v1
    return _initializer(model_class, ensemble_shape, device, with_buffers, 2)


def _initializer(model_class: Any, shape: Sequence[int], device: Any, split: Callable, stacks: int) -> Callable:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(shape) >= 2:
            raise ValueError("NYI: ensemble_shape with more than 1 element")
        if not len(shape):
            return split(model_class(*args, **kwargs).to(device))
        if shape[0] <= 0:
            raise ValueError(f"num_models {shape[0]} should be > 0")
        made = [split(model_class(*args, **kwargs).to(device)) for _ in range(shape[0])]
        stacked = [transpose_stack([m[i] for m in made]) if made[0][i] else () for i in range(stacks)]
        return (*stacked, *made[0][stacks:])

    return wrapped
