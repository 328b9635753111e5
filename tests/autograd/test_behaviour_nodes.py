"""Behaviours of autograd, one small story each: the nodes of a graph."""

from both import attempt
from story_kit import grid, leaf, said, story


@story
def test_next_functions(t):
    x, y = leaf(t), leaf(t)
    a = x + y
    b = a + 5
    n = a.grad_fn.next_functions
    m = b.grad_fn.next_functions
    return [
        a.grad_fn.name(),
        len(n),
        [type(f).__name__ for f, _ in n],
        [i for _, i in n],
        n[0][0].variable is x,
        len(m),
        m[0][0] is a.grad_fn,
        m[1][0] is None if len(m) > 1 else None,
        type(n).__name__,
    ]


@story
def test_numbers_of_outputs(t):
    x = grid(t)
    parts = x.unbind(0)
    chunks = x.split(1, dim=1)
    q = x.max(dim=1)
    return (
        [p.output_nr for p in (*parts, *chunks, q[0], x * 2, x)],
        parts[1].grad_fn.name(),
        chunks[0].grad_fn is chunks[1].grad_fn,
    )


@story
def test_the_diagonal_of_a_matrix_is_a_copy(t):
    y = grid(t).diag(1)
    return y.grad_fn.name(), y


@story
def test_the_node_of_a_leaf(t):
    x = leaf(t)
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    again = (x * 2).grad_fn.next_functions[0][0]
    return node is again, node.variable is x, node.name(), node.next_functions, type(node).__name__, x.grad_fn is None


@story
def test_metadata_of_a_node(t):
    node = (leaf(t) * 2).grad_fn
    node.metadata["a"] = 1
    return (
        node.metadata,
        attempt(lambda: setattr(node, "metadata", {})),
        node._sequence_nr() >= 0,
        hash(node) == hash(node),
    )


@story
def test_a_node_is_one_object(t):
    y = leaf(t) * 2
    z = y + 1
    node = y.grad_fn
    return node is y.grad_fn, z.grad_fn.next_functions[0][0] is node, isinstance(node, t.autograd.graph.Node)


@story
def test_sequence_numbers_rise(t):
    x = leaf(t)
    a = x * 2
    b = a + 1
    c = x.exp()
    return a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr() < c.grad_fn._sequence_nr()


@story
def test_saved_tensors_by_name(t):
    x, y = leaf(t), leaf(t, 4, 5, 6)
    m = x * y
    e = x.exp()
    p = x**3
    return [
        m.grad_fn._saved_self is x,
        m.grad_fn._saved_other is y,
        e.grad_fn._saved_result,
        p.grad_fn._saved_exponent,
        e.grad_fn._saved_result is e,
        x.sum(0, keepdim=True).grad_fn._saved_dim,
        x.clamp(0, 2).grad_fn._saved_max,
        x.view(3, 1).grad_fn._saved_self_sym_sizes,
        attempt(lambda: m.grad_fn._saved_nothing),
        x.index_select(0, t.tensor([0, 2])).grad_fn._saved_index,
        t.nn.functional.leaky_relu(x).grad_fn._saved_negative_slope,
    ]


@story
def test_saved_tensors_of_a_freed_graph(t):
    y = leaf(t).exp()
    y.sum().backward()
    said_ = said(lambda: y.grad_fn._saved_result, "Trying to .* (a second time|after)")
    return type(attempt(lambda: y.grad_fn._saved_result)).__name__, bool(said_)


@story
def test_printing_tensors_with_history(t):
    x = t.ones(2, requires_grad=True)
    parts = (
        x,
        x * 2,
        x.sum(),
        x.view(2, 1),
        x.unbind(0)[1],
        x.detach(),
        x.log(),
        x.clone().add_(1),
        t.nn.Parameter(x.data),
    )
    return [repr(p) for p in parts]


