"""The numbers of small tensors, which numpy looks at in less time than a kernel is called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torchlike._base.state import UNUSUAL
from torchlike._base.tracing import trace_state_clean
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.host_memory import on_host
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import value_of
from torchlike._executor.pending import Array, as_numpy

if TYPE_CHECKING:
    import numpy as np

    from torchlike._core.tensor.tensor import Tensor

FEW = 1 << 12  # elements


def at_hand(t: Tensor) -> np.ndarray | None:
    """The numbers of ``t``, read-only; None where they are many or elsewhere, or somebody follows the calls."""
    if UNUSUAL or CAPTURES or KIND.get(t.__class__) != 1:
        return None
    view = t._view
    if math.prod(t._storage.form.shape if view is None else view.shape) > FEW:
        return None
    value = value_of(t)
    if value.__class__ is not Array or not on_host(value) or not trace_state_clean():
        return None
    return as_numpy(value)
