"""Views that may not be changed in place because of how they were made, and what the refusal says."""

NO_GRAD = "no_grad"  # made in no_grad mode, or a view of such a view
MULTIPLE = "multiple"  # one of the outputs of unbind, split or chunk, or a view of one

_NO_GRAD_HINT = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or "
    "both outside (if you want the inplace to be tracked)."
)
_MULTIPLE_HINT = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one."
)


def refusal(t, indirect):
    """The error of changing the view ``t`` in place (``indirect``: through its base or another view)."""
    edge, kind = t._edge, t._diff.creation
    what = "its base or another view of its base has been" if indirect else "is being"
    if edge is None or edge[0] is None:
        subject, mode = "A view was created in no_grad mode", " with grad mode enabled"
    else:
        subject = f"Output {edge[1]} of {edge[0].title()} is a view"
        subject += " of a view which was created in no_grad mode" if kind == NO_GRAD else ""
        mode = " with grad mode enabled" if kind == NO_GRAD else ""
    hint = _NO_GRAD_HINT if kind == NO_GRAD else _MULTIPLE_HINT
    return RuntimeError(f"{subject} and {what} modified inplace{mode}. {hint}")
