"""Quantized tensors: making, reading, views, operators, files and errors."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from both import agree, agree_error
from quantized_kit import FILTER, KINDS, C, Q, numbers, told

import torchlike

pytestmark = FILTER
ODD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.05, -0.05, 0.15]


@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind):
    for scale, zero_point in ((0.1, 50), (0.0371, 3), (1 / 3, 77)):
        agree(lambda t, s=scale, z=zero_point: told(Q(t, kind, (4, 101), s, z)))
        agree(lambda t, s=scale, z=zero_point: Q(t, kind, (4, 101), s, z).dequantize())
    for axis in (0, 1):
        agree(lambda t, a=axis: [told(C(t, kind, axis=a)), C(t, kind, axis=a).dequantize()])
    agree(lambda t: t.quantize_per_tensor(t.tensor(ODD), 0.1, 3, getattr(t, kind)).int_repr())
    agree(lambda t: t.quantize_per_tensor(t.tensor([1.0, 2.0]), 1, 3, getattr(t, kind)).dequantize())


def test_made_of():
    agree(lambda t: [told(C(t, "quint8", floats=True)), C(t, "quint8", floats=True).dequantize()])
    agree(lambda t: [(f(Q(t))) for f in (
        t.q_scale, t.q_zero_point, t.int_repr, t.dequantize, t.Tensor.qscheme, t.Tensor.type, t.Tensor.nbytes.__get__
    )])  # fmt: skip
    agree(lambda t: [f(C(t)) for f in (
        t.q_per_channel_scales, t.q_per_channel_zero_points, t.q_per_channel_axis, t.int_repr, t.Tensor.qscheme
    )])  # fmt: skip
    agree(lambda t: [told(t.quantize_per_tensor(
        [numbers(t, 3), numbers(t, 2)], t.tensor([0.5, 0.25]), t.tensor([3, 0]), t.quint8)),
        t.dequantize([Q(t), t.ones(2)])])  # fmt: skip
    agree(lambda t: [told(t.quantize_per_tensor(numbers(t, 3), t.tensor(0.5), t.tensor(3), t.qint8)),
                     told(t._make_per_tensor_quantized_tensor(t.tensor([1, 2], dtype=t.int8), 0.5, 1)),
                     told(t._make_per_channel_quantized_tensor(
                         t.tensor([[1, 2]], dtype=t.uint8), t.tensor([0.5]), t.tensor([1]), 0)),
                     t._empty_affine_quantized([2, 2], scale=0.5, zero_point=1, dtype=t.quint8).q_scale()])  # fmt: skip
    agree(lambda t: [Q(t).is_quantized, t.ones(1).is_quantized, t.is_tensor(Q(t)), len(Q(t)), Q(t)[0, 0].item()])
    agree(lambda t: [t.backends.quantized.engine, t.backends.quantized.supported_engines])


@pytest.mark.parametrize("reduce_range", [False, True])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_dynamic(kind, reduce_range):
    for low, high in ((-3.0, 5.0), (1.0, 2.0), (-4.0, -1.0), (0.0, 0.0), (-1e-5, 2e-5), (0.0, 1e-6), (-300.0, 1.0)):
        agree(lambda t, a=low, b=high: told(t.quantize_per_tensor_dynamic(
            t.tensor([a, b, (a + b) / 3]), getattr(t, kind), reduce_range)))  # fmt: skip


VIEWS = {
    "reshape": lambda q: [q.view(-1), q.reshape(3, 2), q.flatten(), q.unsqueeze(0), q.unsqueeze(0).squeeze(0)],
    "order": lambda q: [q.t(), q.T, q.permute(1, 0), q.transpose(0, 1), q.t().contiguous(), q.t().reshape(-1)],
    "parts": lambda q: [q[0], q[:, 1:], q[0, 0], q.select(1, 2), q.narrow(1, 0, 2), q[::2], q[-1, ..., None]],
    "pieces": lambda q: [*q.chunk(2), *q.split(1), *q.unbind(1), *q, *q.split([1, 2], 1)],
    "shapes": lambda q: [q.expand(2, 2, 3), q.unfold(1, 2, 1), q.detach(), q.clone(), q.contiguous(), q.cpu()],
}
CHANNELS = {
    "parts": lambda q: [q[0], q[1:3], q[:1], q[::2], q[:, 1:]],
    "shapes": lambda q: [q.unsqueeze(0), q.unsqueeze(2), q.reshape(4, 3), q.clone(), q.detach(), q.contiguous()],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    agree(lambda t: told(VIEWS[name](Q(t))))


@pytest.mark.parametrize("name", CHANNELS)
def test_views_of_channels(name):
    agree(lambda t: told(CHANNELS[name](C(t, shape=(4, 3)))))


def test_channels_last():
    def f(t):
        x = numbers(t, 2, 3, 4, 5).to(memory_format=t.channels_last)
        q = t.quantize_per_tensor(x, 0.1, 3, t.quint8)
        c = t.quantize_per_channel(x, t.ones(2) * 0.1, t.zeros(2).long(), 0, t.qint8)
        p = t.quantize_per_tensor(x.permute(2, 0, 3, 1), 0.1, 3, t.quint8)
        return [(v.stride(), v.int_repr().stride(), v.dequantize().stride(), v.is_contiguous()) for v in (q, c, p)]

    agree(f)


def picked(t, q):
    mask = q.dequantize() > 0
    return [
        q.index_select(0, t.tensor([1])), q[t.tensor([1, 0])], q[mask], q.repeat(2, 1), q.sort(1), q.topk(2, 1),
        q.max(), q.min(), q.max(1), q.min(0), t.cat([q, q]), t.stack([q, q]), q.masked_fill(mask, 1.03),
        t.nn.functional.pad(q, (1, 1)), t.cat([q, t.quantize_per_tensor(numbers(t, 2, 3, seed=5), 0.2, 7, q.dtype)], 1),
    ]  # fmt: skip


def computed(t, q):
    f = t.nn.functional
    return [
        f.relu(q), f.relu6(q), f.hardtanh(q, -1.03, 1.07), q.clamp(-1.03, 1.07), t.sigmoid(q), t.tanh(q),
        f.hardsigmoid(q), f.threshold(q, 0.5, 0.2), q.mean(1), q.mean(), q.mean(0, keepdim=True), q.std(1),
    ]  # fmt: skip


def pooled(t, q):
    f = t.nn.functional
    return [
        f.max_pool2d(q, 3, 2, 1), f.avg_pool2d(q, 3, 2, 1), f.adaptive_avg_pool2d(q, 1),
        f.interpolate(q, scale_factor=2),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS[:2])
def test_operators(kind):
    agree(lambda t: told(picked(t, Q(t, kind))))
    agree(lambda t: told(computed(t, Q(t, kind, (5, 40), zero_point=20))))
    agree(lambda t: told(pooled(t, Q(t, kind, (1, 2, 6, 7), zero_point=20))))


def test_comparisons():
    agree(lambda t: [Q(t) == Q(t), Q(t) < Q(t, "qint8"), Q(t).equal(Q(t)), t.equal(Q(t), Q(t, "qint8")),
                     t.equal(Q(t), Q(t, scale=0.2)), C(t).equal(C(t)), Q(t) != Q(t, seed=1)])  # fmt: skip
    for t in (torch, torchlike):
        t.testing.assert_close(Q(t), Q(t))


def test_changes_in_place_are_seen_by_aliases():
    def f(t):
        q = Q(t)
        view = q.t()[1:]
        q[:1].copy_(t.ones(1, 3))
        first = told(q)
        q.view(-1)[:1].fill_(2.03)
        q[1].copy_(Q(t)[0])
        before = q._version
        t.nn.functional.relu(q, inplace=True)
        return first, told(q), told(view), q._version - before

    agree(f)


def test_copies_and_files():
    def f(t):
        q, c = Q(t), C(t)
        file = io.BytesIO()
        t.save({"q": q, "c": c, "part": q[1]}, file)
        file.seek(0)
        again = t.load(file, weights_only=True)
        return told([copy.deepcopy(q), copy.copy(c), pickle.loads(pickle.dumps(c)), *again.values()])

    agree(f)


@pytest.mark.parametrize("writes, reads", [(torch, torchlike), (torchlike, torch)])
def test_files_of_the_other(writes, reads):
    file = io.BytesIO()
    writes.save([Q(writes), C(writes), C(writes, "quint8", floats=True), Q(writes, "qint32")], file)
    file.seek(0)
    mine = [Q(reads), C(reads), C(reads, "quint8", floats=True), Q(reads, "qint32")]
    assert [repr(x) for x in reads.load(file)] == [repr(x) for x in mine]


def test_parameters_and_modules():
    def f(t):
        module = t.nn.Module()
        module.weight = t.nn.Parameter(Q(t), requires_grad=False)
        module.register_buffer("other", C(t))
        return [repr(module.weight), *[repr(x) for x in module.state_dict().values()]]

    agree(f)


WRONG = {
    "bound": lambda t: Q(t, zero_point=300),
    "bound ": lambda t: t.quantize_per_channel(t.ones(1, 2), t.ones(1), t.tensor([1000]), 0, t.qint8),
    "only works on Float": lambda t: t.quantize_per_tensor(t.ones(2).double(), 0.1, 0, t.qint8),
    "is not supported": lambda t: t.quantize_per_tensor(t.ones(2), 0.1, 0, t.int8),
    "must match": lambda t: t.quantize_per_channel(t.ones(1, 2), t.ones(1), t.zeros(2).int(), 0, t.qint8),
    "expected 2": lambda t: t.quantize_per_channel(t.ones(1, 2), t.ones(1), t.zeros(1).int(), 1, t.qint8),
    "out of range": lambda t: t.quantize_per_channel(t.ones(1, 2), t.ones(1), t.zeros(1).int(), -1, t.qint8),
    "q_scale|kPerTensorAffine": lambda t: C(t).q_scale(),
    "q_per_channel_axis|kPerChannelAffine": lambda t: Q(t).q_per_channel_axis(),
    "int_repr": lambda t: t.ones(2).int_repr(),
    "uniformly": lambda t: C(t).t(),
    "dtypes must be the same": lambda t: t.cat([Q(t), Q(t, "qint8")]),
    "unsupported ScalarType": lambda t: Q(t).numpy(),
    "add": lambda t: Q(t) + Q(t),
    "abs": lambda t: Q(t).abs(),
    "sum": lambda t: Q(t).sum(),
    "zero_": lambda t: Q(t).zero_(),
    "require gradients": lambda t: t.nn.Parameter(Q(t)),
    "engine": lambda t: setattr(t.backends.quantized, "engine", "foo"),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    agree_error(WRONG[message], message.strip())


@pytest.mark.parametrize("f", [
    lambda t: t.quantize_per_tensor(t.ones(2), 0.1, 0, t.quint4x2), lambda t: Q(t).float(),
    lambda t: t.vmap(t.relu)(Q(t)), lambda t: Q(t).resize_(3), lambda t: Q(t).tolist(), lambda t: C(t).mean(),
])  # fmt: skip
def test_refused(f):
    with pytest.raises((NotImplementedError, RuntimeError)):
        f(torchlike)


def test_compiled_functions_run_outside_of_them():
    t, q = torchlike, Q(torchlike)
    f = t.compile(lambda x: t.relu(t.quantize_per_tensor(x, 0.1, 3, t.quint8)).dequantize() * 2)
    x = numbers(t, 4)
    assert (f(x) == t.relu(t.quantize_per_tensor(x, 0.1, 3, t.quint8)).dequantize() * 2).all()
    assert (t.compile(lambda: q.dequantize() + 1)() == q.dequantize() + 1).all()


@pytest.mark.parametrize("change", [
    lambda q: q.t_(), lambda q: q.transpose_(0, 1).unsqueeze_(0), lambda q: q.unsqueeze_(1).squeeze_(),
    lambda q: q.as_strided_((2,), (1,)), lambda q: q.__setitem__(0, 0.7), lambda q: q.__setitem__((1, slice(2)), 0.4),
    lambda q: q.view(-1).__setitem__(2, 0.9), lambda q: q.__setitem__(1, q[0].dequantize()),
    lambda q: q[0].__setitem__(1, True),
])  # fmt: skip
def test_the_tensor_itself_changes(change):
    """Changes of its geometry were lost in silence."""

    def run(t):
        q = Q(t)
        view = q.view(-1)
        change(q)
        return told(q), q.dequantize(), view.dequantize()

    agree(run)


def test_assigned_by_other_tensors():
    for index in ([0], torchlike.tensor([True, False])):
        with pytest.raises(NotImplementedError, match=r"index_put_\(\) is not supported for quantized tensors"):
            Q(torchlike)[index] = 1.0
