"""Nodes as users see them: class names, ``next_functions``, names and numbers, the sinks of leaves."""

from __future__ import annotations

import gc

import pytest
import torch
from both import agree, agree_error, attempt

import torchlike

LIBRARIES = (torchlike, torch)


def kind(node):
    return None if node is None else type(node).__name__


def shape_of(node, depth=3):
    """The graph from ``node`` down: class names and output numbers."""
    if node is None or not depth:
        return kind(node)
    return [kind(node), [(shape_of(n, depth - 1), nr) for n, nr in node.next_functions]]


def matrix(t):
    return t.arange(1.0, 7.0).reshape(2, 3).requires_grad_()


CALLS = {
    "add": lambda t, x: x + x,
    "add a number": lambda t, x: x + 1,
    "add to a number": lambda t, x: 1 + x,
    "times a number": lambda t, x: 2 * x,
    "subtract from a number": lambda t, x: 1 - x,
    "divide": lambda t, x: x / 2,
    "power": lambda t, x: x**2,
    "power of a tensor": lambda t, x: x ** t.tensor(2),
    "number to a power": lambda t, x: 2**x,
    "remainder": lambda t, x: x % 2,
    "sum": lambda t, x: x.sum(),
    "sum over a dimension": lambda t, x: x.sum(1),
    "mean": lambda t, x: x.mean(),
    "max": lambda t, x: x.max(),
    "max over a dimension": lambda t, x: x.max(1)[0],
    "maximum": lambda t, x: t.max(x, x.detach()),
    "clamp": lambda t, x: x.clamp(0, 1),
    "clamp by tensors": lambda t, x: x.clamp(t.tensor(0.0), t.tensor(1.0)),
    "where": lambda t, x: t.where(x > 2, x, 0.0),
    "masked_fill": lambda t, x: x.masked_fill(x > 2, 0),
    "gather": lambda t, x: x.gather(1, t.tensor([[0], [1]])),
    "index_select": lambda t, x: x.index_select(0, t.tensor([1])),
    "scatter_add": lambda t, x: x.scatter_add(0, t.tensor([[0]]), x),
    "index": lambda t, x: x[t.tensor([0, 1]), t.tensor([1, 2])],
    "index_put": lambda t, x: x.clone().index_put((t.tensor([0]),), x[0]),
    "embedding": lambda t, x: t.nn.functional.embedding(t.tensor([0, 1]), x),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x, t.tensor([0, 1])),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1])).mul(1),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x.detach()),
    "bce": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "dot": lambda t, x: x[0] @ x[1],
    "mv": lambda t, x: x @ x[0],
    "mm": lambda t, x: x @ x.t(),
    "bmm": lambda t, x: t.bmm(x[None], x.t()[None]),
    "addmm": lambda t, x: t.addmm(t.ones(2, 2), x, x.t(), alpha=2),
    "cat": lambda t, x: t.cat([x, x], 1),
    "stack": lambda t, x: t.stack([x, x]),
    "select": lambda t, x: x[0],
    "slice": lambda t, x: x[:, 1:],
    "unsqueeze": lambda t, x: x[None],
    "squeeze": lambda t, x: x[:, None].squeeze(1),
    "transpose": lambda t, x: x.transpose(0, 1),
    "t": lambda t, x: x.t(),
    "permute": lambda t, x: x.permute(1, 0),
    "view": lambda t, x: x.view(3, 2),
    "flatten": lambda t, x: x.flatten(),
    "expand": lambda t, x: x.expand(2, 2, 3),
    "split": lambda t, x: x.split(2, 1)[1],
    "unbind": lambda t, x: x.unbind(0)[1],
    "as_strided": lambda t, x: x.as_strided((2, 2), (1, 1)),
    "clone": lambda t, x: x.clone(),
    "to": lambda t, x: x.to(t.float64),
    "in place": lambda t, x: x.clone().add_(1),
    "copy_": lambda t, x: x.clone().copy_(x),
    "zero_": lambda t, x: x.clone().zero_(),
    "fill_": lambda t, x: x.clone().fill_(2.0),
    "fill_ by a tensor": lambda t, x: x.clone().fill_(t.tensor(2.0)),
    "elu in place": lambda t, x: t.nn.functional.elu(x.clone(), inplace=True),
    "threshold in place": lambda t, x: t.nn.functional.threshold(x.clone(), 1, 2, inplace=True),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x[None], 2).mul(1),
    "linear without bias": lambda t, x: t.nn.functional.linear(x, t.ones(4, 3)),
}


def name_case(call):
    def script(t):
        y = call(t, matrix(t))
        return kind(y.grad_fn), y.grad_fn.name(), [(kind(n), nr) for n, nr in y.grad_fn.next_functions]

    return script


