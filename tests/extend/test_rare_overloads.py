"""Overloads of aten that few call give what PyTorch's give: values, what they write, what they leave alone."""

import pytest
from both import agree

import torchlike as torch


def _x(t, *shape):
    n = 1
    for s in shape:
        n *= s
    return (t.arange(n, dtype=t.float64) * 0.37 % 1 - 0.3).reshape(shape)


def _f(t, *shape):
    return _x(t, *shape).float().round(decimals=2)


def _stepped(t, name, scalars, lists, lr):
    given = [[_x(t, 3) + i] for i in range(lists)] + [[t.tensor(2.0)]] * (name != "_fused_sgd")
    out = [t.zeros(3, dtype=t.float64)]
    given = [*given[:4], [], *given[4:]] if "adam" in name else given
    write = getattr(t.ops.aten, name)
    rates = {"lr": t.tensor(0.1) if lr else 0.1}
    assert (write.tensor_lr_out if lr else write.out)(*given, **scalars, **rates, out=out) is None
    return [x for group in [*given, out] for x in group]


_ADAM = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": False, "maximize": False}
_SGD = {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": False, "maximize": False,
        "is_first_step": False}  # fmt: skip
_ADAGRAD = {"lr_decay": 0.1, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}


@pytest.mark.parametrize("lr", [False, True])
@pytest.mark.parametrize(
    ("name", "scalars", "lists"),
    [("_fused_adam", _ADAM, 4), ("_fused_adamw", _ADAM, 4), ("_fused_sgd", _SGD, 3), ("_fused_adagrad", _ADAGRAD, 3)],
)
def test_optimizers_write_the_parameters_alone(name, scalars, lists, lr):
    agree(lambda t: _stepped(t, name, scalars, lists, lr))


def _normed(t, a):
    mean, var = _x(t, 3), _x(t, 3).abs()
    outs = {n: t.empty(0, dtype=t.float64) for n in ("out", "save_mean", "save_invstd")}
    found = a._batch_norm_with_update.out(
        _x(t, 4, 3), None, None, mean, var, 0.1, 1e-5, **outs, reserve=t.empty(0, dtype=t.uint8)
    )
    return [*found, mean, var]


def _scaled(t, a):
    grads, found, out = [t.tensor([1.0, float("inf")])], t.tensor([0.0]), [t.zeros(2)]
    a._amp_foreach_non_finite_check_and_unscale.out(grads, found, t.tensor(0.5), out=out)
    scale, tracker, new = t.tensor([4.0]), t.tensor([1], dtype=t.int32), t.zeros(1)
    a._amp_update_scale.out(scale, tracker, t.tensor([0.0]), 2.0, 0.5, 2, out=new)
    return [*grads, found, *out, scale, tracker, new]


def _sobol(t, a):
    state = t.zeros(3, 30, dtype=t.int64)
    assert a._sobol_engine_initialize_state_(state, 3) is state
    last = t.tensor([5, 0, 1 << 20])
    first, after = a._sobol_engine_draw(last, 4, state, 3, 0, t.float32)
    more, end = a._sobol_engine_draw(after, 3, state, 3, 4, t.float64)
    ahead = a._sobol_engine_ff_(after.clone(), 3, state, 3, 4)
    mixed = state.clone()
    a._sobol_engine_scramble_(mixed, (t.arange(3 * 900).reshape(3, 30, 30) * 7 % 11 % 2).tril(), 3)
    return [state, last, first, after, more, end, ahead, mixed]


def _cell(t, a, kind, biases):
    n = {"lstm": 4, "gru": 3}[kind] * 2
    i, h, c = _x(t, 2, n), _x(t, 2, n) * 2, _x(t, 2, 2) + 1
    b = [_x(t, n), _x(t, n) - 1] if biases else [None, None]
    if kind == "gru":
        return a._thnn_differentiable_gru_cell_backward(_x(t, 2, 2), i, h, c, *b)
    cy = _x(t, 2, 2) * 3
    found = [a._thnn_differentiable_lstm_cell_backward(g, k, i, h, *b, c, cy) for g, k in (
        (_x(t, 2, 2), None), (None, _x(t, 2, 2)), (_x(t, 2, 2), _x(t, 2, 2) + 1))]  # fmt: skip
    return [x for row in found for x in row]