@story
def test_a_sequence_number_decides_the_order(t):
    x = leaf(t, 1)
    order = []
    a, b = x * 2, x * 3
    total = a + b
    a.register_hook(lambda g: order.append("a"))
    b.register_hook(lambda g: order.append("b"))
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 1)
    total.backward()
    return order, a.grad_fn._sequence_nr() > b.grad_fn._sequence_nr(), a.grad_fn.requires_grad


TWICE = [
    lambda t, x: x / 2,
    lambda t, x: x + 1,
    lambda t, x: 2 / x,
    lambda t, x: 2 - x,
    lambda t, x: -x,
    lambda t, x: x**1,
    lambda t, x: x**2,
    lambda t, x: x**0,
    lambda t, x: 2**x,
    lambda t, x: x * 2,
    lambda t, x: x * t.tensor(2.0),
    lambda t, x: x.clone().mul_(2),
    lambda t, x: x.clone().div_(2),
    lambda t, x: t.add(x, x, alpha=2),
    lambda t, x: x.view(3, 1),
    lambda t, x: x[0],
    lambda t, x: x.mean(),
    lambda t, x: x.clamp(0, 1),
    lambda t, x: x.masked_fill(x > 0, 0),
    lambda t, x: x.double(),
    lambda t, x: x.expand(2, 3),
    lambda t, x: t.where(x > 0, x, 0),
    lambda t, x: t.cat([x, x]),
    lambda t, x: t.stack([x, x]),
    lambda t, x: x.relu(),
    lambda t, x: x.max(),
    lambda t, x: x.sort()[0],
    lambda t, x: x.dot(x),
    lambda t, x: x.index_select(0, t.tensor([0])),
    lambda t, x: x[[0]],
    lambda t, x: x.cumsum(0),
    lambda t, x: x.flip(0),
    lambda t, x: x.round(),
    lambda t, x: x.lerp(x.detach(), 0.5),
    lambda t, x: x.abs(),
    lambda t, x: x.gather(0, t.tensor([0])),
    lambda t, x: x.repeat(2),
    lambda t, x: t.nn.functional.pad(x, (1, 1)),
    lambda t, x: x.diag(),
    lambda t, x: x.fmod(2),
    lambda t, x: x.remainder(2),
    lambda t, x: t.rsub(x, 1),
    lambda t, x: x.var(),
    lambda t, x: t.nn.functional.mse_loss(x, x.detach()),
    lambda t, x: x.unfold(0, 2, 1),
    lambda t, x: x.prod(),
    lambda t, x: x @ t.ones(3),
    lambda t, x: x.sub(x.detach(), alpha=3),
    lambda t, x: x.scatter(0, t.tensor([0]), 1.0),
    lambda t, x: x.index_add(0, t.tensor([0]), x[:1]),
    lambda t, x: x.norm(),
    lambda t, x: x.topk(1)[0],
    lambda t, x: x.split(1)[0],
    lambda t, x: t.einsum("i->", x),
    lambda t, x: x.logsumexp(0),
    lambda t, x: x.softmax(0),
    lambda t, x: x.trunc(),
    lambda t, x: x.nan_to_num(),
    lambda t, x: x.masked_select(x > 0),
    lambda t, x: x.take(t.tensor([0])),
    lambda t, x: x.copysign(2.0),
]


@story
def test_which_graphs_run_twice_without_being_retained(t):
    out = []
    for f in TWICE:
        total = f(t, t.ones(3, requires_grad=True)).sum()
        total.backward()
        out.append(type(attempt(total.backward)).__name__)
    return out


@story
def test_a_node_may_be_called(t):
    node = (leaf(t) * 3).grad_fn
    return attempt(lambda: node(t.ones(3, dtype=t.float64)))


@story
def test_grad_dtype(t):
    x = t.ones(2, requires_grad=True)
    x.grad_dtype = t.float64
    (x * 2).sum().backward()
    y = t.ones(2, requires_grad=True)
    y.grad_dtype = None
    y.double().sum().backward()
    return x.grad.dtype, x.grad_dtype, y.grad.dtype, y.grad_dtype, t.ones(2).grad_dtype