def test_names_and_next_functions():
    wrong = []
    for label, call in CALLS.items():
        ours, theirs = (name_case(call)(t) for t in LIBRARIES)
        if ours != theirs and label not in FUSED:
            wrong.append(f"{label}: {ours}\n    PyTorch: {theirs}")
    assert not wrong, "\n".join(wrong)


FUSED = {"cross_entropy", "max_pool1d"}  # one operator here: what follows is a step of it in PyTorch


@pytest.mark.parametrize("label", sorted(FUSED))
def test_names_of_fused_operators(label):
    agree(lambda t: kind(CALLS[label](t, matrix(t)).grad_fn.next_functions[0][0]))


RANKS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((4, 2, 3), (3,)), ((4, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (4, 3, 2)), ((5, 4, 2, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), RANKS)
def test_matmul_is_named_by_its_ranks(a, b):
    agree(lambda t: kind((t.ones(a, requires_grad=True) @ t.ones(b, requires_grad=True)).grad_fn))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (5, 4, 3), (6, 5, 4, 3)])
def test_linear_is_named_by_its_ranks(shape, bias):
    def script(t):
        b = t.ones(2, requires_grad=True) if bias else None
        x, weight = t.ones(shape, requires_grad=True), t.ones(2, 3, requires_grad=True)
        return kind(t.nn.functional.linear(x, weight, b).grad_fn)

    agree(script)


def test_linear_tells_of_its_bias_first():
    def script(t):
        layer = t.nn.Linear(3, 2)
        first, second, _ = layer(matrix(t) * 1).grad_fn.next_functions
        return first[0].variable is layer.bias, kind(second[0])

    agree(script)


def deep(t):
    x = matrix(t)
    y = (x * 2).exp()
    z = y[0] + y.sum(0)
    return shape_of((z * z).mean().grad_fn, 7)


def view_changed(t):
    x = matrix(t).clone()
    x[0].mul_(2)
    return [shape_of(x.grad_fn), x.grad_fn.name(), shape_of(x[0].grad_fn)]


def views_remade(t):
    x = matrix(t).clone()
    row, turned = x[0], x.t()
    x.mul_(2)
    return shape_of(row.grad_fn), shape_of(turned.grad_fn)


def outputs(t):
    u, s, v = t.linalg.svd(matrix(t))
    return [u.grad_fn is s.grad_fn, [u.output_nr, s.output_nr, v.output_nr], shape_of(s.sum().grad_fn)]


def same_node(t):
    x = matrix(t)
    y = x.exp()
    node = y.grad_fn
    again = (y * 2).grad_fn.next_functions[0][0]
    table = {node: 1}
    other = (x * 1).grad_fn
    return [y.grad_fn is node, again is node, again == node, table[again], node != other, hash(node) == hash(again)]


def one_sink(t):
    x = matrix(t)
    first, second = x.exp().grad_fn.next_functions[0][0], x.view_as(x).grad_fn.next_functions[0][0]
    return [first is second, first.variable is x, kind(first), first.name(), first.next_functions, first.metadata]


def sink_dies_with_its_graph(t):
    x = matrix(t)
    sink = x.exp().grad_fn.next_functions[0][0]
    sink.metadata["kept"] = 1
    del sink
    gc.collect()
    return x.exp().grad_fn.next_functions[0][0].metadata


def numbers(t):
    x = matrix(t)
    early, late = x.exp(), x.exp()
    later = late * early
    sink = x.exp().grad_fn.next_functions[0][0]
    order = [early, late, later]
    found = [y.grad_fn._sequence_nr() for y in order]
    return [found == sorted(found), len(set(found)), sink._sequence_nr()]


def metadata_persists(t):
    y = matrix(t).exp()
    y.grad_fn.metadata["a"] = 1
    return [y.grad_fn.metadata, (y * 2).grad_fn.next_functions[0][0].metadata, y.grad_fn.metadata is y.grad_fn.metadata]


def text(t):
    x = matrix(t)
    nodes = [(x * 2).grad_fn, x.exp().grad_fn.next_functions[0][0]]
    return [str(n).split(" object at ")[0] for n in nodes] + [repr(x * 2).split("grad_fn=")[1]]


def missing(t):
    x = matrix(t)
    nodes = [x.exp().grad_fn, x.exp().grad_fn.next_functions[0][0]]
    names = ("foo", "_saved_foo", "_raw_saved_foo", "_saved_self")
    return [str(attempt(lambda n=n, a=a: getattr(n, a))) for n in nodes for a in names]


def read_only(t):
    node = (matrix(t) * 2).grad_fn
    return [attempt(lambda a=a: setattr(node, a, None)) for a in ("metadata", "next_functions")]


