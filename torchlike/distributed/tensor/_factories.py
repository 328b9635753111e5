"""New DTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlike._core.conversion import factories
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._functions.random import rand as _rand
from torchlike._functions.random import randn as _randn
from torchlike.distributed.device_mesh import DeviceMesh, current_mesh
from torchlike.distributed.tensor._dtensor import DTensor, as_leaf, marked_as_cut
from torchlike.distributed.tensor._layouts import checked, sharding_for, whole
from torchlike.distributed.tensor.placement_types import Partial


def _factory(name: str, make: Callable[..., Any], doc: str) -> Callable[..., DTensor]:
    def new(
        *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None, placements: Any = None,
    ) -> DTensor:  # fmt: skip
        mesh = device_mesh or current_mesh()
        extra = {} if layout is None else {"layout": layout}
        return _dtensor_of(lambda: make(*size, dtype=dtype, **extra), mesh, placements, requires_grad, name)

    new.__name__ = new.__qualname__ = name
    new.__doc__ = f"""{doc} over ``device_mesh``, by default that of ``with mesh:``.

    Replicated unless ``placements`` say more. Other arguments are those of ``torch.{name}``.
    RuntimeError without a mesh.
    """
    return new


zeros = _factory("zeros", factories.zeros, "Zeros")
ones = _factory("ones", factories.ones, "Ones")
empty = _factory("empty", factories.empty, "A tensor whose values are not promised,")
rand = _factory("rand", _rand, "Uniform random numbers, those of one device,")
randn = _factory("randn", _randn, "Normal random numbers, those of one device,")


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Any = None,
) -> DTensor:  # fmt: skip
    """One number over ``device_mesh`` (by default that of ``with mesh:``), replicated by default."""
    mesh = device_mesh or current_mesh()
    extra = {} if layout is None else {"layout": layout}
    make = lambda: factories.full(size, fill_value, dtype=dtype, **extra)  # noqa: E731
    return _dtensor_of(make, mesh, placements, requires_grad, "full")


def _dtensor_of(
    make: Callable[[], Tensor], mesh: DeviceMesh, placements: Any, requires_grad: bool, name: str
) -> DTensor:
    """A DTensor of a tensor that every process makes alike."""
    t = make()
    found = checked(placements, mesh, t.ndim, name)
    if any(isinstance(p, Partial) for p in found):
        raise NotImplementedError(f"{name}(): Partial placements are not supported; use Shard or Replicate")
    value = whole(value_of(t), sharding_for(mesh, found, t.shape, name))
    return marked_as_cut(as_leaf(fresh(value), mesh, requires_grad), found)
