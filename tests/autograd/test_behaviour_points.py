"""Gradients at delicate points and under broadcasting, of first and second order."""

import numpy as np
import pytest
from both import agree, agree_error
from oracle import check
from story_kit import leaf

# -- gradients of single functions at delicate points ------------------------------------------------

DELICATE = {
    "pow of zero": lambda t, x: x**0,
    "pow of zero by a tensor": lambda t, x: x ** t.tensor([0.0, 1.0, 2.0], dtype=t.float64),
    "exponent of a zero base": lambda t, x: t.tensor([0.0, 0.0, 2.0], dtype=t.float64) ** x,
    "a number to a power": lambda t, x: 0**x,
    "two to a power": lambda t, x: 2**x,
    "norm at zero": lambda t, x: (x * 0).norm(),
    "norm of order one": lambda t, x: x.norm(1),
    "norm of order inf": lambda t, x: x.norm(float("inf")),
    "norm of order half": lambda t, x: x.norm(0.5),
    "clamp": lambda t, x: x.clamp(0.0, 2.0),
    "clamp of tensors": lambda t, x: t.clamp(x, min=x.detach() * 0, max=x.detach()),
    "clamp below only": lambda t, x: x.clamp(min=2.0),
    "where": lambda t, x: t.where(x > 1, x, x**2),
    "where of a number": lambda t, x: t.where(x > 1, x, 0.0),
    "where of nan": lambda t, x: t.where(x > 0, x.log(), 0.0 * x),
    "masked_fill": lambda t, x: x.masked_fill(x > 1, 7.0),
    "masked_fill by a tensor": lambda t, x: x.masked_fill(x > 1, x.sum()),
    "masked_select": lambda t, x: x.masked_select(x > 0.5),
    "masked_scatter": lambda t, x: x.masked_scatter(x > 1, x * 3),
    "prod with a zero": lambda t, x: x.prod(),
    "prod with two zeros": lambda t, x: (x * t.tensor([0.0, 0.0, 1.0], dtype=t.float64)).prod(),
    "cumprod with a zero": lambda t, x: x.cumprod(0),
    "max of ties": lambda t, x: t.cat([x, x]).max(),
    "amax of ties": lambda t, x: t.cat([x, x]).amax(0),
    "median": lambda t, x: t.cat([x, x]).median(),
    "nanmedian": lambda t, x: x.nanmedian(),
    "maximum of ties": lambda t, x: t.maximum(x, x.detach()),
    "fmax of nan": lambda t, x: t.fmax(x, x * float("nan")),
    "minimum of itself": lambda t, x: t.minimum(x, x),
    "abs at zero": lambda t, x: x.abs(),
    "sign": lambda t, x: x.sign() * x,
    "sqrt at zero": lambda t, x: x.abs().sqrt(),
    "relu": lambda t, x: x.relu(),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x * 100),
    "logsumexp of -inf": lambda t, x: t.stack([x, x.detach() * 0 - float("inf")]).logsumexp(0),
    "logsumexp": lambda t, x: x.logsumexp(0),
    "log_softmax": lambda t, x: x.log_softmax(0),
    "std of one": lambda t, x: x[:1].std(),
    "std of equals": lambda t, x: (x * 0).std(),
    "var": lambda t, x: x.var(0, unbiased=False),
    "var_mean": lambda t, x: sum(t.var_mean(x, 0)),
    "std_mean": lambda t, x: sum(t.std_mean(x, 0)),
    "atan2 at zero": lambda t, x: t.atan2(x * 0, x * 0),
    "hypot at zero": lambda t, x: t.hypot(x * 0, x * 0),
    "sinc": lambda t, x: t.sinc(x),
    "xlogy": lambda t, x: t.xlogy(x, x.detach() * 0),
    "xlogy of both": lambda t, x: t.xlogy(x, x),
    "nan_to_num": lambda t, x: t.nan_to_num(x + t.tensor([float("nan"), float("-inf"), 0.0], dtype=t.float64)),
    "fmod": lambda t, x: t.fmod(x, 2),
    "remainder": lambda t, x: t.remainder(x, x.detach() + 2),
    "floor_divide": lambda t, x: x - t.div(x, 2.0, rounding_mode="floor"),
    "trunc": lambda t, x: x.trunc() + x,
    "frac": lambda t, x: x.frac(),
    "lerp": lambda t, x: t.lerp(x, x * 2, x),
    "addcmul": lambda t, x: t.addcmul(x, x, x, value=2),
    "addcdiv": lambda t, x: t.addcdiv(x, x, x + 2, value=2),
    "dist": lambda t, x: t.dist(x, x.detach()),
    "renorm": lambda t, x: x[None].renorm(2, 0, 1.0),
    "cumsum": lambda t, x: x.cumsum(0),
    "cummax": lambda t, x: x.cummax(0).values,
    "cummin": lambda t, x: x.flip(0).cummin(0)[0],
    "logcumsumexp": lambda t, x: x.logcumsumexp(0),
    "kthvalue": lambda t, x: x.kthvalue(2).values,
    "mode": lambda t, x: x.mode().values,
    "quantile": lambda t, x: x.quantile(0.4),
    "sort": lambda t, x: x.sort(descending=True).values * t.arange(3.0, dtype=t.float64),
    "topk": lambda t, x: x.topk(2).values,
    "expand": lambda t, x: x.expand(4, 3),
    "repeat": lambda t, x: x.repeat(2, 2),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2),
    "gather twice": lambda t, x: x.gather(0, t.tensor([0, 0, 2])),
    "index_select twice": lambda t, x: x.index_select(0, t.tensor([1, 1, 0])),
    "take": lambda t, x: x.take(t.tensor([[2, 2]])),
    "scatter": lambda t, x: x.scatter(0, t.tensor([0]), 5.0),
    "scatter of a tensor": lambda t, x: x.scatter(0, t.tensor([0, 2]), x[:2] * 2),
    "scatter_add": lambda t, x: x.scatter_add(0, t.tensor([0, 0, 2]), x * x),
    "index_add": lambda t, x: x.index_add(0, t.tensor([0, 0]), x[:2] * 3, alpha=2),
    "index_copy": lambda t, x: x.index_copy(0, t.tensor([2]), x[:1] * 3),
    "index_fill": lambda t, x: x.index_fill(0, t.tensor([2]), 3.0),
    "index_put": lambda t, x: x.index_put((t.tensor([0, 0]),), x[:2] * 2, accumulate=True),
    "scatter_reduce prod": lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 2]), x * 2, "prod"),
    "scatter_reduce amax": lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 2]), x, "amax"),
    "flip, roll": lambda t, x: x.flip(0) * x.roll(1),
    "unfold": lambda t, x: x.unfold(0, 2, 1),
    "as_strided": lambda t, x: x.as_strided((2, 2), (1, 1)),
    "diag_embed": lambda t, x: t.diag_embed(x),
    "tril": lambda t, x: t.outer(x, x).tril(),
    "trace": lambda t, x: t.outer(x, x).trace(),
    "block_diag": lambda t, x: t.block_diag(x, x * 2),
    "cat with an empty one": lambda t, x: t.cat([x, t.zeros(0, dtype=t.float64), x * 2]),
    "stack": lambda t, x: t.stack([x, x * x], -1),
    "einsum": lambda t, x: t.einsum("i,j->ij", x, x),
    "tensordot": lambda t, x: t.tensordot(x, x, 1),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 2), value=3.0),
    "pad by reflection": lambda t, x: t.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, t.ones(2, 1, dtype=t.float64))[0],
    "complex parts": lambda t, x: t.complex(x, x * 2).abs(),
    "view_as_complex": lambda t, x: t.view_as_real(t.view_as_complex(t.stack([x, x * 2], -1)) ** 2),
    "angle": lambda t, x: x.angle() + x,
    "polar": lambda t, x: t.view_as_real(t.polar(x.abs(), x)),
    "sgn": lambda t, x: t.view_as_real(t.complex(x, x).sgn()),
    "cosine_similarity": lambda t, x: t.nn.functional.cosine_similarity(x, x.detach() + 1, dim=0),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0),
    "meshgrid": lambda t, x: sum(t.meshgrid(x, x, indexing="ij")),
    "cartesian_prod": lambda t, x: t.cartesian_prod(x, x * 2),
    "combinations": lambda t, x: t.combinations(x),
    "nansum": lambda t, x: (x + t.tensor([float("nan"), 1.0, 0.0], dtype=t.float64)).nansum(),
    "erfinv": lambda t, x: t.erfinv(x / 4),
    "lgamma": lambda t, x: t.lgamma(x + 3),
    "logit": lambda t, x: t.logit(x / 4 + 0.5, eps=0.2),
    "rsub": lambda t, x: 3 - x,
    "reciprocal": lambda t, x: 1 / (x + 3),
    "neg, pos, abs": lambda t, x: -x + +x + abs(x),
    "matmul": lambda t, x: x @ x,
    "det": lambda t, x: t.diag(x).det(),
    "inverse": lambda t, x: t.inverse(t.diag(x + 4)),
    "deg2rad": lambda t, x: t.deg2rad(x),
    "logaddexp": lambda t, x: t.logaddexp(x, x * 2),
    "heaviside": lambda t, x: x * t.heaviside(x.detach(), x.detach()),
    "copysign": lambda t, x: t.copysign(x, -x.detach()),
    "ldexp": lambda t, x: t.ldexp(x, t.tensor([1, 2, 3])),
    "frexp": lambda t, x: t.frexp(x)[0],
    "bucketed": lambda t, x: x * t.bucketize(x.detach(), x.detach().sort().values),
    "histogram of a hook": lambda t, x: x.clone().fill_(3.0) + x,
}


