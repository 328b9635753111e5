"""A module called with other tensors in the place of its own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torchlike._base.state import state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.tensor.tensor import Tensor


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with the given tensors in the place of its parameters and buffers of those names.

    Args:
        parameter_and_buffer_dicts: dotted names and tensors; or several such dicts.
        args: the positional arguments; what is no tuple is the only one.
        kwargs: the keyword arguments.
        tie_weights: names that share a tensor in ``module`` share the given one.
        strict: whether the names must be exactly those of the module.

    A tensor that the module assigns to a buffer it was given ends up in the dict, not in the module.

    Raises:
        ValueError: a name in two dicts, or two tensors for names that are tied.
        RuntimeError: ``strict``, and names are missing or unexpected; or a module that ``torch.jit`` made.

    >>> import torchlike as torch
    >>> m = torch.nn.Linear(2, 2)
    >>> given = {"weight": torch.eye(2), "bias": torch.zeros(2)}
    >>> torch.func.functional_call(m, given, torch.ones(1, 2))
    tensor([[1., 1.]])
    """
    if getattr(type(module), "_is_jitted", False):
        raise RuntimeError(
            "functional_call: The stateless API can't be used with Jitted modules; call it with the module that "
            "torch.jit was given"
        )
    given = _merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _merged(dicts: Any) -> Any:
    if isinstance(dicts, Mapping):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: tensor for d in dicts for name, tensor in d.items()}


@contextmanager
def reparametrized(
    module: Any, given: Any, tie_weights: bool = False, strict: bool = False, stack_weights: bool = False
) -> Iterator[None]:
    """The context in which ``module`` has the tensors ``given``, returned last first, ``stack_weights`` or not."""
    tensors = _untied(module, given) if tie_weights else dict(given)
    if strict:
        _demand_all(module, tensors)
    places = {name: _place(module, name, value) for name, value in tensors.items()}
    before: list[tuple[str, dict, str, Any]] = []
    try:
        for name, (members, key) in places.items():
            before.insert(0, (name, members, key, members.get(key, _ABSENT)))
            members[key] = tensors[name]
        if state.capture is None and not trace_state_clean():
            LENT.extend((id(members), key) for _, members, key, _ in before)
        yield
    finally:
        for name, members, key, old in before:
            if LENT and (id(members), key) in LENT:
                LENT.remove((id(members), key))
            new = members.get(key, _ABSENT)
            if name in given and new is not _ABSENT and new is not given[name]:
                given[name] = new
            if old is _ABSENT:
                members.pop(key, None)
            else:
                members[key] = old


_ABSENT: Any = object()
LENT: list[
    tuple[int, str]
] = []  # members, while jax traces, that get their old tensors back: the dict's id and the name


def _place(module: Any, name: str, value: Any) -> tuple[dict, str]:
    """The dict of the module of which ``name`` is a member, and its key there."""
    *path, key = name.split(".")
    for step in path:
        child = getattr(module, step, _ABSENT)
        if child is _ABSENT:
            raise AttributeError(f"{type(module).__name__} has no attribute `{step}`")
        if not hasattr(child, "_modules"):
            raise TypeError(f"submodule `{step}`: {child!r} is not an instance of torch.nn.Module")
        module = child
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{value!r} is not an instance of torch.Tensor")
    for members in (module._parameters, module._buffers):
        if key in members:
            return members, key
    own = module.__dict__.get(key)
    if own is not None and not isinstance(own, Tensor):
        raise TypeError(f"attribute `{key}`: {own!r} is not an instance of torch.Tensor")
    return module.__dict__, key


def _named(module: Any) -> dict[str, Tensor]:
    """All parameters and buffers, shared ones under each of their names."""
    named = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    return named


def _untied(module: Any, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``given``, with each tensor also under the names that its name is tied to."""
    named = _named(module)
    groups: dict[int, list[str]] = {}
    for name, tensor in named.items():
        groups.setdefault(id(tensor), []).append(name)
    tensors = dict(given)
    for names in groups.values():
        present = [name for name in names if name in given]
        if len({id(given[name]) for name in present}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(present)}, which are tied. "
                "Consider using tie_weights=False"
            )
        tensors.update(dict.fromkeys(names, given[present[0]]) if present else {})
    return tensors


def _demand_all(module: Any, tensors: Mapping[str, Tensor]) -> None:
    named = _named(module)
    lists = (
        ("Unexpected", [name for name in tensors if name not in named]),
        ("Missing", [name for name in named if name not in tensors]),
    )
    lines = [f"{kind} key(s): " + ", ".join(map(repr, sorted(names))) + "." for kind, names in lists if names]
    if lines:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines))
