"""The ``out`` overloads that follow from the schemas of added functional ones: factories, backward calls, lists."""

import pytest
import torch as torch_oracle

import torchlike as torch
from tests.extend.test_derived_out import _outcome
from torchlike._aten.outs import out_form
from torchlike._aten.source import SOURCE


def test_their_schemas_are_pytorchs():
    assert SOURCE.index
    entries = [e for known in SOURCE.added.values() for e in known.values() if not e.whole]
    found = [form[0] for e in entries if (form := out_form(e.text, e.make))]
    assert len(found) > 240
    for text in found:
        name, _, overload = text[: text.index("(")].partition(".")
        mine, theirs = (getattr(getattr(lib.ops.aten, name), overload) for lib in (torch, torch_oracle))
        assert str(mine._schema) == str(theirs._schema)


def _into(name, *args, d="float32", key="out", more=(), **given):
    """A case: the overload, its arguments made of ``x`` and ``i``, and outputs of these dtypes."""

    def case(a, x, i, e):
        outs = {key: e(d)} | {k: e(other) for k, other in more}
        packet, _, overload = name.partition(".")
        values = [v(x, i) if callable(v) else v for v in args]
        got = getattr(getattr(a, packet), overload)(*values, **outs, **given)
        parts = got if isinstance(got, tuple | list) else (got,)
        assert all(p is o for p, o in zip(parts, outs.values(), strict=True))
        return got

    return case


def _each(name, *args, dtypes=("float32", "float32"), **given):
    def case(a, x, i, e):
        outs = [e(d) for d in dtypes]
        packet, _, overload = name.partition(".")
        values = [v(x, i) if callable(v) else v for v in args]
        assert getattr(getattr(a, packet), overload)(*values, out=outs, **given) is None
        return outs

    return case


def _x(x, i):
    return x


def _two(x, i):
    return [x, x + 1]


_GRAD = {"key": "grad_input"}
CASES = {
    "zeros": _into("zeros.out", [2, 3], d="int64"),
    "ones": _into("ones.out", [2, 3], d="float64"),
    "full": _into("full.out", [2], 2.5),
    "eye": _into("eye.m_out", 2, 3),
    "arange": _into("arange.start_out", 1, 7, 2, d="int64"),
    "arange end": _into("arange.out", 4),
    "range": _into("range.out", 1, 3),
    "linspace": _into("linspace.out", 0, 1, 3, d="float64"),
    "logspace": _into("logspace.out", 0, 2, 3),
    "scalar_tensor": _into("scalar_tensor.out", 2, d="int64"),
    "hann_window": _into("hann_window.periodic_out", 5, False),
    "zeros_like": _into("zeros_like.out", _x),
    "full_like": _into("full_like.out", _x, 2.5, d="int64"),
    "new_full": _into("new_full.out", _x, [3], 2, d="float64"),
    "to_copy": _into("_to_copy.out", _x, d="float64"),
    "bincount": _into("bincount.out", lambda x, i: i, d="int64"),
    "nonzero": _into("nonzero.out", _x, d="int64"),
    "masked_select": _into("masked_select.out", _x, lambda x, i: x > 0),
    "masked_select dtype": _into("masked_select.out", _x, lambda x, i: x > 0, d="float64"),
    "unique_consecutive": _into(
        "unique_consecutive.out", _x, True, True, key="out0", more=[("out1", "int64"), ("out2", "int64")]
    ),
    "t_copy": _into("t_copy.out", _x),
    "view_copy": _into("view_copy.out", _x, [4]),
    "view_copy dtype": _into("view_copy.out", _x, [4], d="float64"),
    "view_as_real_copy": _into("view_as_real_copy.out", lambda x, i: x * 1j),
    "select_copy": _into("select_copy.int_out", _x, 0, 1),
    "slice_scatter": _into("slice_scatter.out", _x, lambda x, i: x[:1], 0, 0, 1),
    "unbind_copy": _each("unbind_copy.int_out", _x),
    "softmax": _into("_softmax.out", _x, 1, False),
    "softmax backward": _into("_softmax_backward_data.out", _x, _x, 1, lambda x, i: x.dtype, key="grad_input"),
    "sigmoid_backward": _into("sigmoid_backward.grad_input", _x, _x, **_GRAD),
    "gelu_backward": _into("gelu_backward.grad_input", _x, _x, **_GRAD),
    "hardswish_backward": _into("hardswish_backward.out", _x, _x),
    "mse_loss_backward": _into("mse_loss_backward.grad_input", _x, _x, lambda x, i: x + 1, 0, **_GRAD),
    "huber_loss_backward": _into("huber_loss_backward.out", _x, _x, lambda x, i: x + 1, 0, 1.0, **_GRAD),
    "nll_loss_forward": _into(
        "nll_loss_forward.output", _x, lambda x, i: i, None, 1, -100, key="output", more=[("total_weight", "float32")]
    ),
    "embedding backward": _into("embedding_dense_backward.out", _x, lambda x, i: i, 3, -1, False),
    "batch norm": _into(
        "_native_batch_norm_legit.no_stats_out", _x, None, None, True, 0.1, 1e-5,
        more=[("save_mean", "float32"), ("save_invstd", "float32")],
    ),
    "avg_pool2d_backward": _into(
        "avg_pool2d_backward.grad_input", lambda x, i: x[None, :, :1], lambda x, i: x[None], [1, 2],
        [1, 1], [0, 0], False, True, None, **_GRAD,
    ),
    "foreach exp": _each("_foreach_exp.out", _two),
    "foreach add": _each("_foreach_add.Scalar_out", _two, 2),
    "foreach list": _each("_foreach_mul.List_out", _two, _two),
    "foreach of another dtype": _each("_foreach_exp.out", _two, dtypes=("float64", "float64")),
    "recorded": _into("_softmax.out", lambda x, i: x.requires_grad_(), 1, False),
    "resized": lambda a, x, i, e: a.t_copy.out(x, out=e().new_zeros(3)),
    "missing": lambda a, x, i, e: a.t_copy.out(x),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_pytorchs_compute(name):
    mine, theirs = (_outcome(lib, CASES[name]) for lib in (torch, torch_oracle))
    if isinstance(theirs, type):
        assert mine is theirs
    else:
        assert mine[0] == theirs[0]
        assert mine[1] == pytest.approx(theirs[1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["rand", "randn", "uniform", "randint", "bernoulli", "multinomial", "randperm"])
def test_random_ones_draw_as_pytorchs_do(name):
    def drawn(lib):
        lib.manual_seed(3)
        x, a = lib.full((4,), 0.5), lib.ops.aten
        sizes = {"rand": ([3],), "randn": ([3],), "randint": (9, [3]), "randperm": (5,), "multinomial": (x, 2)}
        dtype = lib.int64 if name in ("randint", "randperm", "multinomial") else lib.float32
        return getattr(a, name).out(*sizes.get(name, (x,)), out=lib.empty(0, dtype=dtype)).tolist()

    assert drawn(torch) == pytest.approx(drawn(torch_oracle))


@pytest.mark.parametrize("name", ["isposinf", "isneginf"])
def test_an_output_of_truths_is_of_bool(name):
    for lib in (torch, torch_oracle):
        with pytest.raises(RuntimeError, match="does not support non-boolean outputs"):
            getattr(lib, name)(lib.ones(2), out=lib.empty(2))
