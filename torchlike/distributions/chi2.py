"""torch.distributions.chi2."""

from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions.gamma import Gamma
from torchlike.interop.alias import missing_names

__all__ = ["Chi2"]

__getattr__ = missing_names(__name__)


class Chi2(Gamma):
    """The chi-squared distribution with ``df`` degrees of freedom."""

    arg_constraints = {"df": constraints.positive}  # type: ignore[assignment]

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2
