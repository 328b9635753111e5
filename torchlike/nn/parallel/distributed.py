"""One module in several processes, which agree on its gradients."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torchlike._base.dtypes import float16
from torchlike._base.frames import warn
from torchlike._base.state import is_grad_enabled
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _rendezvous
from torchlike.distributed._buckets import BuiltinCommHookType, compressed, mean
from torchlike.distributed._join import Join, Joinable, JoinHook
from torchlike.distributed.distributed_c10d import ProcessGroup, found, get_backend, is_initialized
from torchlike.nn.modules.batchnorm import SyncBatchNorm
from torchlike.nn.modules.module import Module
from torchlike.nn.modules.sparse import Embedding, EmbeddingBag
from torchlike.nn.parallel import _in_backward
from torchlike.nn.parallel._copies import Joining, broadcast_all, demand_same_parameters
from torchlike.nn.parallel._places import place_of
from torchlike.nn.parallel._reducer import MEGABYTE, Reducer
from torchlike.nn.parameter import is_lazy
from torchlike.utils import _pytree as pytree

__all__ = ["DistributedDataParallel"]

_IGNORED = "_ddp_params_and_buffers_to_ignore"


class DistributedDataParallel(Module, Joinable):
    """A module whose copies in all processes get the mean of their gradients.

    Parameters and buffers begin as those of rank 0. In each backward after a forward of this module gradients travel in
    buckets, one collective for each, as soon as they are there. The names in ``state_dict()`` begin with ``module.``,
    as everywhere. A process without a group is one by itself, if no launcher says otherwise.

    Args:
        module: what is called; it has a parameter that requires grad.
        device_ids: for a module on one GPU or TPU the number of that, where the arguments are brought to; None or
            empty for one on CPUs or on several devices. output_device: accepted.
        process_group: from ``torch.distributed``, by default that of all processes.
        broadcast_buffers, forward_sync_buffers: whether buffers become those of rank 0 before each forward.
        init_sync: whether parameters and buffers do at the start; with ``broadcast_buffers=False`` alone parameters do.
        bucket_cap_mb: the size of buckets, 25 by default.
        find_unused_parameters: needed where a backward leaves out parameters: those that no process used keep their
            gradients. static_graph: the graph is the same each time; gradients are sent at the end of backward.
        gradient_as_bucket_view, dim, batched_grad_copy: without effect.

    Raises:
        RuntimeError: no parameter requires grad, or one has no shape as yet; the processes have other parameters; a
            parameter got no gradient, said in the next forward. ValueError: wrong ``device_ids``.
        NotImplementedError: mixed precision, a device mesh, delayed reductions.

    >>> import torchlike as torch
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> with model.no_sync():
    ...     model(torch.ones(1, 2)).sum().backward()
    >>> model.module.bias.grad, list(model.state_dict())
    (tensor([1.]), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None, device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False, bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False, forward_sync_buffers: bool | None = None,
    ) -> None:  # fmt: skip
        Module.__init__(self)
        Joinable.__init__(self)
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params, mixed_precision=mixed_precision,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            bucket_cap_mb_list=bucket_cap_mb_list,
        )  # fmt: skip
        self.process_group = _group_of(_group_of_mesh(device_mesh, process_group))
        if device_mesh is not None:
            self.device_mesh = device_mesh
        self.parameters_to_ignore = {*getattr(module, _IGNORED, ())}
        params, buffers = self._shared_of(module)
        places = _places_of(params, buffers)
        self.device_ids = _checked_ids(device_ids, output_device, places)
        self.output_device = None if self.device_ids is None else self.device_ids[0]
        if output_device is not None and self.device_ids is not None:
            self.output_device = output_device
        self.is_multi_device_module = len(places) > 1
        self.device = next(p.device for p in params if p.requires_grad)
        self.device_type = self.device.type
        self.dim, self.module = dim, module
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, mixed_precision
        self.forward_sync_buffers = _sync_buffers(broadcast_buffers, forward_sync_buffers)
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MEGABYTE)
        if check_reduction:
            warn(
                "The `check_reduction` argument of DistributedDataParallel is deprecated; leave it out.", FutureWarning
            )
        self._joining: Joining | None = None
        self._fused = False
        self._reducer: Reducer | None = None
        if self.process_group is not None and self.process_group.size() > 1:
            demand_same_parameters(module, self.parameters_to_ignore, self.process_group)
            if init_sync:
                own = broadcast_buffers is False and forward_sync_buffers is None
                broadcast_all([*params, *([] if own else buffers)], 0, self.process_group)
            self._watch()

    def _shared_of(self, module: Module) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters and the buffers of a module that are no process's own."""
        ignored = self.parameters_to_ignore
        named = module.named_parameters(), module.named_buffers()
        params, buffers = ([t for name, t in pairs if name not in ignored] for pairs in named)
        return params, buffers

    def shared(self) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters and the buffers that the processes have in common."""
        return self._shared_of(self.module)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        """Let parameters and buffers, by their names in ``module``, be each process's own; before it is wrapped."""
        setattr(module, _IGNORED, params_and_buffers_to_ignore)

    def _watch(self) -> None:
        """Let gradients be averaged."""
        assert self.process_group is not None
        params = [p for p in self.shared()[0] if p.requires_grad]
        megabytes = self.bucket_bytes_cap / MEGABYTE
        sparse = {id(m.weight) for m in self.module.modules() if isinstance(m, Embedding | EmbeddingBag) and m.sparse}
        self._reducer = Reducer(
            params, self.process_group, megabytes, self.find_unused_parameters, self.static_graph, sparse
        )
        self._reducer.after = {id(p): _in_backward.step for p in params if _in_backward.taken_over(p)}

    @property
    def broadcast_buffers(self) -> bool:
        """Whether buffers are made equal before each forward."""
        return self.forward_sync_buffers

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` returns, for arguments that are brought to its device."""
        if self.device_ids:
            home = self.device

            def moved(x: Any) -> Any:
                return x.to(home) if isinstance(x, Tensor) else x

            inputs, kwargs = pytree.tree_map(moved, (inputs, kwargs))
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        self._before(self._reducer)
        result = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = is_grad_enabled() and self.require_backward_grad_sync
        return result

    def _before(self, reducer: Reducer) -> None:
        """Announce a backward, and make the buffers equal."""
        averages = is_grad_enabled() and self.require_backward_grad_sync
        root = 0
        Join.notify_join_context(self)
        if self._joining is not None and self._join_config.enable:
            root = self._joining.notify(averages, self.require_forward_param_sync)
        if averages:
            reducer.arm()
        if self.require_forward_param_sync and self.forward_sync_buffers:
            broadcast_all(self.shared()[1], root, reducer.group)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients are added up in this process alone, until the first backward outside of it."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context for processes that run out of batches at different times: who is done takes part with zeros.

        Args:
            divide_by_initial_world_size: divide gradients by the number of all processes, not of those that go on.
            throw_on_early_termination: RuntimeError in all processes once one is done.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does; ``divide_by_initial_world_size`` as in :meth:`join`."""
        if self._reducer is None:
            return JoinHook()
        self._joining = Joining(self, self._reducer, kwargs.get("divide_by_initial_world_size", True))
        return self._joining

    @property
    def join_device(self) -> Any:
        """The module's device."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes that agree on gradients."""
        return self.process_group

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Let ``hook(state, bucket)`` bring gradients together: a future of the tensor that takes the bucket's place.

        TypeError for what cannot be called, RuntimeError for a second hook or a process without a group.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.process_group is None:
            raise RuntimeError("register_comm_hook: there is no group; call torch.distributed.init_process_group")
        if self._reducer is None:
            self._watch()
        assert self._reducer is not None
        if self._reducer.hook is not None or self._fused:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._reducer.use_hook(state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        if not isinstance(comm_hook_type, BuiltinCommHookType):
            raise TypeError(f"_register_builtin_comm_hook: expected a BuiltinCommHookType, not {comm_hook_type!r}")
        half = comm_hook_type is BuiltinCommHookType.FP16_COMPRESS
        group = self.process_group
        self.register_comm_hook(
            None, lambda _, bucket: compressed(group, bucket, float16) if half else mean(group, bucket.buffer())
        )

    def _register_fused_optim(
        self, optim: type, *args: Any, optim_params: Iterable[Tensor] | None = None, **optim_kwargs: Any
    ) -> None:
        """Let each parameter step once it has its mean, which stays in ``grad``, by ``optim([p], *args, ...)``.

        ``optim_params``: which ones, by default all. ValueError where it is none of SGD, Adam and AdamW.
        """
        if getattr(optim, "__name__", "") not in _FUSED:
            raise ValueError(f"Class {optim} must implement method step_param: it is none of {', '.join(_FUSED)}")
        if self._reducer is None:
            self._watch()
        assert self._reducer is not None
        if self._reducer.hook is not None or self._fused:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._fused, given = True, ({} if args else _FUSED[optim.__name__]) | optim_kwargs
        chosen = self._reducer.params if optim_params is None else optim_params
        self._reducer.after |= {id(p): _stepping(optim([p], *args, **given)) for p in chosen}

    def _set_static_graph(self) -> None:
        """As ``static_graph=True``, before the first forward."""
        self.static_graph = True
        if self._reducer is not None:
            self._reducer.static = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What loggers are told of this wrapper; PyTorch's has times and names of devices besides."""
        params, group = [p for p in self.module.parameters() if p.requires_grad], self.process_group
        hook = None if self._reducer is None or self._reducer.hook is None else self._reducer.hook[1]
        told = {
            "backend_name": "undefined" if group is None else get_backend(group),
            "module_name": type(self.module).__name__,
            "rank": 0 if group is None else group.rank(), "world_size": 1 if group is None else group.size(),
            "num_parameter_tensors": len(params), "total_parameter_size_bytes": sum(p.nbytes for p in params),
            "bucket_cap_bytes": self.bucket_bytes_cap, "broadcast_buffers": int(self.broadcast_buffers),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "is_multi_device_module": int(self.is_multi_device_module),
            "has_sync_bn": int(any(isinstance(m, SyncBatchNorm) for m in self.module.modules())),
        }  # fmt: skip
        told |= {"static_graph": 1} if self.static_graph else {}
        return told | ({} if hook is None else {"comm_hook": getattr(hook, "__qualname__", type(hook).__name__)})

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        for name in ("process_group", "_reducer", "_joining"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group, self._joining, self._reducer = _group_of(None), None, None
        if self.process_group is not None and self.process_group.size() > 1:
            self._watch()


# with the defaults that their functional forms have in PyTorch
_FUSED: dict[str, dict[str, Any]] = {"SGD": {"lr": 1e-2}, "Adam": {}, "AdamW": {}}


def _stepping(optimizer: Any) -> Callable[[Tensor], None]:
    return lambda p: optimizer.step()


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(f"DistributedDataParallel({name}=) is not supported: leave it out")


def _group_of_mesh(mesh: Any, given: Any) -> Any:
    """``given``, or the group of a mesh of one axis. RuntimeError: both, or a mesh of more axes."""
    if mesh is None:
        return given
    if given is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {mesh}.")
    return mesh.get_group(mesh_dim=0)


def _group_of(given: Any) -> ProcessGroup | None:
    """The group that is meant; without one this process is by itself, unless a launcher has started several."""
    if given is not None and not isinstance(given, ProcessGroup):
        raise TypeError(
            f"DistributedDataParallel(): argument 'process_group' must be a group from torch.distributed, "
            f"not {type(given).__name__}"
        )
    if given is None and not is_initialized():
        if _rendezvous.launched_with() > 1:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group: a "
                f"launcher has started {_rendezvous.launched_with()} processes"
            )
        return None
    return found(given)


def _places_of(tensors: list[Tensor], buffers: list[Tensor]) -> set[Any]:
    """The devices of a module's parameters, that can be trained."""
    if any(is_lazy(t) for t in itertools.chain(tensors, buffers)):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
    if not any(p.requires_grad for p in tensors):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        )
    return {p.device for p in tensors}


def _checked_ids(device_ids: Any, output_device: Any, places: set[Any]) -> list[Any] | None:
    if not device_ids and not output_device:  # 0 counts as none, as in PyTorch
        return None
    if device_ids and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if not device_ids or len(places) > 1 or next(iter(places)).type == "cpu":
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
            f"multiple-device GPU modules or CPU modules, but got device_ids {device_ids}, output_device "
            f"{output_device}, and module parameters {places}."
        )
    (home,) = places
    if place_of(device_ids[0]) != home:
        raise ValueError(
            f"DistributedDataParallel(device_ids={device_ids}) expects the module there, but it is on '{home}': move "
            f"it with module.to('{place_of(device_ids[0])}')"
        )
    return list(device_ids)


def _sync_buffers(broadcast_buffers: bool | None, forward_sync_buffers: bool | None) -> bool:
    if broadcast_buffers is not None:
        warn("`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead.", FutureWarning)
    chosen = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
    return True if chosen is None else chosen
