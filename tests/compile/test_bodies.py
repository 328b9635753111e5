"""Bodies of control flow that do more than compute: each is refused, or does what it does, as in PyTorch.

A story makes a body, and what shows the world that it can reach. The body runs in each kind of control flow, in eager
code and in compiled functions; where PyTorch refuses it, so is it here, and the world is as it was before.
"""

import functools
import threading
import types
import weakref

import pytest
import torch as pytorch
from both import attempt, plain

import torchlike
from torchlike.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.*lru_cache")
STORIES = {}


def story(f):
    STORIES[f.__name__] = f
    return f


def flow(t, name):
    home = t._higher_order_ops
    return pytorch.cond if t is pytorch and name == "cond" else getattr(home, name)


KINDS = {
    "taken": lambda t, body, x: flow(t, "cond")(x.sum() > 0, body, lambda a: a * 3, (x.sum(),)),
    "left out": lambda t, body, x: flow(t, "cond")(x.sum() < 0, body, lambda a: a * 3, (x.sum(),)),
    "while": lambda t, body, x: flow(t, "while_loop")(
        lambda i, a: i < 3, lambda i, a: (i + 1, body(a)), (t.tensor(0), x.sum())
    ),
    "scan": lambda t, body, x: flow(t, "scan")(lambda c, a: (c + a, body(a)), t.zeros(()), x),
    "map": lambda t, body, x: flow(t, "map")(body, x),
    "nested": lambda t, body, x: flow(t, "cond")(
        x.sum() > 0, lambda a: flow(t, "cond")(a > 0, body, lambda b: b * 5, (a,)), lambda a: a * 3, (x.sum(),)
    ),
}  # fmt: skip


def told(t, name, kind, compiled):
    """What the control flow gives, "refused" where it raises, and the world afterwards."""
    body, world = STORIES[name](t)
    run = functools.partial(KINDS[kind], t, body)
    if compiled:
        backend = {"backend": "eager"} if t is pytorch else {}
        run = t.compile(run, **backend)
    got = attempt(lambda: run(t.tensor([1.0, 2.0, 3.0])))
    if isinstance(got, Exception):
        assert isinstance(got, RuntimeError | NotImplementedError | AttributeError), repr(got)
        got = "refused"
    return plain([got, world()])


# -- Python objects ------------------------------------------------------------------------------------------
@story
def a_list_is_appended(t):
    seen = []

    def body(a):
        seen.append(1)
        return a * 2

    return body, lambda: len(seen)


@story
def a_variable_is_counted(t):
    n = 0

    def body(a):
        nonlocal n
        n += 1
        return a * 2

    return body, lambda: n


@story
def an_attribute_is_set(t):
    box = types.SimpleNamespace(n=0)

    def body(a):
        box.n += 1
        return a * 2

    return body, lambda: box.n


@story
def a_dict_is_filled(t):
    found = {}

    def body(a):
        found["k"] = 3
        return a * 2

    return body, lambda: found


@story
def a_dict_that_has_the_key(t):
    found = {"k": 3}
    return lambda a: a * found.get("k", 4), lambda: found


@story
def a_tensor_is_kept(t):
    seen = []

    def body(a):
        seen.append(a * 2)
        return a * 2

    return body, lambda: len(seen)


@story
def a_list_of_its_own(t):
    def body(a):
        found = [a]
        found.append(a * 2)
        return found[0] + found[1]

    return body, lambda: None


@story
def a_module_that_counts(t):
    class Counts(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, a):
            self.n += 1
            return a * 2

    module = Counts()
    return module, lambda: module.n


@story
def an_iterator_is_advanced(t):
    numbers = iter([1.0, 2.0, 3.0])
    return lambda a: a * next(numbers), lambda: list(numbers)


@story
def a_cached_function(t):
    @functools.lru_cache
    def double(n):
        return n * 2

    return lambda a: a * double(2), lambda: double.cache_info().misses


@story
def a_weak_reference(t):
    module = t.nn.Linear(1, 1)
    reference = weakref.ref(module)
    return lambda a: a * len(list(reference().parameters())), lambda: module.bias.shape[0]


@story
def doubled(t):
    return lambda a: a * 2, lambda: None


