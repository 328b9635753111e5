"""What an operator warns of, apart from what it computes: the front of a public function asks at every call."""

from collections.abc import Callable

Telling = Callable[..., None]
TELLS: dict[str, Telling] = {}


def tells(*names: str) -> Callable[[Telling], Telling]:
    """Register ``f(inputs, *static)``, which may warn, for the operators of these full names.

    ``inputs`` are the tensors of the call, ``static`` its other arguments. It runs before the call, on shapes alone.
    """

    def register(f: Telling) -> Telling:
        TELLS.update(dict.fromkeys(names, f))
        return f

    return register
