"""torch.fx._pytree: containers taken apart by a structure that is known, as generated code does."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import PyTree, TreeSpec

__getattr__ = missing_names(__name__)

SUPPORTED_NODES: dict[type, Callable[[Any, TreeSpec], list]] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, Callable[[Any, TreeSpec], bool] | None] = {}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[[Any, TreeSpec], list], flatten_fn_exact_match_spec: Any = None
) -> None:
    """Say how objects of a class come apart: ``flatten_fn_spec(object, structure) -> children``."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec, exact_structural_match: bool = False) -> list[Any]:
    """The leaves of ``pytree`` where the structure ``spec`` has them.

    Further keys of dicts and further items are left out, unless ``exact_structural_match``.

    Raises:
        KeyError, IndexError: something that the structure names is not there. RuntimeError: an unknown container.

    >>> import torchlike as torch
    >>> from torchlike.utils._pytree import tree_flatten
    >>> structure = tree_flatten({"a": 0, "b": [1, 2]})[1]
    >>> torch.fx._pytree.tree_flatten_spec({"b": [5, 6], "a": 4, "c": 9}, structure)
    [4, 5, 6]
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type not in SUPPORTED_NODES:
        raise RuntimeError(
            f"{type(pytree)} does not have a flatten_fn_spec associated with it: register one with "
            "torch.fx._pytree.register_pytree_flatten_spec"
        )
    children = SUPPORTED_NODES[spec.type](pytree, spec)
    same = SUPPORTED_NODES_EXACT_MATCH.get(spec.type)
    if exact_structural_match and same is not None and not same(pytree, spec):
        raise RuntimeError(f"Cannot flatten pytree {pytree}, given spec: {spec}")
    return [leaf for c, s in zip(children, spec.children(), strict=True) for leaf in tree_flatten_spec(c, s)]


def _items(x: Any, spec: TreeSpec) -> list:
    return [x[i] for i in range(len(spec.children()))]


def _same_length(x: Any, spec: TreeSpec) -> bool:
    return len(x) == len(spec.children())


register_pytree_flatten_spec(dict, lambda d, spec: [d[k] for k in spec.context], _same_length)
for _sequence in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_sequence, _items, _same_length)  # type: ignore[arg-type]
