"""Anomaly mode: every node remembers where it was made, and backward looks for errors and NaN."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from torchlike._base.frames import user_stack
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._decl.derive import Derived
from torchlike._executor import immediate

if TYPE_CHECKING:
    from torchlike._core.autograd.node import Node
    from torchlike._core.typed import Grads


class Mode:
    """The switches of anomaly mode, one for the process as in PyTorch."""

    enabled = False
    check_nan = True


current = Mode()
has_nan = Derived("isnan", "NotImplemented", lambda x: jnp.isnan(x).any(), ("any nan",))


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off."""
    current.enabled, current.check_nan = bool(enabled), bool(check_nan)
    nodes.watch_with(annotate, current.enabled)


def annotate(node: Node) -> None:
    """Keep the stack of the call that made ``node``, and the backward node that was running, if any."""
    node.metadata["traceback_"] = user_stack()
    task = state.task
    if task is not None and task.node is not None:
        node.metadata["parent_"] = task.node


def explain(node: Node) -> None:
    """Warn with the traceback of the call that made ``node``, and of the calls before it in double backward."""
    stack = node.metadata.get("traceback_")
    if stack is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
    else:
        text = f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(stack)}"
    _warn(text)
    while (parent := node.metadata.get("parent_")) is not None:
        stack = parent.metadata.get("traceback_")
        text = f"\n\nPrevious calculation was induced by {parent.name()}. "
        text += (
            f"Traceback of forward call that induced the previous calculation:\n{''.join(stack)}"
            if stack is not None
            else "No forward pass information available."
        )
        _warn(text)
        node = parent


def _warn(text: str) -> None:
    """Warn; where warnings are errors, print instead: the error of backward is the one that goes on."""
    try:
        warnings.warn(text, UserWarning, stacklevel=3)
    except UserWarning:
        print(f"UserWarning: {text}", file=sys.stderr)


def watched(node: Node, apply: Callable[..., Any], grads: Grads) -> Any:
    """``apply(node, grads)``; NaN in what it gives is an error."""
    results = apply(node, grads)
    if current.check_nan:
        for i, result in enumerate(results):
            if result is not None and _has_nan(result):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
    return results


def _has_nan(result: Any) -> bool:
    value = value_of(result) if isinstance(result, Tensor) else result
    if isinstance(value, immediate.Abstract) or not jnp.issubdtype(value.dtype, jnp.inexact):
        return False
    found = immediate.run(has_nan, (), (value,))
    return not isinstance(found, immediate.Tracer) and bool(found)


class set_detect_anomaly:
    """Switch anomaly mode to ``mode`` at once; as a context manager, restore it on exit.

    Raises TypeError unless both arguments are bools.

    >>> import torchlike as torch
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        for position, (name, value) in enumerate((("enabled", mode), ("check_nan", check_nan)), 1):
            if not isinstance(value, bool):
                raise TypeError(
                    f"set_detect_anomaly(): argument '{name}' (position {position}) must be bool, not "
                    f"{type(value).__name__}"
                )
        self.prev, self.prev_check_nan = current.enabled, current.check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """Nothing more to do: the constructor has switched."""

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """In this context errors of backward show the forward call that caused them, and NaN is an error.

    Args:
        check_nan: whether a gradient with NaN raises RuntimeError, naming the node.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev, self.check_nan = current.enabled, check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev, self.prev_check_nan = current.enabled, current.check_nan
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return current.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return current.check_nan
