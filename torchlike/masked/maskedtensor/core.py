"""``MaskedTensor``: a tensor, and a mask of the same shape that says which of its elements count."""

import torchlike._base.dtypes as dtypes
from torchlike._aten.subclass import DisableTorchFunctionSubclass
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, strided
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.masked import _ops
from torchlike.masked.maskedtensor import rules
from torchlike.masked.maskedtensor.printing import text

__all__ = ["MaskedTensor", "is_masked_tensor"]

_DTYPES = frozenset(
    [dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bool]
    + [dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
)


def is_masked_tensor(obj, /):
    """Whether ``obj`` is a :class:`MaskedTensor`.

    >>> import torchlike as torch
    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


def demand_valid(data, mask):
    """TypeError or ValueError unless ``data`` and ``mask`` make a tensor with a mask."""
    for name, x in (("data", data), ("mask", mask)):
        if not isinstance(x, Tensor) or isinstance(x, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor without a mask, but got {type(x).__name__}")
    if data.layout != mask.layout:
        raise TypeError(f"data and mask must have the same layout, but got {data.layout} and {mask.layout}")
    if data.layout != strided:
        raise NotImplementedError(f"MaskedTensor of layout {data.layout}: convert both by to_dense()")
    if mask.dtype != dtypes.bool:
        raise TypeError(f"mask must have dtype bool, but got {mask.dtype}")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor")
    if data.dim() != mask.dim():
        raise ValueError(f"data.dim() must equal mask.dim(), but got {data.dim()} and {mask.dim()}")
    if data.shape != mask.shape:
        raise ValueError(f"data.size() must equal mask.size(), but got {list(data.shape)} and {list(mask.shape)}")


class MaskedTensor(Tensor):
    """A tensor of which only the elements count where a mask is True; made by ``masked_tensor``.

    Functions work on all elements; reductions and softmax leave out those that do not count, and a result counts if
    one of its addends does. Two tensors with masks go together if the masks are equal (ValueError otherwise). The
    gradient of one is one too, with the same mask. TypeError for functions that are not made for masks.

    >>> import torchlike as torch
    >>> x = torch.masked.masked_tensor(torch.tensor([-1., 4.]), torch.tensor([False, True]), requires_grad=True)
    >>> x.sqrt().sum()
    MaskedTensor(  2.0000, True)
    >>> x.sqrt().sum().backward()
    >>> x.grad
    MaskedTensor(
      [      --,   0.2500]
    )
    """

    def __new__(cls, data, mask, requires_grad=False):
        demand_valid(data, mask)
        new = Tensor._make_subclass(cls, data.detach().clone(), requires_grad)
        new._masked_mask = mask.detach().clone()
        return new

    def get_data(self):
        """The values, those that do not count too, as an ordinary tensor that shares memory and history."""
        return _data(self)

    def get_mask(self):
        """The mask: a bool tensor."""
        return self._masked_mask

    def to_tensor(self, value):
        """An ordinary tensor with the number ``value`` where the mask is False."""
        return _data(self).masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self):
        """False: masks of sparse tensors are refused."""
        return False

    def is_sparse_csr(self):
        """False: masks of sparse tensors are refused."""
        return False

    @property
    def grad(self):
        """The gradient, with the same mask, or None."""
        with DisableTorchFunctionSubclass():
            grad = Tensor.grad.__get__(self)
        return None if grad is None else carrying(grad, self._masked_mask)

    @grad.setter
    def grad(self, value):
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, _data(value))

    def __repr__(self, *, tensor_contents=None):
        return text(_data(self).detach(), self._masked_mask)

    __str__ = __repr__

    def __format__(self, spec):
        if spec:
            raise TypeError("unsupported format string passed to MaskedTensor.__format__")
        return repr(self)

    def __deepcopy__(self, memo):
        new = memo[id(self)] = MaskedTensor(_data(self), self._masked_mask, self.requires_grad)
        return new

    def __reduce_ex__(self, protocol):
        return MaskedTensor, (_data(self).detach(), self._masked_mask, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, func.__name__
        base = name[:-1] if name[-1] == "_" != name[0] else name
        rule = _RULES.get(name) or _RULES.get(base)
        if rule is None:
            raise TypeError(
                f"{name}() is not made for a MaskedTensor: apply it to x.get_data(), or to x.to_tensor(value) with the "
                "value that elements which do not count shall have"
            )
        return rule(func, args, kwargs)


def carrying(data, mask):
    """``data`` as a tensor with a mask, with its history; its gradient is 0 where the mask is False."""
    if data.requires_grad and data.is_leaf:
        data = _F["where"](mask, data, data.detach())
    return _wrapped(data, mask)


def _wrapped(data, mask):
    demand_valid(data, mask)
    new = data.as_subclass(MaskedTensor)
    new._masked_mask = mask
    return new


def _data(x):
    """The values of what may have a mask, and of what is in lists."""
    if isinstance(x, MaskedTensor):
        with DisableTorchFunctionSubclass():
            return x.as_subclass(Tensor)
    if isinstance(x, list | tuple) and not isinstance(x, Size):
        return type(x)(map(_data, x))
    return x


def _mask(x):
    if isinstance(x, MaskedTensor):
        return x._masked_mask
    return type(x)(map(_mask, x)) if isinstance(x, list | tuple) else x


def _named(kwargs):
    return {name: _data(x) for name, x in kwargs.items()}


def _given(args, kwargs):
    """The tensors with masks among the arguments."""
    return [x for x in (*args, *kwargs.values()) if isinstance(x, MaskedTensor)]


def _plainly(func, args, kwargs):
    """The function itself, of the first argument as it is, so that it can change it, and the values of others."""
    with DisableTorchFunctionSubclass():
        return func(*args[:1], *map(_data, args[1:]), **_named(kwargs))


def _result(func, args, kwargs, mask):
    """The function of the values with a mask; the tensor itself of a function that changes it."""
    out = _plainly(func, args, kwargs)
    if isinstance(out, MaskedTensor):
        return out
    return _wrapped(out, mask if mask.shape == out.shape else mask.expand(out.shape))


def _unary(func, args, kwargs):
    if any(isinstance(x, Tensor) for x in (*args[1:], *kwargs.values())) or not isinstance(args[0], MaskedTensor):
        raise TypeError(
            f"{func.__name__}(): MaskedTensor unary ops do not support additional Tensor arguments; it takes one "
            "tensor, and numbers"
        )
    return _result(func, args, kwargs, args[0]._masked_mask)


def _demand_same(name, masks):
    for mask in masks[1:]:
        if mask is not masks[0] and not _F["equal"](mask, masks[0]):
            raise ValueError(
                f"{name}(): Input masks must match: give both the same mask, or one of them as an ordinary tensor, by "
                "get_data() or to_tensor(value)"
            )


def _binary(func, args, kwargs):
    masks = [_mask(x) for x in _given(args, kwargs)]
    _demand_same(func.__name__, masks)
    return _result(func, args, kwargs, masks[0])


def _both(func, args, kwargs):
    """The function of the values, and of the mask."""
    given, named = list(args), dict(kwargs)
    if not given:
        given = [named.pop("tensors" if "tensors" in named else "input")]
    rest = list(map(_data, given[1:])), _named(named)
    return _paired(func(_data(given[0]), *rest[0], **rest[1]), func(_mask(given[0]), *rest[0], **rest[1]))


def _paired(data, mask):
    if isinstance(data, Tensor):
        return _wrapped(data, mask)
    return type(data)([_paired(d, m) for d, m in zip(data, mask, strict=True)])


def _cast(func, args, kwargs):
    out, mask = _plainly(func, args, kwargs), args[0]._masked_mask
    if not isinstance(out, Tensor) or isinstance(out, MaskedTensor):
        return out
    return _wrapped(out, mask if mask.device == out.device else mask.to(out.device))


def _plain(func, args, kwargs):
    out = _plainly(func, args, kwargs)
    if func.__name__ == "__get__" and isinstance(out, Tensor) and not isinstance(out, MaskedTensor):
        mask = func(args[0]._masked_mask)
        return out if mask is None else _wrapped(out, mask)
    return out


# -- reductions -----------------------------------------------------------------------------------


def _reduction(func, args, kwargs):
    name, (x, *rest) = func.__name__, args or [kwargs.pop("input")]
    read = _spread if name in ("var", "std") else _usual
    dim, keepdim, named = read(*rest, **kwargs)
    data, mask = _data(x), x._masked_mask
    dims = _ops.dims_of(data, dim)
    if name == "mean" and not data.is_floating_point():
        raise ValueError(
            f"mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {data.dtype}"
        )
    if name == "all":
        out = _F["all"](data.bool() | ~mask, dims, keepdim)
    else:
        out = getattr(_ops, name)(data, dim, keepdim=keepdim, mask=mask, **named)
    return _wrapped(out, _F["any"](mask, dims, keepdim) if dims else mask)


def _usual(dim=None, keepdim=False, **named):
    return dim, keepdim, named


def _spread(dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return dim, keepdim, {"unbiased": unbiased, "correction": correction}


def _normalisation(func, args, kwargs):
    name, (x, *rest) = func.__name__, args or [kwargs.pop("input")]
    named = {k: v for k, v in kwargs.items() if k not in ("_stacklevel",)}
    return _wrapped(getattr(_ops, name)(_data(x), *rest, mask=x._masked_mask, **named), x._masked_mask)


# -- others ---------------------------------------------------------------------------------------


def _where(func, args, kwargs):
    condition, *branches = (*args, *kwargs.values())
    if len(branches) != 2:
        raise TypeError("where() of a MaskedTensor takes a condition and two tensors")
    masks = [x._masked_mask if isinstance(x, MaskedTensor) else _F["full"]((), True) for x in branches]
    return _wrapped(func(_data(condition), *map(_data, branches)), func(_data(condition), *masks))


def _copy(func, args, kwargs):
    _demand_same("copy_", [_mask(x) for x in _given(args, kwargs)])
    return _plainly(func, args, kwargs)


def _number(func, args, kwargs):
    if not bool(args[0]._masked_mask.all()):
        raise ValueError(f"{func.__name__}(): the element does not count: its mask is False")
    return _plainly(func, args, kwargs)


def _refused(func, args, kwargs):
    raise RuntimeError(f".{func.__name__}() is not supported for tensor subclasses, got MaskedTensor: use get_data()")


def _iterated(func, args, kwargs):
    return iter(args[0].unbind(0))


_RULES = {
    "where": _where, "copy_": _copy, "item": _number, "__bool__": _number, "__float__": _number, "__int__": _number,
    "__index__": _number, "__iter__": _iterated, "tolist": _refused, "numpy": _refused, "__array__": _refused,
    **dict.fromkeys(rules.PLAIN, _plain), **dict.fromkeys(rules.UNARY, _unary),
    **dict.fromkeys(rules.BINARY, _binary), **dict.fromkeys(rules.BOTH, _both),
    **dict.fromkeys(rules.REDUCTIONS, _reduction), **dict.fromkeys(rules.CASTS, _cast),
    **dict.fromkeys(rules.NORMALISATIONS, _normalisation),
}  # fmt: skip
