"""Custom functions: scripts that do the same on both libraries."""

import collections

from function_kit import function, told
from story_kit import story


@story
def test_several_inputs(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, s, b):
            ctx.s = s
            ctx.save_for_backward(a, b)
            return a + s * b + a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return (g + g * b, None, g * ctx.s + g * a)

    x = t.arange(6.0).reshape(2, 3).requires_grad_()
    y = (t.arange(6.0) + 1).reshape(2, 3).requires_grad_()
    r = M.apply(x, 2, y)
    t.autograd.backward([r.sum()], create_graph=True)
    return (
        x.grad.detach(),
        y.grad.detach(),
        x.grad.grad_fn is not None,
        str(x.grad.grad_fn)[:4],
        M.apply(x, 2, y).grad_fn.name(),
        type(r.grad_fn).__name__,
        x.grad.grad_fn,
    )


@story
def test_materialize(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            r.append(g)
            return g

    r = []
    x = t.ones(1, requires_grad=True)

    class U(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    U.apply(M.apply(x)).backward()
    return (r, x.grad)


@story
def test_dont_materialize(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x

        @staticmethod
        def backward(ctx, g):
            r.append(g)
            return g

    r = []
    x = t.ones(1, requires_grad=True)

    class U(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    U.apply(M.apply(x)).backward()
    return (r, x.grad)


@story
def test_materialize_nondiff(t):
    r = []

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a, b = (x.clone(), x.clone())
            ctx.mark_non_differentiable(b)
            ctx._materialize_non_diff_grads = False
            return (a, b)

        @staticmethod
        def backward(ctx, g, g2):
            r.append((g, g2))
            return g

    x = t.ones(1, requires_grad=True)
    a, b = M.apply(x)
    a.sum().backward()
    return r


@story
def test_ctx_stash(t):

    class Id(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            s.append(ctx)
            return ctx.saved_tensors[0]

    s = []
    x = t.ones(2, 2, requires_grad=True)
    Id.apply(x).sum().backward()
    e = told(lambda: s[0].saved_tensors)
    x2 = t.ones(2, requires_grad=True)
    Id.apply(x2).sum().backward(retain_graph=True)
    return (e, [v for v in s[-1].saved_tensors])


@story
def test_repeated_gradgrad(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return M2.apply(g, x)

    class M2(t.autograd.Function):
        @staticmethod
        def forward(ctx, g, x):
            ctx.save_for_backward(g, x)
            return g * x.exp()

        @staticmethod
        def backward(ctx, gg):
            g, x = ctx.saved_tensors
            return (gg * x.exp(), gg * g * x.exp())

    x = t.tensor([1.0, 2.0], requires_grad=True, dtype=t.float64)
    (g,) = t.autograd.grad(M.apply(x).sum(), x, create_graph=True)
    (g2,) = t.autograd.grad(g.sum(), x, create_graph=True)
    return (g, g2, g.grad_fn)


@story
def test_no_early_free(t):

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x**2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, _ = ctx.saved_tensors
            return g * 2 * x

    class D2(D):
        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * 2 * y / x

    r = []
    for C in (D, D2):
        x = t.ones(1, requires_grad=True, dtype=t.float64)
        (g,) = t.autograd.grad(C.apply(x), x, create_graph=True)
        r.append(g)
        (g2,) = t.autograd.grad(g, x, create_graph=True)
        r.append(g2)
        r.append(told(lambda g2=g2, x=x: t.autograd.grad(g2, x)))
    return r


@story
def test_custom_exc(t):

    class E(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise Exception("Simulated error on backward pass")

    x = t.ones(2, requires_grad=True)
    return told(lambda: E.apply(x).sum().backward())


@story
def test_nondiff(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            o = x > 0
            ctx.mark_non_differentiable(o)
            return o

        @staticmethod
        def backward(ctx, g):
            return (g * 0).to(t.double)

    x = t.tensor([-1.0, 1.0], requires_grad=True)
    m = M.apply(x)
    y = x.masked_fill(m, 0)
    y.sum().backward()
    return (m, m.requires_grad, y, x.grad)


@story
def test_nondiff_mixed(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a = x + 1
            b = x + 2
            ctx.mark_non_differentiable(a)
            return (a, b)

        @staticmethod
        def backward(ctx, ga, gb):
            r.append((ga, gb))
            return gb

    r = []
    x = t.tensor([-1.0, 1.0], requires_grad=True)
    a, b = M.apply(x)
    b.sum().backward()
    return (r, x.grad, a.requires_grad, b.requires_grad)


@story
def test_nondiff_none(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, inp):
            o = inp * 0
            ctx.mark_non_differentiable(o)
            return o

        @staticmethod
        def backward(ctx, g):
            r.append(g)
            return None

    r = []
    x = t.ones(5, requires_grad=True)
    y = M.apply(x * x)
    (y * x).sum().backward()
    return (r, x.grad)


@story
def test_nontensor_in_out(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, s):
            a = x + 1
            ctx.s = s
            return (a, "q", None, y * s)

        @staticmethod
        def backward(ctx, ga, gq, gn, gy):
            r.append((ga, gq, gn, gy))
            return (ga, gy * ctx.s, None)

    r = []
    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    a, q, n, b = M.apply(x, y, 3)
    (a + b).sum().backward()
    return (r, x.grad, y.grad, q, n)


@story
def test_setup_ctx(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(x, y=2.0):
            return (x * y, x + 1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((len(inputs), type(output).__name__))
            ctx.y = inputs[1]

        @staticmethod
        def backward(ctx, g, h):
            return (g * ctx.y + h, None)

    seen = []
    x = t.ones(2, requires_grad=True)
    a, b = M.apply(x, 3.0)
    (a + b).sum().backward()
    return (seen, x.grad, told(lambda: M.apply(x)[0]))


@story
def test_setup_default(t):

    class P(t.autograd.Function):
        @staticmethod
        def forward(x, exp=2):
            return x**exp

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, e = inputs
            ctx.save_for_backward(x)
            ctx.e = e

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g * ctx.e * x ** (ctx.e - 1), None)

    x = t.tensor([2.0, 3.0], requires_grad=True)
    P.apply(x).sum().backward()
    g = x.grad
    return (g, told(lambda: P.apply(x, exp=3)), told(lambda: P.apply()))


@story
def test_namedtuple_out(t):
    N = collections.namedtuple("N", "a b")

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return N(x * 1, x * 2)

        @staticmethod
        def backward(ctx, a, b):
            return a + b * 2

    x = t.ones(2, requires_grad=True)
    o = M.apply(x)
    return (type(o).__name__, o[1])


@story
def test_ctx_attrs(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.foo = 3
            r.append(
                (
                    ctx.needs_input_grad,
                    type(ctx).__name__,
                    hasattr(ctx, "saved_tensors"),
                    isinstance(ctx, t.autograd.Function),
                )
            )
            return x * y

        @staticmethod
        def backward(ctx, g):
            r.append(
                (
                    ctx.needs_input_grad,
                    ctx.foo,
                    ctx.name(),
                    ctx.next_functions[0][0].name(),
                    ctx._is_backward if hasattr(ctx, "_is_backward") else None,
                )
            )
            return (g, g)

    r = []
    x = t.ones(2, requires_grad=True)
    M.apply(x, t.ones(2)).sum().backward()
    return r


@story
def test_function_list_input(t):
    F = function(t, lambda c, xs, y: xs[0] * y, lambda c, g: (None, g * 5))
    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    o = F.apply([x], y)
    o.sum().backward()
    return (x.grad, y.grad)


@story
def test_function_save_attr_leak(t):

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.k = [1]
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.k.append(2)
            return g

    x = t.ones(2, requires_grad=True)
    y = F.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return (y.grad_fn.k, told(lambda: y.grad_fn.saved_tensors), told(lambda: y.sum().backward()))


@story
def test_function_backward_no_saved_twice(t):
    F = function(t, lambda c, x: x * 2, lambda c, g: g * 2)
    x = t.ones(2, requires_grad=True)
    y = F.apply(x)
    y.backward(t.ones(2))
    y.backward(t.ones(2))
    return x.grad


@story
def test_function_multi_out_unused(t):
    r = []
    F = function(t, lambda c, x: (x * 2, x * 3, x * 4), lambda c, a, b, d: (r.append((a, b, d)), a)[1])
    x = t.ones(2, requires_grad=True)
    o = F.apply(x)
    o[1].sum().backward()
    return (r, [q.output_nr for q in o], [q.grad_fn is o[0].grad_fn for q in o])


@story
def test_function_int_out(t):
    F = function(t, lambda c, x: (x * 2, x.argmax()), lambda c, a, b: a)
    x = t.ones(2, requires_grad=True)
    a, b = F.apply(x)
    return (a.requires_grad, b.requires_grad, b.dtype, b.grad_fn)


@story
def test_function_complex_to_real_grad(t):
    F = function(t, lambda c, x: x * 2, lambda c, g: g * (1 + 2j))
    x = t.ones(2, requires_grad=True)
    told(lambda: F.apply(x).sum().backward())
    return x.grad


@story
def test_function_dtype_cast(t):
    F = function(t, lambda c, x: x * 2, lambda c, g: g.double())
    x = t.ones(2, requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@story
def test_function_expand_grad(t):
    F = function(t, lambda c, x: x * 2, lambda c, g: g.expand(3, 2))
    x = t.ones(2, requires_grad=True)
    F.apply(x).sum().backward()
    return x.grad


@story
def test_function_dirty_leaf(t):
    F = function(t, lambda c, x: (c.mark_dirty(x), x.mul_(2))[1], lambda c, g: g * 2)
    x = t.ones(2, requires_grad=True)
    return (told(lambda: F.apply(x)), told(lambda: F.apply(x.clone()).sum().backward()), x.grad)


@story
def test_function_dirty_view(t):
    F = function(t, lambda c, x: (c.mark_dirty(x), x.mul_(2))[1], lambda c, g: g * 2)
    x = t.ones(4, requires_grad=True)
    y = x.clone()
    v = y[:2]
    o = F.apply(v)
    y.sum().backward()
    return (x.grad, y.grad_fn, v.grad_fn, o is v)


@story
def test_function_jvp_missing(t):
    return (
        hasattr(t.autograd.Function, "jvp"),
        hasattr(t.autograd.Function, "vjp"),
        hasattr(t.autograd.Function, "vmap"),
        hasattr(t.autograd.Function, "setup_context"),
    )
