"""PyTorch's backward formulas as the aten calls that they are: products, views, indexing, layers."""

import math
from typing import Any

from torchlike._core._aten_backward import Case, Later, formula, summed
from torchlike._core._aten_lower import shown, viewable
from torchlike._core.packets import ops
from torchlike._core.python_dispatch import below, has_dispatch
from torchlike._core.tensor import Tensor, contiguous_format, strided

_aten = ops.aten


def _silently(t: Any, view: Any) -> Any:
    """A view of ``t`` that the forward made; a wrapper makes it anew."""
    if has_dispatch(type(t)):
        return view(t)
    with below():
        return view(t)


def _t(x: Any) -> Any:
    return shown(_aten.t.default, x)


# -- products --------------------------------------------------------------------------------------------------------


def _right(grad: Any, left: Any, by_columns: bool) -> Any:
    """The gradient of the right factor; in memory it is by columns where the factor is."""
    if by_columns:
        return _t(shown(_aten.mm.default, _t(grad), left))
    return shown(_aten.mm.default, _t(left), grad)


@formula("mm")
def mm(c: Case) -> dict:
    got = {}
    if "mat2" in c.needs:
        got["mat2"] = _right(c.grad, c["self"], False)
    if "self" in c.needs:
        got["self"] = shown(_aten.mm.default, c.grad, _t(c["mat2"]))
    return got


@formula("addmm")
def addmm(c: Case) -> dict | None:
    if c.number("alpha") != 1 or c.number("beta") != 1:
        return None
    got = {"self": c.grad}
    if "mat1" in c.needs:
        got["mat1"] = shown(_aten.mm.default, c.grad, _t(c["mat2"]))
    if "mat2" in c.needs:
        got["mat2"] = _right(c.grad, c["mat1"], False)
    return got


def _bmm(grad: Any, self: Any, mat2: Any, needs: tuple[bool, bool]) -> tuple[Any, Any]:
    right = left = None
    if needs[1]:
        right = shown(_aten.bmm.default, shown(_aten.transpose.int, self, 1, 2), grad)
    if needs[0]:
        left = shown(_aten.bmm.default, grad, shown(_aten.transpose.int, mat2, 1, 2))
    return left, right


@formula("bmm")
def bmm(c: Case) -> dict:
    left, right = _bmm(c.grad, c["self"], c["mat2"], ("self" in c.needs, "mat2" in c.needs))
    return {"self": left, "mat2": right}


@formula("mv")
def mv(c: Case) -> dict:
    return dict(zip(("self", "vec"), _mv(c.grad, c["self"], c["vec"], c.needs, ("self", "vec")), strict=True))


def _mv(grad: Any, matrix: Any, vector: Any, needs: list, names: tuple) -> tuple[Any, Any]:
    left = right = None
    if names[0] in needs:
        left = shown(_aten.mul.Tensor, shown(_aten.view.default, grad, [grad.shape[0], 1]), vector)
    if names[1] in needs:
        right = shown(_aten.mv.default, _t(matrix), grad)
    return left, right


@formula("linear")
def linear(c: Case) -> dict | None:
    shape, out = c.shape("input"), c.shape("weight")[0]
    if len(shape) == 1:
        return None
    rows = math.prod(shape[:-1])
    biased = c.plan.avals[2] is not None
    grad = c.grad if len(shape) == 2 else _restored(c.grad, [rows, out])
    got: dict = {}
    steps = (_linear_input, _linear_weight) if biased else (_linear_weight, _linear_input)
    for step in steps:
        step(c, grad, rows, got, biased)
    if "bias" in c.needs:
        got["bias"] = summed(grad, [out])
    return got


def _linear_input(c: Case, grad: Any, rows: int, got: dict, biased: bool) -> None:
    if "input" not in c.needs:
        return
    weight, shape = c["weight"], c.shape("input")
    back = weight if has_dispatch(type(weight)) else _t(_silently(weight, lambda w: w.t()))
    made = shown(_aten.mm.default, grad, back)
    if len(shape) > 2:
        got["input"] = Later(lambda: shown(_aten.view.default, made, shape), 2 if biased else 1)
    else:
        got["input"] = Later(lambda: made, 0) if biased else made


