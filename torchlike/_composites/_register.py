"""How the files of this folder add their overloads."""

from collections.abc import Callable
from typing import Any

from torchlike._aten.outs import SPELT
from torchlike._aten.source import SOURCE, Overload


def made(*texts: str, out: bool | str = False, saves: tuple[int, ...] = ()) -> Callable[[Callable], Callable]:
    """Register a function, called with the arguments of the schemas ``texts``.

    With ``out``, what writes into outputs too: their overload and names, where these do not follow from the schema,
    then ``named`` if the results have these names too. ``saves``: the results that PyTorch's node keeps, where the
    function is more than one operator.
    """

    def register(function: Callable) -> Callable:
        for text in texts:
            if isinstance(out, str):
                SPELT[text[: text.index("(")]] = out
            SOURCE.add(Overload(text, lambda: function, whole=not out, saves=saves))
        return function

    return register


def mapped(names: str, text: str, call: Callable[[str], Any], out: bool | str = False) -> None:
    """Register an overload for each of ``names``, which stands for ``@`` in ``text``: ``call(name)`` computes it."""
    for name in names.split():
        made(text.replace("@", name), out=out)(call(name))
