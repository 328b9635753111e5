"""PyTorch's backward formulas as the aten calls that they are: elementwise functions, reductions, losses."""

from collections.abc import Callable
from typing import Any

from torchlike._core._aten_backward import Case, formula
from torchlike._core._aten_lower import shown
from torchlike._core.packets import ops
from torchlike._core.python_dispatch import below
from torchlike._core.tensor import Tensor, strided

_aten = ops.aten


def _times(grad: Any, factor: Any) -> Any:
    """``grad * factor`` for an ``alpha`` that is mostly 1."""
    return grad if factor is None or factor == 1 else shown(_aten.mul.Tensor, grad, factor)


# -- arithmetic ------------------------------------------------------------------------------------------------------


@formula("add.Tensor")
def add(c: Case) -> dict:
    return {"other": _times(c.grad, c.number("alpha")) if "other" in c.needs else None, "self": c.grad}


@formula("sub.Tensor")
def sub(c: Case) -> dict:
    other = _times(shown(_aten.neg.default, c.grad), c.number("alpha")) if "other" in c.needs else None
    return {"other": other, "self": c.grad}


@formula("rsub.Tensor", "rsub.Scalar")
def rsub(c: Case) -> dict:
    got = {"self": _times(shown(_aten.neg.default, c.grad), c.number("alpha"))} if "self" in c.needs else {}
    return {"other": c.grad, **got}


@formula("mul.Tensor")
def mul(c: Case) -> dict:
    other = shown(_aten.mul.Tensor, c.grad, c["self"]) if "other" in c.needs else None
    own = shown(_aten.mul.Tensor, c.grad, c["other"]) if "self" in c.needs else None
    return {"other": other, "self": own}


@formula("div.Tensor")
def div(c: Case) -> dict:
    got = {}
    if "other" in c.needs:
        ratio = shown(_aten.div.Tensor, shown(_aten.div.Tensor, c["self"], c["other"]), c["other"])
        got["other"] = shown(_aten.mul.Tensor, shown(_aten.neg.default, c.grad), ratio)
    if "self" in c.needs:
        got["self"] = shown(_aten.div.Tensor, c.grad, c["other"])
    return got


@formula("_rdiv")
def rdiv(c: Case) -> dict:
    grad = shown(_aten.mul.Tensor, c.grad, c["self"])
    with below():
        result = c["other"].detach().reciprocal() if type(c["other"]) is Tensor else None
    if result is None:
        result = shown(_aten.reciprocal.default, c["other"])
    square = shown(_aten.mul.Tensor, result, result)
    return {"other": _negated(grad, square)}


def _negated(grad: Any, factor: Any) -> Any:
    return shown(_aten.mul.Tensor, shown(_aten.neg.default, grad), factor)


def _power(grad: Any, base: Any, exponent: Any) -> Any:
    if exponent == 0:
        return shown(_aten.zeros_like.default, base)
    slope = shown(_aten.pow.Tensor_Scalar, base, exponent - 1)
    return shown(_aten.mul.Tensor, grad, shown(_aten.mul.Scalar, slope, exponent))


@formula("_pow_special")
def pow_special(c: Case) -> dict:
    return {"self": _power(c.grad, c["self"], float(c["exponent"]))}


@formula("pow.Tensor_Scalar")
def pow_scalar(c: Case) -> dict | None:
    exponent = c["exponent"]
    return None if exponent is None or isinstance(exponent, Tensor) else {"self": _power(c.grad, c["self"], exponent)}


# -- functions of one tensor -----------------------------------------------------------------------------------------


def _one(*names: str) -> Callable:
    """A formula for operators of one tensor: the decorated function gives its gradient."""

    def register(function: Callable) -> Callable:
        def run(c: Case) -> dict | None:
            grad = function(c)
            return None if grad is None else {"self": grad}

        formula(*names)(run)
        return function

    return register


def _calls(name: str, overload: Any, *arguments: Any) -> None:
    """``name``'s gradient is one call: of the gradient and what else the arguments give."""
    formula(name)(lambda c: {"self": shown(overload(), c.grad, *[a(c) for a in arguments])})


def _kept(name: str) -> Callable:
    return lambda c: c[name]


def _number(name: str) -> Callable:
    return lambda c: c.number(name)


