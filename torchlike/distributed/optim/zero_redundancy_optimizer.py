"""An optimizer of which each process keeps the state of some parameters, and hands the new values to the others."""

from collections.abc import Callable, Iterable
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._calls import Work, assign, start, values
from torchlike.distributed._join import Join, Joinable, JoinHook
from torchlike.distributed._messages import gather_object
from torchlike.distributed.distributed_c10d import ProcessGroup, found
from torchlike.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _Stepping(JoinHook):
    """What the optimizer of a process without inputs does: each step of the others."""

    def __init__(self, optimizer: "ZeroRedundancyOptimizer") -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Any optimizer, with the state of each parameter in one process alone: ZeRO, stage 1.

    The gradients of all processes must be equal, as DistributedDataParallel makes them. Each process updates its share
    of the parameters, the largest first to whoever has least, and sends it to the others.

    Args:
        params: tensors, or dicts with options, as for any optimizer; of one dtype.
        optimizer_class: what updates them; ``defaults`` are its options.
        process_group: by default that of all processes. parameters_as_bucket_view: without effect.

    Raises:
        TypeError: for what is no list of tensors. ValueError: no parameters, or of different types.
        NotImplementedError: ``overlap_with_ddp``.

    >>> import torchlike as torch
    >>> from torchlike.distributed.optim import ZeroRedundancyOptimizer
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> x = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = ZeroRedundancyOptimizer([x], torch.optim.SGD, lr=0.5)
    >>> x.sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [0.5, 0.5]
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer(overlap_with_ddp=True) is not supported: leave it out")
        listed = _checked(params)
        self._ready = False
        Joinable.__init__(self)
        Optimizer.__init__(self, listed, defaults)
        self.process_group = found(process_group)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._owners = self._shared(self.param_groups)
        own = [{**group, "params": self._own(group)} for group in self.param_groups]
        self.optim: Optimizer = optimizer_class(own, **defaults)
        self.defaults = self.optim.defaults
        self._sync(self.optim, self)
        self._ready = True
        self._all_states: list[dict[str, Any]] | None = None

    def _shared(self, groups: Iterable[dict[str, Any]]) -> dict[int, int]:
        """Who updates which parameter."""
        load = [0] * self.world_size
        owners: dict[int, int] = {}
        for p in sorted((p for group in groups for p in group["params"]), key=lambda p: -p.numel()):
            rank = load.index(min(load))
            owners[id(p)] = rank
            load[rank] += p.numel()
        return owners

    def _own(self, group: dict[str, Any]) -> list[Tensor]:
        return [p for p in group["params"] if self._owners[id(p)] == self.rank]

    @staticmethod
    def _sync(source: Optimizer, target: Optimizer) -> None:
        """Let the options of groups be those of another optimizer."""
        for ours, theirs in zip(source.param_groups, target.param_groups, strict=True):
            theirs.update({key: value for key, value in ours.items() if key != "params"})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, which are shared out by themselves."""
        super().add_param_group(param_group)
        if self._ready:
            new = self.param_groups[-1]
            self._owners.update(self._shared([new]))
            self.optim.add_param_group({**new, "params": self._own(new)})
            self._sync(self.optim, self)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update the parameters in all processes, which call it together; gives the loss of ``closure``."""
        Join.notify_join_context(self)
        self._sync(self, self.optim)
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        self._hand_out()
        self._sync(self.optim, self)
        self._all_states = None
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does in a ``Join``: the steps of the others, with the gradients that it has."""
        return _Stepping(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes that share the parameters."""
        return self.process_group

    def _hand_out(self) -> None:
        """Let the parameters be those of whoever has updated them."""
        if self.world_size == 1:
            return
        every = [p for group in self.param_groups for p in group["params"]]
        works = []
        for rank in range(self.world_size):
            theirs = [p for p in every if self._owners[id(p)] == rank]
            if theirs:
                works.append(self._sent(theirs, rank))
        for work in works:
            work.wait()

    def _sent(self, params: list[Tensor], rank: int) -> Work:
        def finish(outs: list[Any]) -> None:
            if rank != self.rank:
                for p, new in zip(params, outs, strict=True):
                    assign(p.detach(), new)

        title = f"parameters of rank {rank}"
        return start(self.process_group, title, "broadcast", (rank,), values(params), finish)

    # -- state ---------------------------------------------------------------------------------------------------------
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Let the process ``to`` have all states, for :meth:`state_dict`; all processes call it."""
        self._sync(self, self.optim)
        every: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(self.optim.state_dict(), every, group=self.process_group, group_dst=to)
        self._all_states = every

    def state_dict(self) -> dict[str, Any]:
        """The states of all parameters. RuntimeError where :meth:`consolidate_state_dict` has not brought them here."""
        if self._all_states is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        whole = super().state_dict()
        number = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        for rank, told in enumerate(self._all_states):
            theirs = [p for group in self.param_groups for p in group["params"] if self._owners[id(p)] == rank]
            whole["state"].update({number[id(p)]: told["state"][i] for i, p in enumerate(theirs) if i in told["state"]})
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the states of all parameters, of which this process keeps its share."""
        super().load_state_dict({**state_dict, "state": {}})
        every = [p for group in self.param_groups for p in group["params"]]
        own = [i for i, p in enumerate(every) if self._owners[id(p)] == self.rank]
        told = self.optim.state_dict()
        state = {here: state_dict["state"][i] for here, i in enumerate(own) if i in state_dict["state"]}
        self.optim.load_state_dict({"state": state, "param_groups": told["param_groups"]})
        self._sync(self, self.optim)


def _checked(params: Any) -> list[Any]:
    if isinstance(params, Tensor):
        raise TypeError(f"`params` argument should be an iterable of Tensors, but got {params.type()}")
    try:
        listed = list(params)
    except TypeError:
        raise TypeError(
            f"`params` argument should be an iterable of Tensors, but got {type(params).__name__}"
        ) from None
    if not listed:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if not all(isinstance(p, Tensor | dict) for p in listed):
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    flat = [p for x in listed for p in (x["params"] if isinstance(x, dict) else [x])]
    for p in flat:
        if p.type() != flat[0].type():
            raise ValueError(
                "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got both "
                f"{flat[0].type()} and {p.type()}"
            )
    return listed
