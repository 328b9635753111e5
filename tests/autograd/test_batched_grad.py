"""grad(is_grads_batched=True): the first dimension of every grad output counts gradients propagated at once."""

import pytest
from both import agree, attempt
from story_kit import leaf, said, story

import torchlike

MISMATCH = "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension"
UNEQUAL = "Expected all tensors to have the same size in the mapped dimension"


def count(t, *shape):
    """1, 2, ... in this shape."""
    n = 1
    for s in shape:
        n *= s
    return t.arange(1.0, n + 1, dtype=t.float64).reshape(shape)


def batched(t, outputs, inputs, grads, **options):
    return t.autograd.grad(outputs, inputs, grads, is_grads_batched=True, retain_graph=True, **options)


SHAPES = [(3, 3), (2, 3), (1, 3), (0, 3), (3,), (3, 1), (), (2, 1, 3), (2, 4), (2, 0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("create_graph", [False, True])
def test_shapes(shape, create_graph):
    def f(t):
        x = leaf(t)
        return attempt(lambda: batched(t, x**3, x, count(t, *shape), create_graph=create_graph))

    agree(f)


@pytest.mark.parametrize("shape", [(3,), (1,), (3, 1), (), (0,), (2, 3)], ids=str)
def test_scalar_outputs(shape):
    def f(t):
        x = leaf(t)
        return attempt(lambda: batched(t, (x**3).sum(), x, count(t, *shape)))

    agree(f)


@story
def test_messages(t):
    x = leaf(t)
    y = x**3
    s = y.sum()
    return (said(lambda: batched(t, y, x, count(t, 2, 4)), MISMATCH),
            said(lambda: batched(t, s, x, count(t, 2, 1)), MISMATCH),
            attempt(lambda: batched(t, s, x, None)), attempt(lambda: batched(t, [y, s], x, [count(t, 2, 3), None])),
            said(lambda: batched(t, [y, s], x, [count(t, 2, 3), count(t, 3)]), UNEQUAL),
            attempt(lambda: batched(t, y, x, None)), attempt(lambda: batched(t, y, x, 3)),
            attempt(lambda: batched(t, y, x, [3])), attempt(lambda: batched(t, t.ones(3), x, count(t, 2, 3))),
            attempt(lambda: batched(t, y, t.ones(3), count(t, 2, 3))),
            attempt(lambda: t.autograd.grad(y, x, count(t, 2, 3))))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex128"])
def test_dtypes(dtype):
    def f(t):
        x = leaf(t)
        return attempt(lambda: batched(t, x**3, x, count(t, 2, 3).to(getattr(t, dtype))))

    agree(f)


@story
def test_complex(t):
    z = t.tensor([1 + 2j, 3j], requires_grad=True, dtype=t.complex128)
    y, one = z * z, t.eye(2, dtype=t.complex128)
    return (batched(t, y, z, one), batched(t, y, z, one * 1j), batched(t, y.abs(), z, t.eye(2, dtype=t.float64)),
            attempt(lambda: batched(t, y, z, one.real)), attempt(lambda: batched(t, y.abs(), z, one)))  # fmt: skip


@story
def test_several(t):
    x, w = leaf(t), leaf(t, 4, 5, 6)
    a, b = x * w, (x**2).sum()
    return (batched(t, [a, b], [x, w], [t.eye(3, dtype=t.float64), count(t, 3)]),
            batched(t, (a,), {"x": x}, [count(t, 2, 3)]),
            attempt(lambda: batched(t, [a, b], x, [count(t, 2, 3)])))  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"allow_unused": True}, {"materialize_grads": True}], ids=str)
def test_unused(options):
    def f(t):
        x, w = leaf(t), leaf(t)
        y, g = x * 2, count(t, 2, 3)
        return attempt(lambda: batched(t, y, [x, w], g, **options)), attempt(lambda: batched(t, y, w, g, **options))

    agree(f)


