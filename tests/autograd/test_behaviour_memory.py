"""Behaviours of autograd around lifetimes: what dies without the garbage collector, and what keeps its identity."""

import contextlib
import gc
import weakref

from both import agree, attempt
from story_kit import leaf, story


@contextlib.contextmanager
def no_collection():
    """The garbage collector is off: what dies here dies by its reference count."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Marker:
    """Something that can be referred to weakly."""


def lives(f):
    """A test that ``f(t)``, which returns weak references, leaves the same ones alive on both libraries."""

    def told(t):
        with no_collection():
            kept, refs = f(t)
            return [r() is not None for r in refs]

    def test():
        agree(told)

    test.__name__, test.__doc__ = f.__name__, f.__doc__
    return test


def mark(node):
    """A weak reference to something that lives as long as the node."""
    marker = node.metadata["marker"] = Marker()
    return weakref.ref(marker)


@lives
def test_a_graph_dies_with_its_result(t):
    x = leaf(t)
    y = x.exp()
    z = y * 2
    refs = [mark(y.grad_fn), mark(z.grad_fn), weakref.ref(y)]
    del y, z
    return x, refs


@lives
def test_a_graph_lives_with_its_result(t):
    x = leaf(t)
    y = x.exp()
    z = y * 2
    refs = [mark(y.grad_fn), weakref.ref(y)]
    del x
    return z, refs


@lives
def test_a_leaf_lives_with_the_graph(t):
    x = leaf(t)
    ref = weakref.ref(x)
    z = x + 1
    del x
    return z, [ref]


@lives
def test_a_leaf_lives_with_a_node(t):
    x = leaf(t)
    node = (x + 1).grad_fn
    refs = [weakref.ref(x), mark(node)]
    del x
    return node, refs


@lives
def test_a_leaf_and_its_gradient_die(t):
    x = leaf(t)
    (x * 2).sum().backward()
    refs = [weakref.ref(x), weakref.ref(x.grad)]
    del x
    return None, refs


@lives
def test_create_graph_makes_a_cycle_and_grad_does_not(t):
    x, y = leaf(t), leaf(t)
    (x**2).sum().backward(create_graph=True)
    (g,) = t.autograd.grad((y**2).sum(), y, create_graph=True)
    refs = [weakref.ref(x), weakref.ref(y), weakref.ref(g)]
    del x, y, g
    return None, refs


@lives
def test_a_cycle_broken_by_forgetting_the_gradient(t):
    x = leaf(t)
    (x**2).sum().backward(create_graph=True)
    x.grad = None
    ref = weakref.ref(x)
    del x
    return None, [ref]


@lives
def test_retained_gradients_die(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    refs = [weakref.ref(y), weakref.ref(y.grad), mark(y.grad_fn)]
    del y
    return x, refs


@lives
def test_retain_grad_does_not_keep_the_tensor(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    ref = weakref.ref(y)
    z = y + 1
    del y
    z.sum().backward()
    return x, [ref]


@lives
def test_hooks_die_with_what_they_are_on(t):
    x = leaf(t)
    y = x * 2

    def hooked(f):
        m = Marker()
        f(lambda *a: m and None)
        return weakref.ref(m)

    refs = [hooked(f) for f in (y.register_hook, y.grad_fn.register_hook, y.grad_fn.register_prehook)]
    kept = [hooked(f) for f in (x.register_hook, x.register_post_accumulate_grad_hook)]
    del y
    return x, refs + kept


@lives
def test_hooks_of_leaves_die_with_the_leaf(t):
    x = leaf(t)

    def hooked(f):
        m = Marker()
        f(lambda *a: m and None)
        return weakref.ref(m)

    refs = [hooked(f) for f in (x.register_hook, x.register_post_accumulate_grad_hook)]
    (x * 2).sum().backward()
    del x
    return None, refs


@lives
def test_a_removed_hook_dies(t):
    x = leaf(t)
    m = Marker()
    handle = x.register_hook(lambda g, m=m: None)
    ref = weakref.ref(m)
    del m
    handle.remove()
    return (x, handle), [ref]


@lives
def test_a_handle_does_not_keep_the_tensor(t):
    x = leaf(t)
    y = x * 2
    handle = y.register_hook(lambda g: None)
    refs = [weakref.ref(y), mark(y.grad_fn)]
    del y
    return handle, refs


@lives
def test_a_post_accumulate_hook_that_names_its_tensor(t):
    x = leaf(t)
    x.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    (x * 2).sum().backward()
    ref = weakref.ref(x)
    del x
    return None, [ref]


@lives
def test_a_saved_result_is_no_cycle(t):
    x = leaf(t)
    outs = [x.exp(), x.tanh(), x.sigmoid(), x.sqrt(), x.softmax(0), x.cumprod(0), x.norm(), x.max(), x.prod()]
    refs = [weakref.ref(y) for y in outs] + [mark(y.grad_fn) for y in outs]
    outs.clear()
    del x
    return None, refs


@lives
def test_changes_in_place_make_no_cycle(t):
    x = leaf(t)
    a, b, c = x.clone(), x.clone(), x.clone()
    a.exp_()
    b[1:].mul_(2)
    v = c.view(3, 1)
    v.sigmoid_()
    refs = [weakref.ref(y) for y in (a, b, c, v)] + [mark(y.grad_fn) for y in (a, b, c)]
    del a, b, c, v
    return x, refs


@lives
def test_a_view_keeps_its_base(t):
    x = leaf(t)
    b = x * 2
    v = b[1:]
    refs = [weakref.ref(b)]
    del b
    return v, refs


@lives
def test_a_base_does_not_keep_its_views(t):
    x = leaf(t)
    b = x * 2
    v = b[1:]
    v.mul_(2)
    refs = [weakref.ref(v)]
    del v
    return b, refs


@lives
def test_backward_frees_what_was_saved(t):
    x = leaf(t)
    a = x * 1
    y = a.exp().sin()
    ref = weakref.ref(a)
    del a
    y.sum().backward()
    return (x, y), [ref]


@lives
def test_a_packed_object_is_freed_by_backward(t):
    refs = []

    def pack(saved):
        m = Marker()
        m.saved = saved.detach().clone()
        refs.append(weakref.ref(m))
        return m

    x = leaf(t)
    with t.autograd.graph.saved_tensors_hooks(pack, lambda m: m.saved):
        a = x**2
        b = x.exp()
    a.sum().backward()
    b.sum().backward(retain_graph=True)
    return (x, a, b), refs


@lives
def test_custom_functions_die(t):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.marker = Marker()
            refs.append(weakref.ref(ctx.marker))
            y = x * 2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    refs = []
    x = leaf(t)
    kept = Double.apply(x)
    Double.apply(x)
    Double.apply(x).sum().backward()
    refs.append(weakref.ref(Double.apply(x).grad_fn))
    return kept, refs


@lives
def test_an_error_in_backward_leaves_nothing(t):
    x = leaf(t)
    y = x * 2
    m = Marker()

    def fail(g, m=m):
        raise ValueError("x")

    y.register_hook(fail)
    refs = [weakref.ref(y), weakref.ref(m)]
    attempt(y.sum().backward)
    del y, m, fail
    gc.collect()  # the traceback of the error is a cycle of Python's own
    return x, refs


@lives
def test_an_accumulator_dies_with_its_graph(t):
    x = leaf(t)
    y = x * 2
    refs = [mark(y.grad_fn.next_functions[0][0])]
    del y
    return x, refs


@lives
def test_multi_grad_hooks_die(t):
    x, y = leaf(t), leaf(t)
    m = Marker()
    h = t.autograd.graph.register_multi_grad_hook((x, y), lambda g, m=m: None)
    ref = weakref.ref(m)
    del m
    (x * y).sum().backward()
    h.remove()
    del h
    return (x, y), [ref]


@lives
def test_gradient_edges_keep_the_graph_and_not_the_tensor(t):
    x = leaf(t)
    y = x * 2
    edge = t.autograd.graph.get_gradient_edge(y)
    refs = [weakref.ref(y), mark(y.grad_fn)]
    del y
    return edge, refs


@lives
def test_modules_and_optimizers_die(t):
    m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU(), t.nn.Linear(2, 1))
    o = t.optim.Adam(m.parameters())
    m(t.ones(1, 2)).sum().backward()
    o.step()
    refs = [weakref.ref(p) for p in m.parameters()]
    del o, m
    gc.collect()
    return None, refs


@lives
def test_grad_modes_and_contexts_keep_nothing(t):
    x = leaf(t)
    with t.no_grad():
        a = x * 2
    with t.inference_mode():
        b = x * 2
    with t.autograd.detect_anomaly(check_nan=False):
        c = x.exp()
    refs = [weakref.ref(v) for v in (a, b, c)]
    del a, b, c
    return x, refs


@story
def test_attributes_of_tensors_survive_with_the_tensor(t):
    x = leaf(t)
    x.note = "kept"
    node = (x * 2).grad_fn.next_functions[0][0]
    i = id(x)
    del x
    gc.collect()
    y = node.variable
    return y.note, id(y) == i


@story
def test_metadata_survives_while_the_graph_lives(t):
    x = leaf(t)
    y = x * 2
    y.grad_fn.metadata["k"] = 5
    z = y + 1
    del y
    gc.collect()
    return z.grad_fn.next_functions[0][0].metadata


@story
def test_a_saved_input_is_the_tensor_itself(t):
    x = leaf(t)
    a = x * 1
    a.note = 3
    y = a * a
    e = a.exp()
    return (
        y.grad_fn._saved_self is a,
        y.grad_fn._saved_self.note,
        e.grad_fn._saved_result is e,
        e.grad_fn._saved_result.grad_fn is e.grad_fn,
    )
