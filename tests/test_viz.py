"""Pictures of graphs and tables of modules."""

import itertools
import random
from xml.etree import ElementTree

import pytest
import torch

import torchlike as tl
from torchlike import viz
from torchlike.viz._layout import place

PROGRAMS = {
    "a chain": lambda t, x: (x * 2).exp().sum(),
    "a diamond": lambda t, x: (x.sin() * x.cos() + x).sum(),
    "views": lambda t, x: x.view(3, 2).t()[0].sum() + x.unbind(0)[1].sum(),
    "in place": lambda t, x: x.clone().mul_(2).sum(),
    "layers": lambda t, x: t.nn.functional.layer_norm(x.softmax(1), (3,)).relu().mean(),
    "several results": lambda t, x: t.max(x, 1).values.sum(),
    "a leaf": lambda t, x: x,
}


def theirs(tensor):
    """The names of PyTorch's nodes, each once."""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [source for source, _ in node.next_functions]
    return sorted("leaf" if hasattr(node, "variable") else node.name() for node in seen) or ["leaf"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_are_pytorchs(name):
    ours = PROGRAMS[name](tl, tl.ones(2, 3, requires_grad=True))
    picture = viz.graph(ours)
    names = sorted(node.name for node in picture.nodes if node.kind != "output")
    assert names == theirs(PROGRAMS[name](torch, torch.ones(2, 3, requires_grad=True)))
    assert {end for _, end in picture.edges} | {start for start, _ in picture.edges} == set(range(len(picture.nodes)))
    ElementTree.fromstring(picture.svg)


def test_what_nodes_say():
    layer = tl.nn.Linear(3, 2)
    loss = layer(tl.ones(4, 3)).exp().sum()
    picture = viz.graph(loss, names=layer)
    by_name = {node.name: node for node in picture.nodes}
    assert by_name["weight"].kind == "leaf" and by_name["weight"].shapes == ((2, 3),)
    saved = by_name["ExpBackward0"].saved
    assert [(s.name, s.shape, s.dtype, s.bytes, s.owner) for s in saved] == [("result", (4, 2), "float32", 32, "")]
    assert picture.saved_bytes == 32 + 48  # and the input, which is no leaf that requires grad; not the weight
    text = picture._repr_svg_()
    assert "result [4, 2] 32 B" in text and "AddmmBackward0" in text and "of a leaf" not in text.split("Exp")[1][:200]
    loss.backward()
    assert all(n.freed for n in viz.graph(loss).nodes if n.name in ("ExpBackward0", "AddmmBackward0"))


def test_functions_hooks_and_names():
    class Twice(tl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x, runs = tl.ones(2, requires_grad=True), []
    with tl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), lambda a: runs.append(1)):
        y = x.exp()
    picture = viz.graph(Twice.apply(y), x, names={"<x & y>": x})
    assert [n.kind for n in picture.nodes] == ["output", "function", "node", "leaf", "output"] and not runs
    assert picture.nodes[0].name == "output 0" and "&lt;x &amp; y&gt;" in picture.svg
    assert picture.nodes[2].saved[0].dtype == "packed by a hook" and "packed by a hook" in picture.svg
    assert (3, 4) in picture.edges


def test_the_file(tmp_path):
    picture = viz.graph(tl.ones(2, requires_grad=True).sum())
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg and "2 nodes, 0 B saved" in repr(picture)
    with pytest.raises(ValueError, match="ends in .svg, but got .*a.png"):
        picture.save(tmp_path / "a.png")


WRONG = {
    "nothing": (lambda: viz.graph(), TypeError, "at least one tensor"),
    "no tensor": (lambda: viz.graph(3), TypeError, "output 0 is no tensor but int"),
    "no history": (lambda: viz.graph(tl.ones(2)), RuntimeError, "output 0 does not require grad"),
    "too much": (
        lambda: viz.graph(tl.ones(2, requires_grad=True).sum().exp(), most=2), ValueError, "more than 2 nodes",
    ),
    "no module": (lambda: viz.summary(3), TypeError, "expected an nn.Module, but got int"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, error, match = WRONG[name]
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap_and_edges_go_down(seed):
    draw = random.Random(seed)
    sizes = [(draw.uniform(20, 200), draw.uniform(20, 80)) for _ in range(40)]
    edges = [(b, a) for b in range(1, 40) for a in {draw.randrange(b) for _ in range(2)}]
    placed = place(sizes, edges)
    boxes = list(zip(sizes, placed.centres, strict=True))
    for ((w, h), (x, y)), ((v, g), (a, b)) in itertools.combinations(boxes, 2):
        assert abs(x - a) >= (w + v) / 2 - 1e-6 or abs(y - b) >= (h + g) / 2 - 1e-6
    assert all(w / 2 - 1e-6 <= x <= placed.width - w / 2 + 1e-6 for (w, _), (x, _) in boxes)
    for points in placed.paths:
        assert all(a[1] <= b[1] + 1e-6 for a, b in itertools.pairwise(points)), points


class Net(tl.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = tl.nn.Linear(3, 4)
        self.norm = tl.nn.BatchNorm1d(4)
        self.drop = tl.nn.Dropout()
        self.unused = tl.nn.Linear(2, 2)
        self.unused.requires_grad_(False)
        self.tied = tl.nn.Linear(3, 4)
        self.tied.weight = self.first.weight

    def forward(self, x, scale=1):
        return self.drop(self.norm(self.first(x) + self.tied(x))) * scale, None


def test_summary():
    net = Net().train()
    net.drop.eval()
    state, before = tl.get_rng_state(), {k: v.clone() for k, v in net.state_dict().items()}
    table = viz.summary(net, tl.ones(5, 3), scale=2)
    rows = {row.name: row for row in table.rows}
    assert rows[""].output == "([5, 4], None)" and rows["first"].output == "[5, 4]" and rows["unused"].output == ""
    assert rows["first"].parameters == 16 and rows["tied"].parameters == 4 and rows["norm"].bytes == 16 * 4 + 8
    assert table.parameters == sum(p.numel() for p in net.parameters()) and table.trainable == table.parameters - 6
    assert net.training and not net.drop.training and tl.equal(state, tl.get_rng_state())
    assert all(tl.equal(v, before[k]) for k, v in net.state_dict().items()) and not net._forward_hooks
    assert "6 of them frozen" in repr(table) and "<td" in table._repr_html_()
    assert all(not row.output for row in viz.summary(net).rows)


def test_summary_of_a_call_that_fails():
    net = Net()
    with pytest.raises(RuntimeError):
        viz.summary(net, tl.ones(5, 7))
    assert net.training and not net._forward_hooks and not net.first._forward_hooks
    assert viz.summary(tl.nn.LazyLinear(3)).parameters == 0


def test_pieces_on_one_device(tmp_path):
    picture = viz.sharding(tl.nn.BatchNorm1d(3))
    assert [(t.name, t.spec, len(t.pieces)) for t in picture.tensors][-1] == ("num_batches_tracked", None, 1)
    ElementTree.fromstring(picture.svg)
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == picture._repr_svg_() == picture.svg
    assert "on no device" in viz.sharding({"m": tl.empty(2, device="meta")}).svg
    with pytest.raises(ValueError, match=r"ends in .svg, but got 'x.png'"):
        picture.save("x.png")
    for wrong in (3, [tl.ones(2)], {"a": 1}):
        with pytest.raises(TypeError, match="expected a Module, a Tensor or a dict of them, got"):
            viz.sharding(wrong)
