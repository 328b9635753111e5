"""Devices in the order of a grid whose axes have names; in one process all that jax sees, in several those of all."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import torchlike._base.device as devices
from torchlike._base import dtypes
from torchlike._core.conversion.convert import host, tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _runtime
from torchlike.distributed import distributed_c10d as c10d

__all__ = ["DeviceMesh", "init_device_mesh"]

_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu", "xla": None}
_active = threading.local()


def _devices(device_type: str) -> list[jax.Device]:
    """The devices of a type, of all processes; their positions are their ranks."""
    if device_type not in _PLATFORMS:
        raise RuntimeError(
            *(f"Device type with index is not supported but got {device_type}. ",
              "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
            if ":" in device_type
            else (f"DeviceMesh: device type {device_type!r} is none of {', '.join(_PLATFORMS)}",)
        )  # fmt: skip
    platform = _PLATFORMS[device_type]
    _runtime.demand_whole("a DeviceMesh")
    try:
        return list(jax.devices() if platform is None else jax.devices(platform))
    except RuntimeError:
        raise RuntimeError(f"DeviceMesh: jax has no device of type {device_type!r}") from None


class DeviceMesh:
    """A grid of devices. A rank is a device's position in ``jax.devices()``: with one device a process, the process's.

    One process that has several devices stands for all of them: it is at the coordinate of its first.

    Args:
        device_type: "cpu", "cuda", "tpu" or "xla".
        mesh: the ranks in the shape of the grid, as nested lists, array or tensor.
        mesh_dim_names: a name for each dimension, by which the mesh is sliced.

    Raises:
        RuntimeError: names that do not fit, a device type with an index, ranks that there are not.

    >>> from torchlike.distributed.device_mesh import DeviceMesh
    >>> DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
    DeviceMesh((dp=1, tp=1), 'cpu', stride=(1, 1))
    """

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None, _root: DeviceMesh | None = None, _axes: Sequence[tuple[str, ...]] = (),
    ) -> None:  # fmt: skip
        if backend_override is not None:
            raise NotImplementedError("DeviceMesh: backend_override is not supported; all groups are jax's")
        self.device_type = device_type
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root, self._axes = _root or self, tuple(_axes)
        self._groups: list[Any] | None = None
        self._part: Mesh | None = None
        if _root is None:
            self._begin(mesh)

    def _begin(self, mesh: Any) -> None:
        ranks = np.asarray(host(mesh) if isinstance(mesh, Tensor) else mesh, np.int64)
        ranks = ranks.reshape(1) if ranks.ndim == 0 else ranks
        names = self.mesh_dim_names
        _check_names(names, ranks.shape)
        found = _devices(self.device_type)
        if ranks.size == 0 or len({*ranks.flat}) != ranks.size or ranks.min() < 0 or ranks.max() >= len(found):
            raise RuntimeError(
                f"DeviceMesh: ranks must be different numbers below {len(found)}, the number of devices, got "
                f"{ranks.tolist()}"
            )
        axes = names or tuple(f"dim_{i}" for i in range(ranks.ndim))
        self._ranks, self._axes = ranks, tuple((a,) for a in axes)
        self._flat: dict[str, DeviceMesh] = {}
        places = np.empty(ranks.shape, object)
        places.flat[:] = [found[r] for r in ranks.flat]
        self._jax_mesh = Mesh(places, axes)
        _roots.setdefault((self.device_type, ranks.shape, ranks.tobytes(), names), self)

    @property
    def jax_mesh(self) -> Mesh:
        """The mesh of jax. In one process a slice has that of the whole, over whose other axes tensors are replicated;
        in several it has that of its own devices, since other processes may have other data there.
        """
        root = self._root
        if self is root or jax.process_count() == 1:
            return root._jax_mesh
        if self._part is None:
            names, grid = [a for axes in self._axes for a in axes], root._jax_mesh
            mine = np.vectorize(lambda d: d.process_index == jax.process_index(), otypes=[bool])(grid.devices)
            places = {  # where this process has devices of several slices, all of those
                a: range(n) if a in names else sorted({*own})
                for (a, n), own in zip(grid.shape.items(), np.nonzero(mine), strict=True)
            }
            block = grid.devices[np.ix_(*places.values())]
            kept = [a for a, p in places.items() if a in names or len(p) > 1]
            self._part = Mesh(block.reshape([len(places[a]) for a in kept]), tuple(kept))
        return self._part

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """For each dimension the axes of :attr:`jax_mesh` that it is made of: several where it was flattened."""
        return self._axes

    # -- shape -----------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        lengths = self._root._jax_mesh.shape
        return tuple(math.prod(lengths[a] for a in axes) for axes in self._axes)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of devices, or the length of one dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    @property
    def mesh(self) -> Tensor:
        """The ranks in the shape of the grid; of a slice those that share this process's other coordinates."""
        return tensor(self._own_ranks().tolist(), dtype=dtypes.int32)

    def _own_ranks(self) -> np.ndarray:
        root = self._root
        names = [a for axes in self._axes for a in axes]
        all_names = root._jax_mesh.axis_names
        here = root.get_coordinate() or [0] * len(all_names)
        index = tuple(slice(None) if a in names else here[i] for i, a in enumerate(all_names))
        kept = [a for a in all_names if a in names]
        return root._ranks[index].transpose([kept.index(a) for a in names]).reshape(self.shape)

    # -- this process ----------------------------------------------------------------------------
    def get_rank(self) -> int:
        """The rank of this process: of its first device."""
        return _devices(self.device_type).index(_own_devices(self.device_type)[0])

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process stands in the mesh; None if it is not in it."""
        root, rank = self._root, self.get_rank()
        found = np.argwhere(root._ranks == rank)
        if not len(found):
            return None
        at = dict(zip(root._jax_mesh.axis_names, found[0].tolist(), strict=True))
        lengths = root._jax_mesh.shape
        return tuple(
            int(np.ravel_multi_index([at[a] for a in axes], [lengths[a] for a in axes])) for axes in self._axes
        )

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where this process stands along a dimension, by number or name; of a mesh with one it need not be said."""
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError("get_local_rank(): this process is not in the mesh")
        return coordinate[self._dim(mesh_dim, "")]

    def _dim(self, mesh_dim: int | str | None, hint: str) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                    *([hint] if hint else []),
                )
            return 0
        if isinstance(mesh_dim, str):
            self._known((mesh_dim,))
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return range(self.ndim)[mesh_dim]

    # -- slices ----------------------------------------------------------------------------------
    def _known(self, names: tuple[str, ...]) -> None:
        own = self.mesh_dim_names
        if not own:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        if any(n not in own for n in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {list(own)}.")

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dimensions, in their order here: of the devices with this process's other coordinates."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if chosen == self.mesh_dim_names:
            return self
        if len(chosen) == 1 and chosen[0] in self._root._flat:
            return self._root._flat[chosen[0]]
        self._known(chosen)
        order = [(self.mesh_dim_names or ()).index(n) for n in chosen]
        if order != sorted({*order}):
            raise KeyError(f"Invalid mesh_dim_names {chosen} specified. Mesh dim indices should be in ascending order.")
        axes = [self._axes[i] for i in order]
        part = DeviceMesh(self.device_type, mesh_dim_names=chosen, _root=self._root, _axes=axes)
        part._groups = None if self._groups is None else [self._groups[i] for i in order]
        return part

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The mesh of one dimension that has all of these devices; the whole can be sliced by its name."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        axes = [tuple(a for axes in self._axes for a in axes)]
        flat = DeviceMesh(self.device_type, mesh_dim_names=(name,), _root=self._root, _axes=axes)
        if self._groups is not None:
            flat._groups = _groups_of(self._root, axes)
        return self._root._flat.setdefault(name, flat)

    # -- groups of processes -----------------------------------------------------------------------
    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The processes along a dimension. NotImplementedError where a process has several devices of it."""
        dim = self._dim(
            mesh_dim,
            "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
            "please use `get_all_groups()` instead.",
        )
        if self._groups is None:
            raise NotImplementedError(
                "DeviceMesh.get_group(): groups are of processes, and this mesh has several devices of one (or was "
                "made before init_process_group()); in one process XLA brings the devices together: use DTensor, or "
                "torchlike.sharding"
            )
        return self._groups[dim]

    def get_all_groups(self) -> list[Any]:
        """The groups of all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """The mesh of a group, or of one group for each dimension of ``mesh``, which then is the ranks as a grid.

        ValueError: a list without ``mesh``, or ranks that are not the group's.
        """
        groups = [*group] if isinstance(group, list | tuple) else [group]
        if mesh is None:
            if isinstance(group, list | tuple) and len(groups) > 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = c10d.get_process_group_ranks(groups[0])
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
        if len(groups) != made.ndim:
            raise ValueError(f"Expects mesh to have as many dimensions as there are groups, got {made.ndim}")
        own = made.get_coordinate()
        for i, one in enumerate(groups) if own else ():
            line = made._ranks[tuple(slice(None) if k == i else at for k, at in enumerate(own or ()))].tolist()
            ranks = c10d.get_process_group_ranks(one)
            if line != ranks:
                raise ValueError(f"Invalid mesh {made._ranks.tolist()} for ProcessGroup with ranks {ranks}")
        made._groups = groups
        return made

    def _get_root_mesh(self) -> DeviceMesh:
        """The mesh that this one was cut from, or itself."""
        return self._root

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self.get_coordinate() is not None

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """The mesh of one dimension for each place along the others."""
        axis = self._dim(mesh_dim_name, "")
        rows = np.moveaxis(self._own_ranks(), axis, -1).reshape(-1, self.shape[axis])
        parts = [DeviceMesh(self.device_type, row, mesh_dim_names=(mesh_dim_name,)) for row in rows]
        for row, part in zip(rows.tolist(), parts, strict=True):
            if self._groups is not None and part.get_rank() in row:
                part._groups = [self._groups[axis]]
        return parts

    # -- as a value --------------------------------------------------------------------------------
    def __enter__(self) -> DeviceMesh:
        _stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _stack().pop()

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.jax_mesh, self._axes, self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __deepcopy__(self, memo: Any) -> DeviceMesh:
        return self

    def __reduce__(self) -> Any:
        return remade, self.facts()

    def facts(self) -> tuple[Any, ...]:
        """What :func:`remade` makes an equal mesh of, as numbers and text."""
        root = self._root
        return root.device_type, root._ranks.tolist(), root.mesh_dim_names, self.mesh_dim_names, self._axes

    def __repr__(self) -> str:
        grid, names = self._root._jax_mesh, self.mesh_dim_names
        strides, step = {}, 1
        for a in reversed(grid.axis_names):
            strides[a], step = step, step * grid.shape[a]
        shape = ", ".join(
            [f"{n}={s}" for n, s in zip(names, self.shape, strict=True)] if names else map(str, self.shape)
        )
        shape += "," * (names is None and self.ndim == 1)
        stride = tuple(strides[axes[-1]] for axes in self._axes)
        return f"DeviceMesh(({shape}), '{self.device_type}', stride={stride})"


_roots: weakref.WeakValueDictionary[Any, DeviceMesh] = weakref.WeakValueDictionary()


def remade(device_type: str, ranks: Any, root_names: Any, names: Any, axes: Any) -> DeviceMesh:
    """The mesh of a pickle: the one of this process that is equal, if there is one, with its groups."""
    places = np.asarray(ranks, np.int64)
    root = _roots.get((device_type, places.shape, places.tobytes(), root_names))
    root = DeviceMesh(device_type, ranks, mesh_dim_names=root_names) if root is None else root
    if tuple(axes) == root._axes:
        return root
    if all(len(own) == 1 for own in axes):
        return root[names]
    return DeviceMesh(device_type, mesh_dim_names=names, _root=root, _axes=axes)


def _stack() -> list[DeviceMesh]:
    if not hasattr(_active, "stack"):
        _active.stack = []
    return _active.stack


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost ``with mesh:``. RuntimeError outside."""
    if not _stack():
        raise RuntimeError("No device mesh is currently active!")
    return _stack()[-1]


class _MeshEnv:
    """What there is of meshes, as published programs ask for it."""

    @property
    def mesh_stack(self) -> list[DeviceMesh]:
        """The meshes of all ``with mesh:`` around."""
        return _stack()

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost. RuntimeError outside."""
        return current_mesh()

    @staticmethod
    def get_root_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
        """The mesh that one was cut from, or itself."""
        return device_mesh._root

    @staticmethod
    def num_devices_per_host(device_type: str) -> int:
        """How many devices a host has; of CPUs each process has its own."""
        return len(_own_devices(device_type))

    @staticmethod
    def num_hosts(device_type: str) -> int:
        """How many hosts there are, by the number of their devices."""
        return max(1, len(_devices(device_type)) // _MeshEnv.num_devices_per_host(device_type))

    @staticmethod
    def _get_all_submeshes(device_mesh: DeviceMesh, mesh_dim_name: str) -> list[DeviceMesh]:
        return device_mesh._get_all_submeshes(mesh_dim_name)


_mesh_resources = _MeshEnv()


def _check_names(names: tuple[str, ...] | None, shape: Sequence[int]) -> None:
    if names is None:
        return
    if len({*names}) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}")
    if len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! "
            f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
        )


