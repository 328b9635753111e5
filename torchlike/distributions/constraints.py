"""torch.distributions.constraints: the sets that parameters and samples lie in.

>>> import torchlike as torch
>>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 1.0]))
tensor([False,  True])
"""

import functools
from typing import Any

import numpy as np
from jax.core import Tracer

from torchlike._base.state import state
from torchlike._core.autograd.composed import composed
from torchlike._core.conversion.at_hand import at_hand
from torchlike._core.dispatch.dispatch import call
from torchlike._ops.demand import demand
from torchlike.distributions._torch import LA, Tensor, torch
from torchlike.func._ensemble import debug_unwrap
from torchlike.interop.alias import missing_names

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip

__getattr__ = missing_names(__name__)


class Constraint:
    """A set of tensors.

    Attributes:
        is_discrete: whether its elements are numbered. event_dim: how many last dimensions make one element.
        of_each: whether ``check`` is made of comparisons of each element alone; a subclass says so anew.
    """

    is_discrete: Any = False
    event_dim: Any = 0
    of_each = False

    def check(self, value: Any) -> Any:
        """For each element of ``value`` whether it is in the set; a bool tensor."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """A set that other values decide; ``is_discrete`` and ``event_dim`` may be known nevertheless."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> "_Dependent":
        known = [self._is_discrete if is_discrete is NotImplemented else is_discrete]
        return _Dependent(is_discrete=known[0], event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether other values decide a constraint."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; of a class it is a dependent constraint."""

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> "_DependentProperty":  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint whose elements are taken together over further dimensions."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint)}")
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims)}")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        valid = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if valid.dim() < n:
            expected = self.base_constraint.event_dim + n
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return valid.reshape(valid.shape[: valid.dim() - n] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The samples of mixtures of distributions that have the support ``base_constraint``."""

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint)}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        unsqueezed = -1 - self.event_dim
        valid = self.base_constraint.check(value.unsqueeze(unsqueezed))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return valid.reshape(valid.shape[: value.dim() - self.event_dim] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    of_each = True
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """A set between bounds, which its repr shows."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__[1:]}({bounds})"


class _IntegerInterval(_Bounded):
    of_each = True
    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    of_each = True
    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    of_each = True
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    of_each = True

    def check(self, value: Any) -> Any:
        return value == value


class _GreaterThan(_Bounded):
    of_each = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    of_each = True

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    of_each = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    of_each = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    of_each = True

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return torch.all(value >= 0, dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).reshape(value.shape[:-2] + (-1,)).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = torch.finfo(value.dtype).eps * value.size(-1) * 10
        length = LA.norm(value.detach(), dim=-1)
        return lower_cholesky.check(value) & (length - 1).abs().le(tolerance).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool, device=value.device)


_PLAIN = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64")))


def _of_each(constraint: Any) -> Any:
    """The constraint of each element, if that is all there is to one and numpy's operators tell it too; else None."""
    while type(constraint) is _IndependentConstraint:
        constraint = constraint.base_constraint
    if not vars(type(constraint)).get("of_each"):
        return None
    bounds = vars(constraint).values()
    return constraint if all([type(b) in (int, float) and float(np.float32(b)) == b for b in bounds]) else None


@functools.cache
def _whole(kind: Any) -> Any:
    """The check of a constraint that has no parameters, on all of a tensor."""
    return composed("", f"is{kind.__name__}")(functools.partial(_holds, kind))


def _holds(kind: Any, value: Any) -> Any:
    return kind().check(value).all()


def holds(constraint: Any, value: Any, message: str) -> bool:
    """Whether all elements of ``value``, or of what it stands for, satisfy a constraint; see :func:`everywhere`."""
    each = None if state.capture is not None else _of_each(constraint)
    found = at_hand(value) if each is not None and isinstance(value, Tensor) else None
    if found is None or found.dtype not in _PLAIN or found.ndim < constraint.event_dim:
        kind: Any = type(constraint)
        own = kind.__module__ == __name__ and not vars(constraint)
        if own and state.capture is None and _whole(kind).kernel.often((value,)):
            return bool(_whole(kind)(value))
        return everywhere(constraint.check(value), message, constraint)
    if not each.is_discrete or found.dtype.kind == "i":
        return bool(each.check(found).all())
    with np.errstate(invalid="ignore"):  # an infinity has no remainder
        return bool(each.check(found).all())


def everywhere(found: Any, message: str, constraint: Any = None) -> bool:
    """Whether a check holds for all elements, and within ``vmap`` for those of all examples.

    Where a program is made of the call, it raises ValueError with ``message`` itself, and this is True.
    """
    found = debug_unwrap(found)
    if unknown(found):
        if constraint is not None:
            message = f"{message} {type(constraint).__name__.removeprefix('_')}, but found invalid values"
        call(demand, (found,), ("ValueError", message))
        return True
    return bool(found.all())


def unknown(found: Any) -> bool:
    """Whether values are not known yet: of a function that is made a program, by us or by jax."""
    return isinstance(found, Tensor) and (state.capture is not None or isinstance(found._storage.form, Tracer))


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return _both(symmetric, lambda: LA.eigvalsh(value).ge(0).all(-1))


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return _both(symmetric, lambda: LA.cholesky_ex(value).info.eq(0))


def _both(first: Any, second: Any) -> Any:
    """What ``second()`` gives where all of ``first`` holds, and both where that is not known."""
    if unknown(first):
        return first & second()
    return second() if bool(debug_unwrap(first).all()) else first


def _pieces(value: Any, lengths: list[int], dim: int) -> list:
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [value.narrow(dim, start, length) for start, length in zip(starts, lengths, strict=True)]


class _Cat(Constraint):
    """Constraints side by side along ``dim``, each for as many elements as ``lengths`` says."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths has {len(self.lengths)} entries for {len(self.cseq)} constraints")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is outside of a value with {value.dim()} dimensions")
        pieces = _pieces(value, self.lengths, self.dim)
        return torch.cat([c.check(v) for c, v in zip(self.cseq, pieces, strict=True)], self.dim)


class _Stack(Constraint):
    """Constraints for the slices along ``dim``."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is outside of a value with {value.dim()} dimensions")
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
