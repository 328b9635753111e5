"""Bodies of control flow that use what is outside: gradients, numbers of this call, threads, failures."""

import functools
import threading

import pytest
import torch as pytorch
from bodies_kit import CAPTURED, KINDS, flow
from both import agree, plain

import torchlike
from torchlike.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.*lru_cache")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    yield
    pytorch._dynamo.reset()


# -- gradients of what is outside --------------------------------------------------------------------------------
def leaf(t, *values):
    return t.tensor([float(v) for v in values], dtype=t.float64, requires_grad=True)


def made_of_another(t):
    w = leaf(t, 3, 4)
    h = w * 2
    return lambda a: a * w * h, (w, h)


def made_of_another_and_left_out(t):
    w = leaf(t, 3, 4)
    h = w.sin()
    return lambda a: a * h + h, (w, h)


def a_view_and_its_base(t):
    w = leaf(t, 3, 4, 5)
    v = w[1:]
    return lambda a: a * v * w[:2] + v, (w, v)


def with_constants(t):
    """jax 0.10 counts gradients twice for such a function, unless it is helped."""
    w = leaf(t, 3, 4, 5)
    return lambda a: a * w.sum() * 2.5 + (a * w[0]).clamp(min=0.5), (w,)


def a_view_whose_base_was_changed(t):
    w = leaf(t, 3, 4, 5)
    b = w * 1
    v = b[1:]
    b.mul_(2)
    return lambda a: a * v + b[:2], (w,)


def two_leaves_over_one_memory(t):
    w = leaf(t, 3, 4)
    v = w.detach().requires_grad_()
    return lambda a: a * w * v.sin(), (w, v)


def transposed(t):
    w = leaf(t, 1, 2, 3, 4)
    m = w.view(2, 2).t()
    return lambda a: (m * a) @ a, (w,)


def detached(t):
    w = leaf(t, 3, 4)
    return lambda a: a * w.detach() * w, (w,)


def a_leaf_with_a_hook(t):
    w = leaf(t, 3, 4)
    w.register_hook(lambda g: g * 10)
    return lambda a: a * w, (w,)


def a_hook_within(t):
    w = leaf(t, 3, 4)

    def body(a):
        b = a * w
        b.register_hook(lambda g: g * 10)
        return b * a

    return body, (w,)


def of_a_parameter(t):
    linear = t.nn.Linear(2, 2).double()
    with t.no_grad():
        linear.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
        linear.bias.zero_()
    return lambda a: linear(a).sin(), (linear.weight, linear.bias)


