"""torch.distributed.checkpoint._traverse: the values of nested state dicts and their paths."""

from collections.abc import Callable, Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.checkpoint._nested import Path, is_leaf, visit
from torchlike.distributed.checkpoint._nested import set_element as set_element

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]


def traverse_state_dict(
    state_dict: Mapping[str, Any], visitor: Callable[[Path, Any], None],
    keep_traversing: Callable[[Any], bool] | None = None,
) -> None:  # fmt: skip
    """Call ``visitor(path, value)`` for each value of a nested dict.

    Lists without tensors and dicts are values, unless ``keep_traversing`` says otherwise of them.

    >>> from torchlike.distributed.checkpoint._traverse import traverse_state_dict
    >>> traverse_state_dict({"a": {"b": [1, 2]}, "c": [{"d": 3}]}, lambda path, x: print(path, x))
    ('a', 'b') [1, 2]
    ('c', 0, 'd') 3
    """

    def ends(x: Any) -> bool:
        enters = isinstance(x, list) and bool(x) and keep_traversing is not None and keep_traversing(x)
        return is_leaf(x) and not enters

    visit(state_dict, visitor, ends)


def get_element(root_dict: Any, path: Path, default_value: Any = None) -> Any:
    """What stands at a path, or the default."""
    here = root_dict
    for key in path:
        if isinstance(key, int):
            if not isinstance(here, list) or len(here) <= key:
                return default_value
        elif not isinstance(here, Mapping) or key not in here:
            return default_value
        here = here[key]
    return here


def print_tensor(path: Path, value: Any, print_fun: Callable[[str], None] = print) -> None:
    """Print the path and the shape of a tensor, or the type of another value."""
    what = f"Tensor size: {value.size()}" if isinstance(value, Tensor) else f"Type: {type(value)}"
    print_fun(f"{path} {what}")
