"""One module over the devices of a process: each gets a part of the batch."""

import itertools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from torchlike.nn.modules.module import Module
from torchlike.nn.parallel._places import all_places, number_of, place_of, places_of, refuse_transforms
from torchlike.nn.parallel.parallel_apply import parallel_apply
from torchlike.nn.parallel.replicate import replicate
from torchlike.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]

T = TypeVar("T", bound=Module)


def _demand_home(module: Module, home: Any) -> None:
    """The first device has the parameters: what is computed of their copies is added up there."""
    for t in itertools.chain(module.parameters(), module.buffers()):
        if place_of(t.device) != home:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {home} (device_ids[0]) but found one of them "
                f"on device: {t.device}; move it there with module.to('{home}')"
            )


class DataParallel(Module, Generic[T]):
    """Calls a module on several devices of this process, each with a part of the batch.

    A call cuts tensors among its arguments along ``dim``, copies the module to each device, calls the copies in a
    thread each, with the autocast and grad mode of the caller, and joins the results on ``output_device``. Gradients
    add up in the parameters of ``module``. Buffers keep what the copy on the first device makes of them; other
    attributes that ``forward`` sets are lost with the copies.

    The devices are all GPUs or TPUs of the process. On a CPU the module is called as it is, as in PyTorch, unless jax
    was told to make several of it (``XLA_FLAGS=--xla_force_host_platform_device_count=8``): then these are the devices,
    ``cpu``, ``cpu:1`` and so on.

    Args:
        module: what is called, on the first of the devices.
        device_ids: numbers or devices; by default all of them. output_device: by default the first.
        dim: along which tensors are cut and joined.

    RuntimeError where a device is not there, or a parameter is not on the first one.

    >>> import torchlike as torch
    >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(4, 2)).shape, list(model.state_dict())
    (torch.Size([4, 1]), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: T, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        everything = all_places()
        if not everything or not (places := everything if device_ids is None else places_of(device_ids)):
            return
        self.dim = dim
        self.device_ids = [number_of(place) for place in places]
        self.output_device = self.device_ids[0] if output_device is None else number_of(place_of(output_device))
        self.src_device_obj = places[0]
        if len(places) == 1:
            self.module.to(places[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` returns for these arguments, computed on all devices."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        refuse_transforms("nn.DataParallel")
        _demand_home(self.module, self.src_device_obj)
        args, named = self.scatter(inputs, kwargs, self.device_ids)
        if not args and not named:
            args, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*args[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(args)])
        return self.gather(self.parallel_apply(replicas, args, named), self.output_device)

    def replicate(self, module: T, device_ids: Sequence[Any]) -> list[T]:
        """The copies of ``module``; without history where no gradients are recorded."""
        return replicate(module, device_ids)

    def scatter(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        """The arguments for each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[T], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """What the copies return."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The results as one."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """One call of ``module`` on several devices: see :class:`DataParallel`.

    Args:
        inputs: the tuple of the positional arguments, or the one there is, or None. module_kwargs: the others.

    RuntimeError where there is only one CPU, as in PyTorch: call the module.
    """
    args = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    everything = all_places()
    if not everything:
        raise RuntimeError("device type could not be determined: there is one CPU and nothing else; call the module")
    places = everything if device_ids is None else places_of(device_ids)
    if not places:
        return module(*args, **(module_kwargs or {}))
    refuse_transforms("nn.parallel.data_parallel")
    _demand_home(module, places[0])
    given, named = scatter_kwargs(args, module_kwargs, places, dim)
    if not given and not named:
        given, named = ((),), ({},)
    if len(places) == 1:
        return module(*given[0], **named[0])
    used = places[: len(given)]
    outputs = parallel_apply(replicate(module, used), given, named, used)
    return gather(outputs, places[0] if output_device is None else output_device, dim)
