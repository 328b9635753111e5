"""Hooks of nodes and graphs, saved tensors: scripts that do the same on both libraries."""

from function_kit import function, told
from story_kit import story


@story
def test_multi_grad_hook_any(t):
    t1 = t.ones(2, requires_grad=True)
    t2 = t.ones(2, requires_grad=True)
    t3 = t.ones(2, requires_grad=True)
    r = []
    h = t.autograd.graph.register_multi_grad_hook((t2, t3, t1), lambda g: r.append(g), mode="any")
    (t1 * t2 * 3).sum().backward()
    a = len(r)
    (t3 * 2).sum().backward()
    b = len(r)
    (t3 * 2).sum().backward()
    h.remove()
    (t1 * t2).sum().backward()
    return (a, b, r)


@story
def test_multi_grad_hook_err(t):
    t1 = t.ones(2, requires_grad=True)
    t2 = t.ones(2, requires_grad=True)

    def bad(g):
        raise RuntimeError("err")

    h = t.autograd.graph.register_multi_grad_hook((t1, t2), bad)
    e = told(lambda: (t1 * t2).sum().backward())
    h.remove()
    (t1 * t2).sum().backward()
    return (e, t1.grad)


@story
def test_multi_grad_hook_sametensor(t):
    t1 = t.ones(2, requires_grad=True)
    r = []
    t.autograd.graph.register_multi_grad_hook((t1, t1), lambda g: r.append(g))
    (t1 * 2).sum().backward()
    return r


@story
def test_gradient_edges(t):
    a = t.ones(2, requires_grad=True)
    b = a * 2
    c = b.exp()
    e = t.autograd.graph.get_gradient_edge(b)
    r = [e.node.name(), e.output_nr, type(e).__name__, len(e)]
    g1 = t.autograd.grad(c.sum(), e, retain_graph=True)[0]
    r.append(g1)
    ec = t.autograd.graph.get_gradient_edge(c)
    r.append(t.autograd.grad(ec, (e, a), grad_outputs=(t.ones(2),), retain_graph=True))
    r.append(told(lambda: t.autograd.grad(ec, a)))
    c.sum().backward(retain_graph=True, inputs=[a])
    r.append(a.grad)
    r.append(told(lambda: c.sum().backward(retain_graph=True, inputs=[e])))
    t.autograd.backward(ec, t.ones(2), retain_graph=True)
    r.append(a.grad)
    t.autograd.backward((ec, c), (t.ones(2), t.ones(2)))
    r.append(a.grad)
    r.append(told(lambda: t.autograd.graph.get_gradient_edge(t.ones(2))))
    r.append(t.autograd.graph.get_gradient_edge(a).node.name())
    return r


@story
def test_edges_multi(t):
    x = t.arange(4.0, requires_grad=True)
    a, b = x.exp().chunk(2)
    e = t.autograd.graph.get_gradient_edge(b)
    return (e.output_nr, e.node.name(), t.autograd.grad(a.sum() + b.sum() * 2, e)[0])


@story
def test_edge_tensor_metadata_after_inplace(t):
    x = t.ones(2, requires_grad=True)
    y = x.clone()
    e = t.autograd.graph.get_gradient_edge(y)
    y.mul_(2)
    return [e.node.name(), t.autograd.graph.get_gradient_edge(y).node.name(), t.autograd.grad(y.sum(), (e, y))]


@story
def test_node_isinstance(t):
    x = t.ones(2, requires_grad=True)
    N = t.autograd.graph.Node

    class Fn(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    return (
        isinstance((x * 2).grad_fn, N),
        isinstance(Fn.apply(x).grad_fn, N),
        issubclass(type((x * 2).grad_fn), N),
        isinstance((x.sum() + 1).grad_fn.next_functions[0][0], N),
        isinstance(None, N),
        isinstance(1, N),
        isinstance(x.view_as(x).grad_fn.next_functions[0][0], N),
        x.view_as(x).grad_fn.next_functions[0][0].variable is x,
    )


@story
def test_node_hooks(t):
    x = t.ones(2, requires_grad=True)
    y = x * x
    r = []
    h1 = y.grad_fn.register_prehook(lambda go: r.append(("pre", go)) or (go[0] * 2,))
    h2 = y.grad_fn.register_hook(lambda gi, go: (r.append(("post", gi, go)), None)[1])
    y.sum().backward(retain_graph=True)
    h1.remove()
    h2.remove()
    y.sum().backward()
    return (r, x.grad)


@story
def test_node_hook_ret(t):
    x = t.ones(2, requires_grad=True)
    y = x * x
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, gi[1]))
    e = []
    y.sum().backward()
    z = x * 3
    z.grad_fn.register_prehook(lambda g: (g[0], g[0]))
    e.append(told(lambda: z.sum().backward()))
    w = x * 3
    w.grad_fn.register_hook(lambda gi, go: (1,))
    e.append(told(lambda: w.sum().backward())[0])
    return (x.grad, e)


