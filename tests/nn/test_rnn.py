"""Recurrent layers, cells and packed sequences, against PyTorch."""

import numpy as np
import pytest
import torch
from both import agree
from layer_kit import layer, same_refusal
from oracle import assert_same, check, check_error, flatten, host, to_ours, to_torch

import torchlike

rng = np.random.RandomState(0)
F32 = np.float32


def r(*shape, dtype=F32):
    return rng.standard_normal(shape).astype(dtype)


X = r(5, 3, 4)
OPTIONS = {
    "one layer": {}, "two": {"num_layers": 2}, "both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bias": False},
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_layer(kind, options):
    layer(lambda nn: getattr(nn, kind)(4, 6, **OPTIONS[options]), X, tol=5)


def states(kind, *shape):
    return (r(*shape), r(*shape)) if kind == "LSTM" else r(*shape)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_given_state(kind):
    layer(lambda nn: getattr(nn, kind)(4, 6, 2), X, states(kind, 2, 3, 6), tol=5)
    layer(lambda nn: getattr(nn, kind)(4, 6), X[:, 0], states(kind, 1, 6), tol=5)
    layer(lambda nn: getattr(nn, kind)(4, 6), X[:, 0], tol=5)


def test_relu_and_projections():
    layer(lambda nn: nn.RNN(4, 6, nonlinearity="relu"), X, tol=5)
    layer(lambda nn: nn.RNN(4, 6, 2, "relu"), X, tol=5)
    layer(lambda nn: nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), X, tol=5)
    layer(lambda nn: nn.LSTM(4, 6, proj_size=3), X, (r(1, 3, 3), r(1, 3, 6)), tol=5)


