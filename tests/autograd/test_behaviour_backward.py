"""Hooks, gradients that are asked for, and what is saved: scripts that do the same on both libraries."""

import gc
import threading

from function_kit import function, told
from story_kit import story


@story
def test_a_view_made_in_inference_mode_becomes_a_leaf(t):
    x = t.ones(2, 2)
    with t.inference_mode():
        v = x.view(-1)
    v.requires_grad_()
    return (v.sum(), v.is_leaf, v.is_inference())


@story
def test_mark_nondiff_input(t):
    F = function(t, lambda c, x: (c.mark_non_differentiable(x), x)[1], lambda c, g: g)
    x = t.ones(2, requires_grad=True)
    y = F.apply(x)
    return (y.requires_grad, y is x, x.requires_grad)


@story
def test_once_msgs(t):
    F = function(t, lambda c, x: x * 2, t.autograd.function.once_differentiable(lambda c, g: g * 2))
    x = t.ones(2, requires_grad=True)
    y = F.apply(x * x)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return (g.requires_grad, told(lambda: t.autograd.grad((g * x).sum(), x)), g.grad_fn)


@story
def test_saved_for_nongrad(t):
    F = function(
        t,
        lambda c, x, y: (c.save_for_backward(x, y), x * y)[1],
        lambda c, g: (
            g * c.saved_tensors[1] if c.needs_input_grad[0] else None,
            g * c.saved_tensors[0] if c.needs_input_grad[1] else None,
        ),
    )
    x = t.ones(2, requires_grad=True)
    y = t.ones(2)
    F.apply(x, y).sum().backward()
    F.apply(y, x).sum().backward()
    return (x.grad, y.grad)


@story
def test_version_hook(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    z = y * y

    def h(g):
        with t.no_grad():
            y.add_(1)

    z.register_hook(h)
    return told(lambda: z.sum().backward())


@story
def test_hook_errors(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: 3)
    a = told(lambda: y.sum().backward())
    z = x * 2
    z.register_hook(lambda g: g.double())
    b = told(lambda: z.sum().backward())
    w = x * 2
    w.register_hook(lambda g: g[:1])
    c = told(lambda: w.sum().backward())[0]
    return (
        a,
        b,
        c,
        told(lambda: x.register_hook(3) and (x * 2).sum().backward()),
        told(lambda: t.ones(2).register_hook(lambda g: g)),
    )


@story
def test_retain_hooks(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward(retain_graph=True)
    a = y.grad.clone()
    y.sum().backward()
    return (a, y.grad)


@story
def test_post_acc_order(t):
    x = t.ones(2, requires_grad=True)
    r = []
    acc = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_post_accumulate_grad_hook(lambda p: r.append("post_acc"))
    acc.register_hook(lambda a, b: r.append("node_post"))
    acc.register_prehook(lambda a: r.append("node_pre"))
    x.register_hook(lambda g: r.append("tensor"))
    (x * 2).sum().backward()
    return r


@story
def test_grad_none_inputs(t):
    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    z = x * 2
    return (
        told(lambda: t.autograd.grad(z.sum(), (x, y))),
        t.autograd.grad((x * 2).sum(), (x, y), allow_unused=True),
        t.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True),
        told(lambda: t.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True, allow_unused=False)),
        told(lambda: t.autograd.grad(x * 2, x)),
        told(lambda: t.autograd.grad((x * 2).sum(), [])),
        told(lambda: (x * 2).backward()),
        told(lambda: (x * 2).sum().backward(inputs=[])),
        told(lambda: t.ones(2).sum().backward()),
        told(lambda: t.autograd.backward([])),
        told(lambda: (x * 2).backward(t.ones(3))),
        told(lambda: (x * 2).backward(t.ones(2, dtype=t.cfloat))),
        told(lambda: (x * 2).backward(3)),
    )


@story
def test_parallel_create(t):
    x = t.tensor([1.0, 2.0], requires_grad=True, dtype=t.double)
    r = []

    def run():
        (g,) = t.autograd.grad((x**3).sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sum(), x)
        r.append(h.tolist())

    ts = [threading.Thread(target=run) for _ in range(3)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    return r


@story
def test_gradcheck_destructor(t):

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    class Collect:
        def __del__(self):
            gc.collect()

    for _ in range(3):
        D.Collector = Collect()
        x = t.ones(2, requires_grad=True)
        D.apply(x).sum().backward()
    return x.grad


@story
def test_module_hook_kw(t):
    m = t.nn.Linear(2, 2)
    r = []
    m.register_forward_pre_hook(lambda m, a, k: r.append((len(a), sorted(k))), with_kwargs=True)
    m.register_forward_hook(lambda m, a, k, o: r.append(sorted(k)), with_kwargs=True, always_call=True)
    m(input=t.ones(1, 2))
    return r


@story
def test_no_nan_masked(t):
    x = t.tensor([0.0, 1.0], requires_grad=True)
    t.where(x > 0, x.sqrt(), t.zeros(2)).sum().backward()
    return x.grad


@story
def test_checkpoint_cpu_meta(t):
    x = t.ones(2, requires_grad=True, device="meta")
    o = t.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), x, use_reentrant=False)
    o.sum().backward()
    return (str(x.grad.device), tuple(x.grad.shape))


@story
def test_setattr_data(t):
    x = t.ones(2, requires_grad=True)
    y = x * x
    x.data = t.zeros(2)
    e = told(lambda: y.sum().backward())
    return (
        e,
        x.grad,
        x.is_leaf,
        x._version,
        told(lambda: setattr(x, "data", t.ones(2, dtype=t.int64))),
        told(lambda: setattr(x, "data", 3)),
        told(lambda: setattr(x, "data", t.ones(3))),
    )


@story
def test_gradgrad_custom_setup(t):
    F = function(
        t,
        lambda x: (x**3, 3 * x**2),
        lambda c, g, gi: g * c.saved_tensors[1] + gi * 6 * c.saved_tensors[0],
        lambda c, i, o: c.save_for_backward(i[0], o[1]),
    )
    x = t.tensor([1.0, 2.0], dtype=t.double, requires_grad=True)
    return (t.autograd.gradcheck(F.apply, x), t.autograd.gradgradcheck(F.apply, x))


@story
def test_module_param_reuse_graph(t):
    m = t.nn.Linear(2, 2)
    x = t.ones(1, 2)
    with t.no_grad():
        m.weight.fill_(0.5)
    o = m(x)
    with t.no_grad():
        m.weight.add_(1)
    return (told(lambda: o.sum().backward()), m.weight._version)