def undefined_derivative(t):
    node = (matrix(t) // 2).grad_fn
    return [kind(node), node.name(), [kind(n) for n, _ in node.next_functions]]


SCRIPTS = [
    deep, views_remade, outputs, same_node, one_sink, sink_dies_with_its_graph, numbers,
    metadata_persists, text, missing, read_only, undefined_derivative,
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_script(script):
    agree(script)


def test_derivative_that_is_not_implemented():
    agree_error(lambda t: (matrix(t) // 2).sum().backward(), "floor_divide.*not implemented")


def test_posthooks_see_what_next_functions_tell():
    def script(t):
        x, seen = matrix(t), []
        y = x.gather(1, t.tensor([[0], [1]])) * 2
        for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
            node.register_hook(lambda gi, go: seen.append((len(gi), [g is None for g in gi])))
        y.sum().backward()
        return seen

    agree(script)


# -- what else a node can do -------------------------------------------------------------------------------


def described(node):
    return [(m.shape, m.dtype, str(m.device), m.is_nested_tensor, m.is_cpp_nested_tensor) for m in node._input_metadata]


def input_metadata(t):
    x = matrix(t)
    changed = x.clone()
    changed[0].mul_(2)
    nodes = [x.exp().grad_fn, x.max(1)[0].grad_fn, t.linalg.svd(x)[1].grad_fn, changed.grad_fn]
    nodes += [x.double().grad_fn, x.exp().grad_fn.next_functions[0][0]]
    return [described(n) for n in nodes]


def called(t):
    x = matrix(t)
    calls = []
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: calls.append("posthook"))
    y.register_hook(lambda g: calls.append("hook"))
    svd = t.linalg.svd(x)[1].grad_fn
    with t.no_grad():
        quiet = y.grad_fn(t.ones(2, 3))
    return [
        y.grad_fn(t.ones(2, 3)), quiet, y.grad_fn(None), (x * 2).grad_fn(t.ones(2, 3)),
        svd(None, t.ones(2), None).shape, x.max(1)[0].grad_fn(t.ones(2)), calls,
    ]  # fmt: skip


def called_wrongly(t):
    node = t.linalg.svd(matrix(t))[1].grad_fn
    return [attempt(lambda a=a: node(*a)) for a in ((), (None,), (1, 2, 3))]


def called_sink(t):
    x = matrix(t)
    sink = x.exp().grad_fn.next_functions[0][0]
    return [sink(t.ones(2, 3)), sink(t.ones(2, 3)), sink(None), x.grad]


def called_of_a_function(t):
    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    node = Twice.apply(matrix(t)).grad_fn
    return callable(node), attempt(lambda: node(t.ones(2, 3))), node.apply(t.ones(2, 3))


def called_after_freeing(t):
    y = matrix(t).exp()
    y.sum().backward()
    return attempt(lambda: y.grad_fn(t.ones(2, 3)))


def called_on_a_changed_view(t):
    x = matrix(t).clone()
    x[0].mul_(2)
    return x.grad_fn(t.ones(2, 3))


def sequence_set(t):
    """A node put first in time runs last."""
    x, order = matrix(t), []
    a = x.exp()
    b = x.sin()
    for name, y in (("a", a), ("b", b)):
        y.grad_fn.register_hook(lambda gi, go, name=name: order.append(name))
    given = a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 1)
    (a + b).sum().backward()
    return [given, order, attempt(lambda: a.grad_fn._set_sequence_nr(-1)), a.grad_fn.requires_grad]


def virtual_class(t):
    node_class, node = t.autograd.graph.Node, matrix(t).exp().grad_fn
    sink = node.next_functions[0][0]
    return [
        isinstance(node, node_class), issubclass(type(node), node_class), node_class in type(node).mro(),
        isinstance(sink, node_class), isinstance(None, node_class), isinstance(node_class, node_class),
        issubclass(node_class, node_class), issubclass(t.autograd.function.BackwardCFunction, node_class),
        attempt(node_class), sorted(node_class.__abstractmethods__ - {"_register_hook_dict"}),
    ]  # fmt: skip


def hooks_of_a_changed_view(t):
    x, seen = matrix(t).clone(), []
    x[0].mul_(2)
    x.grad_fn.register_hook(lambda gi, go: seen.append([g is None for g in gi]))
    x.sum().backward()
    return seen


def empty_view_changed(t):
    x = matrix(t)
    y = (x * 2).view(-1)[:0]
    y.mul_(1)
    return t.autograd.grad(y, x, t.ones_like(y))


MORE = [
    view_changed, input_metadata, called, called_wrongly, called_sink, called_of_a_function, called_after_freeing,
    called_on_a_changed_view, sequence_set, virtual_class, hooks_of_a_changed_view, empty_view_changed,
]  # fmt: skip


@pytest.mark.parametrize("script", MORE, ids=lambda f: f.__name__)
def test_more(script):
    agree(script)
