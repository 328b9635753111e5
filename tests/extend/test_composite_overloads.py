"""Overloads of aten over public functions: called as PyTorch's are, they give what PyTorch's give."""

import pytest
import torch as torch_oracle
from both import agree

import torchlike as torch
from torchlike._composites.by_name import SOURCE

_VALUES = [[0.5, -1.0, 2.0], [0.25, 3.0, -0.5], [1.5, 0.75, -2.0]]


def _x(t):
    return t.tensor(_VALUES, dtype=t.float64)


def _image(t, *shape):
    n = 1
    for s in shape:
        n *= s
    return (t.arange(n, dtype=t.float64) * 0.37 % 1).reshape(shape)


def _empty(t, dtype="float64"):
    return t.empty(0, dtype=getattr(t, dtype))


def _seeded(t, run):
    t.manual_seed(3)
    return run()


def _bagged(t, a, mode):
    weights = _image(t, 4) if mode == 0 else None
    return a._embedding_bag.default(
        _image(t, 6, 3), t.tensor([0, 2, 5, 2]), t.tensor([0, 3]), False, mode, False, weights, False, 5 if mode else -1
    )


def _written(t, write, values):
    indices = t.zeros(values.shape, dtype=t.int64)
    write(values, indices)
    return values, indices


def _optimized(t, run):
    """What a functional optimizer returns, and the lists that it was given, which stay."""
    lists = [[_x(t) + n] for n in range(4)]
    found = run([*lists[:1], [_x(t).T.contiguous()], *lists[1:]], [t.tensor(2.0)])
    return [x for made in found for x in made] + [x for given in lists for x in given]


def _q(t):
    return t.quantize_per_tensor(_x(t).float(), 0.5, 100, t.quint8)


def _dual(t, a):
    with t.autograd.forward_ad.dual_level():
        dual = a._make_dual(_x(t), _x(t) + 1, 0)
        return [*a._unpack_dual(dual * dual, 0), a._fw_primal(dual, 0)]


def _aligned(t, a, inputs, wanted, blank, zero):
    """The loss over alignments, its gradient and the scores of the steps that there are."""
    x, labels = (
        (_image(t, 4, 2, 3) * 3).log_softmax(2),
        t.tensor([[1, 2], [1, 1]]) if blank != 2 else t.ones(2, 2).long(),
    )
    x = x.detach().requires_grad_()
    loss, scores = a._ctc_loss(x, labels, inputs, wanted, blank, zero)
    grad = t.autograd.grad(loss, x, t.ones(2, dtype=t.float64))[0]
    again = a._ctc_loss.Tensor(x, labels, t.tensor(inputs), t.tensor(wanted), blank, zero)[0]
    back = a._ctc_loss_backward(t.ones(2, dtype=t.float64), x, labels, inputs, wanted, loss, scores, blank, zero)
    steps = [scores[i, : inputs[i], : 2 * wanted[i] + 1].detach() for i in range(2)]
    return [loss.detach(), again.detach(), grad, back.detach(), *steps, scores.shape]


def _steps(t, kind):
    many = 1 if kind == "tensor" else 3
    return t.tensor([0.25, 0.5, 0.1][:many]), t.tensor([2.5, -1.0, 9.0][:many])


def _learned(t, a):
    x, s, z = (v.requires_grad_() for v in (_x(t).float(), t.tensor([0.3]), t.tensor([1.0])))
    found = a._fake_quantize_learnable_per_tensor_affine(x, s, z, -8, 7, 0.5)
    return t.autograd.grad((found * _x(t)).sum(), [x, s, z])


def _observed(t, a, on, rounds, rows, symmetric):
    """What is rounded twice, and the numbers that follow it."""
    low, high = (t.tensor([-0.5, 0.25, 0]), t.tensor([0.5, 1.0, 1])) if rows else (t.tensor(-0.5), t.tensor(0.5))
    scale, zero = t.ones(3 if rows else 1), t.zeros(3 if rows else 1, dtype=t.int32)
    flags = t.tensor([on]), t.tensor([rounds])

    def run(x):
        numbers = low, high, scale, zero, 0.5, -128, 127, 0
        return a.fused_moving_avg_obs_fake_quant(x, *flags, *numbers, rows, symmetric)

    return [run(_x(t).float()), run(_x(t).float() * 3), low, high, scale, zero]


_FAKE = (-8, 7)

