"""``fully_shard``: parameters, gradients and optimizer state cut over the devices of data parallelism."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from torchlike._base.dtypes import float32
from torchlike._base.state import no_grad
from torchlike._base.state import state as state_of_thread
from torchlike._core.autograd.again import surrounded
from torchlike._core.conversion.factories import tensor
from torchlike._core.tensor.tensor import value_of
from torchlike.distributed.device_mesh import DeviceMesh, default_type, of_type
from torchlike.distributed.fsdp._gather import Gathering, all_gathered, prepared, saving
from torchlike.distributed.tensor._dtensor import DTensor, distribute_tensor
from torchlike.distributed.tensor._layouts import processes_of, sharding_for, unequal
from torchlike.distributed.tensor.placement_types import Cutting, Partial, Placement, Replicate, Shard, _StridedShard
from torchlike.nn.modules.container import ModuleDict, ModuleList
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes.

    Attributes:
        param_dtype: of the parameters in forward and backward, and of the inputs; None for their own.
        reduce_dtype: in which gradients are reduced; by default that in which they are computed.
        output_dtype: of the outputs. cast_forward_inputs: whether inputs get ``param_dtype``.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Where cut parameters are kept: on the devices."""


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Cut parameters are kept in the memory of the host: on CPUs they are; NotImplementedError on other devices.

    ``pin_memory``: without effect.
    """

    pin_memory: bool = True


class UnshardHandle:
    """What an asynchronous ``unshard`` returns; nothing needs to be awaited."""

    def wait(self) -> None:
        """Return at once: XLA waits where values are used."""


class _State:
    """The parameters that one module brings together, and how.

    Attributes:
        owned: (module, name, how) of each. cut: the parameters while they are brought together by hand, else None.
        values: what they were then, whole. through: the whole ones that backward goes through, where those that the
            modules have are leaves. kept: whether they stay so when forward is called.
        scales: by what gradients are multiplied that have been averaged.
        reduces: whether gradients are reduced over processes now, in several respects; else in a later backward.
        joint: whether all have gradients where one has.
        early: by what gradients are multiplied before they are added over processes: a power of two, which is exact.
    """

    def __init__(self, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard: bool, early: float) -> None:
        self.mesh, self.policy, self.reshard, self.early = mesh, policy, reshard, early
        self.owned: list[tuple[Module, str, Gathering]] = []
        self.cut: list[Any] | None = None
        self.values: list[Any] = []
        self.through: list[Any] = []
        self.kept = False
        self.scales: list[Any] = []
        self.reduces: dict[str, bool] = {}
        self.joint = False

    def put(self, parameters: Iterable[Any]) -> None:
        """Let the modules have these parameters."""
        for (module, name, _), p in zip(self.owned, parameters, strict=True):
            module._parameters[name] = p

    def present(self) -> list[Any]:
        """The parameters that the modules have."""
        return [module._parameters[name] for module, name, _ in self.owned]

    def bring(self, exact: bool = False) -> None:
        """Let the modules have whole parameters, in the dtype that they compute in or, if ``exact``, their own."""
        if self.cut is None:
            cut = self.present()
            hows = [how._replace(dtype=None) for how in self.hows()] if exact else self.hows()
            wholes = all_gathered(cut, hows)
            self.put(wholes)
            self.cut, self.values = cut, [value_of(whole) for whole in wholes]

    def open(self) -> None:
        """Let the modules have whole parameters, which are leaves of the same memory as those that forward takes."""
        if self.cut is None:
            self.bring()
            assert self.cut is not None
            self.through = self.present()
            pairs = zip(self.through, self.cut, strict=True)
            leaves = {id(w): Parameter(w.detach(), p.requires_grad) for w, p in pairs}
            self.put([leaves[id(w)] for w in self.through])

    def close(self) -> None:
        """Let the modules have the cut parameters again."""
        if self.cut is not None:
            self.put(self.cut)
            self._forget()

    def _forget(self) -> None:
        self.cut, self.values, self.through = None, [], []

    def write_back(self) -> None:
        """Let the cut parameters have what was written to the whole ones since they were brought together."""
        if self.cut is None:
            return
        for cut, whole, value, how in zip(self.cut, self.present(), self.values, self.hows(), strict=True):
            if value_of(whole) is value:
                continue
            if how.inner is not None:
                raise NotImplementedError("summon_full_params(): writing to a parameter of tensor parallelism")
            with no_grad():
                new = distribute_tensor(whole.detach(), cut._device_mesh, cut.placements, src_data_rank=None)
                cut.copy_(new)

    def hows(self) -> list[Gathering]:
        """How each parameter is brought together."""
        return [how for _, _, how in self.owned]

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the module's forward or another method, with whole parameters."""
        dtype = self.policy.param_dtype if self.policy.cast_forward_inputs else None
        args, kwargs = prepared((args, kwargs), dtype, self.mesh)
        out = function(*args, **kwargs) if self.kept else self._gathered(function, args, kwargs)
        dtype = self.policy.output_dtype
        return out if dtype is None else prepared(out, dtype)

    def _gathered(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cut, hows = self.present() if self.cut is None else self.cut, self.hows()
        wholes = self._ahead(cut) or all_gathered(cut, hows, self.joint)
        self._forget()
        self.put(wholes)
        try:
            with saving(wholes, cut, hows, self.reshard), surrounded(functools.partial(self._again, cut)):
                return function(*args, **kwargs)
        finally:
            self.put(cut)

    @contextlib.contextmanager
    def _again(self, cut: list[Any], function: Any) -> Iterator[None]:
        """For backward, which runs a function of the forward again: whole parameters, of those that it can reach."""
        within = {*function.modules()} if isinstance(function, Module) else {module for module, _, _ in self.owned}
        mine = [(own, p) for own, p in zip(self.owned, cut, strict=True) if own[0] in within]
        mine = [(own, p) for own, p in mine if own[0]._parameters[own[1]] is p]  # else they are whole
        wholes = all_gathered([p for _, p in mine], [how for (_, _, how), _ in mine])
        for ((module, name, _), _), new in zip(mine, wholes, strict=True):
            module._parameters[name] = new
        try:
            yield
        finally:
            for (module, name, _), p in mine:
                module._parameters[name] = p

    def _ahead(self, cut: list[Any]) -> list[Any]:
        """The whole parameters that ``unshard`` has brought together, if backward can go through them where it must."""
        found = [] if self.cut is None else self.through or self.present()
        lost = state_of_thread.grad and any(p.requires_grad > w.requires_grad for p, w in zip(cut, found, strict=False))
        return [] if lost else found


class FSDPModule:
    """What a module is too after :func:`fully_shard`."""

    _fsdp: _State

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Bring the parameters of this module together until :meth:`reshard`, or the end of its next forward.

        They are plain parameters then; what is written to them lasts as long. ``state_dict`` cuts them again.
        """
        self._fsdp.open()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Let each device hold its part of the parameters again."""
        self._fsdp.close()

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        if self._fsdp.through:
            self.reshard()
        super()._save_to_state_dict(*args, **kwargs)  # type: ignore[misc]

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether backward brings parameters together again, rather than keep them."""
        for m in self._parts(recurse):
            m._fsdp.reshard = reshard_after_forward

    def _parts(self, recurse: bool = True) -> list[Any]:
        found = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [m for m in found if isinstance(m, FSDPModule)]

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients over processes; else they are kept apart until one that does."""
        for m in self._parts(recurse):
            m._fsdp.reduces["scatter"] = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """As :meth:`set_requires_gradient_sync`, for meshes of which one dimension has replicas."""
        for m in self._parts(recurse):
            if m._fsdp.mesh.ndim > 1:
                m._fsdp.reduces["all"] = requires_all_reduce

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """Accepted, without effect: XLA schedules collectives."""

    set_is_last_backward = _nothing
    set_modules_to_forward_prefetch = set_modules_to_backward_prefetch = set_reshard_after_backward = _nothing
    set_unshard_in_backward = set_post_optim_event = set_allocate_memory_from_process_group_for_comm = _nothing
    set_separate_reduce_scatter_group = set_reduce_scatter_max_input_buffers = set_symm_mem_for_comm = _nothing
    set_force_sum_reduction_for_comms = _nothing

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Whoever asks for another collective does not get XLA's in silence."""
        raise NotImplementedError(
            "fully_shard(): set_all_reduce_hook, set_custom_all_gather, set_custom_reduce_scatter and "
            "set_reduce_scatter_unused_params are not supported: collectives are those of XLA"
        )

    set_all_reduce_hook = set_custom_all_gather = set_custom_reduce_scatter = _refuse
    set_reduce_scatter_unused_params = _refuse

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Let the gradients of this module's own parameters be the sum over processes divided by ``factor``."""
        state = self._fsdp
        state.scales[:] = [tensor(processes_of(state.mesh) / factor, dtype=float32)]

    set_reduce_scatter_divide_factor = set_gradient_divide_factor


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Placement | None] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(), offload_policy: OffloadPolicy = OffloadPolicy(),
    ignored_params: Iterable[Any] | None = None, dp_mesh_dims: Any = None,
) -> Any:  # fmt: skip
    """Cut the parameters of a module over devices, in place; forward brings them together, backward cuts gradients.

    Apply it to blocks first and to the whole model last: each brings its own parameters together. In one process that
    has all devices the batch is that of all, which is cut along its first dimension.

    Args:
        module: a Module, or a list of modules that are called one after the other.
        mesh: one dimension, or two: (replicated, cut). All devices by default.
        reshard_after_forward: whether autograd keeps the cut parameters only (the default) and backward brings them
            together again, or keeps the whole ones.
        shard_placement_fn: ``Shard(dim)`` for a parameter, or None for the default: the first dimension that can be cut
            into equal parts. A parameter without one, or with another ``Shard``, is whole on every device; its
            placements and local parts are PyTorch's.
        mp_policy: see :class:`MixedPrecisionPolicy`. ignored_params: those that stay as they are.

    Returns:
        The module, which is a :class:`FSDPModule` too.

    Raises:
        AssertionError: it was applied to the module before.
        ValueError: a mesh of more than two dimensions; a container that has no forward.
        NotImplementedError: ``dp_mesh_dims``; CPUOffloadPolicy on other devices than CPUs.
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard(): dp_mesh_dims is not supported; pass mesh[names]")
    kind = default_type() if mesh is None else mesh.device_type
    if isinstance(offload_policy, CPUOffloadPolicy) and kind != "cpu":
        raise NotImplementedError(
            f"fully_shard(): CPUOffloadPolicy on {kind} is not supported: parameters stay on the devices of the mesh"
        )
    if isinstance(module, list | tuple):
        for m in module:
            fully_shard(
                m, mesh=mesh, reshard_after_forward=reshard_after_forward, shard_placement_fn=shard_placement_fn,
                mp_policy=mp_policy, ignored_params=ignored_params,
            )  # fmt: skip
        return module
    if not isinstance(module, Module):
        raise TypeError(f"fully_shard(): expected a Module, got {type(module).__name__}")
    if isinstance(module, FSDPModule):
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. fully_shard has already "
            f"been applied to the following module:\n{module}"
        )
    if isinstance(module, ModuleList | ModuleDict) and type(module).forward is Module.forward:
        raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    return sharded(
        module, "FSDP", mesh, True if reshard_after_forward is None else bool(reshard_after_forward),
        shard_placement_fn, mp_policy, ignored_params,
    )  # fmt: skip


def sharded(
    module: Any, prefix: str, mesh: DeviceMesh | None, reshard: bool, choose: Any, policy: MixedPrecisionPolicy,
    ignored: Iterable[Any] | None, divided_first: bool = False,
) -> Any:  # fmt: skip
    """As :func:`fully_shard`; the module's class gets a name with ``prefix``.

    ``divided_first``: gradients are divided before they are added over processes, so that large ones have a mean.
    """
    mesh = mesh or of_type(default_type())
    if mesh.ndim > 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    early = 0.5 ** math.ceil(math.log2(processes_of(mesh))) if divided_first else 1.0
    state = _State(mesh, policy, reshard, early)
    _cut(module, state, choose, {id(p) for p in ignored or ()})
    module._fsdp = state
    cls: Any = type(module)
    module.__class__ = _with_gathering(cls, prefix)
    return module


@functools.cache
def _with_gathering(cls: type, prefix: str) -> type:
    """A class of modules whose forward brings parameters together."""
    inner = cls.forward  # type: ignore[attr-defined]

    @functools.wraps(inner)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp.run(functools.partial(inner, self), args, kwargs)

    body = {"__module__": cls.__module__, "__doc__": cls.__doc__, "forward": forward}
    return type(prefix + cls.__name__, (FSDPModule, cls), body)


def _own(module: Module) -> Iterable[Module]:
    """The modules in it whose parameters nobody else brings together."""
    yield module
    for child in module.children():
        if not isinstance(child, FSDPModule):
            yield from _own(child)


def _cut(module: Module, state: _State, choose: Any, ignored: set[int]) -> None:
    """Replace the parameters by DTensors, each object by one."""
    planned: dict[int, Any] = {}
    for part in _own(module):
        for p in part._parameters.values():
            if p is not None and id(p) not in ignored and id(p) not in planned:
                planned[id(p)] = p, *_plan(p, state, choose)
    made = {key: _made(p, mesh, placements) for key, (p, mesh, placements, _) in planned.items()}
    for part in _own(module):
        for name, p in [*part._parameters.items()]:
            if p is not None and id(p) in made:
                part.register_parameter(name, made[id(p)])
                state.owned.append((part, name, planned[id(p)][3]))


def _plan(p: Any, state: _State, choose: Any) -> Any:
    """(mesh, placements, how it is brought together) of a parameter that is cut."""
    dp, inner = state.mesh, p._device_mesh if isinstance(p, DTensor) else None
    chosen = choose(p) if choose is not None else None
    held: tuple[Placement, ...] = () if inner is None else p.placements
    mesh = dp if inner is None else _joint(dp, inner)
    data = (Replicate(),) * (dp.ndim - 1)
    dims: list[int | None] = [*range(p.ndim)] or [None]
    if chosen is not None:
        dims = [chosen.dim if isinstance(chosen, Shard) else None]
    cuts = [(*data, Replicate() if dim is None else _after(inner, held, dim % p.ndim), *held) for dim in dims]
    # without equal parts it is whole on every device, see Note [Parts] of DTensor
    cut = next((c for c in cuts if not unequal(mesh, c, p.shape)), cuts[0])
    sharding = sharding_for(mesh, cut, p.shape, "fully_shard")
    full = sharding_for(mesh, ((Replicate(),) * dp.ndim) + held, p.shape, "fully_shard")
    policy = state.policy
    how = Gathering(
        mesh, sharding, full, (Partial("avg"),) * dp.ndim + held, inner, held, policy.param_dtype, policy.reduce_dtype,
        state.early, state.scales, state.reduces, [],
    )  # fmt: skip
    return mesh, cut, how


def _after(inner: DeviceMesh | None, held: tuple[Placement, ...], dim: int) -> Placement:
    """What cuts the parts that tensor parallelism has made of a dimension."""
    sizes = () if inner is None else inner.shape
    parts = [n for n, p in zip(sizes, held, strict=True) if isinstance(p, Cutting) and p.dim == dim]
    return _StridedShard(dim, split_factor=math.prod(parts)) if parts else Shard(dim)


def _joint(dp: DeviceMesh, inner: DeviceMesh) -> DeviceMesh:
    """The mesh of data and tensor parallelism, of which both are slices."""
    names = (*(dp.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    if dp._root is not inner._root or len(names) != dp.ndim + inner.ndim:
        raise ValueError(
            f"fully_shard(): a DTensor parameter over {inner} needs a slice of the same mesh, before it, got {dp}; use "
            "mesh = init_device_mesh(..., mesh_dim_names=('dp', 'tp')), mesh['tp'] and mesh['dp']"
        )
    return dp._root[names]


def _made(p: Any, mesh: DeviceMesh, placements: Any) -> Any:
    data = p.full_tensor() if isinstance(p, DTensor) else p
    new = distribute_tensor(data.detach(), mesh, placements)
    return Parameter(new, p.requires_grad)


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method of a module bring parameters together as its forward does. Other modules stay as they are."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    state, method = module._fsdp, getattr(module, method_name)

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        return state.run(method, args, kwargs)

    setattr(module, method_name, run)
