"""Bucketing: arguments of many sizes are padded to a few, so that few programs serve them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from torchlike._core.tensor.tensor import Tensor, is_tensor
from torchlike._transforms.capture.structure import mapped
from torchlike.compiler._function import called_module
from torchlike.nn import functional as F

_POWERS = "powers of two"
_WHERE = "torch.compile(options={'bucket': ...})"
_KEYS = ("dims", "sizes", "value", "results")


class Rule(NamedTuple):
    """One bucketed dimension.

    Attributes:
        dims: {parameter: its dimension}. sizes: the buckets, None for powers of two. values: what is padded with,
            for all or {parameter: value}. results: the dimension of each result that has it, a tuple or dict with one
            for each element, None for results that do not have it.
    """

    dims: dict[str, int]
    sizes: tuple[int, ...] | None
    values: Any
    results: Any

    def bucket(self, n: int) -> int:
        """The smallest size that holds ``n``."""
        if self.sizes is None:
            return 1 << max(n - 1, 0).bit_length()
        for size in self.sizes:
            if n <= size:
                return size
        raise ValueError(
            f"{_WHERE}: size {n} of {', '.join(self.dims)} is over the largest bucket, {self.sizes[-1]}; give 'sizes' "
            "a larger one"
        )

    def value(self, name: str) -> Any:
        """What the argument of this name is padded with."""
        return self.values.get(name, 0) if isinstance(self.values, Mapping) else self.values


def _refused(what: str) -> ValueError:
    return ValueError(
        f"{_WHERE}: {what}; expected {{'dims': {{parameter: dimension}}, 'sizes': a list "
        f"or {_POWERS!r}, 'value': a number, 'results': a dimension or None}}"
    )


def _rule(spec: Any) -> Rule:
    """A Rule from what the user wrote."""
    if not isinstance(spec, Mapping) or set(spec) - set(_KEYS):
        raise _refused(f"got {spec!r}")
    dims, sizes = spec.get("dims"), spec.get("sizes", _POWERS)
    if not isinstance(dims, Mapping) or not dims or not all(isinstance(d, int) for d in dims.values()):
        raise _refused(f"'dims' is {dims!r}")
    if sizes != _POWERS:
        whole = isinstance(sizes, Sequence) and len(sizes) > 0 and all(isinstance(n, int) and n > 0 for n in sizes)
        if not whole:
            raise _refused(f"'sizes' is {sizes!r}")
        sizes = tuple(sorted(sizes))
    if "results" not in spec and len(set(dims.values())) > 1:
        raise _refused(f"'dims' is {dict(dims)}, and 'results' does not say which dimension of the results it is")
    results = spec.get("results", next(iter(dims.values())))
    return Rule(dict(dims), None if sizes == _POWERS else sizes, spec.get("value", 0), results)


def bucketed(signature: Callable, compiled: Any, spec: Any) -> Any:
    """``compiled`` behind the padding that ``spec``, or each spec of a list, asks for."""
    for one in spec if isinstance(spec, list | tuple) else [spec]:
        compiled = Bucketed(_signature(signature), compiled, _rule(one))
    return compiled


def _signature(function: Callable) -> inspect.Signature:
    module = called_module(function)
    return inspect.signature(function if module is None else module.forward)


class Bucketed:
    """A compiled function that pads a dimension of its arguments to a few sizes and slices its results back.

    Attributes:
        compiled: the function. rule: which dimension, which sizes.
    """

    def __init__(self, signature: inspect.Signature, compiled: Any, rule: Rule) -> None:
        self.signature, self.compiled, self.rule = signature, compiled, rule
        unknown = [name for name in rule.dims if name not in signature.parameters]
        if unknown:
            raise _refused(f"'dims' names {unknown[0]!r}, but the parameters are {', '.join(signature.parameters)}")
        self.__name__, self.__wrapped__ = getattr(compiled, "__name__", "compiled"), compiled

    @property
    def count(self) -> int:
        """How many programs there are."""
        return self.compiled.count

    def reset(self) -> None:
        """Forget every program."""
        self.compiled.reset()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        n = self._size(bound.arguments)
        size = self.rule.bucket(n)
        padded: list[tuple[Tensor, Tensor, int, int]] = []
        if size > n:
            for name, dim in self.rule.dims.items():
                if name in bound.arguments:
                    pad = _Pad(dim, size - n, self.rule.value(name), padded)
                    bound.arguments[name] = mapped(pad, bound.arguments[name])
        out = self.compiled(*bound.args, **bound.kwargs)
        for t, new, version, dim in padded:
            if new._version != version:  # the function wrote to its argument
                t.copy_(new.narrow(dim, 0, n))
        return _sliced(out, self.rule.results, size, n)

    def _size(self, arguments: dict[str, Any]) -> int:
        found: dict[int, str] = {}
        for name, dim in self.rule.dims.items():
            for t in jax.tree.leaves(arguments.get(name), is_leaf=is_tensor):
                if isinstance(t, Tensor):
                    found.setdefault(t.size(dim), name)
        if len(found) != 1:
            what = ", ".join(f"{n} of {name}" for n, name in found.items()) or "no tensor"
            raise ValueError(f"{_WHERE}: {what}; expected tensors of one size in the dimensions {self.rule.dims}")
        return next(iter(found))


class _Pad:
    """Pads a tensor, and notes (it, the new one, its version, its dimension)."""

    def __init__(self, dim: int, more: int, value: Any, made: list) -> None:
        self.dim, self.more, self.value, self.made = dim, more, value, made

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        dim = self.dim % x.ndim
        new = F.pad(x, [0, 0] * (x.ndim - 1 - dim) + [0, self.more], value=self.value)
        self.made.append((x, new, new._version, dim))
        return new


def _sliced(out: Any, results: Any, size: int, n: int) -> Any:
    """The results without their padding; ``results`` says where it is."""
    if isinstance(results, Mapping):
        return type(out)({k: _sliced(v, results[k], size, n) for k, v in out.items()})
    if isinstance(results, tuple | list):
        parts = [_sliced(v, r, size, n) for v, r in zip(out, results, strict=True)]
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
    if results is None:
        return out
    return mapped(lambda x: _slice(x, results, size, n), out)


def _slice(x: Any, dim: int, size: int, n: int) -> Any:
    if not isinstance(x, Tensor):
        return x
    if not -x.ndim <= dim < x.ndim or x.size(dim) != size:
        raise RuntimeError(
            f"{_WHERE}: a result of shape {list(x.shape)} does not have the padded size, "
            f"{size}, in dimension {dim}: padding may have gone into it; if it has not, say 'results': None for it"
        )
    return x if size == n else x.narrow(dim, 0, n).contiguous()