def _own_devices(device_type: str) -> list[jax.Device]:
    return [d for d in _devices(device_type) if d.process_index == jax.process_index()]


def _groups_of(mesh: DeviceMesh, axes: Sequence[tuple[str, ...]]) -> list[Any] | None:
    """For each of some dimensions the group that this process is in; None where processes have several devices."""
    world = c10d.get_world_size() if c10d.is_initialized() else 0
    if world != len(_devices(mesh.device_type)):
        return None
    names, found = mesh.jax_mesh.axis_names, []
    for own in axes:
        others = [i for i, a in enumerate(names) if a not in own]
        rows = mesh._ranks.transpose([*others, *[names.index(a) for a in own]])
        rows = rows.reshape(-1, math.prod([mesh.jax_mesh.shape[a] for a in own]))
        mine = None
        for row in rows.tolist():
            group = c10d.new_group(row)
            mine = group if c10d.get_rank() in row else mine
        found.append(mine)
    return found


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:  # fmt: skip
    """A grid of the first devices, with the groups of processes along its dimensions.

    Args:
        device_type: "cpu", "cuda", "tpu" or "xla".
        mesh_shape: the length of each dimension; the last one runs fastest.
        mesh_dim_names: their names.

    Raises:
        RuntimeError: there are fewer devices, or the names do not fit.

    >>> from torchlike.distributed.device_mesh import init_device_mesh
    >>> init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    DeviceMesh((dp=1), 'cpu', stride=(1,))
    """
    shape = (mesh_shape,) if isinstance(mesh_shape, int) else tuple(mesh_shape)
    if mesh_dim_names is not None:
        mesh_dim_names = tuple(mesh_dim_names)
    _check_names(mesh_dim_names, shape)
    if not c10d.is_initialized() and c10d.is_torchelastic_launched():
        c10d.init_process_group()
    found, size = _devices(device_type), math.prod(shape)
    if size > len(found):
        hint = "; XLA_FLAGS=--xla_force_host_platform_device_count=N makes N of the CPU" * (device_type == "cpu")
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {len(found)}, but found {size} ranks!{hint}"
        )
    mesh = DeviceMesh(
        device_type, np.arange(size).reshape(shape), mesh_dim_names=mesh_dim_names, backend_override=backend_override
    )
    mesh._groups = _groups_of(mesh, mesh.axes)
    return mesh


def of_type(device_type: str) -> DeviceMesh:
    """A mesh of one dimension over all devices of a type."""
    return init_device_mesh(device_type, (len(_devices(device_type)),))


def default_type() -> str:
    """The type of the devices that jax computes on."""
    return devices.from_jax(jax.devices()[0]).type