def _linear_weight(c: Case, grad: Any, rows: int, got: dict, biased: bool) -> None:
    if "weight" not in c.needs:
        return
    input, shape = c["input"], c.shape("input")
    if len(shape) > 2:
        input = _silently(input, lambda x: x.reshape(rows, shape[-1]))
    made = _right(grad, input, True)
    got["weight"] = Later(lambda: _t(made), 1 if biased else 2)


@formula("matmul")
def matmul(c: Case) -> dict | None:
    a, b = c.shape("self"), c.shape("other")
    if len(a) == 2 and len(b) == 2:
        got = {}
        if "other" in c.needs:
            got["other"] = _right(c.grad, c["self"], False)
        if "self" in c.needs:
            got["self"] = shown(_aten.mm.default, c.grad, _t(c["other"]))
        return got
    if len(a) == len(b) == 1:
        return {
            n: shown(_aten.mul.Tensor, c.grad, c[o]) for n, o in (("self", "other"), ("other", "self")) if n in c.needs
        }
    if len(a) == 2 and len(b) == 1:
        return dict(zip(("self", "other"), _mv(c.grad, c["self"], c["other"], c.needs, ("self", "other")), strict=True))
    if len(b) == 2 and len(a) > 2:
        return _folded(c, a, b)
    return _stacked(c, a, b) if len(a) > 1 and len(b) > 1 else None


def _folded(c: Case, a: list, b: list) -> dict:
    rows = math.prod(a[:-1])
    grad = _restored(c.grad, [rows, b[1]])
    got: dict = {}
    if "other" in c.needs:
        got["other"] = _right(grad, _silently(c["self"], lambda x: x.reshape(rows, a[-1])), False)
    if "self" in c.needs:
        made = shown(_aten.mm.default, grad, _t(c["other"]))
        got["self"] = Later(lambda: shown(_aten.view.default, made, a))
    return got


def _stacked(c: Case, a: list, b: list) -> dict:
    batch = list(c.grad.shape[:-2])
    n = math.prod(batch)

    def stack(name: str, shape: list) -> Any:
        return _silently(c[name], lambda x: x.expand(*batch, *shape[-2:]).reshape(n, *shape[-2:]))

    needs = "self" in c.needs, "other" in c.needs
    left = stack("self", a) if needs[1] else None
    right = stack("other", b) if needs[0] else None
    grad = _restored(c.grad, [n, a[-2], b[-1]])
    made = dict(zip(("self", "other"), _bmm(grad, left, right, needs), strict=True))

    def later(name: str, shape: list) -> Later:
        whole = [*batch, *shape[-2:]]
        return Later(lambda: summed(shown(_aten.view.default, made[name], whole), shape), 2 if name == "self" else 1)

    return {n: later(n, s) for n, s in (("self", a), ("other", b)) if n in c.needs}


# -- views -----------------------------------------------------------------------------------------------------------


def _restored(grad: Any, shape: list[int]) -> Any:
    return shown(_aten.view.default, grad, shape) if viewable(grad, shape) else _copied(grad, shape)


def _copied(grad: Any, shape: list[int]) -> Any:
    flat = shown(_aten.clone.default, grad, memory_format=contiguous_format)
    return shown(_aten._unsafe_view.default, flat, shape)


@formula("view", "_reshape_alias", "_unsafe_view")
def view(c: Case) -> dict:
    return {"self": _restored(c.grad, c.shape())}


@formula("alias")
def alias(c: Case) -> dict:
    return {"self": c.grad}


@formula("t")
def t(c: Case) -> dict:
    return {"self": _t(c.grad)}


@formula("transpose.int")
def transpose(c: Case) -> dict:
    dims = c.args or (c.static.get("dim0"), c.static.get("dim1"))
    return {"self": shown(_aten.transpose.int, c.grad, *dims)}


@formula("permute")
def permute(c: Case) -> dict | None:
    dims = [d % len(c.shape()) for d in (c.args[0] if c.args else c.static["dims"])]
    return {"self": shown(_aten.permute.default, c.grad, [dims.index(i) for i in range(len(dims))])}


