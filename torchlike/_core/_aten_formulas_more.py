"""PyTorch's backward formulas as the aten calls that they are: statistics, selections, the rarer functions."""

import math
from typing import Any

from torchlike._core._aten_backward import Case, formula
from torchlike._core._aten_formulas import _count, _one, _restored
from torchlike._core._aten_lower import shown
from torchlike._core.packets import ops
from torchlike._core.python_dispatch import below
from torchlike._core.tensor import Tensor

_aten = ops.aten


def _mul(a: Any, b: Any) -> Any:
    return shown(_aten.mul.Tensor, a, b)


# -- functions of one tensor -----------------------------------------------------------------------------------------


@_one("log1p")
def log1p(c: Case) -> Any:
    return shown(_aten.div.Tensor, c.grad, shown(_aten.add.Scalar, c["self"], 1))


@_one("expm1")
def expm1(c: Case) -> Any:
    return None if c["result"] is None else _mul(c.grad, shown(_aten.add.Scalar, c["result"], 1))


@_one("sinh")
def sinh(c: Case) -> Any:
    return _mul(c.grad, shown(_aten.cosh.default, c["self"]))


@_one("cosh")
def cosh(c: Case) -> Any:
    return _mul(c.grad, shown(_aten.sinh.default, c["self"]))


@_one("erf")
def erf(c: Case) -> Any:
    square = shown(_aten.pow.Tensor_Scalar, c["self"], 2)
    bell = shown(_aten.exp.default, shown(_aten.neg.default, square))
    return _mul(shown(_aten.mul.Scalar, bell, 2 / math.sqrt(math.pi)), c.grad)


@_one("log2")
def log2(c: Case) -> Any:
    return shown(_aten.div.Tensor, c.grad, shown(_aten.mul.Scalar, c["self"], math.log(2)))


@_one("log10")
def log10(c: Case) -> Any:
    return shown(_aten.div.Tensor, c.grad, shown(_aten.mul.Scalar, c["self"], math.log(10)))


@_one("floor", "ceil", "trunc", "round", "sign")
def steps(c: Case) -> Any:
    return shown(_aten.zeros_like.default, c.grad)


@_one("roll")
def roll(c: Case) -> Any:
    return shown(_aten.roll.default, c.grad, [-s for s in c["shifts"]], list(c["dims"]))


# -- functions of several --------------------------------------------------------------------------------------------


@formula("addcmul")
def addcmul(c: Case) -> dict:
    got = {"self": c.grad}
    for name, factor in (("tensor1", c["tensor2"]), ("tensor2", c["tensor1"])):
        if name in c.needs:
            got[name] = _mul(c.grad, shown(_aten.mul.Scalar, factor, c.number("value")))
    return got


@formula("lerp.Scalar")
def lerp(c: Case) -> dict | None:
    weight = c["weight"]
    if weight is None:
        return None
    got = {}
    if "end" in c.needs:
        got["end"] = shown(_aten.mul.Scalar, c.grad, weight)
    if "self" in c.needs:
        got["self"] = shown(_aten.mul.Scalar, c.grad, 1 - weight)
    return got


def _larger(name: str, strictly: Any) -> None:
    def run(c: Case) -> dict:
        got = {}
        for own in ("other", "self"):
            if own in c.needs:
                half = shown(_aten.div.Scalar, c.grad, 2)
                tied = shown(_aten.eq.Tensor, c["self"], c["other"])
                grad = shown(_aten.where.self, tied, half, c.grad)
                beaten = strictly(own == "other", c["self"], c["other"])
                got[own] = shown(_aten.masked_fill_.Scalar, grad, beaten, 0)
        return got

    formula(name)(run)


_larger("maximum", lambda other, a, b: shown(_aten.gt.Tensor if other else _aten.lt.Tensor, a, b))
_larger("minimum", lambda other, a, b: shown(_aten.lt.Tensor if other else _aten.gt.Tensor, a, b))


@formula("outer", "ger")
def outer(c: Case) -> dict | None:
    if type(c.grad) is not Tensor:
        return None
    got = {}
    if "vec2" in c.needs:
        with below():
            column = c["self"].view(-1, 1)
        got["vec2"] = _mul(c.grad, column)
    if "self" in c.needs:
        rows = shown(_aten.sum.dim_IntList, _mul(c.grad, c["vec2"]), [1], True)
        got["self"] = shown(_aten.view.default, rows, c.shape("self"))
    return got


