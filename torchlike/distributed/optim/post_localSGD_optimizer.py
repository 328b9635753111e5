"""An optimizer after whose steps parameters are averaged."""

from collections.abc import Callable
from typing import Any

from torchlike._base.frames import warn
from torchlike.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """``optim``, after each step of which ``averager`` averages the parameters if it is time.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> from torchlike.distributed.optim import PostLocalSGDOptimizer
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> p = torch.nn.Parameter(torch.ones(1))
    >>> optimizer = PostLocalSGDOptimizer(torch.optim.SGD([p], lr=0.5), PeriodicModelAverager(period=4))
    >>> p.sum().backward()
    >>> optimizer.step()
    >>> p.item(), optimizer.state_dict()["step"]
    (0.5, 1)
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager, self.param_groups = optim, averager, optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of ``optim``."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """That of ``optim``, and the averager's count as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What :meth:`state_dict` gave; a count that is not there begins at 0, with a warning."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """A step of ``optim``, and the mean of the parameters if it is time."""
        self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients away."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to ``optim``."""
        self.optim.add_param_group(param_group)