def a_custom_function(t):
    class Tenfold(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a * 10

    w = leaf(t, 3, 4)
    return lambda a: Tenfold.apply(a, w) * w, (w,)


GRADIENTS = (
    with_constants, made_of_another, made_of_another_and_left_out, a_view_and_its_base, a_view_whose_base_was_changed,
    two_leaves_over_one_memory, transposed, detached, a_leaf_with_a_hook, a_hook_within, of_a_parameter,
    a_custom_function,
)  # fmt: skip
FLOWS = {
    "cond": lambda t, f, x: [flow(t, "cond")(x.sum() > 0, f, lambda a: a * 1, (x,))],
    "while": lambda t, f, x: flow(t, "while_loop")(lambda i, a: i < 2, lambda i, a: (i + 1, f(a)), (t.tensor(0), x))[
        1:
    ],
    "scan": lambda t, f, x: flow(t, "scan")(lambda c, a: (f(c) + a, f(a)), x, t.stack([x, x * 2])),
    "map": lambda t, f, x: [flow(t, "map")(f, t.stack([x, x * 2]))],
    "nested": lambda t, f, x: [
        flow(t, "cond")(x.sum() > 0, lambda a: flow(t, "map")(f, t.stack([a, a * 3])).sum(0), lambda a: a * 1, (x,))
    ],
}  # fmt: skip
PLAINLY = {
    "cond": lambda t, f, x: [f(x)],
    "while": lambda t, f, x: [f(f(x))],
    "scan": lambda t, f, x: [f(f(x) + x) + x * 2, t.stack([f(x), f(x * 2)])],
    "map": lambda t, f, x: [t.stack([f(x), f(x * 2)])],
    "nested": lambda t, f, x: [f(x) + f(x * 3)],
}


def first_and_second(t, make, flows, kind, compiled=False):
    """The results and their gradients of first order, and of second where eager code has them."""
    f, outside = make(t)
    x = leaf(t, 1, 2)
    run = functools.partial(flows[kind], t, f)
    outs = (torchlike.compile(run) if compiled else run)(x)
    total = sum((y * y).sum() for y in outs)
    grads = t.autograd.grad(total, (x, *outside), create_graph=not compiled, retain_graph=True)
    if compiled:
        return plain([[y.detach() for y in outs], grads])
    more = t.autograd.grad(sum((g * g).sum() for g in grads), (x, *outside), allow_unused=True)
    return plain([[y.detach() for y in outs], [g.detach() for g in grads], more])


HARD = (with_constants, a_view_whose_base_was_changed, a_custom_function)
GIVEN = [(make, kind, "immediate") for kind in FLOWS for make in (GRADIENTS if kind in ("cond", "scan") else HARD)]
GIVEN += [(make, "scan", "recorded") for make in HARD]


@pytest.mark.parametrize(("make", "kind", "execution"), GIVEN, indirect=["execution"])
def test_gradients(make, kind, execution):
    """They are those of the same steps written out, which are PyTorch's."""
    expected = first_and_second(pytorch, make, PLAINLY, kind)
    assert first_and_second(torchlike, make, PLAINLY, kind) == expected
    assert first_and_second(torchlike, make, FLOWS, kind) == expected


@pytest.mark.parametrize("flows", [PLAINLY, FLOWS], ids=["plainly", "flows"])
@pytest.mark.parametrize("make", GRADIENTS)
def test_gradients_compiled(make, flows):
    expected = first_and_second(pytorch, make, PLAINLY, "cond")[:2]
    got = first_and_second(torchlike, make, flows, "cond", compiled=True)
    assert [g[2] for g in got[1]] == [g[2] for g in expected[1]]
    assert got[0] == expected[0]


def test_checked_by_differences():
    def f(x, w):
        h = w * 2
        return flow(torchlike, "cond")(x.sum() > 0, lambda a: a * h * w[:1] + h[1:] * w, lambda a: a * 1, (x,))

    inputs = leaf(torchlike, 1, 2), leaf(torchlike, 3, 4)
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


# -- numbers, threads, failures ------------------------------------------------------------------------------------
@pytest.mark.parametrize("execution", ["immediate", "recorded"], indirect=True)
@pytest.mark.parametrize("kind", CAPTURED)
def test_numbers_of_this_call(kind, execution):
    """A number read inside is that of the call, not of the first one."""

    def run(t):
        w, found = t.zeros(2), []
        for i in range(3):
            w.fill_(i)
            found.append(KINDS[kind](t, lambda a: a * w[0].item() + w.sum(), t.tensor([1.0, 2.0, 3.0])))
        return found

    agree(run)


def test_other_threads():
    """They change tensors that a body reads, and read those that it seems to change, meanwhile."""
    counter, still = torchlike.zeros(()), torchlike.zeros(())
    done, seen, added = threading.Event(), [], 0

    def change():
        nonlocal added
        while not done.is_set():
            counter.add_(1)
            added += 1
            seen.append(still.item())

    def tries(a):
        still.add_(1)
        return a

    thread = threading.Thread(target=change)
    thread.start()
    try:
        x = torchlike.ones(())
        for _ in range(60):
            flow(torchlike, "cond")(x > 0, lambda a: a + counter, lambda a: a * 1, (x,))
            with pytest.raises(RuntimeError, match="mutation"):
                flow(torchlike, "cond")(x > 0, tries, lambda a: a * 1, (x,))
    finally:
        done.set()
        thread.join()
    assert counter.item() == added
    assert set(seen) == {0.0}
    assert type(counter._storage) is type(torchlike.ones(1)._storage)


def test_what_the_function_around_made():
    """A body may not change it, in eager or compiled functions, for the other branch may be the one that is taken."""

    def f(t, x):
        seen = []

        def body(a):
            seen.append(1)
            return a * 2

        out = flow(t, "cond")(x > 0, body, lambda a: a * 3, (x,))
        return out * len(seen)

    def nested(t, x):
        def outer(a):
            seen = []

            def body(b):
                seen.append(b)
                return b * 2

            return flow(t, "cond")(a > 0, body, lambda b: b * 3, (a,)) * len(seen)

        return flow(t, "cond")(x > 0, outer, lambda a: a * 3, (x,))

    for function in (f, nested):
        for wrap in (lambda g: g, torchlike.compile, lambda g: torchlike.compile(g, fullgraph=True)):
            with pytest.raises(RuntimeError, match="chang"):
                wrap(functools.partial(function, torchlike))(torchlike.ones(()))
        with pytest.raises(RuntimeError):
            pytorch.compile(functools.partial(function, pytorch), backend="eager")(pytorch.ones(()))


def test_a_failing_body_leaves_everything():
    w = torchlike.zeros(2, requires_grad=True)
    before = type(w._storage), w._version, w.grad

    def body(a):
        (a + w).sum()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        flow(torchlike, "cond")(torchlike.tensor(True), body, lambda a: a * 1, (torchlike.ones(2),))
    assert (type(w._storage), w._version, w.grad) == before
    assert (w + 1).sum().item() == 2.0
