"""Checkpoints within checkpoints, selective ones, hooks and errors in them: the same on both libraries."""

import collections
import functools

from function_kit import told
from story_kit import story


@story
def test_checkpoint_nested(t):
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


@story
def test_checkpoint_nested_reentrant_inner(t):
    C = t.utils.checkpoint.checkpoint
    x = t.tensor([1.0, 2.0], requires_grad=True)
    o = C(lambda x: C(lambda y: y.sin(), x, use_reentrant=True) * x, x, use_reentrant=False)
    o.sum().backward()
    return x.grad


@story
def test_checkpoint_nested_kwargs(t):
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


@story
def test_checkpoint_stop_nested(t):
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


@story
def test_selective_once(t):
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


@story
def test_selective_mutate(t):
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


@story
def test_checkpoint_hooks_inside(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []

    def f(a):
        b = a.exp()
        b.register_hook(lambda g: r.append(g))
        return b.sin()

    C(f, x, use_reentrant=False).sum().backward()
    return (r, x.grad)


@story
def test_checkpoint_hooks_inside_re(t):
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


@story
def test_checkpoint_saved_hooks_outer(t):
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


@story
def test_checkpoint_save_on_cpu(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    with t.autograd.graph.save_on_cpu():
        o = C(lambda a: a.exp().sin(), x, use_reentrant=False)
    o.sum().backward()
    return x.grad


@story
def test_checkpoint_error_in_fn(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)

    def f(a):
        raise ValueError("boom")

    return (
        [told(lambda u=u: C(f, x, use_reentrant=u)) for u in (True, False)],
        t.is_grad_enabled(),
        C(lambda a: a * 2, x, use_reentrant=False).grad_fn,
    )


@story
def test_checkpoint_error_recompute(t):
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


@story
def test_checkpoint_saved_identity(t):
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


@story
def test_nested_ck_two_children(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    x = t.tensor([0.5], requires_grad=True, dtype=t.double)
    (a,) = t.autograd.grad(C(lambda a: C(t.sin, a) + C(t.cos, a) * 2, x).exp(), x, create_graph=True)
    (b,) = t.autograd.grad(a, x)
    return (a, b)


@story
def test_nested_same_graph(t):
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


@story
def test_selective_products_have_pytorchs_names(t):
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
