"""What nested tensors of both layouts share: a tensor of values that knows what its rows are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._aten.subclass import DisableTorchFunctionSubclass
from torchlike._base.dims import wrap_dim
from torchlike._core.tensor.tensor import Tensor, carried, carry, shape_of
from torchlike._decl.op import REGISTRY
from torchlike.masked.maskedtensor import rules as of_masks

Rule = Callable[..., Any]


class Nested(Tensor):
    """A tensor of values, and functions of its rows in place of functions of it.

    ``_rules``: {name: ``f(func, *args, **kwargs)``}, what functions do with tensors of the class.
    """

    _rules: dict[str, Rule] = {}
    is_nested = True

    @property
    def grad(self) -> Any:
        """The gradient, a nested tensor with the same rows, or None."""
        with DisableTorchFunctionSubclass():
            grad = Tensor.grad.__get__(self)
        return None if grad is None else like(values_of(grad), self)

    @grad.setter
    def grad(self, value: Any) -> None:
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, plain(value))

    data = property(lambda self: self.detach())
    ndim = property(lambda self: self.dim())

    def ndimension(self) -> int:
        """As ``dim()``."""
        return self.dim()

    def nelement(self) -> int:
        """As ``numel()``."""
        return self.numel()

    def __str__(self) -> str:
        return repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = like(plain(self).detach().clone(), self)
        new = memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return new

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError("unsupported format string passed to NestedTensor.__format__")
        return repr(self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        found = cls._rules.get(name) or COMMON.get(name)
        if found is None and is_elementwise(name):
            found = cls._rules[ELEMENTWISE]
        if found is None:
            raise NotImplementedError(
                f"{name}() is not there for nested tensors: apply it to x.values(), to the rows, x.unbind(), or to "
                "torch.nested.to_padded_tensor(x, 0.0)"
            )
        named = {key: x for key, x in (kwargs or {}).items() if key != "out" or x is not None}
        with DisableTorchFunctionSubclass():
            return found(func, *args, **named)


ELEMENTWISE = "functions of elements"
COMMON: dict[str, Rule] = {}


def registering(rules: dict[str, Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """A decorator of names that registers rules there."""

    def rule(*names: str) -> Callable[[Rule], Rule]:
        def register(f: Rule) -> Rule:
            rules.update(dict.fromkeys(names, f))
            return f

        return register

    return rule


common = registering(COMMON)


@functools.cache
def _elementwise_names() -> frozenset[str]:
    """The functions of elements: what is declared so, and Python's operators for it."""
    whole = [op for op in REGISTRY.values() if op.pointwise and "reduction" not in [a.name for a in op.schema.args]]
    declared = {op.name for op in whole}
    operators = {name for name in of_masks.UNARY | of_masks.BINARY if name.startswith("__")} | {"__rpow__"}
    likes = {f"{kind}_like" for kind in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")}
    more = {"dropout", "alpha_dropout", "masked_fill", "true_divide", "clip"}
    more |= {"zero", "normal", "uniform", "random", "bernoulli", "exponential"}
    return frozenset(declared | operators | likes | more | of_masks.CASTS - {"to_dense"})


def is_elementwise(name: str) -> bool:
    """Whether the function of this name is one of elements, or its form in place."""
    names = _elementwise_names()
    return name in names or (name[-1:] == "_" and name[:-1] in names)


# -- values --------------------------------------------------------------------------------------


def values_of(t: Tensor) -> Tensor:
    """A view of any tensor as a plain one, with its history."""
    with DisableTorchFunctionSubclass():
        return t.as_subclass(Tensor)


def plain(x: Any) -> Any:
    """The values of a nested tensor; anything else as it is."""
    return values_of(x) if isinstance(x, Nested) else x


def like(values: Tensor, t: Tensor) -> Any:
    """The new tensor ``values`` as a nested one with the rows of ``t``."""
    carry(values, carried(t))
    return values


def lengths_of(t: Tensor) -> tuple[int, ...]:
    """The shape of the values of ``t``."""
    return tuple(shape_of(t))


def dim_of(t: Tensor, dim: int) -> int:
    """``dim``, not negative. IndexError where there is none."""
    return wrap_dim(dim, t.ndim)


def first(values: Iterable[Any]) -> Any:
    """The first nested tensor among the values."""
    return next(x for x in values if isinstance(x, Nested))


def demand_no_out(name: str, kwargs: dict[str, Any]) -> None:
    """NotImplementedError where a function is to write into a given tensor."""
    if kwargs.get("out") is not None:
        raise NotImplementedError(f"{name}(out=...) is not there for nested tensors: write into x.values()")


# -- what does not look at rows ------------------------------------------------------------------


@common(*(
    "requires_grad_ retain_grad is_floating_point is_complex is_signed is_inference is_tensor __hash__ element_size "
    "__set__ __delete__ get_device is_pinned is_shared data_ptr storage_offset untyped_storage is_conj is_neg "
    "can_cast result_type register_post_accumulate_grad_hook _is_view has_names storage is_nonzero"
).split())  # fmt: skip
def _as_it_is(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


@common("__get__")
def _got(func: Any, t: Tensor, *args: Any, **kwargs: Any) -> Any:
    out = func(t, *args, **kwargs)
    return like(out, t) if type(out) is Tensor and out.shape == lengths_of(t) else out


@common("register_hook")
def _hooked(func: Any, t: Tensor, hook: Callable[..., Any]) -> Any:
    return func(t, lambda grad: plain(hook(like(values_of(grad), t))))


@common("backward")
def _backward(func: Any, t: Tensor, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
    if gradient is not None and not isinstance(gradient, Nested):
        raise RuntimeError("backward(): the gradient of a nested tensor is one with the same rows")
    func(plain(t), plain(gradient), *args, **kwargs)


@common("grad")
def _gradients(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``torch.autograd.grad``."""
    found = func(_plainly(outputs), inputs, _plainly(grad_outputs), *args, **kwargs)
    given = [inputs] if isinstance(inputs, Tensor) else inputs
    pairs = zip(given, found, strict=True)
    return tuple([like(values_of(g), t) if isinstance(t, Nested) and g is not None else g for t, g in pairs])


def _plainly(x: Any) -> Any:
    return type(x)(map(plain, x)) if isinstance(x, list | tuple) else plain(x)


@common("detach", "clone", "contiguous", "alias")
def _same(func: Any, t: Tensor, *args: Any, **kwargs: Any) -> Any:
    values = plain(t)
    out = func(values, *args, **kwargs)
    return t if out is values else like(out, t)


@common("numpy", "__array__", "tolist", "__dlpack__")
def _refused(func: Any, t: Tensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        f".{func.__name__}() is not supported for tensor subclasses, got NestedTensor: ask values(), or the rows"
    )


@common("item", "__bool__", "__float__", "__int__", "__index__", "__complex__", "__contains__")
def _of_values(func: Any, t: Tensor, *args: Any) -> Any:
    return func(plain(t), *args)
