"""The ``out`` overloads of ``torch.ops.aten`` beside public functions without ``out=``, from the declarations."""

import warnings

import pytest
import torch as torch_oracle

import torchlike as torch
from torchlike._decl.op import REGISTRY


def _overloads(lib, name):
    packet = getattr(lib.ops.aten, name, None)
    return [] if packet is None else packet.overloads()


def test_there_are_none_that_pytorch_lacks():
    _overloads(torch, "add")
    found = {(op.schema.name, op.aten.out) for op in REGISTRY.values() if not op.aten.own and op.aten.out}
    extra = {(n, out) for n, out in found if _overloads(torch_oracle, n) and out not in _overloads(torch_oracle, n)}
    assert extra - {("linalg_eigh", "out")} == set()
    assert len(found) > 380


def test_their_schemas_are_pytorchs():
    names = "relu clone cat flip var_mean.correction median native_layer_norm max_pool2d_with_indices count_nonzero"
    for name in [*names.split(), "masked_fill.Scalar", "index_put", "stack", "trace", "gelu", "huber_loss"]:
        out = REGISTRY[name].aten.out
        mine, theirs = (getattr(getattr(lib.ops.aten, name.split(".")[0]), out) for lib in (torch, torch_oracle))
        assert str(mine._schema) == str(theirs._schema)


POINTWISE = "relu gelu silu mish softplus softshrink hardsigmoid hardswish hardtanh leaky_relu elu celu log_sigmoid glu"
CASES = {
    "flip": lambda a, x, i, e: a.flip.out(x, [0], out=e()),
    "roll": lambda a, x, i, e: a.roll.out(x, [1], [0], out=e()),
    "roll onto itself": lambda a, x, i, e: a.roll.out(x, [1], [0], out=x),
    "repeat": lambda a, x, i, e: a.repeat.out(x, [2, 1], out=e()),
    "cat": lambda a, x, i, e: a.cat.out([x, x], 1, out=e("float64")),
    "stack": lambda a, x, i, e: a.stack.out([x, x], 1, out=e("float64")),
    "mse_loss": lambda a, x, i, e: a.mse_loss.out(x, x + 1, out=e("float64")),
    "huber_loss": lambda a, x, i, e: a.huber_loss.out(x, x + 1, out=e("float64")),
    "soft_margin_loss": lambda a, x, i, e: a.soft_margin_loss.out(x, x + 1, out=e()),
    "isnan": lambda a, x, i, e: a.isnan.out(x, out=e("bool")),
    "isnan as float": lambda a, x, i, e: a.isnan.out(x, out=e()),
    "median": lambda a, x, i, e: a.median.out(x, out=e()),
    "count_nonzero": lambda a, x, i, e: a.count_nonzero.out(x, out=e("int64")),
    "trace": lambda a, x, i, e: a.trace.out(x, out=e()),
    "index": lambda a, x, i, e: a.index.Tensor_out(x, [i], out=e()),
    "index_put": lambda a, x, i, e: a.index_put.out(x, [i], x, out=e()),
    "index_fill": lambda a, x, i, e: a.index_fill.int_Scalar_out(x, 0, i, 2.0, out=e()),
    "embedding": lambda a, x, i, e: a.embedding.out(x, i, out=e()),
    "masked_fill": lambda a, x, i, e: a.masked_fill.Scalar_out(x, x > 0, 2.0, out=e()),
    "masked_scatter": lambda a, x, i, e: a.masked_scatter.out(x, x > 0, x, out=e()),
    "fill": lambda a, x, i, e: a.fill.Scalar_out(x, 2, out=e()),
    "copy": lambda a, x, i, e: a.copy.out(x, x + 1, out=e()),
    "linear": lambda a, x, i, e: a.linear.out(x, x, x[0], out=e()),
    "constant_pad_nd": lambda a, x, i, e: a.constant_pad_nd.out(x, [1, 1], 2.0, out=e()),
    "var_mean": lambda a, x, i, e: a.var_mean.correction_out(x, out0=e(), out1=e()),
    "native_layer_norm": lambda a, x, i, e: a.native_layer_norm.out(
        x, [2], None, None, 1e-5, out0=e(), out1=e(), out2=e()
    ),
    "max_pool2d_with_indices": lambda a, x, i, e: a.max_pool2d_with_indices.out(
        x[None], [2, 2], out=e(), indices=e("int64")
    ),
    "argsort": lambda a, x, i, e: a.argsort.stable_out(x, stable=True, out=e("int64")),
    "nonzero_static": lambda a, x, i, e: a.nonzero_static.out(x, size=4, out=e("int64")),
    "pixel_shuffle": lambda a, x, i, e: a.pixel_shuffle.out(x.reshape(1, 4, 1, 1), 2, out=e()),
    "select_backward": lambda a, x, i, e: a.select_backward.out(x[0], [2, 2], 0, 0, out=e()),
    "resized": lambda a, x, i, e: a.relu.out(x, out=e().new_zeros(3)),
    "expanded": lambda a, x, i, e: a.relu.out(x, out=x[:1].expand(2, 2)),
} | {
    f"{name} {dtype}": lambda a, x, i, e, name=name, dtype=dtype: getattr(a, name).out(x, out=e(dtype))
    for name in POINTWISE.split()
    for dtype in ("float32", "float64")
}


def _outcome(lib, case):
    x = lib.tensor([[1.0, -2.0], [0.5, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = case(lib.ops.aten, x, lib.tensor([1, 0]), lambda d="float32": lib.empty(0, dtype=getattr(lib, d)))
        except Exception as error:
            return type(error)
    parts = got if isinstance(got, tuple | list) else (got,)
    return [(str(t.dtype), t.shape, t.stride()) for t in parts], [v for t in parts for v in t.flatten().tolist()]


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_pytorchs_compute(name):
    mine, theirs = (_outcome(lib, CASES[name]) for lib in (torch, torch_oracle))
    if isinstance(theirs, type):
        assert mine is theirs
    else:
        assert mine[0] == theirs[0]
        assert mine[1] == pytest.approx(theirs[1], rel=1e-4, abs=1e-6)
