"""Checkpointing: scripts that do the same on both libraries."""

import collections
import contextlib
import functools
import gc
import weakref

import pytest
from both import agree
from function_kit import told

SCRIPTS: list = []


def script(f):
    SCRIPTS.append(f)
    return f


@script
def checkpoint_basic(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    for ur in (True, False):
        m = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.ReLU(), t.nn.Linear(3, 2))
        with t.no_grad():
            for p in m.parameters():
                p.copy_(t.arange(p.numel()).reshape(p.shape) * 0.1 - 0.3)
        x = t.ones(2, 3, requires_grad=True)
        C(m, x, use_reentrant=ur).sum().backward()
        r.append([p.grad.clone() for p in m.parameters()] + [x.grad])
    return r


@script
def checkpoint_kwargs(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    return (
        told(lambda: C(lambda a, *, k: a * k, x, k=2.0, use_reentrant=True)),
        told(lambda: C(lambda a, *, k: a * k, x, k=2.0, use_reentrant=False)),
        told(lambda: C(lambda a: a, x, use_reentrant=True, context_fn=lambda: (contextlib.nullcontext(),) * 2)),
        told(lambda: C(lambda a: a, x, use_reentrant=True, determinism_check="none")),
        told(lambda: C(lambda a: a, x, use_reentrant=True, debug=True)),
        told(lambda: C(lambda a: a, x, use_reentrant=False, determinism_check="foo")),
    )


@script
def checkpoint_inputs_nograd(t):
    C = t.utils.checkpoint.checkpoint
    w = t.ones(2, requires_grad=True)
    x = t.ones(2)
    r = []
    o = C(lambda a: a * w, x, use_reentrant=False)
    r.append(o.requires_grad)
    o.sum().backward()
    r.append(w.grad)
    o = C(lambda a: a * w, x, use_reentrant=True)
    r.append(o.requires_grad)
    return r


@script
def checkpoint_twice(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    o = C(lambda a: a.sin().exp(), x, use_reentrant=False)
    o.sum().backward(retain_graph=True)
    o.sum().backward()
    return (x.grad, told(lambda: o.sum().backward()))


@script
def checkpoint_graph_access(t):
    C = t.utils.checkpoint.checkpoint
    n = [0]

    def f(a):
        n[0] += 1
        return a.sin().exp()

    x = t.ones(2, requires_grad=True)
    o = C(f, x, use_reentrant=False)
    r = [o.grad_fn._saved_result]
    r.append(list(n))
    r.append(o.grad_fn._saved_result)
    r.append(list(n))
    o.sum().backward()
    r.append(list(n))
    return r


@script
def checkpoint_early(t):
    C = t.utils.checkpoint.checkpoint
    n = [0]
    x = t.ones(2, requires_grad=True)
    r = []

    def f(a):
        b = a.sin()
        b = b.exp()
        n[0] += 1
        return b + 1

    C(f, x, use_reentrant=False).sum().backward()
    r.append(n[0])
    n[0] = 0
    with t.utils.checkpoint.set_checkpoint_early_stop(False):
        o = C(f, x, use_reentrant=False)
    o.sum().backward()
    r.append(n[0])
    n[0] = 0
    C(f, x, use_reentrant=False, early_stop=False).sum().backward()
    r.append(n[0])
    return r


@script
def checkpoint_nested(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    n = collections.Counter()

    def sin(x):
        n["sin"] += 1
        return x.sin()

    def f(x):
        n["f"] += 1
        return C(sin, x) * x

    def g(x):
        n["g"] += 1
        return C(f, x).exp()

    x = t.tensor([1.0, 2.0], requires_grad=True, dtype=t.float64)
    o = C(g, x)
    (gr,) = t.autograd.grad(o.sum(), x, create_graph=True)
    (g2,) = t.autograd.grad(gr.sum(), x)
    return (gr, g2, dict(n))


@script
def checkpoint_nested_reentrant_inner(t):
    C = t.utils.checkpoint.checkpoint
    x = t.tensor([1.0, 2.0], requires_grad=True)
    o = C(lambda x: C(lambda y: y.sin(), x, use_reentrant=True) * x, x, use_reentrant=False)
    o.sum().backward()
    return x.grad


@script
def checkpoint_nested_kwargs(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)

    def f(b, k=None):
        return (b * k["x"], 3, None)

    def g(a, b):
        return C(f, b, k={"x": a})

    a = t.tensor([2.0], requires_grad=True)
    b = t.tensor([3.0], requires_grad=True)
    o = C(g, a, b)
    o[0].backward()
    return (a.grad, b.grad, o[1:])


@script
def checkpoint_reentrant_backwards(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)

    def f(a):
        x = a.sin().cos()
        o = x.sin().sum()
        (g,) = t.autograd.grad(o, a, create_graph=True)
        return x * g

    a = t.tensor([1.0], requires_grad=True, dtype=t.float64)
    o = C(f, a)
    o.sum().backward()
    return a.grad


@script
def checkpoint_inner_backward(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)

    def f(a):
        x = a.sin().cos()
        o = x.sin().sum()
        o.backward(retain_graph=True)
        return x

    a = t.tensor([1.0], requires_grad=True, dtype=t.float64)
    o = C(f, a)
    r = [a.grad.clone()]
    told(lambda: o.sum().backward())
    r.append(a.grad)
    return r


@script
def checkpoint_rng(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    for ur in (True, False):
        for p in (True, False):
            t.manual_seed(0)
            x = t.ones(1000, requires_grad=True)
            o = C(lambda a: t.nn.functional.dropout(a, 0.5) * a, x, use_reentrant=ur, preserve_rng_state=p)
            t.rand(3)
            o.sum().backward()
            ok = bool(((o != 0) * 2 * 2.0 == x.grad).all())
            r.append(ok)
    return r


@script
def checkpoint_detached(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []
    for ur in (True, False):
        d = C(lambda a: a * 2, x.detach(), use_reentrant=ur)
        r.append(d.requires_grad)
        o = C(lambda a: (a * 2).detach(), x, use_reentrant=ur)
        r.append(o.requires_grad)
        r.append(told(lambda o=o: o.sum().backward()))
    return r


@script
def checkpoint_valid(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    y = C(lambda a: a.exp(), x, use_reentrant=True).sum()
    return (told(lambda: t.autograd.grad(y, x)), told(lambda: y.backward(inputs=[x])), (y.backward(), x.grad)[1])


@script
def checkpoint_custom_fn(t):

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (g * y, g * x)

    C = t.utils.checkpoint.checkpoint
    x = t.tensor([3.0], requires_grad=True)
    y = t.tensor([2.0], requires_grad=True)
    o = C(lambda a, b: D.apply(a, b).exp(), x, y, use_reentrant=False)
    o.sum().backward()
    return (x.grad, y.grad)


@script
def checkpoint_ctxfn(t):
    C = t.utils.checkpoint.checkpoint
    log = []

    @contextlib.contextmanager
    def cm(n):
        log.append("in " + n)
        yield
        log.append("out " + n)

    x = t.ones(2, requires_grad=True)
    o = C(lambda a: a.sin().exp(), x, use_reentrant=False, context_fn=lambda: (cm("f"), cm("r")))
    log.append("-")
    o.sum().backward()
    return log


@script
def checkpoint_memory(t):
    C = t.utils.checkpoint.checkpoint
    refs = []

    def f(a):
        b = a.sin()
        refs.append(weakref.ref(b))
        return b.exp()

    x = t.ones(2, requires_grad=True)
    o = C(f, x, use_reentrant=False)
    gc.collect()
    return (refs[0]() is None, o)


@script
def checkpoint_stop_nested(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    n = collections.Counter()

    def clone(x):
        n["c"] += 1
        return x.clone()

    def f(x):
        x = C(clone, x)
        n["f"] += 1
        return x

    x = t.ones(2, requires_grad=True)
    r = []
    with t.utils.checkpoint.set_checkpoint_early_stop(True):
        C(f, x).sum().backward()
    r.append(dict(n))
    n.clear()
    with t.utils.checkpoint.set_checkpoint_early_stop(False):
        C(f, x).sum().backward()
    r.append(dict(n))
    return r


@script
def checkpoint_warn(t):
    x = t.ones(2, requires_grad=True)
    return (
        t.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=True),
        t.utils.checkpoint.checkpoint(lambda a: a * 2, t.ones(2), use_reentrant=True),
    )


@script
def selective_once(t):
    K = t.utils.checkpoint.create_selective_checkpoint_contexts
    x = t.eye(2, requires_grad=True)
    o = t.utils.checkpoint.checkpoint(
        lambda a: (a.sin() @ a).exp().sin(),
        x,
        use_reentrant=False,
        context_fn=functools.partial(K, [t.ops.aten.mm.default]),
    )
    o.sum().backward(retain_graph=True)
    return told(lambda: o.sum().backward(retain_graph=True))


@script
def selective_mutate(t):
    P = t.utils.checkpoint.CheckpointPolicy
    K = t.utils.checkpoint.create_selective_checkpoint_contexts
    x = t.eye(2, requires_grad=True)

    def f(a):
        b = a.sin()
        b.mul_(2)
        return b.exp()

    def pol(c, op, *a, **k):
        return P.MUST_SAVE if op is t.ops.aten.sin.default else P.PREFER_RECOMPUTE

    def run():
        t.utils.checkpoint.checkpoint(f, x, use_reentrant=False, context_fn=functools.partial(K, pol)).sum().backward()

    def run2():
        t.utils.checkpoint.checkpoint(
            f, x, use_reentrant=False, context_fn=functools.partial(K, pol, allow_cache_entry_mutation=True)
        ).sum().backward()

    return (told(run), told(run2))


@script
def checkpoint_two_backward_same(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    x = t.ones(2, requires_grad=True)
    y = C(lambda a: a.exp().sin(), x)
    z = C(lambda a: a.exp().sin(), y)
    (y + z).sum().backward()
    return x.grad


@script
def checkpoint_none_args(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []
    for ur in (True, False):
        o = C(lambda a, b, c: (a * 2, None, c), x, None, "s", use_reentrant=ur)
        o[0].sum().backward()
        r.append((o[1], o[2], x.grad.clone()))
    return r


@script
def checkpoint_dict_out(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    o = C(lambda d: {"y": d["x"].exp().sin()}, {"x": x}, use_reentrant=False)
    o["y"].sum().backward()
    return x.grad


@script
def checkpoint_tuple_reentrant(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    o = C(lambda a, b: (a * b, a + b), x, y, use_reentrant=True)
    (o[0] + o[1]).sum().backward()
    return (x.grad, y.grad, [q.grad_fn for q in o])


@script
def checkpoint_hooks_inside(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []

    def f(a):
        b = a.exp()
        b.register_hook(lambda g: r.append(g))
        return b.sin()

    C(f, x, use_reentrant=False).sum().backward()
    return (r, x.grad)


@script
def checkpoint_hooks_inside_re(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []

    def f(a):
        b = a.exp()
        if b.requires_grad:
            b.register_hook(lambda g: r.append(g))
        return b.sin()

    C(f, x, use_reentrant=True).sum().backward()
    return (r, x.grad)


@script
def checkpoint_saved_hooks_outer(t):
    n = [0, 0]
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)

    def p(a):
        n[0] += 1
        return a

    def u(a):
        n[1] += 1
        return a

    with t.autograd.graph.saved_tensors_hooks(p, u):
        o = C(lambda a: a.exp().sin(), x, use_reentrant=False)
    o.sum().backward()
    return (n, x.grad)


@script
def checkpoint_save_on_cpu(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    with t.autograd.graph.save_on_cpu():
        o = C(lambda a: a.exp().sin(), x, use_reentrant=False)
    o.sum().backward()
    return x.grad


@script
def checkpoint_error_in_fn(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)

    def f(a):
        raise ValueError("boom")

    return (
        [told(lambda u=u: C(f, x, use_reentrant=u)) for u in (True, False)],
        t.is_grad_enabled(),
        C(lambda a: a * 2, x, use_reentrant=False).grad_fn,
    )


@script
def checkpoint_error_recompute(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []
    for u in (True, False):
        n = [0]

        def f(a, n=n):
            n[0] += 1
            if n[0] == 2:
                raise ValueError("boom")
            return a.exp()

        r.append(told(lambda f=f, u=u: C(f, x, use_reentrant=u).sum().backward()))
        y = C(lambda a: a.exp(), x, use_reentrant=True).sum()
        y.backward()
        r.append(x.grad)
    return r


@script
def checkpoint_nograd_ctx(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    with t.no_grad():
        return [C(lambda a: a * 2, x, use_reentrant=u).requires_grad for u in (True, False)]


@script
def checkpoint_grad_mode_inside(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    x = t.ones(2, requires_grad=True)
    for u in (True, False):
        C(lambda a: (r.append(t.is_grad_enabled()), a.exp())[1], x, use_reentrant=u).sum().backward()
    return r


@script
def checkpoint_inplace_inside(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    C(lambda a: (a * 2).exp_().mul_(3), x, use_reentrant=False).sum().backward()
    return x.grad


@script
def checkpoint_param_used_in_out(t):
    C = t.utils.checkpoint.checkpoint
    w = t.ones(2, requires_grad=True)
    x = t.ones(2, requires_grad=True)
    o = C(lambda a: (a * w).exp(), x, use_reentrant=False)
    (o * w).sum().backward()
    return (w.grad, x.grad)


@script
def checkpoint_saved_identity(t):
    C = t.utils.checkpoint.checkpoint
    r = []

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            s = ctx.saved_tensors
            r.append(len(s))
            return g * s[0]

    x = t.ones(2, requires_grad=True)
    C(lambda a: F.apply(a), x, use_reentrant=False).sum().backward()
    return (r, x.grad)


@script
def nested_ck_two_children(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    x = t.tensor([0.5], requires_grad=True, dtype=t.double)
    (a,) = t.autograd.grad(C(lambda a: C(t.sin, a) + C(t.cos, a) * 2, x).exp(), x, create_graph=True)
    (b,) = t.autograd.grad(a, x)
    return (a, b)


@script
def nested_same_graph(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    n = [0]

    def g(x):
        n[0] += 1
        return x.sin().sin().sin()

    def f(a):
        b = a.exp()
        return C(g, b)

    a = t.tensor([0.5], requires_grad=True, dtype=t.double)
    out = f(a)
    a1 = t.autograd.grad(out, a, retain_graph=True)[0]
    a2 = t.autograd.grad(out, a, retain_graph=True)[0]
    return (a1, a2, n)


@script
def selective_products_have_pytorchs_names(t):
    checkpoint, seen = t.utils.checkpoint, []

    def names(f, *shapes):
        def policy(ctx, op, *args, **kwargs):
            seen.append(str(op))
            return checkpoint.CheckpointPolicy.PREFER_RECOMPUTE

        context = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
        checkpoint.checkpoint(f, *(t.ones(*s, requires_grad=True) for s in shapes), use_reentrant=False,
                              context_fn=context)  # fmt: skip

    for ranks in ([2, 2], [1, 1], [2, 1], [1, 2], [3, 2], [2, 3], [3, 3], [4, 3], [3, 1], [1, 3]):
        names(t.matmul, *([2] * n for n in ranks))
    for shapes in ([[2, 2], [2, 2], [2]], [[3, 2, 2], [2, 2], [2]], [[2, 2], [2, 2]], [[2], [2, 2]]):
        names(t.nn.functional.linear, *shapes)
    return [name for name in seen if name[5:].partition(".")[0] in ("mm", "bmm", "mv", "dot", "addmm")]


@pytest.mark.parametrize("run", SCRIPTS, ids=lambda f: f.__name__)
def test_agrees(run):
    agree(run)
