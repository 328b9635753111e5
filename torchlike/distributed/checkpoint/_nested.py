"""State dicts as flat ones: names with dots, and the path of keys that each stands for."""

from collections.abc import Callable, Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor

__all__ = ["flatten_state_dict", "flattened", "is_leaf", "set_element", "visit"]

Path = tuple[str | int, ...]


def is_leaf(x: Any) -> bool:
    """Whether an object is saved as it is: what is no dict, and lists without tensors and dicts."""
    if isinstance(x, Mapping):
        return False
    return not isinstance(x, list) or all(not isinstance(y, Tensor | Mapping) and is_leaf(y) for y in x)


def visit(x: Any, see: Callable[[Path, Any], None], ends: Callable[[Any], bool] = is_leaf, path: Path = ()) -> None:
    """Call ``see(path, value)`` for each value within ``x`` that ``ends`` tells of; a dict or list itself is none."""
    if (path or not isinstance(x, Mapping | list)) and ends(x):
        see(path, x)
        return
    items = ((str(k), v) for k, v in x.items()) if isinstance(x, Mapping) else enumerate(x)
    for key, value in items:
        visit(value, see, ends, (*path, key))


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The objects in a nested dict by names with dots, and the path of each.

    >>> from torchlike.distributed.checkpoint._nested import flatten_state_dict
    >>> flatten_state_dict({"a": {"b": 1}, "c": [{"d": 2}], "e": [3]})
    ({'a.b': 1, 'c.0.d': 2, 'e': [3]}, {'a.b': ('a', 'b'), 'c.0.d': ('c', 0, 'd'), 'e': ('e',)})
    """
    return flattened(state_dict, is_leaf)


def flattened(state_dict: Mapping[str, Any], ends: Callable[[Any], bool]) -> tuple[dict[str, Any], dict[str, Path]]:
    """As :func:`flatten_state_dict`, of what :func:`visit` sees. ValueError where two values have one name."""
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def see(path: Path, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}: two places of the state dict have this name")
        flat[name], paths[name] = value, path

    visit(state_dict, see, ends)
    return flat, paths


def set_element(root: Any, path: Path, value: Any) -> None:
    """Let the place of a path hold a value; dicts and lists on the way are made."""
    here = root
    for key, after in zip(path, path[1:], strict=False):
        here = _entered(here, key, list if isinstance(after, int) else dict)
    _entered(here, path[-1], lambda: None)
    here[_own_key(here, path[-1])] = value


def _entered(here: Any, key: str | int, make: Callable[[], Any]) -> Any:
    if isinstance(here, list):
        assert isinstance(key, int)
        while len(here) <= key:
            here.append(None)
        if here[key] is None:
            here[key] = make()
        return here[key]
    return here.setdefault(_own_key(here, key), make())


def _own_key(here: Any, key: str | int) -> Any:
    """The key that a dict has for a text, which may be a number."""
    if isinstance(here, list) or key in here:
        return key
    return next((own for own in here if str(own) == key), key)
