"""Behaviours of autograd, one small story each: hooks, and backwards inside of them."""

from both import attempt
from story_kit import leaf, said, story


@story
def test_a_hook_counts_and_changes(t):
    x, y = t.ones(2, 2, requires_grad=True), t.full((2, 2), 2.0, requires_grad=True)
    z = x**2 + x * 2 + x * y + y
    counter = [0]

    def bump(inc, g):
        counter[0] += inc

    x.register_hook(lambda g: bump(1, g))
    test = z.register_hook(lambda g: bump(3, g))
    z.backward(t.ones(2, 2), retain_graph=True)
    first = counter[0]
    z.register_hook(lambda g: bump(5, g))
    z.backward(t.ones(2, 2), retain_graph=True)
    second = counter[0]
    test.remove()
    z.backward(t.ones(2, 2), retain_graph=True)
    third = counter[0]
    z.register_hook(lambda g: g * 2)
    y.grad.zero_()
    z.backward(t.ones(2, 2))
    return first, second, third, y.grad, counter


@story
def test_hooks_that_fail(t):
    x = leaf(t)
    y = x * 2

    def fail(g):
        raise ValueError("from the hook")

    y.register_hook(fail)
    return said(y.sum().backward, "from the hook"), x.grad, t.is_grad_enabled()


@story
def test_hooks_on_nodes(t):
    x = leaf(t)
    y = x * 2
    order = []
    y.grad_fn.register_prehook(lambda g: order.append(("pre", g[0].clone())))
    y.grad_fn.register_hook(lambda gi, go: order.append(("post", gi, go)))
    y.register_hook(lambda g: order.append(("tensor", g.clone())))
    y.retain_grad()
    y.sum().backward()
    return order, y.grad


@story
def test_prehooks_replace(t):
    x = leaf(t)
    y = x * 2
    handle = y.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    y.grad_fn.register_prehook(lambda g: (g[0] + 1,))
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    handle.remove()
    y.sum().backward()
    return first, x.grad


@story
def test_hooks_on_the_node_of_a_leaf(t):
    x = leaf(t)
    y = x.view_as(x)
    node = y.grad_fn.next_functions[0][0]
    seen = []
    node.register_prehook(lambda g: (g[0] * 2,))
    node.register_hook(lambda gi, go: seen.append((gi, go)))
    y.sum().backward()
    return x.grad, seen


@story
def test_hooks_must_be_callable(t):
    x = leaf(t)
    return [type(attempt(lambda f=f: f("no"))).__name__ for f in (x.register_hook, (x * 2).grad_fn.register_hook)]


@story
def test_retain_grad_of_every_kind(t):
    x = leaf(t)
    x.retain_grad()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y**2).sum().backward(retain_graph=True)
    first = y.grad.clone(), x.retains_grad, y.retains_grad
    (y**2).sum().backward()
    return (
        first,
        y.grad,
        x.grad,
        said(t.ones(2).retain_grad, "can't retain_grad on Tensor that has requires_grad=False"),
    )


@story
def test_retained_gradients_with_create_graph(t):
    x = leaf(t, 2)
    y = x**2
    y.retain_grad()
    (y**2).backward(create_graph=True)
    return y.grad, y.grad.requires_grad, t.autograd.grad(y.grad, x)


@story
def test_a_post_accumulate_hook_that_optimizes(t):
    torch_params = [t.nn.Parameter(t.full((2,), float(i + 1))) for i in range(3)]
    optims = {p: t.optim.SGD([p], lr=0.1, momentum=0.9) for p in torch_params}

    def step(p):
        optims[p].step()
        optims[p].zero_grad()

    for p in torch_params:
        p.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        sum((p**2).sum() for p in torch_params).backward()
    return [p.detach() for p in torch_params], [p.grad is None for p in torch_params]


@story
def test_post_accumulate_hooks_in_order_and_removed(t):
    x = leaf(t)
    seen = []
    a = x.register_post_accumulate_grad_hook(lambda p: seen.append(("a", p is x, p.grad.clone())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.mul_(2).clone()))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("c", p.grad.clone())))
    (x * 3).sum().backward()
    a.remove()
    (x * 3).sum().backward()
    t.autograd.grad((x * 2).sum(), x)
    refused = said(
        lambda: (x * 2).register_post_accumulate_grad_hook(print), "post accumulate grad hooks cannot be registered"
    )
    return seen, x.grad, refused


@story
def test_handles_are_contexts(t):
    x = leaf(t)
    seen = []
    with x.register_hook(lambda g: seen.append(1)):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    return seen


@story
def test_a_handle_of_hooks(t):
    x = leaf(t)
    h = x.register_hook(lambda g: g * 0)
    r = type(h).__module__.rpartition(".")[2], type(h).__name__, h.id in h.hooks_dict_ref(), len(x._backward_hooks)
    h.remove()
    h.remove()
    return r, len(x._backward_hooks)


@story
def test_multi_grad_hooks(t):
    out = []
    for mode in ("all", "any"):
        x, y, z = leaf(t, 1), leaf(t, 2), leaf(t, 3)
        seen = []
        h = t.autograd.graph.register_multi_grad_hook((x, y, z), lambda g, s=seen: s.append(g), mode=mode)
        (x * y).backward()
        (x * 2).backward()
        (x * y * z).backward()
        h.remove()
        (x * y).backward()
        out.append(seen)
    return out


@story
def test_queued_callbacks(t):
    seen = []
    x = leaf(t)

    def later():
        seen.append("callback")

    def hook(g):
        t.autograd.Variable._execution_engine.queue_callback(later)
        seen.append("hook")

    x.register_hook(hook)
    (x * 2).sum().backward()
    refused = attempt(lambda: t.autograd.Variable._execution_engine.queue_callback(later))
    return seen, refused


@story
def test_a_backward_inside_a_backward(t):
    class Inner(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            with t.enable_grad():
                ctx.y.backward(g)
            return ctx.x.grad

    x = leaf(t)
    Inner.apply(Inner.apply(x)).sum().backward()
    return x.grad


@story
def test_a_deep_backward_inside_backwards(t):
    class Deep(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x = ctx.x - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x < 0:
                return g
            with t.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return g

    v = leaf(t, 60)
    Deep.apply(v).sum().backward()
    return v.grad
