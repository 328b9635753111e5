"""Nested tensors of layout ``torch.jagged`` against PyTorch."""

import copy
import re

import pytest
import torch
import torch.nn.functional as theirs
from both import agree, agree_error
from nested_kit import jagged, rows, told

import torchlike
import torchlike.nn.functional as ours

F = {torch: theirs, torchlike: ours}


def blocks(t):
    """[3, j, 2, 4], as heads lie."""
    return t.nested.nested_tensor([t.arange(n * 8.0).reshape(n, 2, 4) / 9 for n in (2, 1, 3)], layout=t.jagged)


SAME = {
    "neg": lambda t, x: -x,
    "sin": lambda t, x: x.sin(),
    "silu": lambda t, x: F[t].silu(x),
    "relu": lambda t, x: F[t].relu(x),
    "number": lambda t, x: 2 * x - 1,
    "rsub": lambda t, x: 1 - x,
    "div": lambda t, x: x / 3,
    "pow": lambda t, x: x**2,
    "compare": lambda t, x: x > 0,
    "both": lambda t, x: x * x.sin(),
    "row": lambda t, x: x + t.arange(3.0),
    "of the batch": lambda t, x: x * t.arange(3.0).reshape(3, 1, 1),
    "of each row": lambda t, x: x * t.arange(9.0).reshape(3, 1, 3),
    "one": lambda t, x: x + t.ones(1, 1, 3),
    "padded": lambda t, x: x + t.arange(36.0).reshape(3, 4, 3),
    "reversed": lambda t, x: t.arange(3.0) - x,
    "column": lambda t, x: x - x.mean(-1, keepdim=True),
    "where": lambda t, x: t.where(x > 0, x, x * 2),
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 9.0),
    "clamp": lambda t, x: x.clamp(-1, 1),
    "dropout": lambda t, x: F[t].dropout(x, 0.0),
    "double": lambda t, x: x.to(t.float64),
    "half": lambda t, x: x.half(),
    "clone": lambda t, x: x.clone(),
    "detach": lambda t, x: x.detach(),
    "ones_like": lambda t, x: t.ones_like(x),
    "full_like": lambda t, x: t.full_like(x, 3.0),
    "softmax": lambda t, x: x.softmax(-1),
    "softmax of rows": lambda t, x: x.softmax(1),
    "log_softmax": lambda t, x: x.log_softmax(-1),
    "layer_norm": lambda t, x: F[t].layer_norm(x, (3,)),
    "rms_norm": lambda t, x: F[t].rms_norm(x, (3,)),
    "linear": lambda t, x: F[t].linear(x, t.arange(6.0).reshape(2, 3).to(x.dtype), t.ones(2, dtype=x.dtype)),
    "matmul": lambda t, x: x.matmul(t.arange(6.0).reshape(3, 2).to(x.dtype)),
    "@": lambda t, x: x @ t.ones(3, 2, dtype=x.dtype),
    "bmm": lambda t, x: x.bmm(t.arange(18.0).reshape(3, 3, 2).to(x.dtype)),
    "rows by rows": lambda t, x: x.transpose(1, 2) @ x,
    "transpose": lambda t, x: x.transpose(1, 2),
    "permute": lambda t, x: x.permute(0, 2, 1),
    "mT": lambda t, x: x.mT,
    "view": lambda t, x: x.view(3, -1, 3, 1),
    "view by symbol": lambda t, x: x.view(3, x.size(1), 1, 3),
    "reshape": lambda t, x: x.reshape(-1, x.size(1), 3, 1),
    "unflatten": lambda t, x: x.unflatten(-1, [3, 1]),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "unsqueeze before": lambda t, x: x.unsqueeze(1),
    "squeeze": lambda t, x: x.unsqueeze(-1).squeeze(-1),
    "flatten": lambda t, x: x.unsqueeze(-1).flatten(2),
    "expand": lambda t, x: x.unsqueeze(-1).expand(3, x.size(1), 3, 2),
    "select": lambda t, x: x.select(-1, 1),
    "item": lambda t, x: x[..., 0],
    "slice": lambda t, x: x[..., :2],
    "chunk": lambda t, x: x.chunk(3, -1),
    "chunk of the batch": lambda t, x: x.chunk(2),
    "split": lambda t, x: x.split([1, 2], -1),
    "cat": lambda t, x: t.cat([x, x * 2], -1),
    "stack": lambda t, x: t.stack([x, x], -1),
    "first": lambda t, x: x[0],
    "last": lambda t, x: x[-1],
    "element": lambda t, x: x[2, 1],
    "unbind": lambda t, x: x.unbind(),
    "values": lambda t, x: x.values(),
    "offsets": lambda t, x: (x.offsets(), x.lengths(), x._ragged_idx, x._max_seqlen, x._min_seqlen),
    "sum": lambda t, x: x.sum(),
    "mean": lambda t, x: x.mean(),
    "sum of rows": lambda t, x: x.sum(1),
    "mean of rows": lambda t, x: x.mean(dim=1),
    "amax of rows": lambda t, x: x.amax(1),
    "max of rows": lambda t, x: tuple(x.max(dim=1)),
    "min of rows": lambda t, x: tuple(x.min(dim=1)),
    "any of rows": lambda t, x: (x > 0).any(1),
    "keepdim": lambda t, x: x.sum(1, keepdim=True),
    "sum of columns": lambda t, x: x.sum(-1),
    "mean of columns": lambda t, x: x.mean(-1, keepdim=True),
    "argmax": lambda t, x: x.argmax(-1),
    "sum of all rows": lambda t, x: x.sum((0, 1)),
    "sums transposed": lambda t, x: x.transpose(1, 2).sum(2),
    "isnan": lambda t, x: t.isnan(x).any(),
    "padding": lambda t, x: t.nested.to_padded_tensor(x, -1.0),
    "padding to": lambda t, x: x.to_padded_tensor(0.0, (3, 6, 4)),
    "cut": lambda t, x: t.nested.to_padded_tensor(x, 0.0, output_size=(3, 2, 3)),
    "deepcopy": lambda t, x: copy.deepcopy(x),
    "copy_": lambda t, x: t.zeros_like(x).copy_(x),
    "contiguous": lambda t, x: x.transpose(1, 2).contiguous(),
}


