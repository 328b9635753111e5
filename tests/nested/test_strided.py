"""Nested tensors of layout ``torch.strided`` against PyTorch, and files of both layouts."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as theirs
from both import agree, agree_error
from nested_kit import jagged, rows, strided, told

import torchlike
import torchlike.nn.functional as ours

pytestmark = pytest.mark.filterwarnings("ignore:(The PyTorch API of nested|Nested tensors of layout):UserWarning")

F = {torch: theirs, torchlike: ours}


def uneven(t, grad=False):
    """Rows [2, 3] and [1, 4]."""
    return t.nested.nested_tensor([t.arange(6.0).reshape(2, 3), t.ones(1, 4)], requires_grad=grad)


SAME = {
    "add": lambda t, x: x + x,
    "number": lambda t, x: x * 2 + 1,
    "relu": lambda t, x: x.relu(),
    "neg": lambda t, x: -x,
    "abs": lambda t, x: x.abs(),
    "sin": lambda t, x: x.sin(),
    "div": lambda t, x: x / 2,
    "scalar tensor": lambda t, x: x * t.tensor(2.0),
    "compare": lambda t, x: x > 0,
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 0),
    "isnan": lambda t, x: t.isnan(x),
    "double": lambda t, x: x.to(t.float64),
    "clone": lambda t, x: x.clone(),
    "detach": lambda t, x: x.detach(),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "fill_": lambda t, x: x.fill_(2),
    "zero_": lambda t, x: x.zero_(),
    "add_": lambda t, x: x.add_(1),
    "copy_": lambda t, x: t.zeros_like(x).copy_(x),
    "dropout": lambda t, x: F[t].dropout(x, 0.0),
    "padding": lambda t, x: x.to_padded_tensor(-1),
    "values": lambda t, x: x.values(),
    "unbind": lambda t, x: x.unbind(),
    "first": lambda t, x: x[0],
    "element": lambda t, x: x[0, 1],
    "softmax": lambda t, x: x.softmax(-1),
    "softmax of rows": lambda t, x: x.softmax(1),
    "sum": lambda t, x: x.sum(-1, keepdim=True),
    "transpose": lambda t, x: x.transpose(1, 2),
    "products": lambda t, x: x @ x.transpose(1, 2),
    "bmm": lambda t, x: x.bmm(x.transpose(1, 2)),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "squeeze": lambda t, x: x.unsqueeze(-1).squeeze(-1),
    "cat": lambda t, x: t.cat([x, x]),
    "narrow": lambda t, x: x.narrow(0, 0, 1),
    "size": lambda t, x: (x.dim(), x.numel(), x.size(0), x.is_nested, str(x.layout), x.requires_grad),
}
EVEN = {
    "size": lambda t, x: x.size(2),
    "chunk": lambda t, x: x.chunk(3, -1),
    "reshape": lambda t, x: x.reshape(3, -1, 3, 1),
    "view": lambda t, x: x.view(3, -1, 1, 3),
    "linear": lambda t, x: F[t].linear(x, t.arange(6.0).reshape(2, 3)),
    "layer_norm": lambda t, x: F[t].layer_norm(x, (3,), t.ones(3), t.zeros(3)),
    "text": lambda t, x: repr(x),
    "select": lambda t, x: x.select(1, 0),
}


@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_functions(f):
    agree(lambda t: told(f(t, uneven(t))))


@pytest.mark.parametrize("f", [*SAME.values(), *EVEN.values()], ids=[*SAME, *EVEN])
def test_functions_of_rows_of_one_width(f):
    agree(lambda t: told(f(t, strided(t))))


def test_attention():
    def attended(t):
        x = t.nested.nested_tensor([t.arange(2 * n * 4.0).reshape(2, n, 4) / 9 for n in (3, 1)])
        return told(F[t].scaled_dot_product_attention(x, x, x))

    agree(attended)


def test_layers_of_transformers_in_evaluation():
    def run(t):
        t.manual_seed(0)
        layer = t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
        attention = t.nn.MultiheadAttention(8, 2, batch_first=True).double().eval()
        x = t.nested.nested_tensor([t.randn(n, 8, dtype=t.float64) for n in (3, 2)], layout=t.strided)
        with t.no_grad():
            return told([layer(x), *attention(x, x, x), attention(x, x, x, need_weights=False)[0]])

    agree(run)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_layers_of_transformers_in_training_are_those_of_padded_rows(layout):
    t = torchlike
    layer = t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    given = [t.randn(n, 8) for n in (3, 2)]
    x = t.nested.nested_tensor(given, layout=getattr(t, layout))
    layer(x).to_padded_tensor(0.0).sin().sum().backward()
    grads = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    out = layer(x.to_padded_tensor(0.0), src_key_padding_mask=t.tensor([[False] * 3, [False, False, True]]))
    (out[0].sin().sum() + out[1, :2].sin().sum()).backward()
    for got, p in zip(grads, layer.parameters(), strict=True):
        t.testing.assert_close(got, p.grad, atol=1e-5, rtol=1e-4)


def test_attention_refuses_what_rows_cannot_be_mixed_with():
    t = torchlike
    x, attention = strided(t), t.nn.MultiheadAttention(3, 1, batch_first=True)
    with pytest.raises(AssertionError, match="must all be nested"):
        attention(x, t.ones(3, 2, 3), t.ones(3, 2, 3))
    with pytest.raises(AssertionError, match="batch_first=True"):
        t.nn.MultiheadAttention(3, 1)(x, x, x)
    with pytest.raises(RuntimeError, match="no key_padding_mask"):
        attention(x, x, x, key_padding_mask=t.zeros(3, 4, dtype=t.bool))


def test_the_older_layout_warns_once():
    code = "import torchlike as t; [t.nested.nested_tensor([t.ones(2)]) for _ in range(2)]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("UserWarning: Nested tensors of layout torch.strided are a prototype") == 1


def test_text():
    agree(lambda t: [repr(x) for x in (uneven(t), uneven(t, grad=True), uneven(t, grad=True) * 2)])


def test_gradients():
    def run(t):
        x, given = uneven(t, grad=True), rows(t, 2, 1, grad=True)
        (x * x).to_padded_tensor(0).sum().backward()
        (t.nested.as_nested_tensor(given) * 3).to_padded_tensor(0).sin().sum().backward()
        return [told(x.grad), *[row.grad for row in given], x.is_leaf]

    agree(run)


WRONG = {
    "irregular": lambda t: uneven(t).size(2),
    "shape": lambda t: uneven(t).shape,
    "stride": lambda t: uneven(t).stride(),
    "other rows": lambda t: uneven(t) + strided(t),
    "dense": lambda t: strided(t) * t.ones(3),
    "slice": lambda t: uneven(t)[0:1],
    "dims": lambda t: t.nested.nested_tensor([t.ones(2), t.ones(2, 3)]),
    "softmax": lambda t: uneven(t).softmax(0),
    "transpose": lambda t: uneven(t).transpose(0, 1),
    "dense product": lambda t: strided(t).matmul(t.ones(3, 2)),
    "cut": lambda t: t.nested.to_padded_tensor(uneven(t), 0.0, (2, 3, 2)),
    "stack": lambda t: t.stack([uneven(t), uneven(t)]),
    "narrow": lambda t: t.nested.narrow(t.ones(2, 4), 1, 1, 2),
    "narrow by tensors": lambda t: t.nested.narrow(t.ones(2, 4), 1, t.tensor([0, 1]), t.tensor([2, 3])),
    "index": lambda t: uneven(t)[2],
    "numpy": lambda t: uneven(t).numpy(),
}


@pytest.mark.parametrize("f", WRONG.values(), ids=WRONG)
def test_refused(f):
    agree_error(f, "")


@pytest.mark.parametrize("make", [jagged, strided, uneven])
def test_copies(make):
    x = make(torchlike, grad=True)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert told(copied)[1:3] == told(x)[1:3] and copied.requires_grad and copied.is_leaf
        assert torchlike.equal(copied.values(), x.values())


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("written, read", [(torch, torchlike), (torchlike, torch)], ids=["from PyTorch", "to PyTorch"])
def test_files(tmp_path, written, read, weights_only):
    x = jagged(written)
    written.save({"a": x, "b": x.transpose(1, 2)}, tmp_path / "rows.pt")
    found = read.load(tmp_path / "rows.pt", weights_only=weights_only)
    for got, expected in ((found["a"], x), (found["b"], x.transpose(1, 2))):
        assert str(got.layout) == "torch.jagged" and got._ragged_idx == expected._ragged_idx
        assert got.values().tolist() == expected.values().tolist() and got.offsets().tolist() == [0, 2, 3, 7]