@story
def test_node_hook_on_acc(t):
    x = t.ones(2, requires_grad=True)
    acc = x.view_as(x).grad_fn.next_functions[0][0]
    r = []
    acc.register_hook(lambda gi, go: r.append(("post", gi, go, x.grad)))
    acc.register_prehook(lambda g: r.append(("pre", g)))
    (x * 2).sum().backward()
    return (r, acc.name(), acc.next_functions)


@story
def test_internal_taskid(t):
    r = []
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: r.append(t._C._current_graph_task_id()))
    a = t._C._current_graph_task_id()
    y.sum().backward()
    return (a, r[0] >= 0, t._C._current_graph_task_id())


@story
def test_internal_node(t):
    r = []
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(lambda g: r.append(t._C._current_autograd_node() is y.grad_fn))
    a = t._C._current_autograd_node()
    y.sum().backward()
    return (a, r)


@story
def test_internal_misc(t):
    t._C._set_grad_enabled(False)
    a = t.is_grad_enabled()
    t._C._set_grad_enabled(True)
    return (
        a,
        t._C._autograd is not None,
        t._C._is_multithreading_enabled(),
    )


@story
def test_saved_basic(t):
    r = []

    def p(x):
        r.append(("p", x))
        return x

    def u(x):
        r.append(("u", x))
        return x

    a = t.ones(5, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(p, u):
        y = a * a
    y.sum().backward()
    return (len(r), a.grad)


@story
def test_saved_scaled(t):
    a = t.ones(5, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x):
        y = a * a
    y.sum().backward()
    return a.grad


@story
def test_saved_nested(t):
    a = t.ones(5, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(lambda x: 2 * x, lambda x: x / 2):
        with t.autograd.graph.saved_tensors_hooks(lambda x: 2 * x, lambda x: x):
            y = a * a
        z = a * a
    y.sum().backward()
    g = a.grad.clone()
    a.grad = None
    z.sum().backward()
    return (g, a.grad)


@story
def test_saved_double(t):
    a = t.tensor([1.0, 2.0], requires_grad=True, dtype=t.float64)
    with t.autograd.graph.saved_tensors_hooks(lambda x: 2 * x, lambda x: x / 2):
        y = a**3
        (g,) = t.autograd.grad(y.sum(), a, create_graph=True)
        (g2,) = t.autograd.grad(g.sum(), a, create_graph=True)
    return (g, g2)


@story
def test_disable_hooks(t):
    def f():
        with t.autograd.graph.disable_saved_tensors_hooks("nope"):
            with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
                pass

    def g():
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            with t.autograd.graph.disable_saved_tensors_hooks("nope"):
                pass

    def h():
        with t.autograd.graph.disable_saved_tensors_hooks("a"):
            with t.autograd.graph.disable_saved_tensors_hooks("b"):
                try:
                    with t.autograd.graph.save_on_cpu():
                        pass
                except RuntimeError as e:
                    x = str(e)
            try:
                with t.autograd.graph.save_on_cpu():
                    pass
            except RuntimeError as e:
                return (x, str(e))

    return (told(f), told(g), told(h))


@story
def test_custom_error(t):

    class E(Exception):
        pass

    def bad(x):
        raise E("x")

    a = t.ones(2, requires_grad=True)

    def f():
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, bad):
            y = a * a
        y.sum().backward()

    def g():
        with t.autograd.graph.saved_tensors_hooks(bad, lambda x: x):
            a * a

    return (told(f)[0], told(g)[0])


@story
def test_unpack_count(t):
    n = [0, 0]

    def p(x):
        n[0] += 1
        return x

    def u(x):
        n[1] += 1
        return x

    a = t.ones(2, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(p, u):
        y = a * a * a.exp()
    r = [list(n)]
    t.autograd.grad(y.sum(), a, retain_graph=True)
    r.append(list(n))
    t.autograd.grad(y.sum(), a, create_graph=True)
    r.append(list(n))
    return r


@story
def test_save_on_cpu(t):
    a = t.ones(3, requires_grad=True, dtype=t.float64)
    with t.autograd.graph.save_on_cpu():
        y = (a**2).sin()
    y.sum().backward()
    return a.grad


@story
def test_intermediates(t):

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            i = x.exp()
            ctx.save_for_backward(x.clone().detach_().requires_grad_(x.requires_grad), i)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            x, o = ctx.saved_tensors
            return g * o + g * x

    n = [0]

    def p(x):
        n[0] += 1
        return x

    a = t.ones(3, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(p, lambda x: x):
        y = F.apply(a)
    y.sum().backward()
    return (n, a.grad)


@story
def test_raw_saved_tensors(t):

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x + 1, None)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    a = t.ones(2, requires_grad=True)
    y = F.apply(a)
    rs = y.grad_fn._raw_saved_tensors
    rs[0].register_hooks(lambda x: x * 3, lambda x: x * 2)
    e = told(lambda: [type(z).__name__ for z in rs])
    y.sum().backward()
    return (e, a.grad, told(lambda: y.grad_fn._raw_saved_tensors))


@story
def test_mutation_nested(t):

    def f():
        with t.autograd.graph.allow_mutation_on_saved_tensors():
            with t.autograd.graph.allow_mutation_on_saved_tensors():
                pass

    return told(f)


@story
def test_multithreading_ctx(t):
    A = t.autograd
    r = []
    with A.set_multithreading_enabled(False):
        r.append(
            A.is_multithreading_enabled()
            if hasattr(A, "is_multithreading_enabled")
            else t._C._is_multithreading_enabled()
        )
    A.set_multithreading_enabled(False)
    x = t.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    A.set_multithreading_enabled(True)
    r.append(x.grad)
    return r


@story
def test_hook_ctx_mgr(t):
    x = t.ones(2, requires_grad=True)
    with t.autograd.graph.register_multi_grad_hook((x,), lambda g: None):
        (x * 2).sum().backward()
    return x.grad


@story
def test_internal_will_execute(t):
    r = []
    x, z = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    y = x * z
    w = y.exp()
    leaves = [v.view_as(v).grad_fn.next_functions[0][0] for v in (x, z)]
    will = t._C._will_engine_execute_node
    y.register_hook(lambda g: r.append([told(lambda n=n: will(n)) for n in (*leaves, y.grad_fn, w.grad_fn, 3, x)]))
    w.sum().backward(retain_graph=True)
    w.sum().backward(inputs=[z], retain_graph=True)
    t.autograd.grad(w.sum(), x, retain_graph=True)
    t.autograd.grad(w.sum(), y)
    return r, told(lambda: will(leaves[0]))


@story
def test_internal_execution_order(t):
    order = t._C._current_graph_task_execution_order
    r = []
    with t.autograd.set_multithreading_enabled(False):
        x, z = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        c = ((x * 2) * (z * 3)).exp().sum()
        c.register_hook(lambda g: r.append([n.name() for n in order()]))
        c.backward(retain_graph=True)
        c.backward(inputs=[x], retain_graph=True)
        t.autograd.grad(c, x)
    return r, told(order)


@story
def test_internal_order_wants_one_thread(t):
    x = t.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: t._C._current_graph_task_execution_order())
    return told(y.backward)[1][:99]


@story
def test_internal_ids_of_nested_backwards(t):
    r = []

    def note():
        r.append((t._C._current_graph_task_id() - first, t._C._current_autograd_node().name().split(":")[-1]))

    def backward(ctx, g):
        note()
        with t.enable_grad():
            v = t.ones(1, requires_grad=True) * 2
            v.register_hook(lambda g: note())
            v.sum().backward()
        note()
        return g

    x = t.ones(1, requires_grad=True)
    ids = []
    x.register_hook(lambda g: ids.append(t._C._current_graph_task_id()))
    (x * 1).backward()
    first = ids[0]
    x.register_hook(lambda g: note())
    function(t, lambda ctx, a: a * 1, backward).apply(x).backward()
    return r, t._C._current_graph_task_id(), t._C._current_autograd_node()


@story
def test_internal_saved_tensor_switches(t):
    A = t._C._autograd
    a = A._saved_tensors_hooks_is_enabled()
    A._saved_tensors_hooks_disable("no")
    b = A._saved_tensors_hooks_is_enabled(), A._saved_tensors_hooks_get_disabled_error_message()
    c = told(lambda: A._push_saved_tensors_default_hooks(lambda x: x, lambda x: x))
    A._saved_tensors_hooks_enable()
    A._push_saved_tensors_default_hooks(lambda x: x * 2, lambda x: x)
    x = t.ones(1, requires_grad=True)
    y = x**2
    A._pop_saved_tensors_default_hooks()
    y.backward()
    v = t.ones(2)
    v.add_(1)
    A._unsafe_set_version_counter((v,), (7,))
    return a, b, c, x.grad, A._saved_tensors_hooks_get_disabled_error_message(), v._version