@pytest.mark.parametrize("f", SAME.values(), ids=SAME)
def test_functions(f):
    agree(lambda t: told(f(t, jagged(t))))


CONSTANT = (  # results, or all of them, without a gradient
    "compare", "half", "detach", "ones_like", "full_like", "offsets", "any of rows", "argmax", "isnan", "deepcopy",
)  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", [name for name in SAME if name not in CONSTANT])
def test_gradients(name):
    """PyTorch has no derivative of several of these: differences of numbers tell."""
    t = torchlike

    def outputs(*given):
        out = SAME[name](t, t.nested.as_nested_tensor(given, layout=t.jagged))
        parts = out if isinstance(out, tuple | list) else [out]
        return tuple([p.values() if p.is_nested else p for p in parts if p.requires_grad])

    given = [(row.double() + 0.1).requires_grad_() for row in rows(t, 1, 1, 2)]
    assert t.autograd.gradcheck(outputs, given, atol=1e-4)


def test_metadata():
    agree(
        lambda t: [
            (x.dim(), x.numel(), len(x), x.is_contiguous(), x.is_nested, str(x.layout), x.is_leaf, x.element_size())
            + (re.sub(r"j\d+", "j", f"{x.stride()} {x.shape} {x.size(1) * 2}"), x.size(0), x.size(2) == x.size(-1))
            for x in (jagged(t), jagged(t, grad=True), blocks(t).transpose(1, 2), blocks(t), jagged(t).transpose(1, 2))
        ]
    )


def test_symbols():
    def compared(t):
        x, y = jagged(t), jagged(t)
        j = x.size(1)
        return [
            j == x.sin().size(1),
            j == y.size(1),
            j == 3,
            j != 3,
            j >= 2,
            j < 1,
            isinstance(j, t.SymInt),
            3 * j == j * 3,
        ]

    agree(compared)
    agree_error(lambda t: jagged(t).size(1) > 2, "")
    agree_error(lambda t: int(jagged(t).size(1)), "")
    agree_error(lambda t: jagged(t).size(1) + 1, "")