@story
def test_create_graph(t):
    x = leaf(t)
    (g,) = batched(t, x**3, x, t.eye(3, dtype=t.float64), create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = batched(t, g, x, count(t, 2, 3, 3), create_graph=True)
    return g, h, k, t.autograd.grad(h.sum(), x, retain_graph=True), t.autograd.grad(k.sum(), x)


@story
def test_create_graph_follows_the_grad_outputs(t):
    x, seeds = leaf(t), t.eye(3, dtype=t.float64).requires_grad_()
    (g,) = batched(t, x**3, x, seeds, create_graph=True)
    return g, t.autograd.grad((g * g).sum(), (x, seeds)), batched(t, x**3, x, seeds)


@story
def test_who_requires_grad(t):
    x, g = leaf(t), count(t, 2, 3)
    found = [batched(t, x**2, x, g)[0], batched(t, x**2, x, g, create_graph=True)[0],
             batched(t, x + 2, x, g, create_graph=True)[0]]  # fmt: skip
    return [v.requires_grad for v in found]


@story
def test_hooks_see_one_gradient(t):
    x, log = leaf(t), []
    y = x**2
    y.register_hook(lambda g: log.append((tuple(g.shape), g.dim())) or g * 2)
    x.register_hook(lambda g: log.append(tuple(g.shape)))
    y.grad_fn.register_hook(lambda gi, go: log.append((tuple(gi[0].shape), tuple(go[0].shape))))
    y.grad_fn.register_prehook(lambda go: log.append(tuple(go[0].shape)))
    return batched(t, y * 3, x, t.eye(3, dtype=t.float64)), log


@story
def test_inner_tensors_and_edges(t):
    x, g = leaf(t), count(t, 2, 3)
    y = x * 2
    z = y.exp()
    edge = t.autograd.graph.get_gradient_edge
    return batched(t, z, [y, x], g), batched(t, z, edge(y), g), batched(t, edge(z), y, g), x.grad


@story
def test_the_graph_is_freed(t):
    x, g = leaf(t), count(t, 2, 3)
    y = x.exp()
    first = t.autograd.grad(y, x, g, is_grads_batched=True)
    why = "Trying to backward through the graph a second time"
    return first, said(lambda: t.autograd.grad(y, x, g, is_grads_batched=True), why)


@story
def test_a_backward_that_reads_numbers(t):
    x = leaf(t)
    y = x**2
    y.register_hook(lambda g: g * 2 if g.sum().item() > 3 else g)
    return attempt(lambda: batched(t, y, x, count(t, 2, 3))), t.is_grad_enabled(), t.autograd.grad(y.sum(), x)


OPERATORS = {
    "sin": lambda t, x: x.sin(),
    "transposed": lambda t, x: x.t().contiguous().t(),
    "matmul": lambda t, x: x @ count(t, 3, 3),
    "softmax": lambda t, x: x.softmax(1),
    "cumsum": lambda t, x: x.cumsum(0),
    "sort": lambda t, x: x.sort(1)[0],
    "relu": lambda t, x: (x - 3).relu(),
    "in place": lambda t, x: x.clone().mul_(x),
    "a view in place": lambda t, x: scaled(x.clone()),
    "reshaped": lambda t, x: x.view(6).exp().view(2, 3),
    "where": lambda t, x: t.where(x > 2, x, x * x),
    "mean": lambda t, x: x - x.mean(1, keepdim=True),
    "indexed": lambda t, x: x[[1, 0]],
    "flip": lambda t, x: x.flip(0),
    "stack": lambda t, x: t.stack([x[0], x[1]]),
    "clamp": lambda t, x: x.clamp(2, 4),
    "prod": lambda t, x: x.prod(0).expand(2, 3),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "max": lambda t, x: x.max(1)[0].unsqueeze(1) * x,
    "linear": lambda t, x: t.nn.functional.linear(x, count(t, 3, 3)),
    "logsumexp": lambda t, x: x.logsumexp(0) * x,
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, count(t, 3, 3)),
    "gather": lambda t, x: x.gather(1, t.tensor([[0, 1, 2], [2, 1, 0]])),
    "index_select": lambda t, x: x.index_select(1, t.tensor([2, 0, 1])),
    "conv": lambda t, x: t.nn.functional.conv2d(x.view(1, 1, 2, 3), count(t, 1, 1, 1, 1)).view(2, 3),
    "scatter": lambda t, x: x.scatter(1, t.tensor([[0], [1]]), 7.0),
    "cat": lambda t, x: t.cat([x[1:], x[:1] * 2]),
}