CASES = {
    # what graphs of other machines, of decompositions and of quantization hold
    "_unsafe_view.out": lambda t, a: a._unsafe_view.out(_x(t), [9], out=_empty(t)),
    "log_sigmoid_forward.output": lambda t, a: a.log_sigmoid_forward.output(
        _x(t), output=_empty(t), buffer=_empty(t)
    )[0],
    "nll_loss2d.out": lambda t, a: a.nll_loss2d.out(
        _image(t, 1, 3, 2, 2), t.tensor([[[0, 2], [1, 1]]]), None, 0, out=_empty(t)
    ),
    "_weight_norm_interface.out": lambda t, a: a._weight_norm_interface.out(
        _x(t), _x(t)[:, :1].contiguous(), out0=_empty(t), out1=_empty(t)
    ),
    "_linalg_check_errors": lambda t, a: a._linalg_check_errors.default(
        t.zeros(2, dtype=t.int32), "linalg.inv", is_matrix=False
    ),
    "_efficientzerotensor": lambda t, a: a._efficientzerotensor.default([2, 3], dtype=t.float64).clone(),
    "_to_sparse": lambda t, a: a._to_sparse.default(_x(t)).to_dense(),
    "_to_sparse.sparse_dim": lambda t, a: a._to_sparse.sparse_dim(_x(t), 1).to_dense(),
    "_reshape_alias_copy": lambda t, a: a._reshape_alias_copy.default(_x(t), [9], [1]),
    "_pack_padded_sequence_backward": lambda t, a: [
        a._pack_padded_sequence_backward.default(_image(t, 5, 2), size, t.tensor([2, 2, 1]), first)
        for first, size in ((False, [4, 2, 2]), (True, [2, 4, 2]))
    ],
    "_weight_int8pack_mm": lambda t, a: a._weight_int8pack_mm.default(
        _image(t, 4, 32).float(), (_image(t, 32, 32) * 100).to(t.int8), _image(t, 32).float()
    ),
    "rrelu_with_noise": lambda t, a: a.rrelu_with_noise.default(_x(t), _x(t)),
    "rrelu_with_noise training": lambda t, a: _seeded(
        t, lambda: (noise := t.zeros(3, 3, dtype=t.float64), a.rrelu_with_noise.default(_x(t), noise, 0.1, 0.3, True))
    ),
    "rrelu_with_noise_": lambda t, a: _seeded(
        t, lambda: a.rrelu_with_noise_.default(_x(t), _x(t), 0.1, 0.3, True)
    ),
    "fake_quantize_per_tensor_affine": lambda t, a: a.fake_quantize_per_tensor_affine.default(
        _x(t).float(), 0.3, 2, *_FAKE
    ),
    "fake_quantize_per_tensor_affine_cachemask": lambda t, a: a.fake_quantize_per_tensor_affine_cachemask.default(
        _x(t).float() * 3, 0.3, 2, *_FAKE
    ),
    "fake_quantize_per_channel_affine_cachemask": lambda t, a: a.fake_quantize_per_channel_affine_cachemask.default(
        _x(t).float() * 3, t.tensor([0.3, 0.1, 0.7]), t.tensor([1, 0, 2], dtype=t.int32), 1, *_FAKE
    ),
    "fake_quantize_per_tensor_affine_cachemask_backward": lambda t, a: (
        a.fake_quantize_per_tensor_affine_cachemask_backward.default(_x(t), _x(t) > 0)
    ),
    "quantize_per_tensor": lambda t, a: a.dequantize.self(
        a.quantize_per_tensor.default(_x(t).float(), 0.3, 2, t.quint8)
    ),
    "int_repr": lambda t, a: (
        q := a.quantize_per_tensor.default(_x(t).float(), 0.25, 2, t.qint8),
        [a.int_repr.default(q), a.q_scale.default(q), a.q_zero_point.default(q)],
    )[1],
    "_fused_adam": lambda t, a: _optimized(t, lambda lists, steps: a._fused_adam.default(
        *lists, steps, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=True, maximize=False
    )),
    "_fused_adamw.tensor_lr": lambda t, a: _optimized(t, lambda lists, steps: a._fused_adamw.tensor_lr(
        *lists, steps, lr=t.tensor(0.1), beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=True,
        maximize=False,
    )),
    "_fused_sgd": lambda t, a: _optimized(t, lambda lists, steps: a._fused_sgd.default(
        *lists[:3], lr=0.1, weight_decay=0.1, momentum=0.9, dampening=0.0, nesterov=True, maximize=False,
        is_first_step=False,
    )),
    # what programs of TorchScript and of export call
    "tensor.float": lambda t, a: a.tensor.float(1.5, dtype=t.float64),
    "tensor.bool": lambda t, a: [a.tensor.bool(True), a.tensor.int(3), a.as_tensor.complex(1j), a.as_tensor.int(2)],
    "Complex": lambda t, a: [
        a.Complex.Tensor_Tensor(t.tensor(1.0), t.tensor(2)), a.Complex.Tensor_bool(t.tensor(1.0), True),
        a.Complex.float_Tensor(0.5, t.tensor(2)), a.Complex.int_Tensor(2, t.tensor(2.5)),
    ],
    "_tensor_to_list": lambda t, a: a._tensor_to_list.default(a._list_to_tensor.default([3, 1])),
    "_no_grad_fill_": lambda t, a: (
        x := _x(t).requires_grad_(), a._no_grad_fill_.default(x, 2.0), x.grad_fn, a._no_grad_zero_.default(_x(t))
    ),
    "_no_grad_uniform_": lambda t, a: _seeded(t, lambda: a._no_grad_uniform_.default(_x(t), 1.0, 2.0)),
    "_no_grad_normal_": lambda t, a: _seeded(t, lambda: a._no_grad_normal_.default(_x(t), 1.0, 2.0)),
    "_no_grad_embedding_renorm_": lambda t, a: a._no_grad_embedding_renorm_.default(_x(t), t.tensor([1]), 1.0, 2.0),
    "set_data": lambda t, a: (x := _x(t), a.set_data.default(x, _x(t) + 1), x)[2],
    "_backward": lambda t, a: (
        x := _x(t).requires_grad_(), a._backward.default((x * x).sum(), [x]), x.grad
    )[2],
    "__interpolate": lambda t, a: [
        getattr(a, "__interpolate").default(_image(t, 1, 1, 2, 2), 4),
        getattr(a, "__interpolate").size_list(_image(t, 1, 1, 2, 2), [3, 4], None, "bilinear", False),
        getattr(a, "__interpolate").scale_list(_image(t, 1, 1, 2, 2), None, [2.0, 1.5]),
    ],
    "__upsample": lambda t, a: [
        getattr(a, "__upsample").size_list(_image(t, 1, 1, 2, 2), [3, 4]),
        getattr(a, "__upsample_bilinear").default(_image(t, 1, 1, 2, 2), 4),
        getattr(a, "__upsample_nearest").size_list(_image(t, 1, 1, 2, 2), [3, 4]),
    ],
    "_make_dep_token": lambda t, a: list(a._make_dep_token.default().shape),
    "_functional_assert_scalar": lambda t, a: a._functional_assert_scalar.default(True, "why", t.ones(1)),
    "_functional_sym_constrain_range": lambda t, a: [
        a._functional_sym_constrain_range.default(3, 0, None, t.ones(1)),
        a._functional_sym_constrain_range_for_size.default(3, None, 5, t.ones(1)),
    ],
    "_grad_sum_to_size": lambda t, a: [a._grad_sum_to_size.default(_x(t), size) for size in ([1, 3], None)],
    "_has_compatible_shallow_copy_type": lambda t, a: [
        a._has_compatible_shallow_copy_type.default(_x(t), y) for y in (_x(t), _x(t).to_sparse())
    ],
    "_autocast_to_full_precision": lambda t, a: [
        a._autocast_to_full_precision.default(_x(t).to(d), True, cpu) for d in (t.half, t.float64)
        for cpu in (True, False)
    ],
    "_autocast_to_reduced_precision": lambda t, a: [
        a._autocast_to_reduced_precision.default(_x(t).to(d), False, cpu, t.half, t.bfloat16)
        for d in (t.float32, t.float64) for cpu in (True, False)
    ],
    "unflatten_dense_tensors": lambda t, a: a.unflatten_dense_tensors.default(
        _image(t, 9), [_image(t, 2), _image(t, 2, 3)]
    ),
    "_rowwise_prune": lambda t, a: a._rowwise_prune.default(_x(t), t.tensor([True, False, True]), t.int32),
    "_add_relu_": lambda t, a: [a._add_relu_.Tensor(_x(t), _x(t).T, alpha=2), a._add_relu_.Scalar(_x(t), -1)],
    "batch_norm_update_stats": lambda t, a: (
        mean := t.zeros(2, dtype=t.float64), var := t.ones(2, dtype=t.float64),
        a.batch_norm_update_stats.default(_image(t, 3, 2, 4), mean, var, 0.1),
    ),
    "slow_conv3d_forward": lambda t, a: a.slow_conv3d_forward.default(
        _image(t, 1, 1, 3, 3, 3), _image(t, 2, 1, 2, 2, 2), [2, 2, 2], None, [1, 1, 1], [0, 0, 0]
    ),
    "upsample_nearest2d.vec_out": lambda t, a: a.upsample_nearest2d.vec_out(
        _image(t, 1, 1, 2, 2), None, [2.0, 1.5], out=_empty(t)
    ),
    "upsample_bilinear2d.vec_out": lambda t, a: a.upsample_bilinear2d.vec_out(
        _image(t, 1, 1, 2, 2), [3, 4], False, None, out=_empty(t)
    ),
    "_foreach_zero.out": lambda t, a: (o := _x(t), a._foreach_zero.out([_x(t)], out=[o]), o),
    "_foreach_copy.out": lambda t, a: (o := _x(t), a._foreach_copy.out([_x(t)], [_x(t).T], out=[o]), o),
    "normal.out": lambda t, a: _seeded(t, lambda: a.normal.out(_x(t), 1.0, 2.0, out=_empty(t))),
    "_compute_linear_combination.out": lambda t, a: a._compute_linear_combination.out(
        _image(t, 2, 3), _image(t, 3, 2), out=t.zeros(3, 3, dtype=t.float64)
    ),
    "convolution_backward.out": lambda t, a: a.convolution_backward.out(
        _image(t, 1, 2, 3, 3), _image(t, 1, 2, 4, 4), _image(t, 2, 2, 2, 2), [2], [1, 1], [0, 0], [1, 1], False, [0, 0],
        1, [True, True, True], out0=_empty(t), out1=_empty(t), out2=_empty(t),
    ),
    "_upsample_lanczos2d_aa": lambda t, a: [
        a._upsample_lanczos2d_aa.default(_image(t, 1, 1, 6, 6), [3, 4], False),
        a._upsample_lanczos2d_aa.vec(_image(t, 1, 1, 6, 6), None, False, [0.5, 0.5]),
        a._upsample_lanczos2d_aa.out(_image(t, 1, 1, 6, 6), [3, 4], False, out=_empty(t)),
        a._upsample_lanczos2d_aa_backward.default(_image(t, 1, 1, 3, 4), [3, 4], [1, 1, 6, 6], False),
    ],
    # public functions, methods and properties by their names
    "less_equal.Scalar": lambda t, a: a.less_equal.Scalar(_x(t), 0.5),
    "less_.Tensor": lambda t, a: a.less_.Tensor(_x(t), _x(t).T),
    "multiply.out": lambda t, a: a.multiply.out(_x(t), _x(t), out=_empty(t)),
    "subtract_.Scalar": lambda t, a: a.subtract_.Scalar(_x(t), 1, 2),
    "divide.out_mode": lambda t, a: a.divide.out_mode(_x(t), _x(t).T, rounding_mode="floor", out=_empty(t)),
    "clip.Tensor_out": lambda t, a: a.clip.Tensor_out(_x(t), _x(t).T, None, out=_empty(t)),
    "float_power.Tensor_Scalar": lambda t, a: a.float_power.Tensor_Scalar(_x(t), 2),
    "special_expit.out": lambda t, a: a.special_expit.out(_x(t), out=_empty(t)),
    "linalg_norm.ord_str": lambda t, a: a.linalg_norm.ord_str(_x(t), "nuc"),
    "linalg_matmul.out": lambda t, a: a.linalg_matmul.out(_x(t), _x(t), out=_empty(t)),
    "linalg_matrix_rank.out": lambda t, a: a.linalg_matrix_rank.out(_x(t), 0.1, out=_empty(t, "float32")),
    "column_stack.out": lambda t, a: a.column_stack.out([_x(t), _x(t)], out=_empty(t)),
    "chain_matmul.out": lambda t, a: a.chain_matmul.out([_x(t)], out=_empty(t)),
    "isin.Tensor_Scalar": lambda t, a: a.isin.Tensor_Scalar(_x(t), 2.0, invert=True),
    "mT": lambda t, a: a.mT.default(_x(t)),
    "numpy_T": lambda t, a: a.numpy_T.default(_x(t)),
    "movedim.intlist": lambda t, a: a.movedim.intlist(_image(t, 1, 2, 3), [0, 1], [1, 2]),
    "tensor_split.indices": lambda t, a: a.tensor_split.indices(_x(t), [1], 0),
    "chunk": lambda t, a: a.chunk.default(_x(t), 2, 1),
    "layer_norm": lambda t, a: a.layer_norm.default(_x(t), [3], None, None, 1e-5),
    "conv2d": lambda t, a: a.conv2d.default(_image(t, 1, 2, 4, 4), _image(t, 3, 2, 2, 2), None, [2, 1]),
    "conv2d.padding": lambda t, a: a.conv2d.padding(_image(t, 1, 2, 4, 4), _image(t, 3, 2, 2, 2), None, [1, 1], "same"),
    "pad": lambda t, a: a.pad.default(_x(t), [1, 2], "constant", 4.0),
    "upsample_nearest2d.vec": lambda t, a: a.upsample_nearest2d.vec(_image(t, 1, 1, 2, 2), None, [2.0, 1.5]),
    "l1_loss": lambda t, a: a.l1_loss.default(_x(t), _x(t).T, 0),
    "kl_div": lambda t, a: a.kl_div.default(_x(t), _x(t).abs(), 2, log_target=False),
    "poisson_nll_loss": lambda t, a: a.poisson_nll_loss.default(_x(t), _x(t).abs(), True, False, 1e-8, 1),
    "cross_entropy_loss": lambda t, a: a.cross_entropy_loss.default(_x(t), t.tensor([0, 2, 1]), None, 1, -100, 0.1),
    "histogram.bin_ct": lambda t, a: a.histogram.bin_ct(_x(t), 3, range=[-2.0, 2.0]),
    "einsum": lambda t, a: a.einsum.default("ij,jk->ik", [_x(t), _x(t)]),
    "__and__": lambda t, a: a.__and__.Scalar(t.tensor([3, 6]), 2),
    "__ilshift__": lambda t, a: a.__ilshift__.Scalar(t.tensor([3, 6]), 2),
    "result_type": lambda t, a: a.result_type.Scalar(t.tensor([1]), 2.5),
    "sym_size.int": lambda t, a: (a.sym_size.int(_x(t), 1), a.sym_stride.int(_x(t), 0)),
    # steps under names of their own
    "_unsafe_index": lambda t, a: a._unsafe_index.Tensor(_x(t), [None, t.tensor([2, 0])]),
    "_unsafe_index_put": lambda t, a: a._unsafe_index_put.default(_x(t), [t.tensor([1, 1])], _x(t)[:1], True),
    "_index_put_impl_": lambda t, a: a._index_put_impl_.default(_x(t), [t.tensor([1])], _x(t)[:1]),
    "_euclidean_dist": lambda t, a: a._euclidean_dist.default(_x(t), _x(t).T),
    "_cdist_forward": lambda t, a: a._cdist_forward.default(_x(t), _x(t).T, 3.0, None),
    "_addmm_activation": lambda t, a: a._addmm_activation.default(_x(t)[0], _x(t), _x(t), use_gelu=True),
    "_linalg_det": lambda t, a: a._linalg_det.default(_x(t)),
    "_linalg_slogdet": lambda t, a: a._linalg_slogdet.default(_x(t).T),
    "_linalg_solve_ex": lambda t, a: a._linalg_solve_ex.default(_x(t), _x(t)),
    "unique_dim_consecutive": lambda t, a: a.unique_dim_consecutive.default(_x(t), 0),
    "_unique": lambda t, a: a._unique.default(_x(t), True, True),
    "max_unpool2d": lambda t, a: a.max_unpool2d.default(
        _image(t, 1, 1, 2, 2), t.tensor([[[[0, 3], [9, 15]]]]), [4, 4]
    ),
    "adaptive_max_pool2d": lambda t, a: a.adaptive_max_pool2d.default(_image(t, 1, 2, 4, 4), [2, 2]),
    "_upsample_nearest_exact1d": lambda t, a: a._upsample_nearest_exact1d.default(_image(t, 1, 2, 4), [7], 1.9),
    "bernoulli.Tensor": lambda t, a: _seeded(t, lambda: a.bernoulli.Tensor(_x(t), _x(t).abs() / 4)),
    "rrelu_with_noise_functional": lambda t, a: _seeded(
        t, lambda: a.rrelu_with_noise_functional.default(_x(t), t.zeros(3, 3, dtype=t.float64), 0.1, 0.3, True)
    ),
    "_native_batch_norm_legit_functional": lambda t, a: a._native_batch_norm_legit_functional.default(
        _x(t), None, None, _x(t)[0], _x(t)[1].abs(), True, 0.1, 1e-5
    ),
    "_pack_padded_sequence": lambda t, a: a._pack_padded_sequence.default(_x(t), t.tensor([3, 2, 1]), True),
    "_foreach_zero": lambda t, a: a._foreach_zero.default([_x(t)]),
    "_sparse_sum.dim": lambda t, a: a._sparse_sum.dim(_x(t).to_sparse(), [0]).to_dense(),
    # gradients
    "reflection_pad1d_backward": lambda t, a: a.reflection_pad1d_backward.default(_image(t, 3, 6), _x(t), [1, 2]),
    "replication_pad2d_backward": lambda t, a: a.replication_pad2d_backward.grad_input(
        _image(t, 1, 5, 6), _image(t, 1, 3, 3), [1, 2, 2, 0], grad_input=_empty(t)
    ),
    "_adaptive_avg_pool2d_backward": lambda t, a: a._adaptive_avg_pool2d_backward.default(
        _image(t, 1, 2, 2), _image(t, 1, 4, 5)
    ),
    "adaptive_max_pool2d_backward": lambda t, a: a.adaptive_max_pool2d_backward.default(
        _image(t, 1, 1, 2), _image(t, 1, 2, 2), t.tensor([[[3, 3]]])
    ),
    "soft_margin_loss_backward": lambda t, a: a.soft_margin_loss_backward.default(
        t.ones((), dtype=t.float64), _x(t), _x(t).sign(), 1
    ),
    "multi_margin_loss_backward": lambda t, a: a.multi_margin_loss_backward.default(
        t.ones(3, dtype=t.float64), _x(t), t.tensor([0, 2, 1]), 2, 0.5, None, 0
    ),
    "logit_backward": lambda t, a: a.logit_backward.default(_x(t), _image(t, 3, 3), 0.1),
    "log_sigmoid_backward": lambda t, a: a.log_sigmoid_backward.default(_x(t), _x(t), (-_x(t).abs()).exp()),
    "matrix_exp_backward": lambda t, a: a.matrix_exp_backward.default(_x(t), _x(t).T),
    "cumprod_backward": lambda t, a: a.cumprod_backward.default(_x(t), _x(t), 1, _x(t).cumprod(1)),
    "masked_scatter_backward": lambda t, a: a.masked_scatter_backward.default(_x(t), _x(t) > 0, [2, 4]),
    "index_select_backward": lambda t, a: a.index_select_backward.default(_x(t), [4, 3], 0, t.tensor([1, 3, 1])),
    "value_selecting": lambda t, a: a.value_selecting_reduction_backward.default(
        _x(t)[0], 1, t.tensor([2, 0, 1]), [3, 3], False
    ),
    "affine_grid_generator_backward": lambda t, a: a.affine_grid_generator_backward.default(
        _image(t, 1, 2, 3, 2), [1, 1, 2, 3], True
    ),
    "_cdist_backward": lambda t, a: a._cdist_backward.default(
        _x(t), _x(t), _x(t).T.contiguous(), 2.0, t.cdist(_x(t), _x(t).T)
    ),
    "grid_sampler_2d_backward": lambda t, a: a.grid_sampler_2d_backward.default(
        _image(t, 1, 1, 2, 2), _image(t, 1, 1, 3, 3), _image(t, 1, 2, 2, 2), 0, 0, False, [True, True]
    ),
    "_prelu_kernel_backward": lambda t, a: a._prelu_kernel_backward.default(_x(t), _x(t), _x(t).T),
    "_weight_norm_interface_backward": lambda t, a: a._weight_norm_interface_backward.default(
        _x(t), _x(t), _x(t)[:, :1].abs(), _x(t).norm(dim=1, keepdim=True), 0
    ),
    "embedding_backward": lambda t, a: a.embedding_backward.default(_x(t), t.tensor([1, 0, 1]), 4, 0, False, False),
    "glu_jvp": lambda t, a: a.glu_jvp.default(
        t.nn.functional.glu(_image(t, 2, 4)), _image(t, 2, 4), _image(t, 2, 4) + 1, -1
    ),
    "glu_backward_jvp": lambda t, a: a.glu_backward_jvp.default(
        a.glu_backward.default(_image(t, 2, 2), _image(t, 2, 4), 1), _image(t, 2, 2), _image(t, 2, 4),
        _image(t, 2, 2) + 1, _image(t, 2, 4) - 1, 1,
    ),
    **{f"native_{name}_backward": lambda t, a, name=name, args=args: getattr(a, f"native_{name}_backward").default(
        _image(t, 2, 4, 3), _image(t, 2, 4, 3) + 1, *args(t), [True, True, True]
    ) for name, args in (
        ("group_norm", lambda t: (_image(t, 2, 2), _image(t, 2, 2) + 1, _image(t, 4), 2, 4, 3, 2)),
        ("batch_norm", lambda t: (_image(t, 4), None, None, _image(t, 4) + 1, _image(t, 4) + 0.5, True, 1e-5)),
    )},
    "native_group_norm": lambda t, a: a.native_group_norm.default(_image(t, 2, 4, 3), None, None, 2, 4, 3, 2, 1e-5),
    "native_batch_norm": lambda t, a: a.native_batch_norm.default(
        _image(t, 2, 4, 3), None, None, None, None, True, 0.1, 1e-5
    ),
    # kernels of CPUs
    **{f"_embedding_bag_backward {mode} {sparse}": lambda t, a, mode=mode, sparse=sparse: a._embedding_bag_backward(
        _x(t)[:2], t.tensor([0, 2, 5, 2]), t.tensor([0, 3]), *_bagged(t, a, mode)[1:], 6, not sparse, mode, sparse,
        _image(t, 4) if mode == 0 else None, 5 if mode == 1 else -1,
    ).to_dense() for mode in (0, 1, 2) for sparse in (False, True) if not (sparse and mode == 2)},
    "_embedding_bag_per_sample_weights_backward": lambda t, a: a._embedding_bag_per_sample_weights_backward.out(
        _x(t)[:2], _image(t, 6, 3), t.tensor([0, 2, 5, 2]), t.tensor([0, 3]), t.tensor([0, 0, 0, 1]), 0, 5,
        out=_empty(t),
    ),
    "_batch_norm_impl_index": lambda t, a: a._batch_norm_impl_index.default(
        _x(t), _x(t)[0], None, None, None, True, 0.1, 1e-5, True
    ),
    "_batch_norm_no_update": lambda t, a: a._batch_norm_no_update.default(
        _x(t), None, None, _x(t)[0], _x(t)[1].abs(), 0.1, 1e-5
    ),
    "batch_norm_backward": lambda t, a: a.batch_norm_backward.default(
        _x(t), _x(t).T, _x(t)[0], None, None, _x(t)[1], _x(t)[2].abs(), True, 1e-5, [True, True, False],
        t.empty(0, dtype=t.uint8),
    )[:2],
    "histogramdd": lambda t, a: a.histogramdd.default(_x(t), [2, 2, 3]),
    "_histogramdd_bin_edges": lambda t, a: a._histogramdd_bin_edges.default(_x(t), [2, 2, 3]),
    "_histogramdd_from_bin_cts": lambda t, a: a._histogramdd_from_bin_cts.default(
        _x(t)[:, :2], [2, 3], weight=_image(t, 3), density=True
    ),
    "_histogramdd_from_bin_tensors": lambda t, a: a._histogramdd_from_bin_tensors.default(
        _x(t)[:, :2], [t.tensor([-2.0, 0.4, 2.0], dtype=t.float64)] * 2
    ),
    "_trilinear": lambda t, a: a._trilinear.default(_x(t), _x(t).T, _x(t), [2], [0], [1], [1], 1),
    "_compute_linear_combination": lambda t, a: a._compute_linear_combination.default(_image(t, 3, 2, 2), _x(t)[:2]),
    "_transform_bias_rescale_qkv": lambda t, a: a._transform_bias_rescale_qkv.default(
        _image(t, 2, 3, 12), _image(t, 12), 2
    ),
    "_slow_conv2d_backward": lambda t, a: a._slow_conv2d_backward.output_mask(
        _image(t, 1, 3, 3, 3), _image(t, 1, 2, 4, 4), _image(t, 3, 2, 2, 2), [2, 2], [1, 1], [0, 0], [True, True, True]
    ),
    "slow_conv_transpose2d": lambda t, a: a.slow_conv_transpose2d.default(
        _image(t, 1, 2, 4, 4), _image(t, 2, 3, 2, 2), [2, 2], None, [2, 2], [1, 1], [1, 1]
    ),
    "_upsample_bilinear2d_aa_backward": lambda t, a: a._upsample_bilinear2d_aa_backward.default(
        _image(t, 1, 1, 2, 2), [2, 2], [1, 1, 4, 5], False
    ),
    "multilabel_margin_loss_forward": lambda t, a: a.multilabel_margin_loss_forward.default(
        _x(t), t.tensor([[0, -1, 1], [1, 2, -1], [-1, 0, 0]]), 1
    ),
    "_cummax_helper": lambda t, a: _written(
        t, lambda v, i: a._cummax_helper.default(_x(t), v, i, 1), t.zeros(3, 3, dtype=t.float64)
    ),
    "_gather_sparse_backward": lambda t, a: a._gather_sparse_backward.default(
        _x(t), 0, t.tensor([[0, 2, 0]]), _x(t)[:1]
    ).to_dense(),
    "resize": lambda t, a: a.resize.default(_x(t), [2, 2]),
    "_reshape_copy": lambda t, a: a._reshape_copy.default(_x(t).T, [9]),
    "convolution.out": lambda t, a: a.convolution.out(
        _image(t, 1, 2, 4, 4), _image(t, 3, 2, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, out=_empty(t)
    ),
    # lists, storages, tangents, sequences of several lengths
    "eq.Tensor_list": lambda t, a: [
        f([_x(t)[0, 0]], [_x(t)[0, i]]) for f in (a.eq.Tensor_list, a.ne.Tensor_list) for i in (0, 1)
    ],
    "count.Tensor": lambda t, a: a.count.Tensor([t.tensor(1), t.tensor(2)], t.tensor(2)),
    "index.list_Tensor": lambda t, a: a.index.list_Tensor([t.tensor(1), t.tensor(2)], t.tensor(2)),
    "sorted.Tensor": lambda t, a: a.sorted.Tensor([t.tensor(3), t.tensor(2)]),
    "to.prim_Device": lambda t, a: [
        a.to.prim_Device(_x(t), t.device("cpu"), 6), a.to.prim_dtype(_x(t), 4), a.to.prim_other(_x(t))
    ],
    "as_tensor": lambda t, a: [a.as_tensor(_x(t), dtype=t.float32), a.cpu(_x(t))],
    "set": lambda t, a: [
        a.set(_x(t)), a.set.source_Tensor(_x(t), _x(t)[1]),
        a.set.source_Storage(t.ones(2), t.arange(3.0).untyped_storage()),
        a.set.source_Storage_storage_offset(t.ones(2), t.arange(5.0).untyped_storage(), 1, [2], [2]),
    ],
    "backward": lambda t, a: [(a.backward((w * w).sum()), w.grad)[1] for w in [_x(t).requires_grad_()]],
    "backward.TensorList": lambda t, a: [
        (a.backward.TensorList([w * 2, w * w], [_x(t), _x(t)]), w.grad)[1] for w in [_x(t).requires_grad_()]
    ],
    "grad": lambda t, a: [a.grad([(w * w).sum()], [w]) for w in [_x(t).requires_grad_()]],
    "_efficientzerotensor.out": lambda t, a: a._efficientzerotensor.out([2], out=_empty(t)),
    "rrelu_with_noise.out": lambda t, a: a.rrelu_with_noise.out(_x(t), t.zeros_like(_x(t)), out=_empty(t)),
    "_slow_conv2d_backward.grad_input": lambda t, a: a._slow_conv2d_backward.grad_input(
        _image(t, 1, 2, 2, 2), _image(t, 1, 1, 4, 4), _image(t, 2, 1, 3, 3), [3, 3], [1, 1], [0, 0],
        grad_input=_empty(t), grad_weight=_empty(t), grad_bias=_empty(t)
    ),
    "_pack_sequence": lambda t, a: a._pack_sequence(_x(t), t.tensor([1]), None, None),
    "_jagged_to_padded_dense_forward": lambda t, a: [
        a._jagged_to_padded_dense_forward(x, [t.tensor([0, 1, 3])], [n], 7.0)
        for n in (1, 2, 3) for x in (_x(t), _x(t)[0])
    ],
    "_padded_dense_to_jagged_forward": lambda t, a: [
        a._padded_dense_to_jagged_forward(x, [t.tensor([0, 1, 3])]) for x in (_image(t, 2, 2, 2), _x(t)[:2])
    ],
    "_make_dual": lambda t, a: _dual(t, a),
    "_ctc_loss": lambda t, a: [_aligned(t, a, *case) for case in (
        ([4, 3], [2, 1], 0, False), ([1, 3], [2, 2], 0, True), ([4, 3], [2, 1], 2, False)
    )],
    # what is quantized, and quantization that is learned
    "dequantize": lambda t, a: [a.dequantize.self_out(_q(t), out=_empty(t, "float32")), a.dequantize.tensor(_q(t)),
                                *a.dequantize.tensors([_q(t)] * 2), *a.dequantize.list([_q(t)])],
    "int_repr.out": lambda t, a: a.int_repr.out(_q(t), out=_empty(t, "uint8")),
    "quantize_per_tensor.tensors": lambda t, a: [x.dequantize() for x in a.quantize_per_tensor.tensors(
        [_x(t).float(), _x(t).float() * 2], t.tensor([0.5, 0.25]), t.tensor([100, 2]), t.quint8
    )],
    "quantize_per_tensor_dynamic": lambda t, a: [
        (q.int_repr(), q.q_scale(), q.q_zero_point()) for dtype in (t.quint8, t.qint8) for r in (False, True)
        for q in [a.quantize_per_tensor_dynamic(_x(t).float(), dtype, r)]
    ],
    "_choose_qparams_per_tensor": lambda t, a: [a._choose_qparams_per_tensor(_x(t).float(), r) for r in (False, True)],
    "_make_quantized_tensor": lambda t, a: [
        a._make_per_tensor_quantized_tensor(t.tensor([1, 2], dtype=t.uint8), 0.5, 3).dequantize(),
        a._make_per_channel_quantized_tensor(t.tensor([[1, 2]], dtype=t.int8), t.tensor([0.5]), t.tensor([3]), 0)
        .dequantize(),
    ],
    "_fake_quantize_learnable": lambda t, a: [
        f(_x(t).float(), *_steps(t, n), *axis, -8, 7, 0.5) for n, axis in (("tensor", ()), ("channel", (1,)))
        for f in [getattr(a, f"_fake_quantize_learnable_per_{n}_affine")]
    ],
    "_fake_quantize_learnable_backward": lambda t, a: [
        f(_x(t).float() + 1, _x(t).float(), *_steps(t, n), *axis, -8, 7, 0.5)
        for n, axis in (("tensor", ()), ("channel", (1,)))
        for f in [getattr(a, f"_fake_quantize_learnable_per_{n}_affine_backward")]
    ],
    "gradients of what is learned": lambda t, a: _learned(t, a),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": lambda t, a: [
        a._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            _x(t).float(), t.tensor([0.25]), t.tensor([zero], dtype=t.int32), t.tensor([on]), -8, 7
        ) for on, zero in ((0, 2), (1, 2), (1, -20))
    ],
    "fused_moving_avg_obs_fake_quant": lambda t, a: [
        _observed(t, a, *case)
        for case in ((1, 1, False, False), (0, 1, False, False), (1, 0, False, True), (1, 1, True, False))
    ],
}  # fmt: skip


