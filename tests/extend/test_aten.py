"""torch.ops: overloads and packets as objects, their schemas, calls, tags, and the names that must be PyTorch's."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from both import agree, agree_error

import torchlike
from torchlike._aten.packets import OpOverload, OpOverloadPacket

aten = torchlike.ops.aten
OVERLOADS = [
    "add.Tensor", "add.Scalar", "add.out", "add_.Tensor", "mul.Scalar", "mul_.Scalar", "sum.default", "sum.dim_IntList",
    "sum.IntList_out", "max.dim", "max.dim_max", "max.other", "sort.default", "sort.values", "eq.Scalar",
    "pow.Tensor_Scalar", "pow_.Scalar", "view.default", "transpose.int", "expand.default", "split.Tensor",
    "rand.default", "randint.low", "zeros.default", "empty.memory_format", "zeros_like.default", "new_full.default",
    "uniform_.default", "bernoulli_.float", "detach.default", "_softmax.default", "convolution.default",
    "convolution_backward.default", "native_layer_norm_backward.default", "nll_loss_forward.default",
    "_to_copy.default",
    "_scaled_dot_product_flash_attention_for_cpu.default", "index.Tensor", "index_put_.default", "div.Tensor_mode",
    "where.self", "clamp.default", "gelu.default", "elu.default", "arange.start_step", "upsample_bilinear2d.default",
]  # fmt: skip


def overload(t, name):
    packet, _, which = name.partition(".")
    return getattr(getattr(t.ops.aten, packet), which)


def facts(t, name):
    op = overload(t, name)
    s = op._schema
    arguments = [
        (a.name, str(a.type), a.has_default_value(), str(a.default_value), a.kwarg_only, a.is_out, a.is_write, a.N)
        for a in s.arguments
    ]
    names = str(op), repr(op), op.name(), op.__name__, op.namespace, op._overloadname, str(op.overloadpacket)
    return names, str(s), s.name, s.overload_name, s.is_mutable, arguments, op.is_view, len(s.returns)


@pytest.mark.parametrize("name", OVERLOADS)
def test_overloads_tell_what_pytorch_s_tell(name):
    agree(lambda t: facts(t, name))


# What the declarations do not have as PyTorch has it.
KNOWN = frozenset(
    "linalg_eigh.out repeat_interleave.self_int take_along_dim.default trapz.dx special_airy_ai.default "
    "special_airy_ai.out special_scaled_modified_bessel_k0.default special_scaled_modified_bessel_k0.out "
    "special_scaled_modified_bessel_k1.default special_scaled_modified_bessel_k1.out contiguous.default "
    "special_spherical_bessel_j0.default special_spherical_bessel_j0.out".split()
)


def test_every_overload_is_one_of_pytorch_s():
    """A walk over all that torch.ops.aten holds: names and schemas."""
    count = 0
    for name in dir(aten):
        packet = getattr(aten, name, None)
        if not isinstance(packet, OpOverloadPacket):
            continue
        for which in packet.overloads():
            count += 1
            if f"{name}.{which}" in KNOWN:
                continue
            theirs = getattr(getattr(torch.ops.aten, name), which)
            assert str(getattr(packet, which)._schema) == str(theirs._schema)
    assert count > 900


CALLS = [
    lambda t: t.ops.aten.add.Tensor(t.ones(2), 2, alpha=3),
    lambda t: t.ops.aten.add(t.ones(2), t.ones(2)),
    lambda t: t.ops.aten.add.Scalar(t.ones(2), 1, 2),
    lambda t: t.ops.aten.add(self=t.ones(2), other=t.ones(2)),
    lambda t: t.ops.aten.add_.Tensor(t.ones(2), 1),
    lambda t: t.ops.aten.add.out(t.ones(2), t.ones(2), out=t.zeros(2)),
    lambda t: t.ops.aten.sum(t.ones(2, 3)),
    lambda t: t.ops.aten.sum(t.ones(2, 3), [0]),
    lambda t: t.ops.aten.sum.dim_IntList(t.ones(2, 3), [1], True, dtype=t.float64),
    lambda t: tuple(t.ops.aten.max(t.ones(2, 3), 0)),
    lambda t: t.ops.aten.max(t.ones(2, 3)),
    lambda t: t.ops.aten.view.default(t.ones(2, 3), [6]),
    lambda t: t.ops.aten.eq.Scalar(t.ones(2), 1),
    lambda t: t.ops.aten.cat.default([t.ones(2), t.zeros(1)], 0),
    lambda t: tuple(t.ops.aten.split.Tensor(t.ones(3), 2)),
    lambda t: t.ops.aten.zeros.default([2], dtype=t.int64),
    lambda t: t.ops.aten.arange.start_step(0, 6, 2),
    lambda t: t.ops.aten._softmax.default(t.ones(2, 2), 1, False),
    lambda t: t.ops.aten.convolution.default(t.ones(1, 2, 5), t.ones(3, 2, 2), None, [1], [0], [1], False, [0], 1),
    lambda t: t.ops.aten.native_layer_norm.default(t.arange(6.0).view(2, 3), [3], None, None, 1e-5),
    lambda t: t.ops.aten.native_batch_norm.default(
        t.arange(12.0).view(2, 3, 2), None, None, t.zeros(3), t.ones(3), True, 0.1, 1e-5
    )[0],
    lambda t: t.ops.aten.native_group_norm.default(t.arange(12.0).view(2, 3, 2), None, None, 2, 3, 2, 3, 1e-5)[0],
    lambda t: t.ops.aten.nll_loss_forward.default(t.eye(3) * -1, t.tensor([0, 1, -100]), None, 1, -100),
    lambda t: t.ops.aten.index.Tensor(t.arange(6).view(2, 3), [None, t.tensor([2, 0])]),
    lambda t: t.ops.aten.index.Tensor(t.arange(6).view(2, 3), [t.tensor([True, False])]),
    lambda t: t.ops.aten.index(t.arange(6).view(2, 3), t.tensor([1, 0])),
    lambda t: t.ops.aten.index.Tensor(t.arange(6).view(2, 3), t.tensor([[0, 1], [1, 1]])),
    lambda t: t.ops.aten.index_put(t.zeros(2, 3), t.tensor([[0, 1], [1, 1]]), t.tensor(5.0)),
    lambda t: t.ops.aten.index_put_.default(t.zeros(3), [t.tensor([0, 0])], t.tensor([1.0, 2.0]), True),
    lambda t: t.ops.aten.index_put.default(t.zeros(2, 2), [None, t.tensor([1])], t.tensor(5.0)),
    lambda t: t.ops.aten.index_put.default(t.zeros(2, 3), [None, t.tensor([1, 1])], t.ones(2, 2), True),
    lambda t: t.ops.aten.index_put.default(t.zeros(3), [t.tensor([True, False, True])], t.tensor(5.0)),
    lambda t: t.ops.aten._to_copy.default(t.ones(2), dtype=t.float64),
    lambda t: t.ops.aten.clone.default(t.ones(2, 3).t()).stride(),
    lambda t: t.ops.aten.detach.default(t.ones(2, requires_grad=True)),
    lambda t: t.ops.aten.nonzero.default(t.tensor([0, 1, 2])),
    lambda t: t.ops.aten.item.default(t.tensor(3.5)),
    lambda t: t.ops.aten.upsample_nearest2d.default(t.arange(4.0).view(1, 1, 2, 2), [4, 4]),
    lambda t: t.ops.aten.upsample_bilinear2d.default(t.arange(4.0).view(1, 1, 2, 2), [3, 3], True),
    lambda t: t.ops.aten.t_.default(t.ones(2, 3)).shape,
]

X, G = (lambda t: t.linspace(-2, 2, 6)), (lambda t: t.arange(1.0, 7.0))
BACKWARDS = [
    lambda t: t.ops.aten.tanh_backward.default(G(t), X(t).tanh()),
    lambda t: t.ops.aten.sigmoid_backward.default(G(t), X(t).sigmoid()),
    lambda t: t.ops.aten.threshold_backward.default(G(t), X(t), 0),
    lambda t: t.ops.aten.gelu_backward.default(G(t), X(t)),
    lambda t: t.ops.aten.gelu_backward.default(G(t), X(t), approximate="tanh"),
    lambda t: t.ops.aten.silu_backward.default(G(t), X(t)),
    lambda t: t.ops.aten.leaky_relu_backward.default(G(t), X(t), 0.1, False),
    lambda t: t.ops.aten.elu_backward.default(G(t), 1.5, 1, 1, False, X(t)),
    lambda t: t.ops.aten.hardtanh_backward.default(G(t), X(t), -1, 1),
    lambda t: t.ops.aten.softplus_backward.default(G(t), X(t), 1, 20),
    lambda t: t.ops.aten.hardswish_backward.default(G(t), X(t)),
    lambda t: t.ops.aten.hardsigmoid_backward.default(G(t), X(t)),
    lambda t: t.ops.aten.mish_backward.default(G(t), X(t)),
    lambda t: t.ops.aten.mse_loss_backward.default(t.tensor(1.0), X(t), G(t), 1),
    lambda t: t.ops.aten.smooth_l1_loss_backward.default(t.tensor(1.0), X(t), G(t), 1, 1.0),
    lambda t: t.ops.aten._softmax_backward_data.default(G(t), X(t).softmax(0), 0, t.float32),
    lambda t: t.ops.aten._log_softmax_backward_data.default(G(t), X(t).log_softmax(0), 0, t.float32),
    lambda t: t.ops.aten.embedding_dense_backward.default(t.ones(2, 3), t.tensor([1, 1]), 4, -1, False),
    lambda t: t.ops.aten.select_backward.default(t.ones(3), [2, 3], 0, 1),
    lambda t: t.ops.aten.slice_backward.default(t.ones(2, 2), [2, 5], 1, 1, 5, 2),
    lambda t: t.ops.aten.diagonal_backward.default(t.ones(2), [2, 3], 0, 0, 1),
    lambda t: t.ops.aten.unfold_backward.default(t.ones(2, 2), [3], 0, 2, 1),
    lambda t: t.ops.aten.convolution_backward.default(
        t.ones(1, 3, 4), t.arange(10.0).view(1, 2, 5), t.ones(3, 2, 2), [3], [1], [0], [1], False, [0], 1,
        [True, True, True],
    ),
    lambda t: t.ops.aten.convolution_backward.default(
        t.ones(1, 3, 4), t.arange(10.0).view(1, 2, 5), t.ones(3, 2, 2), [3], [1], [0], [1], False, [0], 1,
        [True, False, False],
    )[1],
    lambda t: t.ops.aten.nll_loss_backward.default(
        t.tensor(1.0), t.zeros(2, 3), t.tensor([0, 2]), None, 1, -100, t.tensor(2.0)
    ),
    lambda t: t.ops.aten.max_pool2d_with_indices_backward.default(
        t.ones(1, 1, 1, 1), t.arange(4.0).view(1, 1, 2, 2), [2, 2], [], [0, 0], [1, 1], False,
        t.tensor([[[[3]]]]),
    ),
    lambda t: t.ops.aten.avg_pool2d_backward.default(
        t.ones(1, 1, 1, 1), t.arange(4.0).view(1, 1, 2, 2), [2, 2], [], [0, 0], False, True, None
    ),
]  # fmt: skip


@pytest.mark.parametrize("call", [*CALLS, *BACKWARDS])
def test_calls(call):
    agree(call)


def test_native_layer_norm_backward():
    def run(t):
        x = (t.arange(6.0, dtype=t.float64) * 7 % 5).view(2, 3)
        one, zero = t.ones(3, dtype=t.float64), t.zeros(3, dtype=t.float64)
        _, mean, rstd = t.ops.aten.native_layer_norm.default(x, [3], one, zero, 1e-5)
        back = t.ops.aten.native_layer_norm_backward.default
        return back(x.sin(), x, [3], mean, rstd, one, zero, [True, True, True])

    agree(run)


def test_calls_are_recorded():
    def run(t):
        x = t.ones(2, requires_grad=True)
        t.ops.aten.mul.Tensor(t.ops.aten.exp.default(x), 3).sum().backward()
        return x.grad

    agree(run)


def test_running_statistics_are_written():
    def run(t):
        mean, var = t.zeros(3), t.ones(3)
        t.ops.aten.native_batch_norm.default(t.arange(12.0).view(2, 3, 2), None, None, mean, var, True, 0.5, 1e-5)
        return mean, var

    agree(run)


def test_identity_and_copies():
    add = aten.add.Tensor
    assert add is aten.add.Tensor and copy.deepcopy(add) is add and pickle.loads(pickle.dumps(add)) is add
    assert pickle.loads(pickle.dumps(aten.add)) is aten.add and copy.copy(aten.add.overloads()) == list(aten.add)
    assert hash(add) == hash(aten.add.Tensor) and add != aten.add.Scalar
    assert {add: 1}[aten.add.Tensor] == 1 and isinstance(add, OpOverload)
    assert torchlike._ops.OpOverload is OpOverload and add.overloadpacket is aten.add


def test_tags():
    def known(name):
        return {str(tag) for tag in overload(torchlike, name).tags}, {str(tag) for tag in overload(torch, name).tags}

    for name in (
        "add.Tensor",
        "add_.Tensor",
        "rand.default",
        "t_.default",
        "exp.out",
        "view.default",
        "nonzero.default",
    ):
        ours, theirs = known(name)
        assert ours <= theirs, name
    assert known("add.Tensor")[0] == {"Tag.pointwise"}


def test_errors():
    agree_error(lambda t: t.ops.aten.add.foo, "The underlying op of 'aten.add' has no overload name 'foo'")
    agree_error(lambda t: t.ops.aten.nonexistent, "'_OpNamespace' 'aten' object has no attribute 'nonexistent'")
    agree_error(lambda t: t.ops.nowhere.foo, "'_OpNamespace' 'nowhere' object has no attribute 'foo'")
    agree_error(lambda t: t.ops.aten.add("x"), "failed to match any schema")
    agree_error(lambda t: t.ops.aten.index(t.ones(2, 3), []), "at least one index must be provided")
    agree_error(lambda t: t.ops.aten.index(t.ones(2), t.tensor([0, 0])), "too many indices for tensor of dimension 1")
    agree_error(lambda t: t.ops.aten.index(t.ones(2), t.tensor([0.0])), "must be long, int, byte or bool tensors")
    agree_error(lambda t: t.ops.aten.index(t.ones(2), t.tensor(0)), "found type 'Tensor'")
    with pytest.raises(NotImplementedError, match=r"load_library.*cpp_extension.*custom_op"):
        torchlike.ops.load_library("libx.so")


def test_namespaces():
    assert "add" in dir(aten) and repr(torchlike.ops.aten) == repr(torch.ops.aten)
    assert repr(aten.add) == repr(torch.ops.aten.add) and str(torchlike.ops.fresh) == str(torch.ops.fresh)
    assert torchlike.ops.loaded_libraries == set()


def test_overloads_give_plain_tuples():
    def kinds(t):
        x, a = t.ones(2, 3), t.ops.aten
        results = (
            a.max.dim(x, 0), a.sort.default(x), a.linalg_qr.default(x),
            a.native_layer_norm.default(x, [3], None, None, 1e-5),
            a._fused_rms_norm.default(x, [3], None, 1e-5), a._weight_norm_interface.default(x, x[:, :1]), t.max(x, 0),
        )  # fmt: skip
        return [type(r).__name__ for r in results]

    agree(kinds)