def scaled(c):
    c[0].mul_(3)
    c[:, 1].exp_()
    return c


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, create_graph):
    def f(t):
        x = count(t, 2, 3).requires_grad_()
        return batched(t, OPERATORS[name](t, x), x, count(t, 4, 2, 3), create_graph=create_graph)[0].detach()

    agree(f)


@story
def test_custom_functions(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(t)
    return batched(t, Square.apply(x), x, count(t, 2, 3))


CALLED = {"forward with ctx": True, "setup_context": False}


@pytest.mark.parametrize("older", CALLED.values(), ids=CALLED)
@pytest.mark.parametrize("create_graph", [False, True])
def test_custom_functions_that_a_backward_calls(older, create_graph):
    """The derivative of what a backward calls is the Function's own; PyTorch drops its history."""

    def f(t):
        class Inner(t.autograd.Function):
            @staticmethod
            def backward(ctx, g):
                return g * 7

        if older:
            Inner.forward = staticmethod(lambda ctx, a: a * 2)
        else:
            Inner.forward = staticmethod(lambda a: a * 2)
            Inner.setup_context = staticmethod(lambda ctx, inputs, output: None)

        class Outer(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * 1

            @staticmethod
            def backward(ctx, g):
                return Inner.apply(g * ctx.saved_tensors[0])

        x = leaf(t)
        return batched(t, Outer.apply(x), x, t.eye(3, dtype=t.float64), create_graph=create_graph)[0], x

    agree(lambda t: f(t)[0].detach())
    if create_graph:
        got, x = f(torchlike)
        assert torchlike.autograd.grad(got.sum(), x)[0].tolist() == [7.0, 7.0, 7.0]


WHAT_A_BACKWARD_DOES = {
    "draws": lambda t, g: g * t.rand(3),
    "reads a number": lambda t, g: g * g.sum().item(),
    "decides": lambda t, g: g if g.sum() > 0 else -g,
    "writes into a tensor of its own": lambda t, g: t.zeros(3, dtype=t.float64).add_(g),
    "changes the gradient": lambda t, g: g.mul_(2),
    "changes a copy": lambda t, g: g.clone().mul_(2),
    "asks it for zeros": lambda t, g: g.new_zeros(3).add_(g),
    "has none": lambda t, g: None,
    "ignores it": lambda t, g: t.ones(3, dtype=t.float64),
    "converts it": lambda t, g: g.float(),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("case", WHAT_A_BACKWARD_DOES)
def test_what_a_backward_does(case, create_graph):
    def f(t):
        class Same(t.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.clone()

            @staticmethod
            def backward(ctx, g):
                return WHAT_A_BACKWARD_DOES[case](t, g)

        x, g = leaf(t), t.eye(3, dtype=t.float64)
        options = {"create_graph": create_graph, "allow_unused": True}
        got = attempt(lambda: batched(t, Same.apply(x), x, g, **options))
        return got if isinstance(got, Exception) or got[0] is None else got[0].detach(), g

    agree(f)


@story
def test_inside_of_vmap_and_of_a_dual_level(t):
    fw, eye = t.autograd.forward_ad, t.eye(3, dtype=t.float64)
    x = leaf(t)
    rows = t.vmap(lambda w: batched(t, x**3, x, w)[0])(count(t, 2, 2, 3))
    with fw.dual_level():
        dual = fw.make_dual(x, t.ones(3, dtype=t.float64))
        return rows, tuple(fw.unpack_dual(batched(t, dual**3, dual, eye)[0]))


def test_compiled_functions():
    """PyTorch refuses."""
    x = leaf(torchlike)
    y, s = torchlike.compile(lambda v: (v.sin() * v, v.sum()))(x)
    eager, eye = x.sin() * x, torchlike.eye(3, dtype=torchlike.float64)
    got = batched(torchlike, [y, s], x, [eye, torchlike.ones(3)])[0]
    torchlike.testing.assert_close(got, batched(torchlike, [eager, x.sum()], x, [eye, torchlike.ones(3)])[0])
    mapped = torchlike.vmap(lambda v: torchlike.autograd.grad(y, x, v, retain_graph=True)[0])(eye)
    torchlike.testing.assert_close(mapped, torchlike.diag((x.cos() * x + x.sin()).detach()))
    with pytest.raises(RuntimeError, match="does not support double backward"):
        batched(torchlike, y, x, eye, create_graph=True)