@pytest.mark.parametrize("name", DELICATE)
@pytest.mark.parametrize("values", [(0.0, 1.0, 2.0), (-1.5, 0.5, 1.0)], ids=["zero", "signs"])
def test_gradients_at_delicate_points(name, values):
    check(DELICATE[name], np.array(values), jit=False, stride=False)


BROADCAST = {
    "add": lambda t, a, b: a + b,
    "mul": lambda t, a, b: a * b,
    "div": lambda t, a, b: a / (b + 9),
    "sub by alpha": lambda t, a, b: t.sub(a, b, alpha=3),
    "pow": lambda t, a, b: (a.abs() + 1) ** b,
    "maximum": lambda t, a, b: t.maximum(a, b),
    "where": lambda t, a, b: t.where(a > b, a, b),
    "atan2": lambda t, a, b: t.atan2(a, b),
    "lerp": lambda t, a, b: t.lerp(a, b, 0.25),
    "addcmul": lambda t, a, b: t.addcmul(a, b, a),
    "outer": lambda t, a, b: t.outer(a.flatten(), b.flatten()) + (a + b).sum(),
    "fmod": lambda t, a, b: t.fmod(a, b + 9),
    "masked_fill": lambda t, a, b: a.masked_fill(b.detach() > 2, 0.0) + b,
    "copysign": lambda t, a, b: t.copysign(a, b),
    "hypot": lambda t, a, b: t.hypot(a, b),
    "logaddexp": lambda t, a, b: t.logaddexp(a, b),
    "xlogy": lambda t, a, b: t.xlogy(a, b.abs() + 1),
    "huber": lambda t, a, b: t.nn.functional.huber_loss(a, b.expand_as(a + b)) + a,
}
SHAPES = {
    "row": ((2, 3), (3,)),
    "column": ((2, 3), (2, 1)),
    "0-dim": ((2, 3), ()),
    "outer": ((2, 1), (1, 3)),
    "left": ((), (2, 2)),
    "empty": ((0, 3), (3,)),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BROADCAST)
def test_broadcast_gradients(name, shapes):
    def f(t):
        a, b = (
            (
                t.arange(float(max(1, t.Size(s).numel())), dtype=t.float64)[: t.Size(s).numel()].reshape(s) + i
            ).requires_grad_()
            for i, s in enumerate(SHAPES[shapes])
        )
        BROADCAST[name](t, a, b).sum().backward()
        return a.grad, b.grad

    agree(f)


def test_errors_keep_gradients():
    agree_error(lambda t: leaf(t).sum().backward(t.ones(2)), "Mismatch in shape")
    agree_error(lambda t: t.ones(2).sum().backward(), "element 0 of tensors does not require grad")