@formula("unsqueeze")
def unsqueeze(c: Case) -> dict | None:
    dim = c.args[0] if c.args else None
    if dim is None:
        return None
    return {"self": shown(_aten.squeeze.dim, c.grad, dim)}


@formula("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(c: Case) -> dict:
    grad, shape = c.grad, c.shape()
    if list(grad.shape) == shape:
        return {"self": grad}
    dims = [i for i, n in enumerate(shape) if n == 1]
    if c.args:
        asked = c.args[0] if isinstance(c.args[0], tuple | list) else (c.args[0],)
        dims = [d for d in dims if d in {a % len(shape) for a in asked}]
    for d in dims:
        grad = shown(_aten.unsqueeze.default, grad, d)
    return {"self": grad}


@formula("expand")
def expand(c: Case) -> dict:
    return {"self": summed(c.grad, c.shape())}


@formula("select.int")
def select(c: Case) -> dict | None:
    if len(c.args) < 2:
        return None
    return {"self": shown(_aten.select_backward.default, c.grad, c.shape(), c.args[0], c.args[1])}


@formula("slice.Tensor")
def slice_(c: Case) -> dict | None:
    if not c.args:
        return None
    dim, start, end, step = (*c.args, *(0, None, None, 1)[len(c.args) :])
    length = c.shape()[dim]
    bounds = (0 if start is None else start), (length if end is None else end), step
    return {"self": shown(_aten.slice_backward.default, c.grad, c.shape(), dim, *bounds)}


@formula("narrow")
def narrow(c: Case) -> dict | None:
    if len(c.args) < 3:
        return None
    dim, start, length = c.args
    start = start + c.shape()[dim] if start < 0 else start
    return {"self": shown(_aten.slice_backward.default, c.grad, c.shape(), dim, start, start + length, 1)}


# -- joining and indexing --------------------------------------------------------------------------------------------


@formula("cat")
def cat(c: Case) -> dict:
    dim, at, got = c.static["dim"], 0, {}
    for i, aval in enumerate(c.plan.avals):
        end = at + aval.shape[dim]
        got[i] = shown(_aten.slice.Tensor, c.grad, dim, at, end)
        at = end
    return got


@formula("stack")
def stack(c: Case) -> dict:
    return {i: shown(_aten.select.int, c.grad, c.static["dim"], i) for i in c.needs}


@formula("index.Tensor")
def index(c: Case) -> dict:
    indices = [c.saved.get(str(i)) for i in range(1, len(c.plan.avals))]
    options = {"dtype": c.grad.dtype, "layout": strided, "device": c.grad.device}
    zeros = shown(_aten.new_zeros.default, c.grad, c.shape(0), **options)
    while indices and indices[-1] is None:
        indices.pop()
    return {0: shown(_aten.index_put.default, zeros, indices, c.grad, True)}


@formula("gather")
def gather(c: Case) -> dict:
    zeros = shown(_aten.new_zeros.default, c.grad, c.shape())
    return {"self": shown(_aten.scatter_add.default, zeros, c["dim"], c["index"], c.grad)}


@formula("index_select")
def index_select(c: Case) -> dict:
    options = {"dtype": c.grad.dtype, "layout": strided, "device": c.grad.device}
    zeros = shown(_aten.new_zeros.default, c.grad, c.shape(), **options)
    return {"self": shown(_aten.index_add.default, zeros, c["dim"], c["index"], c.grad)}


@formula("embedding")
def embedding(c: Case) -> dict:
    args = c["indices"], c.shape("weight")[0], c["padding_idx"], c["scale_grad_by_freq"]
    return {"weight": shown(_aten.embedding_dense_backward.default, c.grad, *args)}


@formula("constant_pad_nd")
def pad(c: Case) -> dict:
    return {"self": shown(_aten.constant_pad_nd.default, c.grad, [-n for n in c["pad"]])}


# -- layers ----------------------------------------------------------------------------------------------------------


def _masked(c: Case, func: Any, names: tuple, *args: Any) -> dict:
    """A backward of several gradients, of which a mask says which are wanted."""
    out = shown(func, *args, [n in c.needs for n in names])
    return dict(zip(names, out, strict=True))


@formula("convolution")
def convolution(c: Case) -> dict | None:
    if c["input"] is None or c["weight"] is None:
        return _convolution_by_shape(c)
    return _convolution(c, c["input"], c["weight"])


def _convolution(c: Case, input: Any, weight: Any) -> dict:
    n = len(c.shape("weight")) - 2
    lists = [list(x) * n if isinstance(x, tuple) and len(x) == 1 else x for x in c.static.values()]
    bias = c.plan.avals[2]
    sizes = [0] if bias is None else list(bias.shape)
    args = c.grad, input, weight, sizes, *[list(x) if isinstance(x, tuple) else x for x in lists]
    return _masked(c, _aten.convolution_backward.default, ("input", "weight", "bias"), *args)


def _convolution_by_shape(c: Case) -> dict:
    """Where one of input and weight was not saved, only its shape matters: zeros stand for it."""

    def stand(name: str) -> Any:
        found = c[name]
        if found is None:
            with below():
                found = c.grad.new_zeros(c.shape(name))
        return found

    return _convolution(c, stand("input"), stand("weight"))


@formula("native_layer_norm")
def layer_norm(c: Case) -> dict | None:
    if c["result1"] is None or c["input"] is None:
        return None
    args = c.grad, c["input"], list(c["normalized_shape"]), c["result1"], c["result2"], c["weight"], c["bias"]
    return _masked(c, _aten.native_layer_norm_backward.default, ("input", "weight", "bias"), *args)


@formula("native_batch_norm")
def batch_norm(c: Case) -> dict | None:
    if c["instances"] or c["result1"] is None or c["input"] is None:
        return None
    saved = c["weight"], c["running_mean"], c["running_var"], c["result1"], c["result2"]
    args = c.grad, c["input"], *saved, True, c.number("eps")
    return _masked(c, _aten.native_batch_norm_backward.default, ("input", "weight", "bias"), *args)


def _max(n: int) -> None:
    def run(c: Case) -> dict | None:
        if c["result1"] is None:
            return None
        func = getattr(_aten, f"max_pool{n}d_with_indices_backward").default
        sizes = [list(c[k]) * (n if len(c[k]) == 1 else 1) for k in ("kernel_size", "stride", "padding", "dilation")]
        return {"self": shown(func, c.grad, c["self"], *sizes, c["ceil_mode"], c["result1"])}

    formula(f"max_pool{n}d_with_indices")(run)


for _n in (2, 3):
    _max(_n)


def _average(n: int) -> None:
    def run(c: Case) -> dict:
        func = getattr(_aten, f"avg_pool{n}d_backward").default
        sizes = [list(c[k]) * (n if len(c[k]) == 1 else 1) for k in ("kernel_size", "stride", "padding")]
        args = c["ceil_mode"], c["count_include_pad"], c["divisor_override"]
        return {"self": shown(func, c.grad, c["self"], *sizes, *args)}

    formula(f"avg_pool{n}d")(run)


for _n in (2, 3):
    _average(_n)


@formula("_scaled_dot_product_attention")
def attention(c: Case) -> dict | None:
    query = c["query"]
    if (
        query is None
        or len(c.shape("query")) != 4
        or c["words"] is not None
        or c["enable_gqa"]
        or "attn_mask" in c.needs
    ):
        return None
    if type(query) is not Tensor or c.shape("query")[-1] != c.shape("value")[-1]:
        return None
    inputs = query, c["key"], c["value"]
    options = {"attn_mask": c["attn_mask"], "scale": c["scale"]}
    forward = _aten._scaled_dot_product_flash_attention_for_cpu.default
    with below():
        out, weights = forward(*[x.detach() for x in inputs], 0.0, c["is_causal"], **options)
    out = shown(_aten.detach.default, out)
    func = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    got = shown(func, c.grad, *inputs, out, weights, 0.0, c["is_causal"], **options)
    return dict(zip(("query", "key", "value"), got, strict=True))