@story
def a_class_inside(t):
    def body(a):
        class Two:
            n = 2

        return a * Two.n

    return body, lambda: None


@story
def it_raises(t):
    def body(a):
        raise RuntimeError("no")

    return body, lambda: None


@story
def it_catches(t):
    def body(a):
        try:
            raise ValueError
        except ValueError:
            return a * 2

    return body, lambda: None


@story
def the_seed_is_set(t):
    def body(a):
        t.manual_seed(3)
        return a * 2

    t.manual_seed(1)
    return body, lambda: t.initial_seed()


@story
def the_grad_mode_within(t):
    def body(a):
        with t.no_grad():
            return a * 2

    return body, lambda: t.is_grad_enabled()


# -- tensors ---------------------------------------------------------------------------------------------------
@story
def a_tensor_is_changed(t):
    w = t.zeros(())

    def body(a):
        w.add_(1)
        return a * 2

    return body, lambda: [w, w._version]


@story
def a_view_is_changed(t):
    w = t.zeros(3)

    def body(a):
        w[1].fill_(2)
        return a * 2

    return body, lambda: [w, w._version]


@story
def the_operand_is_changed(t):
    return lambda a: a.mul_(2), lambda: None


@story
def a_buffer_is_assigned(t):
    class Counts(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", t.zeros(()))

        def forward(self, a):
            self.n = self.n + 1
            return a * 2

    module = Counts()
    return module, lambda: module.n


@story
def a_gradient_is_set(t):
    w = t.ones((), requires_grad=True)

    def body(a):
        w.grad = t.ones(())
        return a * 2

    return body, lambda: w.grad


@story
def a_gradient_is_read(t):
    w = t.ones((), requires_grad=True)
    (w * 3).backward()
    return lambda a: a * w.grad, lambda: w.grad


@story
def backward_runs(t):
    w = t.ones((), requires_grad=True)

    def body(a):
        (w * 3).backward()
        return a * 2

    return body, lambda: w.grad


@story
def it_requires_grad_from_now_on(t):
    w = t.tensor(2.0)

    def body(a):
        w.requires_grad_()
        return a * w

    return body, lambda: w.requires_grad


@story
def an_attribute_of_a_tensor(t):
    w = t.tensor(2.0)

    def body(a):
        w.note = 3
        return a * w

    return body, lambda: getattr(w, "note", None)


@story
def a_choice_by_numbers(t):
    w = t.tensor(2.0)
    return lambda a: a * 2 if w > 0 else a * 3, lambda: w


@story
def made_inside(t):
    def body(a):
        b = a.clone()
        b.add_(t.arange(3.0).sum())
        return b * t.tensor(2.0)

    return body, lambda: None


@story
def indices_in_a_list(t):
    w = t.arange(3.0)
    return lambda a: a * w[[2, 1]].sum(), lambda: w


@story
def what_is_outside_is_returned(t):
    w = t.tensor(1.0)
    return lambda a: w, lambda: w


@pytest.fixture(autouse=True)
def fresh_dynamo():
    yield
    pytorch._dynamo.reset()


KINDS["associative"] = lambda t, body, x: flow(t, "associative_scan")(
    lambda a, b: body(a) + b, x, 0, combine_mode="generic"
)
CAPTURED = [kind for kind in KINDS if kind != "associative"]


LIKE = {"a_class_inside": "doubled"}  # PyTorch refuses the first, and does the second, which is the same


@functools.cache
def theirs(name, kind):
    return told(pytorch, LIKE.get(name, name), kind, False)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", CAPTURED)
@pytest.mark.parametrize("name", STORIES)
def test_as_pytorch(name, kind, compiled):
    assert told(torchlike, name, kind, compiled) == theirs(name, kind)


@pytest.mark.parametrize("name", [n for n in STORIES if n != "a_cached_function"])
def test_associative_scan(name):
    """PyTorch runs its function as Python code, as often as it needs it; here it is a program: else it is refused."""
    got = told(torchlike, name, "associative", False)
    untouched = plain(STORIES[name](torchlike)[1]())
    assert got == theirs(name, "associative") or got == ["refused", untouched]


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
        return plain(found)

    assert run(torchlike) == run(pytorch)


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
