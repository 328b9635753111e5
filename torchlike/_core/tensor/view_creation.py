"""Views that may not be changed in place because of how they were made, and what the refusal says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor

NO_GRAD = "no_grad"  # made in no_grad mode, or a view of such a view
INFERENCE = "inference_mode"  # made in inference mode of a normal tensor
FUNCTION = "function"  # made in a custom Function, or one of its inputs returned as it came
MULTIPLE = "multiple"  # one of the outputs of unbind, split or chunk, or a view of one

UNRECORDED = (NO_GRAD, INFERENCE)

_MODE_HINT = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {} block (if you don't want the inplace to be tracked) or "
    "both outside (if you want the inplace to be tracked)."
)
_FUNCTION_HINT = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
)
_MULTIPLE_HINT = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one."
)


def refusal(t: Tensor, indirect: bool) -> RuntimeError:
    """The error of changing the view ``t`` in place (``indirect``: through its base or another view)."""
    edge: Any = t._edge
    kind: Any = t._diff.creation
    what = "its base or another view of its base has been" if indirect else "is being"
    made_in = {NO_GRAD: "no_grad", INFERENCE: "inference"}.get(kind)
    mode = {NO_GRAD: " with grad mode enabled", INFERENCE: " in normal mode"}.get(kind, "")
    if edge is None or edge[0] is None:
        subject = f"A view was created in {made_in or 'no_grad'} mode"
        mode = mode or " with grad mode enabled"
    else:
        subject = f"Output {edge[1]} of {edge[0]._title()} is a view"
        subject += f" of a view which was created in {made_in} mode" if made_in else ""
    hints = {MULTIPLE: _MULTIPLE_HINT, FUNCTION: _FUNCTION_HINT}
    hint = hints[kind] if kind in hints else _MODE_HINT.format(kind)
    return RuntimeError(f"{subject} and {what} modified inplace{mode}. {hint}")
