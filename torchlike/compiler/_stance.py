"""Whether, and how, compiled functions compile: ``torch.compiler.set_stance``, ``torch._dynamo.config.disable``."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._transforms.capture.compiled_function import Switch
from torchlike.compiler._settings import DYNAMO

_STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile",
)  # fmt: skip


class Stance:
    """What compiled functions do now."""

    name = "default"


def update() -> None:
    """Let compiled functions use their programs, or not."""
    Switch.on = Stance.name != "force_eager" and not DYNAMO["disable"]


def _take(name: str) -> None:
    Stance.name = name
    update()


class set_stance:
    """What compiled functions do from now on, or, as a context or decorator, within it.

    Stances: "default"; "force_eager" runs them as if they were not compiled; "eager_on_recompile" runs in eager
    code what would need a new program; "fail_on_recompile" raises RuntimeError there; "eager_then_compile" runs
    the first call of each function in eager code.

    Args:
        force_backend: accepted; there is one backend, XLA. skip_guard_eval_unsafe: accepted; guards are checked.

    Raises:
        RuntimeError: another stance, or a backend together with a stance other than "default".

    >>> import torchlike as torch
    >>> f = torch.compile(lambda x: torch.compiler.is_compiling())
    >>> with torch.compiler.set_stance("force_eager"):
    ...     f(torch.ones(1))
    False
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable | None = None,
    ) -> None:  # fmt: skip
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'; expected one of {', '.join(_STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance, self.before = stance, Stance.name
        _take(stance)

    def __enter__(self) -> None:
        if Stance.name != self.stance:  # entered some time after it was made
            self.before = Stance.name
            _take(self.stance)

    def __exit__(self, *exc: object) -> None:
        _take(self.before)

    def __call__(self, fn: Callable) -> Callable:
        _take(self.before)

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return wrapper
