"""Functions that return or change inputs, backwards within backwards, callbacks: the same on both libraries."""

import functools
import threading

from function_kit import function, told
from story_kit import story


@story
def test_returns_input(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    out = []
    for sh in [(1,), ()]:
        v = t.ones(sh, requires_grad=True)
        M.apply(v).backward()
        out.append(v.grad)
        with t.no_grad():
            v.grad = None
        M.apply(v.clone()).backward()
        out.append(v.grad)
    return out


@story
def test_returns_undefined(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    x = t.ones(1, requires_grad=True)
    r = []
    M.apply(x).backward()
    r.append(x.grad)
    M.apply(x**2).backward()
    r.append(x.grad)
    M.apply(x).sum().backward()
    r.append(x.grad)
    r.append(t.autograd.grad(M.apply(x), x, allow_unused=True)[0])
    return r


@story
def test_an_output_twice(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            o = x * 2
            return (o, o)

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 2

    x = t.ones(5, requires_grad=True, dtype=t.float64)
    a, b = M.apply(x)
    return (
        t.autograd.gradcheck(M.apply, (x,)),
        a is b,
        a.output_nr,
        b.output_nr,
        t.autograd.grad((a * 3 + b).sum(), x)[0],
    )


@story
def test_return_leaf(t):

    class Id(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return (a, a + b)

        @staticmethod
        def backward(ctx, ga, gab):
            return (ga + gab, gab)

    hook = []
    x = t.ones(5, requires_grad=True)
    y = t.ones(5, requires_grad=True)
    q, p = Id.apply(x, y)
    (q + p * 2).sum().backward()
    q.register_hook(lambda g: hook.append(g))
    (q + p).sum()
    return (q is x, q.is_leaf, x.grad, y.grad, hook)


@story
def test_return_leaf_inplace(t):

    class Adds(t.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return (a.add_(b), b + 2)

        @staticmethod
        def backward(ctx, ga, gb):
            return (ga, ga + gb)

    x = t.ones(5)
    y = t.ones(5, requires_grad=True)
    q, p = Adds.apply(x, y)
    (q + p * 3).sum().backward()
    return (q is x, q.requires_grad, q.is_leaf, y.grad, q, p)


@story
def test_local_inplace(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, inp, inplace):
            v = inp.clone()
            if inplace:
                v += 2
            return v

        @staticmethod
        def backward(ctx, g):
            return (g, None)

    b = t.ones(1, requires_grad=True)
    y = M.apply(b, True)
    r = [y.requires_grad, y.grad_fn.name()]
    return r


@story
def test_view_nograd(t):

    class A(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.narrow(0, 0, 2)

        @staticmethod
        def backward(ctx, g):
            return t.cat([g, g[:1]])

    x = t.ones(3, requires_grad=True)
    with t.no_grad():
        y = A.apply(x)
    return (told(lambda: y.add_(1)), y.requires_grad, y._is_view())


@story
def test_inplace_on_view_of_fn(t):

    class A(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return (a.view_as(a), b.view_as(b))

        @staticmethod
        def backward(ctx, a, b):
            return (a, b)

    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    p, q = A.apply(x + 0, y + 0)

    class B(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.view_as(a)

        @staticmethod
        def backward(ctx, a):
            return a

    z = B.apply(x + 0)
    return (told(lambda: p.mul_(2)), told(lambda: z.mul_(2)))


@story
def test_save_modified(t):

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    x = t.ones(2, requires_grad=True)
    y = M.apply(x)
    y.add_(1)
    return told(lambda: y.sum().backward())


@story
def test_reentrant_simple(t):
    y_data = t.tensor([[1.0, 2.0], [3.0, 4.0]])

    class R(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = y_data.clone().requires_grad_()
                ctx.o = ctx.x * ctx.y
            return ctx.o.detach()

        @staticmethod
        def backward(ctx, g):
            with t.enable_grad():
                ctx.o.sum().backward()
            return ctx.x.grad * g

    x = t.ones(2, 2, requires_grad=True)
    out = R.apply(x)
    out.sum().backward()
    return x.grad


@story
def test_reentrant_child_error(t):
    a = t.ones(3, 3, requires_grad=True)
    c = a * a
    b = t.ones(3, 3, requires_grad=True)
    e = b * b

    class S(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise Exception("Simulated error")

    er = S.apply(e).sum()

    class R(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            er.backward()
            return g

    return (told(lambda: R.apply(c).sum().backward()), a.grad)


@story
def test_deep_reentrant(t):

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x = ctx.x - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, x):
            if ctx.x < 0:
                return x
            with t.enable_grad():
                D.apply(ctx.x).sum().backward()
            return x

    v = t.tensor(200.0, requires_grad=True)
    D.apply(v).sum().backward()
    return v.grad


@story
def test_reentrant_hooks(t):
    r = []

    def hook(g):
        h.remove()
        g.requires_grad_(True)
        r.append(g)
        return g

    x = t.ones(3, requires_grad=True)
    y = x * 2
    h = y.register_hook(hook)
    y.sum().backward()
    return (r, x.grad)


@story
def test_reentrant_leafhook(t):
    param = t.ones(10, requires_grad=True)
    st = {}

    def hook(g):
        st["h"].remove()
        g.requires_grad_(True)
        with t.enable_grad():
            (g**2 * param**2).sum().backward()

    st["h"] = param.register_hook(hook)
    (param**2).sum().backward()
    return param.grad


@story
def test_callbacks(t):
    c = {"o": 0, "i": 0}
    Q = t.autograd.Variable._execution_engine.queue_callback

    def io():
        c["i"] += 1

    def oo():
        c["o"] += 1

    class M(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, x):
            Q(io)
            return x

    class R(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, x):
            Q(oo)
            with t.enable_grad():
                v = t.ones(1, requires_grad=True)
                M.apply(v).sum().backward()
            return x

    t1 = t.ones((3, 3), requires_grad=True)
    s = R.apply(t1).sum()
    s.backward()
    return (c, told(lambda: Q(io)))


@story
def test_an_error_in_a_callback(t):
    Q = t.autograd.Variable._execution_engine.queue_callback
    x = t.ones(2, requires_grad=True)

    def bad():
        raise ValueError("cb")

    y = x * 2
    y.register_hook(lambda g: Q(bad))
    return (told(lambda: y.sum().backward()), x.grad)


@story
def test_nested_inference_fn(t):
    F = function(t, lambda c, x: x * 2, lambda c, g: g * 2)
    with t.inference_mode():
        a = t.ones(2)
        b = F.apply(a)
    return (b.is_inference(), b.requires_grad, told(lambda: F.apply(a.requires_grad_())))


@story
def test_function_nograd_apply(t):
    F = function(t, lambda c, x: (x * 2,), lambda c, g: g * 2)
    x = t.ones(2, requires_grad=True)
    with t.no_grad():
        a = F.apply(x)
    return (a, a[0].requires_grad)


@story
def test_reentrant_threads(t):
    F = function(t, lambda c, x: x * 1, lambda c, g: (inner(), g)[1])

    def inner():
        with t.enable_grad():
            v = t.ones(1, requires_grad=True)
            (v * 2).sum().backward()

    def run():
        x = t.ones(2, requires_grad=True)
        F.apply(x).sum().backward()
        r.append(x.grad.sum().item())

    r = []
    ts = [threading.Thread(target=run) for _ in range(3)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    return r


@story
def test_reentrant_same_graph(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    z = y.sum()
    F = function(t, lambda c, a: a * 1, lambda c, g: (z.backward(retain_graph=True), g)[1])
    F.apply(y).sum().backward()
    return x.grad


@story
def test_gradcheck_fn_inplace(t):
    F = function(t, lambda c, x: (c.mark_dirty(x), x.mul_(2))[1], lambda c, g: g * 2)
    x = t.tensor([0.1, 0.2], dtype=t.double, requires_grad=True)
    return (
        t.autograd.gradcheck(lambda a: F.apply(a.clone()), x),
        t.autograd.gradgradcheck(lambda a: F.apply(a.clone()) ** 2, x),
    )


@story
def test_gradcheck_module(t):
    m = t.nn.Linear(2, 2).double()
    x = t.tensor([[0.1, 0.2]], dtype=t.double, requires_grad=True)
    return (
        t.autograd.gradcheck(m, (x,)),
        t.autograd.gradgradcheck(m, (x,)),
        t.autograd.gradcheck(lambda *p: p[0].sum() + p[1].sum(), tuple(m.parameters())),
    )


@story
def test_gradcheck_ck(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    x = t.tensor([0.1, 0.2], dtype=t.double, requires_grad=True)
    return (
        t.autograd.gradcheck(lambda a: C(lambda b: b.sin().exp(), a), x),
        t.autograd.gradgradcheck(lambda a: C(lambda b: b.sin().exp(), a), x),
    )
