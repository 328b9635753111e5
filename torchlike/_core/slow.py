"""The slow way of a call: arguments that are not plain tensors or numbers, and active layers."""

from collections.abc import Callable

import numpy as np

from torchlike._base.state import state
from torchlike._core import overrides
from torchlike._core.tensor import Tensor

# How each argument type is treated: 1 a plain tensor, 2 a value passed as it is. Others go the slow way.
KIND: dict[type, int] = {Tensor: 1, float: 2, int: 2, bool: 2, complex: 2, type(None): 2}

# (bit of state.slow, handler), in the order of the bits.
LAYERS: list = []

# What runs (call, op, inputs, static) if an input's class has a __torch_dispatch__, and tells whether one has.
DISPATCHED: list[tuple[Callable, Callable]] = []


def install_layer(bit, handler):
    """Let ``handler(call, op, inputs, static)`` run the calls while ``bit`` is set in ``state.slow``."""
    LAYERS.append((bit, handler))
    LAYERS.sort(key=lambda layer: layer[0])


def slow_call(call, op, inputs, static):
    """Make the arguments plain, let each active layer act, and call again."""
    answer = overrides.late(inputs)
    if answer is not None:
        return answer()
    for bit, handler in LAYERS:
        if state.slow & bit:
            return handler(call, op, inputs, static)
    for handler, has_dispatch in DISPATCHED:
        if any([type(x) not in KIND and has_dispatch(type(x)) for x in inputs]):
            return handler(call, op, inputs, static)
    return call(op, tuple([_plain(op, i, x) for i, x in enumerate(inputs)]), static)


def _plain(op, position, x):
    """``x`` as an argument that dispatch takes directly."""
    if type(x) in KIND:
        return x
    if isinstance(x, Tensor):
        KIND[type(x)] = 1
        return x
    if isinstance(x, np.generic) and not isinstance(x, np.void | np.str_):
        return x.item()
    names = [a.name for a in getattr(getattr(op, "op", op), "dynamic", ())]
    name = f"'{names[position]}' " if position < len(names) else ""
    hint = "; convert it with torch.as_tensor()" if hasattr(x, "__array__") else ""
    raise TypeError(
        f"{op.name}(): argument {name}(position {position + 1}) must be Tensor, not {_kind(x)}{hint}"
    )


def _kind(x):
    module = type(x).__module__
    return type(x).__name__ if module == "builtins" else f"{module}.{type(x).__name__}"
