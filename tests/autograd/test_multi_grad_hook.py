"""Hooks over several tensors, callbacks at the end of a backward, and Variable."""

import pytest
from both import agree, attempt
from story_kit import leaf, said, story, warned


def register(t, tensors, fn, **options):
    return t.autograd.graph.register_multi_grad_hook(tensors, fn, **options)


def four(t):
    return leaf(t), leaf(t, 4, 5, 6), leaf(t, 7, 8, 9), leaf(t)


def copies(grads):
    return [None if g is None else g.clone() for g in grads]


# -- register_multi_grad_hook --------------------------------------------------------------------------


@story
def test_called_once_per_backward(t):
    a, b, c, d = four(t)
    log = []
    handle = register(t, (a, b, c, d), lambda grads: log.append((type(grads).__name__, copies(grads))))
    y = a * b
    for total in (y.sum() * 2, (y * c).sum(), (y * c * d).sum(), d.sum()):
        total.backward(retain_graph=True)
        log.append("backward")
    handle.remove()
    a.sum().backward()
    return log


@story
def test_mode_any(t):
    a, b, c, d = four(t)
    log = []
    handle = register(t, (a, b, c), lambda g: log.append(g.clone()), mode="any")
    (a * b * 2).sum().backward()
    (c * 3).sum().backward()
    d.sum().backward()
    t.autograd.grad((a * c).sum(), [a, c])
    handle.remove()
    a.sum().backward()
    return log


@pytest.mark.parametrize("mode", ["all", "any"])
def test_what_the_hook_returns_is_ignored(mode):
    def f(t):
        a = leaf(t)
        register(t, (a,), lambda g: 5 if mode == "any" else [5], mode=mode)
        (a * 2).sum().backward()
        return a.grad

    agree(f)


@story
def test_inner_tensors(t):
    a, b, _, _ = four(t)
    x = a * b
    y, z, log = x * 2, x * 3, []
    register(t, (y, z, x), lambda grads: log.append(copies(grads)))
    y.sum().backward(retain_graph=True)
    z.sum().backward(retain_graph=True)
    (y + z).sum().backward(retain_graph=True)
    t.autograd.grad(y.sum(), x, retain_graph=True)
    t.autograd.grad(y.sum(), y, retain_graph=True)
    z.sum().backward(inputs=[a], retain_graph=True)
    return log


@story
def test_two_outputs_of_one_node(t):
    a, log = leaf(t), []
    u, v, w = a.unbind()
    register(t, (u, v), lambda grads: log.append(copies(grads)))
    (u * v).backward(retain_graph=True)
    return log, a.grad


@story
def test_one_tensor_twice(t):
    a, log = leaf(t), []
    register(t, (a, a), lambda grads: log.append(copies(grads)))
    a.sum().backward()
    return log


@story
def test_a_tensor_changed_in_place_afterwards(t):
    a, log = leaf(t), []
    x = a * 1
    register(t, (x,), lambda grads: log.append(copies(grads)))
    x.mul_(3)
    x.sum().backward()
    return log, a.grad


@pytest.mark.parametrize("mode", ["all", "any"])
def test_an_error_in_the_hook(mode):
    def f(t):
        a, b, _, _ = four(t)
        log = []

        def hook(grads):
            log.append(1)
            raise ValueError("hook")

        register(t, (a, b), hook, mode=mode)
        return said(lambda: (a * b).sum().backward()), said(lambda: (a * b).sum().backward()), log

    agree(f)


@story
def test_a_backward_within_the_hook(t):
    a, b, _, _ = four(t)
    log = []

    def hook(grads):
        log.append(copies(grads))
        if len(log) < 3:
            with t.enable_grad():
                (a * b * len(log)).sum().backward()

    register(t, (a, b), hook)
    (a * b).sum().backward()
    return log, a.grad, b.grad


def test_a_backward_between_two_arrivals():
    import torchlike as t  # PyTorch forgets the outer backward

    a, b, c, _ = four(t)
    log, once = [], []
    register(t, (a, c), lambda grads: log.append([None if g is None else g.tolist() for g in grads]))
    y = a * b

    def hook(g):
        if not once:
            once.append(1)
            with t.enable_grad():
                (a * 7).sum().backward()

    y.register_hook(hook)
    (y * c).sum().backward()
    assert log == [[[7, 7, 7], None], [[28, 40, 54], [4, 10, 18]]]


@story
def test_a_leaf_frozen_since(t):
    a, b, _, _ = four(t)
    log = []
    register(t, (a, b), lambda grads: log.append(copies(grads)))
    b.requires_grad_(False)
    (a * b).sum().backward()
    return log


