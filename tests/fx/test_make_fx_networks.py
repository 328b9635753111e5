"""make_fx of layers that are one operator here: aten calls alone, and the layer's numbers on other inputs."""

import pytest
import torch
import torch.fx.experimental.proxy_tensor

import torchlike

NETWORKS = {
    "lstm": ("LSTM", {}), "lstm of two layers": ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm without bias": ("LSTM", {"bias": False}), "projection": ("LSTM", {"proj_size": 2, "bidirectional": True}),
    "projection without bias": ("LSTM", {"proj_size": 2, "bias": False, "num_layers": 2}),
    "gru": ("GRU", {"num_layers": 2, "bidirectional": True}), "gru without bias": ("GRU", {"bias": False}),
    "rnn": ("RNN", {"num_layers": 2, "batch_first": True}),
    "relu": ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
}  # fmt: skip
CELLS = {"lstm cell": ("LSTMCell", {}), "gru cell": ("GRUCell", {"bias": False}), "rnn cell": ("RNNCell", {})}


def flat(out):
    return [t for part in out for t in flat(part)] if isinstance(out, tuple | list) else [out]


def follows(f, *inputs):
    """The graph of ``f`` has aten calls alone and computes what ``f`` does, also of other inputs."""
    gm = torchlike.fx.experimental.proxy_tensor.make_fx(f)(*inputs)
    torchlike.manual_seed(1)
    others = [torchlike.randn(*x.shape) for x in inputs]
    for got, want in zip(flat(gm(*others)), flat(f(*others)), strict=True):
        assert torchlike.allclose(got, want, atol=1e-6)
    return [n.target for n in gm.graph.nodes if n.op == "call_function" and hasattr(n.target, "namespace")]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    cls, options = NETWORKS[name]
    net = getattr(torchlike.nn, cls)(3, 4, **options)
    assert {target.namespace for target in follows(net, torchlike.ones(2, 3, 3))} == {"aten"}


@pytest.mark.parametrize("name", CELLS)
def test_cells(name):
    cls, options = CELLS[name]
    cell = getattr(torchlike.nn, cls)(3, 4, **options)
    assert {target.namespace for target in follows(cell, torchlike.ones(2, 3))} == {"aten"}


NORMS = {
    "plain": lambda t: lambda x: t.nn.functional.rms_norm(x, (3,)),
    "weight": lambda t: lambda x: t.nn.functional.rms_norm(x, (3,), x[0], 1e-3),
    "two dimensions": lambda t: lambda x: t.nn.functional.rms_norm(x, (2, 3), eps=0.5),
}


@pytest.mark.parametrize("name", NORMS)
def test_rms_norm(name):
    """PyTorch's calls."""
    targets = follows(NORMS[name](torchlike), torchlike.ones(2, 3))
    theirs = torch.fx.experimental.proxy_tensor.make_fx(NORMS[name](torch))(torch.ones(2, 3))
    assert [str(t) for t in targets] == [str(n.target) for n in theirs.graph.nodes if n.op == "call_function"]