_own, _result = _kept("self"), _kept("result")
_calls("exp", lambda: _aten.mul.Tensor, _result)
_calls("log", lambda: _aten.div.Tensor, _own)
_calls("tanh", lambda: _aten.tanh_backward.default, _result)
_calls("sigmoid", lambda: _aten.sigmoid_backward.default, _result)
_calls("relu", lambda: _aten.threshold_backward.default, _result, lambda c: 0)
_calls("threshold", lambda: _aten.threshold_backward.default, _own, _kept("threshold"))
_calls("silu", lambda: _aten.silu_backward.default, _own)
_calls("mish", lambda: _aten.mish_backward.default, _own)
_calls("hardswish", lambda: _aten.hardswish_backward.default, _own)
_calls("hardsigmoid", lambda: _aten.hardsigmoid_backward.default, _own)
_calls("hardtanh", lambda: _aten.hardtanh_backward.default, _own, _number("min_val"), _number("max_val"))
_calls("softplus", lambda: _aten.softplus_backward.default, _own, _number("beta"), _number("threshold"))
_calls("leaky_relu", lambda: _aten.leaky_relu_backward.default, _own, _number("negative_slope"), lambda c: False)
_calls("softshrink", lambda: _aten.softshrink_backward.default, _own, _number("lambd"))
_calls("hardshrink", lambda: _aten.hardshrink_backward.default, _own, _number("lambd"))
_calls("tril", lambda: _aten.tril.default, _kept("diagonal"))
_calls("triu", lambda: _aten.triu.default, _kept("diagonal"))
_calls("flip", lambda: _aten.flip.default, _kept("dims"))


@_one("gelu")
def gelu(c: Case) -> Any:
    return shown(_aten.gelu_backward.default, c.grad, c["self"], approximate=c["approximate"])


@_one("elu")
def elu(c: Case) -> Any:
    numbers = [c.number(n) for n in ("alpha", "scale", "input_scale")]
    return shown(_aten.elu_backward.default, c.grad, *numbers, False, c["self"])


@_one("neg")
def neg(c: Case) -> Any:
    return shown(_aten.neg.default, c.grad)


@_one("sqrt")
def sqrt(c: Case) -> Any:
    return shown(_aten.div.Tensor, c.grad, shown(_aten.mul.Scalar, c["result"], 2))


@_one("rsqrt")
def rsqrt(c: Case) -> Any:
    cube = shown(_aten.pow.Tensor_Scalar, c["result"], 3)
    return shown(_aten.mul.Tensor, shown(_aten.mul.Scalar, c.grad, -0.5), cube)


@_one("reciprocal")
def reciprocal(c: Case) -> Any:
    square = shown(_aten.mul.Tensor, c["result"], c["result"])
    return _negated(c.grad, square)


@_one("abs")
def absolute(c: Case) -> Any:
    return shown(_aten.mul.Tensor, c.grad, shown(_aten.sgn.default, c["self"]))


@_one("sin")
def sin(c: Case) -> Any:
    return shown(_aten.mul.Tensor, c.grad, shown(_aten.cos.default, c["self"]))


@_one("cos")
def cos(c: Case) -> Any:
    return shown(_aten.mul.Tensor, c.grad, shown(_aten.neg.default, shown(_aten.sin.default, c["self"])))


@_one("clamp")
def clamp(c: Case) -> Any:
    lower, upper = c["min"], c["max"]
    options = {"dtype": c.grad.dtype, "layout": strided, "device": c.grad.device}
    zero = shown(_aten.scalar_tensor.default, 0.0, **options)
    inside = None if lower is None else shown(_aten.ge.Scalar, c["self"], lower)
    if upper is not None:
        below_upper = shown(_aten.le.Scalar, c["self"], upper)
        inside = below_upper if inside is None else shown(_aten.logical_and_.default, inside, below_upper)
    return shown(_aten.where.self, inside, c.grad, zero)


@_one("masked_fill.Scalar")
def masked_fill(c: Case) -> Any:
    return shown(_aten.masked_fill.Scalar, c.grad, c["mask"], 0)


@formula("where.self")
def where(c: Case) -> dict:
    got = {}
    for name in ("other", "self"):
        if name in c.needs:
            options = {"dtype": c.grad.dtype, "layout": strided, "device": c.grad.device}
            zero = shown(_aten.scalar_tensor.default, 0, **options)
            pair = (c.grad, zero) if name == "self" else (zero, c.grad)
            got[name] = shown(_aten.where.self, c["condition"], *pair)
    return got


@formula("clone", "_to_copy")
def copied(c: Case) -> dict:
    return {"self": c.grad}


@formula("copy")
def copy(c: Case) -> dict:
    return {"src": c.grad, "self": shown(_aten.zeros_like.default, c.grad) if "self" in c.needs else None}


@formula("fill.Scalar", "zero")
def fill(c: Case) -> dict:
    return {"self": shown(_aten.zeros_like.default, c.grad)}


@formula("dropout")
def dropout(c: Case) -> dict:
    with below():
        noise = c["mask"].to(c.grad.dtype) / (1 - c["p"])
    return {"input": shown(_aten.mul.Tensor, c.grad, noise)}


# -- reductions ------------------------------------------------------------------------------------------------------


def _restored(c: Case, grad: Any, dims: Any, keepdim: bool) -> Any:
    """The gradient of a reduction with the reduced dimensions back, of length 1."""
    shape = c.shape()
    if keepdim or not shape:
        return grad
    for d in sorted({d % len(shape) for d in (dims or range(len(shape)))}):
        grad = shown(_aten.unsqueeze.default, grad, d)
    return grad


