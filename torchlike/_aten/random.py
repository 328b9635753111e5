"""Operators over random words, shown as the aten calls that draw the numbers themselves."""

from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._aten.lower import lowers
from torchlike._aten.packets import ops
from torchlike._aten.python_dispatch import invoke_with, normalised
from torchlike._base import device as devices
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import REGISTRY

_aten = ops.aten


def _drawn(name: str, chosen: Any) -> None:
    """Show the kernel ``name`` over words (in place: with a final !) as ``chosen(...) -> (overload, args, options)``.

    The words are drawn when the call gets here; the first run of the overload uses them, so that a seed gives the
    same numbers with and without a mode.
    """
    op = REGISTRY[name.removesuffix("!")]
    inplace = name.endswith("!")

    def run(*values: Any) -> Any:
        func, args, options = chosen(*values)
        named = dict(zip([a.name for a in op.schema.args], values, strict=True))
        inputs, static = [named[a.name] for a in op.dynamic], tuple([named[a.name] for a in op.static])

        def compute(*given: Any, **_: Any) -> Any:
            for i, x in enumerate(inputs):
                at = next((k for k, shown in enumerate(args) if shown is x and isinstance(x, Tensor)), None)
                inputs[i] = x if at is None else given[at]
            return call_inplace(op.inplace, tuple(inputs), static) if inplace else call(op, tuple(inputs), static)

        return invoke_with(compute, func, *normalised(func, args, options))

    lowers(op.full_name + ("_" if inplace else ""))(run)


def _options(dtype: Any, default: Any = None) -> dict:
    options = {} if dtype is (default or dtypes.get_default_dtype()) else {"dtype": dtype}
    return options | {"device": devices.default_device(), "pin_memory": False}


def _integers(words: Any, size: Any, dtype: Any, low: Any, span: Any, wide: bool) -> tuple:
    options = _options(dtype, dtypes.int64)
    if low:
        return _aten.randint.low, (low, low + span, size), options
    return _aten.randint.default, (span, size), options


_drawn("_rand", lambda words, size, dtype: (_aten.rand.default, (size,), _options(dtype)))
_drawn("_randn", lambda words, size, dtype: (_aten.randn.default, (size,), _options(dtype)))
_drawn("_randperm", lambda words, n, dtype: (_aten.randperm.default, (n,), _options(dtype, dtypes.int64)))
_drawn("_randint", _integers)
for _name in ("uniform", "normal", "log_normal", "exponential", "cauchy", "geometric"):
    _drawn(_name + "!", lambda x, words, *p, _n=_name: (getattr(_aten, _n + "_").default, (x, *p), {}))
_drawn("bernoulli.p!", lambda x, words, p: (_aten.bernoulli_.float, (x, p), {}))
_drawn("bernoulli.Tensor!", lambda x, words, p: (_aten.bernoulli_.Tensor, (x, p), {}))
_drawn("random!", lambda x, words, low, span, wide: (_aten.random_.default, (x,), {}))
_drawn("random.to!", lambda x, words, low, span, wide: (_aten.random_.to, (x, low + span), {}))
_drawn("random.from!", lambda x, words, low, span, wide: (_aten.random_.__getattr__("from"), (x, low, low + span), {}))
_drawn("bernoulli", lambda x, words: (_aten.bernoulli.default, (x,), {}))
_drawn("bernoulli.p", lambda x, words, p: (_aten.bernoulli.p, (x, p), {}))
_drawn("_standard_gamma", lambda x, words: (_aten._standard_gamma.default, (x,), {}))
_drawn("_sample_dirichlet", lambda x, words: (_aten._sample_dirichlet.default, (x,), {}))
_drawn("poisson", lambda x, words: (_aten.poisson.default, (x,), {}))
_drawn("binomial", lambda count, prob, words: (_aten.binomial.default, (count, prob), {}))
_drawn("multinomial", lambda x, words, n, again: (_aten.multinomial.default, (x, n, again), {}))
_drawn("normal.Tensor_float", lambda mean, words, std: (_aten.normal.Tensor_float, (mean, std), {}))
_drawn("normal.float_Tensor", lambda mean, words, std: (_aten.normal.float_Tensor, (mean, std), {}))
_drawn("normal.Tensor_Tensor", lambda mean, words, std: (_aten.normal.Tensor_Tensor, (mean, std), {}))