WRONG = {
    "other rows": lambda t: jagged(t) + jagged(t),
    "too many": lambda t: jagged(t) + t.ones(5, 1, 3),
    "another width": lambda t: jagged(t) + t.ones(3, 2, 3),
    "all values": lambda t: jagged(t) + t.ones(7, 3),
    "no such dim": lambda t: jagged(t).sum(5),
    "no such dim to unsqueeze": lambda t: jagged(t).unsqueeze(9),
    "batch alone": lambda t: jagged(t).sum(0),
    "ragged and inner": lambda t: jagged(t).sum((1, 2)),
    "transpose": lambda t: jagged(t).transpose(0, 1),
    "view": lambda t: jagged(t).view(3, -1),
    "view of all": lambda t: jagged(t).view(-1, 3),
    "flatten": lambda t: jagged(t).flatten(),
    "flatten ragged": lambda t: jagged(t).flatten(1, 2),
    "cat of the batch": lambda t: t.cat([jagged(t), jagged(t)]),
    "stack of the batch": lambda t: t.stack([jagged(t)]),
    "slice": lambda t: jagged(t)[0:2],
    "slice of rows": lambda t: jagged(t)[:, 0],
    "numpy": lambda t: jagged(t).numpy(),
    "tolist": lambda t: jagged(t).tolist(),
    "item": lambda t: jagged(t).item(),
    "unbind": lambda t: jagged(t).unbind(1),
    "std": lambda t: jagged(t).std(),
    "cumsum": lambda t: jagged(t).cumsum(1),
    "mse_loss": lambda t: F[t].mse_loss(*[jagged(t)] * 2),
    "product": lambda t: jagged(t) @ jagged(t).transpose(1, 2),
    "nothing": lambda t: t.nested.nested_tensor([], layout=t.jagged),
    "numbers": lambda t: t.nested.nested_tensor([t.tensor(1.0)], layout=t.jagged),
    "dims": lambda t: t.nested.nested_tensor([t.ones(2), t.ones(2, 1)], layout=t.jagged),
    "two ragged": lambda t: t.nested.nested_tensor([t.ones(2, 1), t.ones(1, 2)], layout=t.jagged),
    "layout": lambda t: t.nested.nested_tensor([t.ones(2)], layout=t.sparse_coo),
    "no offsets": lambda t: t.nested.nested_tensor_from_jagged(t.ones(3), None),
    "a vector": lambda t: t.nested.as_nested_tensor(t.ones(3), layout=t.jagged),
    "no tensor": lambda t: t.nested.as_nested_tensor(3, layout=t.jagged),
    "padding of a tensor": lambda t: t.nested.to_padded_tensor(t.ones(3), 0.0),
    "holes": lambda t: t.nested.to_padded_tensor(holes(t), 0.0),
    "sum of holes": lambda t: holes(t).sum(1),
    "numbers of each row beside holes": lambda t: holes(t) + t.ones(2, 1, 2),
    "softmax of holes": lambda t: holes(t).softmax(1),
    "mask": lambda t: F[t].scaled_dot_product_attention(*[blocks(t).transpose(1, 2)] * 3, attn_mask=t.ones(3, 3)),
    "plain keys": lambda t: F[t].scaled_dot_product_attention(blocks(t).transpose(1, 2), *[t.ones(3, 2, 3, 4)] * 2),
}


def holes(t):
    return t.nested.nested_tensor_from_jagged(t.arange(12.0).reshape(6, 2), t.tensor([0, 3, 6]), t.tensor([2, 1]))


@pytest.mark.parametrize("f", WRONG.values(), ids=WRONG)
def test_refused(f):
    agree_error(f, "")


def test_a_refusal_says_what_to_do():
    with pytest.raises(NotImplementedError, match=r"cumsum\(\) is not there for nested tensors.*to_padded_tensor"):
        jagged(torchlike).cumsum(1)
    with pytest.raises(RuntimeError, match=r"add.*\(3, j\d+, 3\) and \(3, j\d+, 3\).*offsets are the same"):
        jagged(torchlike) + jagged(torchlike)
    with pytest.raises(RuntimeError, match="holes; call contiguous"):
        holes(torchlike).mean()


def test_holes():
    agree(lambda t: [told(holes(t).contiguous()), holes(t).numel(), (holes(t) + 1).lengths(), holes(t)[1]])
    agree(lambda t: holes(t).contiguous().sum(1))


def test_made_otherwise():
    def made(t):
        n, values, offsets = t.nested, t.arange(14.0).reshape(7, 2), t.tensor([0, 3, 7])
        x = n.nested_tensor_from_jagged(values, offsets)
        wide, mask = t.arange(24.0).reshape(2, 4, 3), t.tensor([[True, False, True], [False, True, False]])
        found = [
            x,
            x + n.nested_tensor_from_jagged(values * 2, offsets),
            n.nested_tensor_from_jagged(values, lengths=t.tensor([3, 4])),
            n.nested_tensor_from_jagged(t.ones(2, 7, 3), offsets, jagged_dim=2),
            n.nested_tensor([[1, 2], [3]], layout=t.jagged),
            n.nested_tensor([t.ones(2, 3), t.ones(2, 4)], layout=t.jagged),
            n.nested_tensor([t.ones(2)], layout=t.jagged),
            n.nested_tensor(t.ones(2, 3), layout=t.jagged, dtype=t.float64),
            n.as_nested_tensor(t.ones(2, 4, 3), layout=t.jagged),
            n.masked_select(t.arange(6.0).reshape(2, 3), mask),
            n.narrow(wide, 1, t.tensor([0, 1]), t.tensor([2, 3]), layout=t.jagged).unbind(),
            n.narrow(wide, 1, 1, 2, layout=t.jagged).unbind(),
        ]
        return told(found)

    agree(made)


