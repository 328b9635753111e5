"""Examples of calls: dataclasses in them, and which lengths are dynamic, told by their tensors or by more of them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.export.dynamic_shapes import Dim, children_of
from torchlike.export.exported_program import ExportedProgram
from torchlike.nn.modules.module import Module
from torchlike.utils import _pytree
from torchlike.utils._pytree import tree_flatten


def signature_of(fn: Callable) -> inspect.Signature:
    """The signature of ``fn``; that of any function where it has none to show."""
    try:
        return inspect.signature(fn.forward if isinstance(fn, Module) else fn)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def named_arguments(fn: Callable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """{name: argument} of a call; those of ``**kwargs`` under their own names."""
    bound = signature_of(fn).bind(*args, **kwargs)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        spread = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        named.update(value if spread else {name: value})
    return named


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let arguments and results of exported functions be objects of a dataclass, as ``torch.utils._pytree`` does.

    ValueError for a class that is no dataclass.

    >>> import dataclasses
    >>> import torchlike as torch
    >>> @dataclasses.dataclass
    ... class Batch:
    ...     x: torch.Tensor
    ...     y: torch.Tensor
    >>> torch.export.register_dataclass(Batch)
    >>> ep = torch.export(lambda b: b.x * b.y, (Batch(torch.ones(2), torch.ones(2)),))
    >>> ep.module()(Batch(torch.ones(2), torch.full((2,), 3.0)))
    tensor([3., 3.])
    """
    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


class ShapesCollection:
    """Shapes given to tensors themselves: ``shapes[t] = {0: dim}``, then ``export(..., dynamic_shapes=shapes)``.

    What was given is looked up by identity: pass the same tensors to ``export``.

    >>> import torchlike as torch
    >>> x, batch = torch.ones(4, 3), torch.export.Dim("batch")
    >>> shapes = torch.export.ShapesCollection()
    >>> shapes[x] = {0: batch}
    >>> ep = torch.export.export(torch.nn.Linear(3, 1), (x,), dynamic_shapes=shapes)
    >>> ep.module()(torch.ones(9, 3)).shape
    torch.Size([9, 1])
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Tensor, Any]] = {}

    def __setitem__(self, t: Tensor, shape: Any) -> None:
        if not isinstance(t, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}: ShapesCollection knows tensors")
        if id(t) in self._shapes and self[t] != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {self[t]}, got {shape}")
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Tensor) -> Any:
        return self._shapes[id(t)][1] if id(t) in self._shapes else {}

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Callable, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What ``export`` takes as ``dynamic_shapes``: {argument: shapes, nested as it is}.

        ValueError if a tensor that a shape was given to is not among the arguments.
        """
        found: set[int] = set()

        def shape_of(leaf: Any) -> Any:
            found.add(id(leaf))
            return self._shapes[id(leaf)][1] if id(leaf) in self._shapes else None

        spec = _each(shape_of, named_arguments(m, args, kwargs or {}))
        if missing := [list(t.shape) for key, (t, _) in self._shapes.items() if key not in found]:
            raise ValueError(
                f"Some tensors that were assigned shapes were not found in args: of shapes {missing}. Pass the same "
                "tensors, no copies; torch.export.register_dataclass makes a class a container"
            )
        return spec


class AdditionalInputs:
    """More examples of a call: what differs between them is dynamic in ``export(..., dynamic_shapes=inputs)``.

    >>> import torchlike as torch
    >>> more = torch.export.AdditionalInputs()
    >>> more.add((torch.ones(7, 3),))
    >>> ep = torch.export.export(torch.nn.Linear(3, 1), (torch.ones(4, 3),), dynamic_shapes=more)
    >>> ep.module()(torch.ones(9, 3)).shape
    torch.Size([9, 1])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Note the arguments of one more call. AssertionError unless they are a tuple, and a dict or None."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(
        self, m: Callable, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What ``export`` takes as ``dynamic_shapes``, with ``Dim.DYNAMIC`` for lengths and ints that differ.

        ValueError if an example is nested in another way, has a tensor of another rank, or another constant.
        """
        calls = [named_arguments(m, a, k or {}) for a, k in [*self._examples, (args, kwargs)]]
        (first, structure), *others = [tree_flatten(call) for call in calls]
        for _, other in others:
            if other != structure:
                raise ValueError(f"Additional inputs are nested in different ways: {structure} and {other}")
        columns = zip(first, *[leaves for leaves, _ in others], strict=True)
        merged = iter([_merged(column) for column in columns])
        return _each(lambda leaf: next(merged), calls[0])

    def verify(self, ep: ExportedProgram) -> None:
        """Call the program with every example: it raises what the program does for one that it does not take."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def _merged(leaves: tuple[Any, ...]) -> Any:
    """What differs among the leaves in one place."""
    if all(isinstance(x, Tensor) for x in leaves):
        if len({x.ndim for x in leaves}) > 1:
            raise ValueError(f"Additional inputs have tensors of different ranks: {[list(x.shape) for x in leaves]}")
        return tuple([None if len(set(n)) == 1 else Dim.DYNAMIC for n in zip(*[x.shape for x in leaves], strict=True)])
    if len({type(x) for x in leaves}) > 1:
        raise ValueError(
            f"The following inputs were found to have differing types, so they cannot be marked as dynamic: {leaves}."
        )
    if all(x == leaves[0] for x in leaves):
        return None
    if all(type(x) is int for x in leaves):
        return Dim.DYNAMIC
    raise ValueError(
        f"The following inputs were found to have differing values, but they cannot be marked as dynamic: {leaves}."
    )


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    """The leaves' values, nested as ``dynamic_shapes`` are: the children of other containers stand in a list."""
    if isinstance(x, dict):
        return {key: _each(function, value) for key, value in x.items()}
    children = children_of(x)
    if children is None:
        return function(x)
    found = [_each(function, y) for y in children]
    return tuple(found) if isinstance(x, tuple) else found