def _set(t, a):
    x, source, written = _x(t, 2, 3), _x(t, 4), []
    for write, more in (
        (a.set.out, ()), (a.set.source_Tensor_out, (source,)), (a.set.source_Storage_out, (source.untyped_storage(),)),
        (a.set.source_Storage_storage_offset_out, (source.untyped_storage(), 1, [2], [2])),
    ):  # fmt: skip
        out = t.empty(0, dtype=t.float64)
        assert write(x, *more, out=out) is out
        written.append(out.add_(1))
    return [*written, x, source]


def _quantized(t, a):
    q = t.quantize_per_tensor(_x(t, 2, 3).float(), 0.1, 5, t.quint8)
    outs = [t.empty(0), t.empty(0)]
    a.dequantize.tensors_out([q, q], out=outs)
    made = [a._empty_affine_quantized([2], dtype=t.qint8, scale=0.5, zero_point=3), a.empty_quantized([2, 1], q)]
    return [*outs, *[(m.q_scale(), m.q_zero_point(), str(m.dtype), tuple(m.shape)) for m in made]]


CASES = {
    "batch norm": _normed,
    "scaler": _scaled,
    "sobol": _sobol,
    **{f"{k} {b}": lambda t, a, k=k, b=b: _cell(t, a, k, b) for k in ("lstm", "gru") for b in (False, True)},
    "set": _set,
    "quantized": _quantized,
    "zeros": lambda t, a: [
        a._new_zeros_with_same_feature_meta(_x(t, 2, 3), t.ones(4, dtype=t.int64), self_num_batch_dims=n)
        for n in (0, 1, 2)
    ],
    "strides": lambda t, a: a._nested_compute_contiguous_strides_offsets(t.tensor([[2, 3, 2], [4, 5, 1]])),
    "cudnn": lambda t, a: [a.cudnn_is_acceptable(_x(t, 2))],
    "convolutions": lambda t, a: [
        a.mkldnn_convolution(_f(t, 1, 2, 5, 5), _f(t, 4, 1, 2, 2), _f(t, 4), [1, 0], [2, 1], [1, 2], 2),
        a.mkldnn_convolution.out(_f(t, 1, 2, 5), _f(t, 4, 2, 2), None, [1], [2], [1], 1, out=t.empty(0)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_pytorchs_compute(name):
    agree(lambda t: CASES[name](t, t.ops.aten))


def test_gradients_of_cells_are_recorded():
    def second(t):
        i = _x(t, 2, 8).requires_grad_()
        found = t.ops.aten._thnn_differentiable_lstm_cell_backward(
            _x(t, 2, 2), None, i, _x(t, 2, 8), None, None, _x(t, 2, 2), _x(t, 2, 2)
        )
        return t.autograd.grad(found[0].square().sum(), i)[0]

    agree(second)


def test_points_of_another_dtype_are_refused():
    state = torch.zeros(1, 30, dtype=torch.int64)
    with pytest.raises(NotImplementedError, match="_sobol_engine_draw.*'Half'"):
        torch.ops.aten._sobol_engine_draw(torch.zeros(1, dtype=torch.int64), 2, state, 1, 0, torch.float16)


def test_the_convolution_that_pytorch_refuses_where_its_library_does():
    x, w = _f(torch, 1, 2, 5, 5), _f(torch, 4, 2, 2, 2)
    found = torch.ops.aten._nnpack_spatial_convolution(x, w, None, [1, 0], [2, 1])
    assert torch.equal(found, torch.nn.functional.conv2d(x, w, None, (2, 1), (1, 0)))