@formula("scatter.value")
def scatter_value(c: Case) -> dict:
    return {"self": shown(_aten.scatter.value, c.grad, c["dim"], c["index"], 0)}


@formula("scatter.src")
def scatter_src(c: Case) -> dict:
    got = {}
    if "src" in c.needs:
        got["src"] = shown(_aten.gather.default, c.grad, c["dim"], c["index"])
    if "self" in c.needs:
        got["self"] = shown(_aten.scatter.value, c.grad, c["dim"], c["index"], 0)
    return got


@formula("scatter_add")
def scatter_add(c: Case) -> dict:
    got = {"self": c.grad}
    if "src" in c.needs:
        got["src"] = shown(_aten.gather.default, c.grad, c["dim"], c["index"])
    return got


# -- statistics ------------------------------------------------------------------------------------------------------


def _spread(c: Case, grad: Any, dims: Any, correction: float, keepdim: bool) -> Any:
    """The gradient of a variance: twice the distance from the mean, over the number of elements less the correction."""
    grad = _restored(c, grad, dims, keepdim or dims is None)
    middle = shown(_aten.mean.default, c["self"]) if dims is None else shown(_aten.mean.dim, c["self"], dims, True)
    gap = shown(_aten.sub.Tensor, c["self"], middle)
    return _mul(shown(_aten.mul.Scalar, grad, 2.0 / (_count(c, dims) - correction)), gap)


def _deviation(c: Case, grad: Any) -> Any:
    """The gradient of the variance under a standard deviation, 0 where that is 0."""
    doubled = shown(_aten.mul.Scalar, c["result"], 2)
    return shown(_aten.masked_fill_.Scalar, shown(_aten.div.Tensor, grad, doubled), _is_zero(c["result"]), 0)


def _is_zero(t: Any) -> Any:
    return shown(_aten.eq.Scalar, t, 0)


def _statistic(name: str) -> None:
    def run(c: Case, dims: Any, correction: float, keepdim: bool) -> dict | None:
        if c["self"] is None or (name == "std" and c["result"] is None):
            return None
        grad = _deviation(c, c.grad) if name == "std" else c.grad
        return {"self": _spread(c, grad, list(dims) if dims else None, correction, keepdim)}

    formula(name)(lambda c: run(c, None, int(c["unbiased"]), False))
    formula(f"{name}.dim")(lambda c: run(c, c["dim"], int(c["unbiased"]), c["keepdim"]))


_statistic("var")
_statistic("std")


@_one("linalg_vector_norm")
def vector_norm(c: Case) -> Any:
    if c.number("ord") != 2 or c["result"] is None or c["self"] is None:
        return None
    dims = c["dim"]
    grad, result = c.grad, c["result"]
    if dims:
        grad, result = (_restored(c, t, dims, c["keepdim"]) for t in (grad, result))
    unit = shown(_aten.div.Tensor, c["self"], result)
    return _mul(grad, shown(_aten.masked_fill_.Scalar, unit, _is_zero(result), 0))


def _extreme(name: str) -> None:
    def run(c: Case) -> dict | None:
        if c["result"] is None or c["self"] is None:
            return None
        dims = list(c["dim"]) or list(range(len(c.shape())))
        shape = [1 if i in {d % len(c.shape()) for d in dims} else n for i, n in enumerate(c.shape())]
        result, grad = c["result"], c.grad
        if not c["keepdim"]:
            result = shown(_aten.view.default, result, shape)
        tied = shown(_aten.eq.Tensor, result, c["self"])
        if not c["keepdim"]:
            grad = shown(_aten.view.default, grad, shape)
        share = shown(_aten.div.Tensor, grad, shown(_aten.sum.dim_IntList, tied, dims, True))
        return {"self": _mul(share, tied)}

    formula(name)(run)


_extreme("amax")
_extreme("amin")


