"""Pruning: parameters multiplied by masks, which hooks before forward apply."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike._functions.reduce import norm
from torchlike.nn.modules.module import Module

cat, ones_like, rand, rand_like, topk = (FUNCTIONS[n] for n in ("cat", "ones_like", "rand", "rand_like", "topk"))


class BasePruningMethod(ABC):
    """Base class of pruning methods; instances are hooks before forward.

    A subclass sets ``PRUNING_TYPE`` ("unstructured", "structured" or "global": what of the tensor a
    second method is given) and defines :meth:`compute_mask`.

    >>> import torchlike as torch
    >>> class EveryOther(torch.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> m = torch.nn.Linear(2, 2)
    >>> hook = EveryOther.apply(m, "weight")
    >>> m.weight_mask
    tensor([[0., 1.],
            [0., 1.]])
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of ``t``, given the one it has: 0 where an element is to go."""

    def apply_mask(self, module: Module) -> Tensor:
        """The stored tensor times its mask."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args, importance_scores: Tensor | None = None, **kwargs):
        """Prune ``module.name`` with ``cls(*args, **kwargs)``, after what pruned it before.

        Args:
            importance_scores: what to judge elements by in the place of the tensor; of its shape.

        Returns:
            the hook: the method, or a :class:`PruningContainer` where there was one before.
        """
        found = [(key, hook) for key, hook in module._forward_pre_hooks.items() if _prunes(hook, name)]
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if found:
            method = _contained(found[-1][1], method)
        tensor = getattr(module, name)
        _demand_scores(importance_scores, tensor, f"parameter {name} of {module}")
        scores = tensor if importance_scores is None else importance_scores
        default = getattr(module, name + "_mask").detach().clone() if found else ones_like(tensor)
        mask = method.compute_mask(scores, default_mask=default)
        if not found:
            module.register_parameter(name + "_orig", tensor)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        for key, _ in found:
            del module._forward_pre_hooks[key]
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """``t`` times the mask that the method computes of it, or of ``importance_scores``."""
        _demand_scores(importance_scores, t, "tensor t")
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, default_mask=ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor a parameter again; what is gone stays zero."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _prunes(hook: Any, name: str) -> bool:
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


def _demand_scores(scores: Any, tensor: Tensor, of: str) -> None:
    if scores is None:
        return
    if not isinstance(scores, Tensor):
        raise AttributeError(f"importance_scores must be a Tensor, not {type(scores).__name__}")
    if scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {of}, got {scores.shape} vs {tensor.shape}"
        )


