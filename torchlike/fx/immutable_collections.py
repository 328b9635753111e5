"""torch.fx.immutable_collections: lists and dicts that arguments of nodes are kept in, which cannot be changed."""

from collections.abc import Iterable
from typing import Any, NoReturn

from torchlike.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    kind = type(self).__name__
    raise TypeError(
        f"'{kind}' object does not support mutation: it holds arguments of a torch.fx.Node. Make a changed copy and "
        "assign that to node.args or node.kwargs (torch.fx.Node.update_arg does so for one argument)"
    )


class immutable_list(list):
    """A list whose every method that would change it raises TypeError.

    >>> import torchlike as torch
    >>> torch.fx.immutable_collections.immutable_list([1, 2])
    [1, 2]
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict whose every method that would change it raises TypeError."""

    __delitem__ = __ior__ = __setitem__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return immutable_dict, (dict(self),)


def _list_of(children: Iterable, context: Any) -> immutable_list:
    return immutable_list(children)


def _dict_of(children: Iterable, context: Any) -> immutable_dict:
    return immutable_dict(zip(context, children, strict=True))


register_pytree_node(immutable_list, lambda x: (list(x), None), _list_of)
register_pytree_node(immutable_dict, lambda x: (list(x.values()), list(x.keys())), _dict_of)