@formula("max", "min")
def extreme(c: Case) -> dict | None:
    if c["result"] is None:
        return None
    nan = shown(
        _aten.logical_and.default, shown(_aten.isnan.default, c["self"]), shown(_aten.isnan.default, c["result"])
    )
    tied = shown(_aten.logical_or_.default, shown(_aten.eq.Tensor, c["self"], c["result"]), nan)
    return {"self": _mul(tied, shown(_aten.div.Tensor, c.grad, shown(_aten.sum.default, tied)))}


def _placed(c: Case, dim: int) -> Any:
    zeros = shown(_aten.new_zeros.default, c.grad, c.shape())
    return shown(_aten.scatter.src, zeros, dim, c["indices"], c.grad)


for _name in ("sort", "sort.stable", "topk"):
    formula(_name)(lambda c: None if c["indices"] is None else {"self": _placed(c, c["dim"])})


# -- views of several pieces, and places of elements -----------------------------------------------------------------


@formula("split.Tensor", "split_with_sizes")
def split(c: Case) -> dict:
    return {"self": shown(_aten.cat.default, list(c.grads), c["dim"])}


@formula("unbind.int")
def unbind(c: Case) -> dict:
    return {"self": shown(_aten.stack.default, list(c.grads), c["dim"])}


@formula("diagonal")
def diagonal(c: Case) -> dict | None:
    numbers = (*c.args, *(0, 0, 1)[len(c.args) :])
    return {"self": shown(_aten.diagonal_backward.default, c.grad, c.shape(), *numbers)}


@formula("unfold")
def unfold(c: Case) -> dict | None:
    if len(c.args) < 3:
        return None
    return {"self": shown(_aten.unfold_backward.default, c.grad, c.shape(), *c.args)}


@_one("repeat")
def repeat(c: Case) -> Any:
    repeats, shape = list(c["repeats"]), c.shape()
    lead = len(repeats) - len(shape)
    split_shape: list[int] = []
    dims = []
    for i, n in enumerate(repeats):
        own = shape[i - lead] if i >= lead else None
        if n != 1 or own is None:
            dims.append(len(split_shape))
            split_shape.append(n)
        if own is not None:
            split_shape.append(own)
    grad = shown(_aten.view.default, c.grad, split_shape) if c.grad.is_contiguous() else c.grad.reshape(split_shape)
    return shown(_aten.sum.dim_IntList, grad, dims) if dims else grad


# -- losses and norms ------------------------------------------------------------------------------------------------


@_one("smooth_l1_loss")
def smooth_l1_loss(c: Case) -> Any:
    if "target" in c.needs:
        return None
    args = c["self"], c["target"], c["reduction"], c.number("beta")
    return shown(_aten.smooth_l1_loss_backward.default, c.grad, *args)


@_one("huber_loss")
def huber_loss(c: Case) -> Any:
    if "target" in c.needs:
        return None
    args = c["self"], c["target"], c["reduction"], c.number("delta")
    return shown(_aten.huber_loss_backward.default, c.grad, *args)


@_one("binary_cross_entropy")
def binary_cross_entropy(c: Case) -> Any:
    if "target" in c.needs:
        return None
    args = c["self"], c["target"], c["weight"], c["reduction"]
    return shown(_aten.binary_cross_entropy_backward.default, c.grad, *args)


@_one("binary_cross_entropy_with_logits")
def with_logits(c: Case) -> Any:
    if c["pos_weight"] is not None or c["weight"] is not None or "target" in c.needs:
        return None
    gap = shown(_aten.sub.Tensor, shown(_aten.sigmoid.default, c["self"]), c["target"])
    grad = _mul(gap, c.grad)
    return shown(_aten.div_.Scalar, grad, _count(c)) if c["reduction"] == 1 else grad


@formula("native_group_norm")
def group_norm(c: Case) -> dict | None:
    if c["result1"] is None or c["input"] is None:
        return None
    n, channels, *rest = c.shape("input")
    sizes = n, channels, math.prod(rest), c["num_groups"]
    names = "input", "weight", "bias"
    args = c.grad, c["input"], c["result1"], c["result2"], c["weight"], *sizes
    out = shown(_aten.native_group_norm_backward.default, *args, [name in c.needs for name in names])
    return dict(zip(names, out, strict=True))