def _told(x):
    if isinstance(x, tuple | list):
        return [_told(y) for y in x]
    return (str(x.dtype), tuple(x.shape), x.double().reshape(-1).tolist()) if hasattr(x, "dtype") else x


def _close(mine, theirs):
    if isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(_close(a, b) for a, b in zip(mine, theirs, strict=True))
    return mine == pytest.approx(theirs, rel=1e-6, abs=1e-9) if isinstance(theirs, float) else mine == theirs


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_pytorchs_compute(name):
    mine, theirs = (_told(CASES[name](t, t.ops.aten)) for t in (torch, torch_oracle))
    assert _close(mine, theirs), (mine, theirs)


def test_gradients_of_backward_operators_are_recorded():
    def second(t):
        x = _x(t).requires_grad_()
        grad = t.ones((), dtype=t.float64, requires_grad=True)
        out = t.ops.aten.soft_margin_loss_backward.default(grad, x, x.detach().sign(), 1)
        return [g.tolist() for g in t.autograd.grad(out.sum(), (grad, x))]

    assert _close(second(torch), second(torch_oracle))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["tensor", "channel"])
def test_rounding_with_a_mask_has_the_gradient_of_rounding(kind, dtype):
    def rounded(t):
        x = (_x(t) * 3).to(getattr(t, dtype)).requires_grad_()
        numbers = (0.3, 2) if kind == "tensor" else (t.tensor([0.3, 0.1, 0.7]), t.tensor([1, 0, 2], dtype=t.int32), 1)
        out, mask = getattr(t.ops.aten, f"fake_quantize_per_{kind}_affine_cachemask").default(x, *numbers, *_FAKE)
        return out.tolist(), mask.tolist(), str(out.dtype), t.autograd.grad(out.sum(), x)[0].tolist()

    agree(rounded)