def test_values_are_shared():
    def changed(t):
        values = t.zeros(3, 2)
        x = t.nested.nested_tensor_from_jagged(values, t.tensor([0, 1, 3]))
        values.add_(1)
        x.mul_(3)
        x += 1
        x[1].mul_(2)
        x.unbind()[0].fill_(7)
        return values, x.values(), x.values().data_ptr() == values.data_ptr()

    agree(changed)


def test_gradients_of_leaves():
    def run(t):
        x = jagged(t, grad=True)
        x.register_hook(lambda g: g * 2)
        y = x * 3
        y.retain_grad()
        (y * y).sum().backward()
        found = [told(x.grad), told(y.grad)]
        x.grad = None
        (x * x).backward(t.ones_like(x))
        found.append(told(x.grad))
        t.optim.SGD([x], lr=0.1).step()
        (g,) = t.autograd.grad((x * 2).sum(), x)
        return [*found, told(x), told(g), x.is_leaf, y.is_leaf]

    agree(run)


def test_adam_steps_a_leaf():
    x, values = jagged(torchlike, grad=True), torchlike.cat(rows(torchlike, 2, 1, 4)).requires_grad_()
    for t in (x, values):
        optimizer = torchlike.optim.Adam([t], lr=0.1)
        for _ in range(2):
            (t * t).sum().backward()
            optimizer.step()
    assert torchlike.equal(x.values(), values)


def test_gradients_of_given_rows():
    def run(t):
        given = rows(t, 2, 1, grad=True)
        (t.nested.as_nested_tensor(given, layout=t.jagged) ** 2).sum().backward()
        return [row.grad for row in given]

    agree(run)


@pytest.mark.parametrize("lengths", [(2, 1, 3), (1, 1, 1), (4,), (3, 0, 2)])
def test_attention(lengths):
    def attended(t):
        g = t.Generator().manual_seed(0)
        q, k, v = [
            t.nested.nested_tensor([t.randn(n, 2, 8, generator=g) for n in lengths], layout=t.jagged).transpose(1, 2)
            for _ in range(3)
        ]
        k, v = [
            t.nested.nested_tensor_from_jagged(x.values().transpose(0, 1), q.offsets()).transpose(1, 2) for x in (k, v)
        ]
        q = t.nested.nested_tensor_from_jagged(q.values().transpose(0, 1), q.offsets()).transpose(1, 2)
        return told(F[t].scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))

    if 0 in lengths:
        assert attended(torchlike)[-1][1].shape == (0, 16)
    else:
        agree(attended)


def test_causal_attention_is_that_of_each_row():
    x = blocks(torchlike).transpose(1, 2)
    out = ours.scaled_dot_product_attention(x, x, x, is_causal=True)
    for got, row in zip(out.unbind(), x.unbind(), strict=True):
        torchlike.testing.assert_close(got, ours.scaled_dot_product_attention(row, row, row, is_causal=True))


def test_layers():
    def run(t):
        t.manual_seed(0)
        nn = t.nn
        embedding, layers = (
            nn.Embedding(9, 4),
            nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)),
        )
        words = t.nested.nested_tensor([t.tensor([1, 2, 3]), t.tensor([4])], layout=t.jagged)
        out = layers.double()(embedding.double()(words))
        loss = F[t].cross_entropy(out.values(), t.tensor([0, 1, 1, 0]))
        loss.backward()
        return [told(out), loss, embedding.weight.grad, layers[1].weight.grad]

    agree(run)


@pytest.mark.once
def test_compiled():
    f = torchlike.compile(lambda x: (x * 2 + 1).sum(dim=1))
    for lengths in ((2, 1, 4), (1, 3), (2, 1, 4)):
        x = jagged(torchlike, *lengths)
        assert torchlike.equal(f(x), (x * 2 + 1).sum(dim=1))
    g = torchlike.compile(lambda x: x.sin())
    for x in (jagged(torchlike), jagged(torchlike)):  # two structures with rows of the same lengths
        assert g(x).shape == x.shape and torchlike.equal((g(x) + x).values(), (x.sin() + x).values())


def test_text():
    agree(lambda t: [re.sub(r"j\d+|0x\w+", "", repr(x)) for x in (jagged(t), jagged(t, grad=True), jagged(t).mT)])
