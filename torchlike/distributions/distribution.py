"""torch.distributions.distribution: what all distributions have."""

import warnings
from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.utils import lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["Distribution"]

__getattr__ = missing_names(__name__)


class Distribution:
    """Independent distributions of one family: ``batch_shape`` of them, each with samples of ``event_shape``.

    Args:
        validate_args: whether parameters and the arguments of ``log_prob``, ``cdf`` and ``icdf`` are checked, which
            raises ValueError; None for what ``set_default_validate_args`` says.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments unless told. ValueError for what is no bool."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warnings.warn(f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                          "initialize the distribution with `validate_args=False` to turn off validation.",
                          stacklevel=4)  # fmt: skip
        for name, constraint in wanted.items():
            derived = name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property)
            if constraints.is_dependent(constraint) or derived:
                continue
            value = getattr(self, name)
            said = f"Expected parameter {name} of {type(self).__name__} to satisfy"
            if not constraints.holds(constraint, value, said):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with parameters expanded to ``batch_shape``."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters' batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict:
        """For each parameter the set that it lies in."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set that samples lie in."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with no_grad():
            return self.rsample(torch.Size(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """``n`` samples; ``sample((n,))`` is the name to use."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at ``value``."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of what is at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The number with ``cdf`` equal to ``value``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless ``value`` is a tensor of samples."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = len(value.size()) - len(self._event_shape)
        if value.size()[start:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs "
                             f"{self._event_shape}.")  # fmt: skip
        whole = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.size()), reversed(whole), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {whole}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                          "distribution with `validate_args=False` to turn off validation.", stacklevel=3)  # fmt: skip
            return
        said = f"Expected value argument of {type(self).__name__} to be within the support"
        if not constraints.holds(support, value, said):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls: type, _instance: Any, batch_shape: Any, event_shape: Any = (), **given: Any) -> Any:
        """A new instance of ``cls`` with the attributes ``given``, which is not checked again."""
        new = self._get_checked_instance(cls, _instance)
        new.__dict__.update(given)
        Distribution.__init__(new, torch.Size(batch_shape), event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _scalars(self, cls: type, _instance: Any, batch_shape: Any, *names: str) -> Any:
        """:meth:`_expanded` where parameters are one number for each distribution; those not computed yet stay so."""
        shape = torch.Size(batch_shape)
        given = {name: self.__dict__[name].expand(shape) for name in names if name in self.__dict__}
        return self._expanded(cls, _instance, shape, **given)

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = [(name, self.__dict__[name]) for name in names]
        parts = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown]
        return f"{type(self).__name__}({', '.join(parts)})"