def test_nothing_beyond_the_signatures_follows_from_them():
    assert SOURCE.index
    agree(lambda t: sorted(t.ops.aten.fliplr.overloads()))


@pytest.mark.parametrize("name", ["flash", "efficient"])
def test_attention_of_gpus_is_that_of_the_cpu(name):
    q, k, v = (_image(torch, 1, 2, n, 4).float() for n in (3, 5, 5))
    call = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default
    rest = () if name == "flash" else (None, True)
    out, sums, *_ = call(q, k, v, *rest, scale=0.3)
    scores = q @ k.mT * 0.3
    assert torch.allclose(out, scores.softmax(-1) @ v) and torch.allclose(sums, scores.logsumexp(-1))
    with pytest.raises(NotImplementedError, match="its random numbers are a GPU's"):
        call(q, k, v, *rest, 0.5)


def test_gradients_of_rms_norm_from_what_was_kept():
    x, w, grad = _x(torch).requires_grad_(), _x(torch)[0].clone().requires_grad_(), _x(torch).T
    out, rstd = torch.ops.aten._fused_rms_norm.default(x, [3], w, 1e-3)
    expected = torch.autograd.grad(out, (x, w), grad)
    found = torch.ops.aten._fused_rms_norm_backward.default(grad, x.detach(), [3], rstd, w.detach(), [True, True])
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_a_failed_factorization_is_told():
    with pytest.raises(torch.linalg.LinAlgError, match="linalg.inv: .Batch element 1.: the algorithm failed"):
        torch.ops.aten._linalg_check_errors.default(torch.tensor([0, 2]), "linalg.inv", is_matrix=False)