def _count(c: Case, dims: Any = None) -> int:
    n, shape = 1, c.shape()
    for d in dims or range(len(shape)):
        n *= shape[d]
    return n


@_one("sum")
def total(c: Case) -> Any:
    return shown(_aten.expand.default, c.grad, c.shape())


@_one("sum.dim_IntList")
def total_along(c: Case) -> Any:
    return shown(_aten.expand.default, _restored(c, c.grad, c["dim"], c["keepdim"]), c.shape())


@_one("mean")
def mean(c: Case) -> Any:
    return shown(_aten.div.Scalar, total(c), _count(c))


@_one("mean.dim")
def mean_along(c: Case) -> Any:
    return shown(_aten.div.Scalar, total_along(c), _count(c, c["dim"]))


@_one("cumsum")
def cumsum(c: Case) -> Any:
    flipped = shown(_aten.flip.default, c.grad, [c["dim"]])
    return shown(_aten.flip.default, shown(_aten.cumsum.default, flipped, c["dim"]), [c["dim"]])


@_one("logsumexp")
def logsumexp(c: Case) -> Any:
    grad, result = (_restored(c, t, c["dim"], c["keepdim"]) for t in (c.grad, c["result"]))
    weights = shown(_aten.exp.default, shown(_aten.sub.Tensor, c["self"], result))
    return shown(_aten.mul.Tensor, grad, weights)


def _selected(c: Case) -> Any:
    """The gradient of a reduction that selects elements, whose places it has saved."""
    indices = c["indices"]
    grad = _restored(c, c.grad, [c["dim"]], c["keepdim"])
    indices = _restored(c, indices, [c["dim"]], c["keepdim"])
    zeros = shown(_aten.new_zeros.default, grad, c.shape())
    return shown(_aten.scatter.src, zeros, c["dim"], indices, grad)


for _name in ("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "kthvalue"):
    formula(_name)(lambda c: None if c["indices"] is None else {"self": _selected(c)})


def _softmaxes(name: str) -> None:
    def run(c: Case) -> dict | None:
        if c["dtype"] is not None:
            return None
        func = getattr(_aten, f"_{name}_backward_data").default
        return {"self": shown(func, c.grad, c["result"], c["dim"], c["result"].dtype)}

    formula(f"{name}.int")(run)


_softmaxes("softmax")
_softmaxes("log_softmax")


# -- losses ----------------------------------------------------------------------------------------------------------


@_one("mse_loss")
def mse_loss(c: Case) -> Any:
    return shown(_aten.mse_loss_backward.default, c.grad, c["self"], c["target"], c["reduction"])


def _weighing(c: Case, scores: Any) -> Any:
    """The total weight that a mean divides by."""
    with below():
        kept = (c["target"] != c["ignore_index"]).to(scores.dtype)
        if c["weight"] is not None:
            kept = kept * c["weight"][c["target"].clamp(min=0)]
        return kept.sum()


@formula("nll_loss", "nll_loss2d")
def nll_loss(c: Case) -> dict:
    func = getattr(_aten, f"{c.op.name}_backward").default
    args = c["target"], c["weight"], c["reduction"], c["ignore_index"], _weighing(c, c["self"])
    return {"self": shown(func, c.grad, c["self"], *args)}


@formula("_cross_entropy", "_cross_entropy2d")
def cross_entropy(c: Case) -> dict | None:
    if type(c["self"]) is not Tensor:
        return None
    dim = 0 if len(c.shape()) == 1 else 1
    with below():
        scores = c["self"].log_softmax(dim)
    func = _aten.nll_loss_backward.default if c.op.name == "_cross_entropy" else _aten.nll_loss2d_backward.default
    args = c["target"], c["weight"], c["reduction"], c["ignore_index"], _weighing(c, scores)
    grad = shown(func, c.grad, scores, *args)
    scores = shown(_aten.detach.default, scores)
    return {"self": shown(_aten._log_softmax_backward_data.default, grad, scores, dim, scores.dtype)}


def _l1(reduction: str) -> None:
    def run(c: Case) -> dict:
        grad = c.grad
        if reduction != "none":
            grad = shown(_aten.expand.default, grad, c.shape())
        if reduction == "mean":
            grad = shown(_aten.div.Scalar, grad, _count(c))
        with below():
            gap = c["self"].detach() - c["target"].detach()
        grad = shown(_aten.mul.Tensor, grad, shown(_aten.sgn.default, gap))
        got = {"target": shown(_aten.neg.default, grad)} if "target" in c.needs else {}
        return {"self": grad, **got}

    formula(f"_l1_loss_{reduction}")(lambda c: run(c) if type(c["self"]) is type(c["target"]) is Tensor else None)


for _name in ("none", "mean", "sum"):
    _l1(_name)