def _contained(before: BasePruningMethod, method: BasePruningMethod) -> "PruningContainer":
    """A container of ``before`` (of what it holds, if it is one) and of ``method``."""
    container = PruningContainer()
    container._tensor_name = method._tensor_name
    for one in [*(before if isinstance(before, PruningContainer) else [before]), method]:
        container.add_pruning_method(one)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods that prune one tensor, each what the ones before have left."""

    def __init__(self, *args) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            if isinstance(method, BasePruningMethod) and not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add ``method``, which must concern the same tensor; None adds nothing."""
        if method is None:
            return
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` without what the last method removes of what it leaves."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "global":
            part: Any = (slice(None),) * t.dim()
        elif method.PRUNING_TYPE == "unstructured":
            part = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            left = mask.sum(dim=tuple(d for d in range(t.dim()) if d != dim)) != 0
            part = (slice(None),) * dim + (left,)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = mask.clone()
        mask[part] = method.compute_mask(t[part], default_mask=mask[part]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask and the stored tensor."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str):  # type: ignore[override]
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: ``amount`` of them, or that share if it is a float."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, rand_like(t), _count(self.amount, t.nelement()), largest=True)

    @classmethod
    def apply(cls, module: Module, name: str, amount):  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude: ``amount`` of them, or that share if it is a float."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.nelement()), largest=False)

    @classmethod
    def apply(cls, module: Module, name: str, amount, importance_scores=None):  # type: ignore[override]
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes slices along ``dim`` at random: ``amount`` of them, or that share if it is a float."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _slices(t, self.dim, self.amount)
        kept = t.size(self.dim) - count
        return _only(default_mask, rand(t.size(self.dim)), kept, self.dim) if count else default_mask

    @classmethod
    def apply(cls, module: Module, name: str, amount, dim: int = -1):  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along ``dim`` of least ``n``-norm: ``amount`` of them, or that share if it is a float."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _slices(t, self.dim, self.amount)
        scores = _compute_norm(t, self.n, self.dim)
        return _only(default_mask, scores, t.size(self.dim) - count, self.dim) if count else default_mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount, n, dim: int, importance_scores=None
    ):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what the given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor):  # type: ignore[override]
        return super().apply(module, name, mask=mask)


# -- what the methods share ------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    integral = isinstance(amount, numbers.Integral)
    if (integral and amount < 0) or (not integral and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:  # type: ignore[operator]
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)  # type: ignore[return-value]


def _count(amount: Any, size: int) -> int:
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


def _slices(t: Tensor, dim: int, amount: Any) -> int:
    """How many slices along ``dim`` go."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {t.shape} with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return _count(amount, t.size(dim))


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    return norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim % t.dim()])


def _without(default_mask: Tensor, scores: Tensor, count: int, largest: bool) -> Tensor:
    """``default_mask`` without the ``count`` elements of largest or least score."""
    mask = default_mask.clone()
    if count != 0:
        with no_grad():
            mask.view(-1)[topk(scores.reshape(-1), k=count, largest=largest)[1]] = 0
    return mask


def _only(default_mask: Tensor, scores: Tensor, kept: int, dim: int) -> Tensor:
    """``default_mask`` where the slices along ``dim`` are the ``kept`` ones of largest score."""
    with no_grad():
        best = default_mask.new_zeros(scores.size(0))
        best[topk(scores, k=kept, largest=True)[1]] = 1
    shape = [1] * default_mask.dim()
    shape[dim] = -1
    return default_mask * best.view(shape)


# -- functions -------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give ``module.name`` a mask of ones; returns ``module``."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount) -> Module:
    """Prune elements of ``module.name`` at random; returns ``module``.

    The parameter becomes ``<name>_orig``, the mask is the buffer ``<name>_mask``, and ``<name>`` is their
    product, computed before each forward.

    Args:
        amount: how many elements; a float is a share of them.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.prune.random_unstructured(torch.nn.Linear(2, 3), "weight", amount=1)
    >>> m.weight_mask.sum()
    tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of ``module.name`` of least magnitude; see :func:`random_unstructured`.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(2, 3), "weight", amount=0.5)
    >>> sorted(m.state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount, dim: int) -> Module:
    """Prune slices of ``module.name`` along ``dim`` at random; see :func:`random_unstructured`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount, n, dim: int, importance_scores: Tensor | None = None) -> Module:
    """Prune the slices of ``module.name`` along ``dim`` of least ``n``-norm; see :func:`random_unstructured`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune ``module.name`` where ``mask`` is 0; returns ``module``."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method: type[BasePruningMethod], importance_scores=None, **kwargs) -> None:
    """Prune several tensors as if they were one.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class of unstructured pruning; ``kwargs`` are its arguments.
        importance_scores: a dict from such pairs to what to judge a tensor's elements by.

    Raises:
        TypeError: ``parameters`` is no iterable, ``importance_scores`` no dict, or the method another kind.

    >>> import torchlike as torch
    >>> prune, a, b = torch.nn.utils.prune, torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=4)
    >>> (a.weight_mask.sum() + b.weight_mask.sum()).item()
    6.0
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs: list[Any] = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    relevant = cat([scores.get((m, name), getattr(m, name)).reshape(-1) for m, name in pairs])
    masks = [getattr(m, name + "_mask", ones_like(getattr(m, name))) for m, name in pairs]
    method: Any = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    final = container.compute_mask(relevant, cat([mask.reshape(-1) for mask in masks]))
    sizes = [mask.numel() for mask in masks]
    for (module, name), mask, part in zip(pairs, masks, final.split(sizes), strict=True):
        custom_from_mask(module, name, mask=part.view(mask.shape))


def remove(module: Module, name: str) -> Module:
    """Make the pruned ``module.name`` a parameter again; what is gone stays zero. ValueError if it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether ``module``, or a module in it, is pruned.

    >>> import torchlike as torch
    >>> torch.nn.utils.prune.is_pruned(torch.nn.Linear(1, 1))
    False
    """
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())