def test_backward_passes_that_pytorch_has_on_other_devices():
    a, g, m, v = torch.ops.aten, _image(torch, 2, 3), _image(torch, 2, 4), _image(torch, 3, 4)

    def taped(run, *inputs):
        given = [x.clone().requires_grad_() for x in inputs]
        return torch.autograd.grad((run(*given) * g).sum(), given)

    for got, wanted in (
        (a.linear_backward.default(m, g, v, [True, True, False])[:2], taped(torch.nn.functional.linear, m, v)),
        (a.matmul_backward.default(g, m, v.T, [True, True]), taped(torch.matmul, m, v.T)),
    ):
        torch.testing.assert_close(tuple(got), wanted)
    image = _image(torch, 1, 1, 4, 6)
    wanted = torch.autograd.grad(torch.nn.functional.max_pool2d(x := image.clone().requires_grad_(), 2).sum(), x)[0]
    torch.testing.assert_close(
        a.max_pool2d_backward.default(torch.ones(1, 1, 2, 3, dtype=image.dtype), image, [2, 2]), wanted
    )


@pytest.mark.parametrize("case", [
    lambda a, t: a._tensor_to_list.default(_x(t)),
    lambda a, t: a._functional_assert_scalar.default(False, "why", t.ones(1)),
    lambda a, t: a._functional_sym_constrain_range.default(9, 0, 5, t.ones(1)),
])  # fmt: skip
def test_what_overloads_of_programs_refuse(case):
    for t in (torch_oracle, torch):
        with pytest.raises(
            RuntimeError, match=r"expected scalar type Int|why|Invalid value range for 9 between \[0, 5\]"
        ):
            case(t.ops.aten, t)