@pytest.mark.parametrize("options", [{"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}])
def test_second_derivatives(options):
    def seconds(library):
        m = library.nn.LSTM(2, 3, dtype=library.float64, **options)
        for i, p in enumerate(m.parameters()):
            p.data = library.linspace(-1, 1 + i / 9, p.numel(), dtype=library.float64).reshape(p.shape)
        x = library.linspace(-1, 2, 16, dtype=library.float64).reshape(4, 2, 2).requires_grad_()
        out, (h, c) = m(x)
        inputs = [x, *m.parameters()]
        firsts = library.autograd.grad((out.square().sum() + h.sin() * c).sum(), inputs, create_graph=True)
        return [*firsts, *library.autograd.grad(sum(g.square().sum() for g in firsts), inputs)]

    agree(seconds)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_memory_goes_by_time(kind):
    def strides(library):
        made = [getattr(library.nn, kind)(4, 6, **OPTIONS[options]) for options in ("one layer", "batch first")]
        return [m(library.ones(5, 3, 4))[0].stride() for m in made]

    agree(strides)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed(kind):
    def call(m, x):
        library = torch if isinstance(x, torch.Tensor) else torchlike
        rnn = library.nn.utils.rnn
        out, last = m(rnn.pack_padded_sequence(x, library.tensor([2, 5, 3]), enforce_sorted=False))
        return *rnn.pad_packed_sequence(out), last

    layer(lambda nn: getattr(nn, kind)(4, 6, 2, bidirectional=True), X, call=call, tol=5)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed_with_state(kind):
    def call(m, x, state):
        library = torch if isinstance(x, torch.Tensor) else torchlike
        packed = library.nn.utils.rnn.pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False)
        out, last = m(packed, state)
        return out.data, last

    layer(lambda nn: getattr(nn, kind)(4, 6), X, states(kind, 1, 3, 6), call=call, tol=5)


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cell(kind):
    state = (r(3, 6), r(3, 6)) if kind == "LSTMCell" else r(3, 6)
    one = (r(6), r(6)) if kind == "LSTMCell" else r(6)
    layer(lambda nn: getattr(nn, kind)(4, 6), X[0], tol=5)
    layer(lambda nn: getattr(nn, kind)(4, 6, bias=False), X[0], state, tol=5)
    layer(lambda nn: getattr(nn, kind)(4, 6), X[0, 0], one, tol=5)


def test_relu_cell():
    layer(lambda nn: nn.RNNCell(4, 6, nonlinearity="relu"), X[0], tol=5)


def test_second_order():
    def run(t, x, h, w_ih, w_hh):
        cell = t.nn.GRUCell(4, 2).double()
        parameters = {"weight_ih": w_ih, "weight_hh": w_hh, "bias_ih": w_ih[:, 0], "bias_hh": w_hh[:, 0]}
        cell.__dict__["_parameters"] = parameters
        return cell(x, h)

    wide = np.float64
    check(run, r(3, 4, dtype=wide), r(3, 2, dtype=wide), r(6, 4, dtype=wide), r(6, 2, dtype=wide), jit=False)


def test_dropout_between_layers():
    torchlike.manual_seed(0)
    m = torchlike.nn.GRU(4, 50, num_layers=2, dropout=0.5)
    x = to_ours(X)
    assert (host(m(x)[0]) != host(m(x)[0])).any()
    m.eval()
    np.testing.assert_array_equal(host(m(x)[0]), host(m(x)[0]))


def zeros(make, *shapes, dtype=F32):
    def run(nn):
        lift = to_ours if nn is torchlike.nn else to_torch
        build = lambda s: tuple(map(build, s)) if isinstance(s[0], tuple) else lift(np.zeros(s, dtype))  # noqa: E731
        return make(nn)(*map(build, shapes))

    return run


def lstm(nn):
    return nn.LSTM(2, 3)


def gru(nn):
    return nn.GRU(2, 3)


BAD = {
    "hidden_size": (lambda nn: nn.LSTM(2, 0), "hidden_size must be greater than zero"),
    "num_layers": (lambda nn: nn.LSTM(2, 3, num_layers=0), "num_layers must be greater than zero"),
    "proj_size": (lambda nn: nn.LSTM(2, 3, proj_size=3), "smaller than hidden_size"),
    "gru proj_size": (lambda nn: nn.GRU(2, 3, proj_size=1), "only supported for LSTM"),
    "dropout": (lambda nn: nn.LSTM(2, 3, dropout=2), r"range \[0, 1\]"),
    "float size": (lambda nn: nn.LSTM(2, 3.5), "hidden_size should be of type int, got: float"),
    "bias": (lambda nn: nn.LSTM(2, 3, bias=None), "bias should be of type bool"),
    "nonlinearity": (lambda nn: nn.RNN(2, 3, nonlinearity="some"), "Unknown nonlinearity 'some'"),
    "features": (zeros(lstm, (4, 3)), "equal to input_size. Expected 2, got 3"),
    "rank": (zeros(lstm, (2,)), "Expected input to be 2D or 3D, got 1D"),
    "hidden": (
        zeros(lstm, (5, 4, 2), ((1, 3, 3), (1, 4, 3))),
        r"Expected hidden\[0\] size \(1, 4, 3\), got \[1, 3, 3\]",
    ),
    "cell": (zeros(lstm, (5, 4, 2), ((1, 4, 3), (1, 4, 2))), r"Expected hidden\[1\] size"),
    "hidden rank": (zeros(lstm, (5, 4, 2), ((4, 3), (4, 3))), "For batched 3-D input"),
    "gru hidden": (zeros(gru, (5, 4, 2), (1, 3, 3)), r"Expected hidden size \(1, 4, 3\), got \[1, 3, 3\]"),
    "gru hidden rank": (zeros(gru, (5, 2), (1, 4, 3)), "For unbatched 2-D input"),
    "dtype": (zeros(lstm, (5, 4, 2), dtype=np.float64), "does not match weight dtype"),
    "no steps": (zeros(lstm, (0, 4, 2)), "sequence length to be larger than 0"),
    "cell rank": (zeros(lambda nn: nn.LSTMCell(2, 3), (1, 4, 2)), "to be 1D or 2D, got 3D"),
    "cell features": (
        zeros(lambda nn: nn.GRUCell(2, 3), (4, 3)), "inconsistent input_size: got 3 expected 2",
    ),
    "cell batch": (zeros(lambda nn: nn.RNNCell(2, 3), (4, 2), (3, 3)), "Input batch size 4 doesn't match"),
    "cell hidden": (
        zeros(lambda nn: nn.GRUCell(2, 3), (4, 2), (4, 4)), "inconsistent hidden_size: got 4, expected 3",
    ),
    "cell nonlinearity": (
        zeros(lambda nn: nn.RNNCell(2, 3, nonlinearity="x"), (4, 2)), "Unknown nonlinearity: x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    same_refusal(*BAD[case])


# -- packed sequences --------------------------------------------------------------------------------

PADDED = r(5, 3, 2, dtype=np.float64)
PACK = {
    "sorted": lambda u, x: u.pack_padded_sequence(x, [5, 3, 1]),
    "batch first": lambda u, x: u.pack_padded_sequence(x, [3, 3, 2, 1, 1], batch_first=True),
    "short": lambda u, x: u.pack_padded_sequence(x, [4, 3, 1]),
    "unsorted": lambda u, x: u.pack_padded_sequence(x, [1, 5, 3], enforce_sorted=False),
    "pack_sequence": lambda u, x: u.pack_sequence([x[:, 0], x[:3, 1], x[:1, 2]]),
    "padded": lambda u, x: u.pad_packed_sequence(u.pack_padded_sequence(x, [5, 3, 1]), padding_value=-1.0),
    "padded unsorted": lambda u, x: u.pad_packed_sequence(
        u.pack_padded_sequence(x, [1, 5, 3], enforce_sorted=False), batch_first=True, total_length=7
    ),
    "padded batch first": lambda u, x: u.pad_packed_sequence(u.pack_padded_sequence(x, [5, 3, 1]), batch_first=True),
    "padded to": lambda u, x: u.pad_packed_sequence(u.pack_padded_sequence(x, [5, 2, 1]), total_length=3),
    "unpacked": lambda u, x: u.unpack_sequence(u.pack_padded_sequence(x, [1, 5, 3], enforce_sorted=False)),
    "pad_sequence": lambda u, x: u.pad_sequence([x[:2, 0], x[:, 1], x[:1, 2]]),
    "pad left": lambda u, x: u.pad_sequence([x[:2, 0], x[:, 1]], True, 9.0, padding_side="left"),
    "pad tensor": lambda u, x: u.pad_sequence(x),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(PACK.keys() - {"padded to"}))
def test_packing(case):
    check(
        lambda t, x: [o for o in flatten(PACK[case](t.nn.utils.rnn, x)) if o is not None],
        PADDED,
        jit=False,
    )


def test_packed_sequences_are_tuples():
    rnn = torchlike.nn.utils.rnn
    packed = rnn.pack_padded_sequence(to_ours(PADDED), [5, 3, 1])
    data, batch_sizes, order, back = packed
    assert batch_sizes.tolist() == [3, 2, 2, 1, 1] and order is back is None and data is packed.data
    assert packed.to(torchlike.float32).data.dtype is torchlike.float32 and packed.cpu() is packed
    kinds = [packed.byte(), packed.char(), packed.short(), packed.int(), packed.long()]
    assert [str(p.data.dtype)[6:] for p in kinds] == ["uint8", "int8", "int16", "int32", "int64"]
    assert not packed.is_pinned()
    assert repr(packed).startswith("PackedSequence(data=tensor(")
    assert_same(rnn.invert_permutation(torchlike.tensor([2, 0, 1])), torch.tensor([1, 2, 0]))


BAD_PACK = {
    "order": (lambda t, x: t.nn.utils.rnn.pack_padded_sequence(x, [1, 2, 3]), "sorted in decreasing order"),
    "zero": (lambda t, x: t.nn.utils.rnn.pack_padded_sequence(x, [5, 2, 0]), "greater than 0"),
    "count": (lambda t, x: t.nn.utils.rnn.pack_padded_sequence(x, [5, 2]), r"but got 2 \(batch_size=3\)"),
    "side": (lambda t, x: t.nn.utils.rnn.pad_sequence([x], padding_side="up"), "left or right, but got up"),
    "nothing": (lambda t, x: t.nn.utils.rnn.pad_sequence([]), "empty list"),
    "numbers": (lambda t, x: t.nn.utils.rnn.pad_sequence([1, 2]), "expected Tensor as element 0"),
    "sizes": (lambda t, x: t.nn.utils.rnn.pad_sequence([x, x[:, :2]]), "shape|size"),
    "total_length": (
        lambda t, x: PACK["padded to"](t.nn.utils.rnn, x),
        "total_length=3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PACK)
def test_packing_refuses(case):
    f, match = BAD_PACK[case]
    check_error(f, PADDED, match=match)


@pytest.mark.parametrize("cls", ["RNN", "RNNCell"])
def test_relu_takes_no_complex_numbers(cls):
    for t in (torch, torchlike):
        module = getattr(t.nn, cls)(2, 3, nonlinearity="relu", dtype=t.complex64)
        with pytest.raises(NotImplementedError, match="not supported for complex types"):
            module(t.ones(1, 2, dtype=t.complex64))
