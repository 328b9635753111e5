"""``torch.jit._get_trace_graph``, which packages count operations with, against PyTorch."""

import warnings

import pytest
import torch
from both import agree

import torchlike

CALLS = [
    lambda t, x: t.nn.functional.conv2d(x, t.ones(4, 2, 3, 3), padding=1, groups=2),
    lambda t, x: t.nn.functional.conv2d(x, t.ones(4, 4, 3, 3), padding="same"),
    lambda t, x: t.nn.functional.conv_transpose2d(x, t.ones(4, 2, 3, 3), stride=2),
    lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
    lambda t, x: t.nn.functional.interpolate(x, size=(4, 4), mode="bicubic"),
    lambda t, x: t.nn.functional.interpolate(x, size=(4, 4), mode="area"),
    lambda t, x: t.nn.functional.pad(x, (1, 1)),
    lambda t, x: t.nn.functional.normalize(x),
    lambda t, x: t.nn.functional.relu(x, inplace=True) + 1,
    lambda t, x: t.nn.functional.dropout(x, training=False),
    lambda t, x: t.nn.functional.batch_norm(x, None, None, t.ones(4), training=True),
    lambda t, x: t.nn.functional.group_norm(x, 2),
    lambda t, x: t.nn.functional.layer_norm(x, (8,), t.ones(8)),
    lambda t, x: t.nn.functional.max_pool2d(x, 2),
    lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1),
    lambda t, x: t.nn.functional.unfold(x, 2),
    lambda t, x: t.nn.functional.scaled_dot_product_attention(x, x, x),
    lambda t, x: t.nn.functional.embedding(x[0, 0].long(), x[0, 1]),
    lambda t, x: [-x, 1 - x, x / 2, 2 / x, x**2, x // 2, x % 2, x > 1],
    lambda t, x: [x.float(), x.to(t.float64), x.double(), x.contiguous(), x.clone(), x.detach()],
    lambda t, x: [*x.split(2, 1), *x.unbind(0), *x.chunk(2)],
    lambda t, x: [x.permute(0, 2, 3, 1), x.reshape(2, -1), x.expand(2, 4, 8, 8), x.flatten(1), x.squeeze()],
    lambda t, x: [*x.max(0), x.amax(1), x.sum((1, 2)), x.mean(), x.softmax(1)],
    lambda t, x: [x[0, 1], x[:, 1:], x[..., None], x[0, None, ..., 1], x[1:, 0, ::2]],
    lambda t, x: [t.bmm(x[0], x[1]), x @ x.mT, x[0, 0].T, t.einsum("bchw,bdhw->bcd", x, x)],
    lambda t, x: [t.cat([x, x]), t.stack([x, x], 1), t.where(x > 0, x, x), x.masked_fill(x > 0, 0.0)],
    lambda t, x: x.mul(2).add_(1).clamp(min=0).relu_(),
]


def calls(t, f, *inputs):
    """What aten's operators are called, and the shapes that each takes and gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph, _ = t.jit._get_trace_graph(f, inputs)
    sizes = lambda values: [v.type().sizes() for v in values if v.isCompleteTensor() and v.type().sizes()]  # noqa: E731
    made = [n for n in graph.nodes() if n.kind().startswith("aten::")]
    return [(n.kind(), sizes(n.inputs()), sizes(n.outputs())) for n in made if n.kind() != "aten::size"]


@pytest.mark.parametrize("f", CALLS)
def test_calls_of_functions(f):
    agree(lambda t: calls(t, lambda x: f(t, x), t.arange(512.0).reshape(2, 4, 8, 8).remainder(7) + 1))


def test_the_graph_of_a_module():
    def code(t):
        nn = t.nn
        net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(True), nn.Flatten(), nn.Linear(12, 2)).eval()
        graph, out, inputs = t.jit._get_trace_graph(net, (t.ones(1, 2, 4, 4),), return_inputs=True)
        convolution, unpacked = graph.findNode("aten::_convolution"), graph.findAllNodes("aten::linear")[0]
        values = list(convolution.inputs())
        numbers = [v.toIValue() for v in values if v.type().kind() in ("BoolType", "IntType")]
        shapes = [v.type().sizes() for v in graph.inputs()], [v.type().scalarType() for v in graph.inputs()]
        kinds = [v.type().kind() for v in values], unpacked.output().type().dim(), unpacked.inputsSize()
        return len(inputs), list(out.shape), numbers, shapes, kinds, [v.requires_grad() for v in values[:3]]

    agree(code)


def attention(t, **kw):
    net, x = t.nn.MultiheadAttention(4, 2, batch_first=True).requires_grad_(False), t.ones(2, 3, 4)
    counted = ("aten::linear", "aten::bmm", "aten::scaled_dot_product_attention", "aten::softmax")
    made = calls(t, lambda x: net(x, x, x, **kw)[0], x)
    return [(kind, sizes[0][-1], *found) for kind, sizes, found in made if kind in counted]


def test_attention_is_its_products():
    agree(lambda t: attention(t))
    agree(lambda t: [row[:2] for row in attention(t, need_weights=False)])


def test_scopes_are_those_that_hooks_push():
    def code(t):
        net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Sequential(t.nn.ReLU()))
        for name, m in net.named_modules():
            m.register_forward_pre_hook(lambda m, args, name=name: t._C._get_tracing_state().push_scope(name))
            m.register_forward_hook(lambda m, args, out: t._C._get_tracing_state().pop_scope())
        graph, _ = t.jit._get_trace_graph(net, (t.ones(1, 2),))
        return [(n.kind(), n.scopeName()) for n in graph.nodes()], t._C._get_tracing_state()

    agree(code)


def test_what_is_no_call_of_aten_is_one_of_python():
    class Own(torchlike.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    net = torchlike.nn.MultiheadAttention(4, 2, add_zero_attn=True)
    graph, _ = torchlike.jit._get_trace_graph(lambda x: net(x, x, x), (torchlike.ones(3, 2, 4),))
    assert [n.pyname() for n in graph.findAllNodes("prim::PythonOp")] == ["multi_head_attention_forward"]
    assert str(graph).startswith("graph(%0 : Float(3, 2, 4, strides=[8, 4, 1], requires_grad=0, device=cpu)):")


def test_errors():
    for t in (torch, torchlike):
        with pytest.raises(TypeError, match="'int' object is not callable"):
            t.jit._get_trace_graph(3, ())
