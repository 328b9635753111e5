"""What goes wrong while a program is exported, under PyTorch's names."""

import re
import traceback
from collections.abc import Iterable

import jax

from torchlike._base.frames import is_users, user_frames
from torchlike._transforms.capture.recording import Unsupported


class UserError(RuntimeError):
    """The function cannot be exported, or its arguments and ``dynamic_shapes`` do not fit it.

    Attributes:
        by_length: whether dynamic lengths are to blame: others might do. reason: what the operator said of them.
    """

    def __init__(self, message: str, by_length: bool = False, reason: str = "") -> None:
        super().__init__(message)
        self.by_length, self.reason = by_length, reason


class ConstraintViolationError(RuntimeError):
    """An example argument has a length outside the range of its dimension."""


def explained(error: BaseException, name: str, symbols: Iterable[str]) -> BaseException:
    """The error to raise where tracing ``name`` has failed; ``symbols`` are the dynamic lengths to blame, if any."""
    where = _user_line(error)
    if isinstance(error, Unsupported):
        return UserError(f"torch.export: {name} {error}{where}")
    if isinstance(error, jax.errors.JAXTypeError):
        return UserError(
            f"torch.export: {name} needs the value of a tensor while it is traced (item, bool, numpy, a shape that "
            f"depends on values){where}. Write torch.where or torch.cond instead"
        )
    if not symbols:
        return error
    undecided = isinstance(error, jax.errors.InconclusiveDimensionOperation)
    hint = "a Dim with a larger min, or a smaller max, leaves less open, and " if undecided else ""
    return UserError(
        f"torch.export: {_operator(error)} cannot take the dynamic lengths {', '.join(sorted(symbols))}: "
        f"{str(error).splitlines()[0]}{where} ({hint}a length without a Dim is fixed)",
        by_length=True,
        reason=str(error),
    )


def _operator(error: BaseException) -> str:
    """The operator whose call failed, or torchlike's function that the user called."""
    named = re.match(r"(\w+\(\)):", str(error))
    if named:
        return named[1]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        op = frame.f_locals.get("op")
        if hasattr(op, "schema"):
            return f"{op.schema.name}()"
    users = [i for i, f in enumerate(frames) if is_users(f.f_code.co_filename)]
    called = frames[users[-1] + 1 :] if users else []
    if not called:
        return "the function"
    return f"{getattr(called[0].f_locals.get('door'), '__name__', called[0].f_code.co_name)}()"


def _user_line(error: BaseException) -> str:
    """Where in the user's code the error arose."""
    return "".join([f", at {f.filename}:{f.lineno}: {f.line}" for f in user_frames(error)[-1:]])
