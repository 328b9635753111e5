"""torch.fx.annotate."""

from typing import Any

from torchlike.fx.proxy import Proxy
from torchlike.interop.alias import missing_names

__all__ = ["annotate"]

__getattr__ = missing_names(__name__)


def annotate(val: Any, type: Any) -> Any:
    """``val``; while a program is traced its step is annotated with ``type``.

    Raises RuntimeError if the step has an annotation already.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type}"
            )
        val.node.type = type
    return val
