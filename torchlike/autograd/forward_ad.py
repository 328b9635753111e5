"""Forward-mode derivatives: tensors that carry a tangent while a dual level is open."""

from typing import Any, NamedTuple

from torchlike._base.state import Context, state
from torchlike._base.volatile import volatile
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import level_below

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What :func:`unpack_dual` gives: ``primal`` without tangent, and ``tangent`` (None if there is none)."""

    primal: Tensor
    tangent: Tensor | None


def _open() -> JvpLevel | None:
    """The dual level of this thread."""
    return next((x for x in reversed(state.levels) if isinstance(x, JvpLevel) and not x.functional), None)


def __getattr__(name: str) -> int:
    """``_current_level``, the number of the dual level that is open in this thread: 0, or -1 for none."""
    if name == "_current_level":
        return -1 if _open() is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Open a dual level, in which :func:`make_dual` works; returns its number. RuntimeError if one is open."""
    if _open() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    JvpLevel(functional=False).__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the dual level: all tangents are gone. RuntimeError if it is not open."""
    found = _open()
    if found is None:
        raise RuntimeError("Dual level must be a positive number.")
    if level not in (None, 0) or state.levels[-1] is not found:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    found.__exit__()


class dual_level(Context):
    """A context, or decorator, in which a dual level is open.

    >>> import torchlike as torch
    >>> import torchlike.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(4.)
    """

    __slots__ = ()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of ``tensor`` that carries ``tangent``: operators on it compute the derivative in that direction.

    Raises:
        RuntimeError: no dual level is open, another shape, or a tensor that carries a tangent already.
        ValueError: a tensor or tangent that is not floating point or complex.
    """
    opened = _open()
    if opened is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to _make_dual: {level}; there is level 0 only")
    if state.levels[-1] is not opened:
        raise RuntimeError(
            "Batching rule not implemented for aten::_make_dual; the fallback path doesn't work on out= or view ops: "
            "inside of a transform, open a dual level there"
        )
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if opened.of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if opened.of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    return unseen(opened.dual)(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """``(primal, tangent)`` of a tensor; the tangent is None for one that carries none.

    Both have history, so the derivative can itself be differentiated backwards.
    """
    opened = _open()
    dot = None if opened is None else opened.of(tensor)
    if opened is None or dot is None:
        return UnpackedDualTensor(tensor, None)
    with level_below(opened):
        return UnpackedDualTensor(opened.primal(tensor), dot)


@volatile
def _is_fwd_grad_enabled() -> bool:
    return JvpLevel.thread.enabled


class _set_fwd_grad_enabled(Context):
    """A context in which results carry tangents, or do not."""

    __slots__ = ("mode", "_before")

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> "_set_fwd_grad_enabled":
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        self._before, JvpLevel.thread.enabled = JvpLevel.thread.enabled, self.mode

    def __exit__(self, *exc: Any) -> None:
        JvpLevel.thread.enabled = self._before