@story
def test_the_handle(t):
    a, log = leaf(t), []
    with register(t, (a,), lambda grads: log.append(1)):
        a.sum().backward()
    a.sum().backward()

    def hook(grads):
        log.append(2)
        handle.remove()

    handle = register(t, (a,), hook)
    a.sum().backward()
    a.sum().backward()
    handle.remove()
    return log


@story
def test_gradients_with_history(t):
    a, log = leaf(t), []
    x = a * 1
    register(t, (x,), lambda grads: log.append(grads[0].requires_grad))
    t.autograd.grad((x**3).sum(), a, create_graph=True)
    (x**3).sum().backward()
    return log


@story
def test_what_it_wants(t):
    a, plain = leaf(t), t.ones(2)
    f = len
    return (said(lambda: register(t, (a,), f, mode="one"), "Expects mode to be one of"),
            attempt(lambda: register(t, (a,), f, "all")), said(lambda: register(t, (a, plain), f)),
            attempt(lambda: register(t, (a, 3), f)), type(register(t, (plain, a), f, mode="any")).__name__,
            type(register(t, (), f)).__name__)  # fmt: skip


# -- callbacks -----------------------------------------------------------------------------------------


def queue(t, callback):
    t.autograd.Variable._execution_engine.queue_callback(callback)


@story
def test_a_callback_runs_when_all_is_done(t):
    a, log = leaf(t), []

    def hook(g):
        queue(t, lambda: log.append(("callback", a.grad.clone())))
        log.append("hook")

    a.register_hook(hook)
    (a * 2).sum().backward()
    return log, a.grad


@story
def test_callbacks_in_order(t):
    a, log = leaf(t), []
    x = a * 2
    x.register_hook(lambda g: queue(t, lambda: log.append("x")))
    a.register_hook(lambda g: (queue(t, lambda: log.append("a")), queue(t, lambda: log.append("b")))[:0] or None)
    x.sum().backward()
    return log


@story
def test_a_callback_may_queue_another(t):
    a, log = leaf(t), []

    def first():
        log.append(t.is_grad_enabled())
        queue(t, lambda: log.append("second"))

    a.register_hook(lambda g: queue(t, first))
    a.sum().backward()
    return log, t.is_grad_enabled()


@story
def test_no_callback_outside(t):
    return said(lambda: queue(t, lambda: None), "Final callbacks can only be installed during backward pass")


@story
def test_an_error_in_a_callback(t):
    a, log = leaf(t), []

    def failing():
        raise ValueError("callback")

    handle = a.register_hook(lambda g: (queue(t, failing), queue(t, lambda: log.append(1)))[:0] or None)
    error = said(lambda: (a * 2).sum().backward())
    handle.remove()
    (a * 3).sum().backward()
    return error, log, a.grad


@story
def test_callbacks_of_a_backward_that_failed(t):
    a, log = leaf(t), []

    def hook(g):
        queue(t, lambda: log.append(1))
        raise KeyError("hook")

    handle = a.register_hook(hook)
    error = said(lambda: a.sum().backward())
    handle.remove()
    (a * 2).sum().backward()
    return error, log, a.grad


@story
def test_callbacks_of_a_backward_within_a_backward(t):
    a, b, log = leaf(t), leaf(t), []

    def inner(g):
        queue(t, lambda: log.append("inner callback"))
        log.append("inner hook")

    def outer(g):
        with t.enable_grad():
            (b * 2).sum().backward()
        log.append("inner backward")
        queue(t, lambda: log.append("outer callback"))

    b.register_hook(inner)
    a.register_hook(outer)
    (a * 2).sum().backward()
    return log


# -- Variable ------------------------------------------------------------------------------------------


@story
def test_variable(t):
    make = t.autograd.Variable
    x, p = t.ones(2), t.nn.Parameter(t.ones(2))
    v = make(x, requires_grad=True)
    seen = [v.requires_grad, x.requires_grad, make(x, True).requires_grad, make(x).requires_grad, make(p).requires_grad,
            type(v) is type(make(p)) is t.Tensor, isinstance(x, make), isinstance(p, make), isinstance(3, make),
            t.autograd.variable.Variable is make, make(p * 2).is_leaf, make(x, 1).requires_grad]  # fmt: skip
    w = make(x)
    w.add_(1)
    return seen, x, x._version, w._version, make()


@pytest.mark.parametrize("arguments", [(3.0,), ([1.0],), ("a",)])
def test_variable_of_something_else(arguments):
    agree(lambda t: said(lambda: t.autograd.Variable(*arguments), "Variable data has to be a tensor, but got"))


@story
def test_what_variable_wants(t):
    x, make = t.ones(2), t.autograd.Variable
    why = "volatile was removed and now has no effect"
    return (attempt(lambda: make(x, None)), attempt(lambda: make(x, "a")), attempt(lambda: make(x, True, True)),
            attempt(lambda: make(x.long(), True)), warned(lambda: make(x, volatile=True), why))  # fmt: skip
