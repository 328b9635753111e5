"""Whether algorithms have to be deterministic, and what follows from it for a call."""

from __future__ import annotations

import math
from typing import Any

from torchlike._base.dtypes import bool as bool_
from torchlike._base.dtypes import dtype, iinfo
from torchlike._base.frames import warn


class Determinism:
    """The settings of the process: ``fill`` is whether memory that nothing was written to gets a known content."""

    enabled = False
    warn_only = False
    fill = True


determinism = Determinism()


def alert_not_deterministic(name: str) -> None:
    """What PyTorch says of an operator without a deterministic implementation, where algorithms have to be."""
    if not determinism.enabled:
        return
    only = determinism.warn_only
    said = (
        f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
        f"{', warn_only=True' if only else ''})'."
    )
    if not only:
        raise RuntimeError(
            f"{said} You can turn off determinism just for this operation, or use the 'warn_only=True' option."
        )
    warn(said)


def unwritten(kind: dtype) -> Any:
    """What memory holds that nothing was written to: 0, or under PyTorch's setting NaN, or the largest integer."""
    if not (determinism.enabled and determinism.fill):
        return 0
    if kind.is_floating_point or kind.is_complex:
        return math.nan
    return True if kind is bool_ else iinfo(kind).max
