"""What a program took for granted, changed between calls: the compiled function follows as eager code does."""

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import random
import threading
import types

import numpy as np
import pytest
from compile_kit import numbers, same, sequence
from guard_kit import flips, put, set_scale, x2

import torchlike as torch
from torchlike import nn

F = nn.functional


# -- Python values -----------------------------------------------------------------------------------------


class Box:
    def __init__(self):
        self.scale = 2.0

    @property
    def twice(self):
        return self.scale * 2


class Slots:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 2.0


class Items(dict):
    pass


def boxed():
    box = Box()
    return lambda x: x * box.scale, box


def by_property():
    box = Box()
    return lambda x: x * box.twice, box


def by_getattr():
    box = Box()
    return lambda x: x * getattr(box, "sc" + "ale"), box


def slotted():
    box = Slots()
    return lambda x: x * box.scale, box


def local():
    box = threading.local()
    box.scale = 2.0
    return lambda x: x * box.scale, box


def nested():
    options = {"a": [{"b": (1.0, [2.0])}]}

    def f(x):
        def inner(y):
            return y * options["a"][0]["b"][1][0]

        return inner(x)

    return f, options["a"][0]["b"][1]


def wrapped():
    box = Box()

    def scaled(k, x):
        return x * k.scale

    return functools.partial(scaled, box), box


def of(container, read):
    """A function that reads what ``read`` makes of the container."""
    return lambda: (lambda c: (lambda x: x * read(c), c))(container())


VALUES = {
    "attribute": (boxed, set_scale(3.0), set_scale(2.0)),
    "property": (by_property, set_scale(3.0), set_scale(2.0)),
    "getattr": (by_getattr, set_scale(3.0), set_scale(2.0)),
    "slot": (slotted, set_scale(3.0), set_scale(2.0)),
    "thread local": (local, set_scale(3.0), set_scale(2.0)),
    "partial": (wrapped, set_scale(3.0), set_scale(2.0)),
    "type of a number": (boxed, set_scale(2), set_scale(2.0)),
    "nested containers": (nested, put(0, 3.0), put(0, 2.0)),
    "dict": (of(lambda: {"a": 2.0}, lambda d: d["a"]), put("a", 3.0), put("a", 2.0)),
    "class of dict": (of(lambda: Items(a=2.0), lambda d: d["a"]), put("a", 3.0), put("a", 2.0)),
    "key": (of(lambda: {"a": 2.0}, len), put("b", 3.0), lambda d: d.pop("b")),
    "list": (of(lambda: [2.0], lambda s: s[0]), put(0, 3.0), put(0, 2.0)),
    "length": (of(lambda: [2.0], len), lambda s: s.append(1.0), lambda s: s.pop()),
    "deque": (of(lambda: collections.deque([1.0, 2.0]), lambda d: d[0]), lambda d: d.rotate(), lambda d: d.rotate()),
    "set": (of(lambda: {1}, len), lambda s: s.add(2), lambda s: s.discard(2)),
    "element of a set": (of(lambda: {1}, lambda s: 2 if 3 in s else 1), lambda s: s.add(3), lambda s: s.discard(3)),
    "array": (of(lambda: np.ones(2, np.float32), lambda a: float(a[0])), put(0, 5.0), put(0, 1.0)),
    "array as tensor": (of(lambda: np.ones(2, np.float32), torch.tensor), put(0, 5.0), put(0, 1.0)),
    "array of objects": (of(lambda: np.array([1.0, None]), lambda a: a[0]), put(0, 5.0), put(0, 1.0)),
    "array.array": (of(lambda: array.array("d", [1.0]), lambda a: a[0]), put(0, 5.0), put(0, 1.0)),
    "bytearray": (of(lambda: bytearray(b"a"), lambda a: a[0]), put(0, 5), put(0, 97)),
    "namespace": (
        of(lambda: types.SimpleNamespace(scale=2.0), lambda n: n.scale), set_scale(3.0), set_scale(2.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    """Two programs, and none for going back."""
    flips(*VALUES[name])


def test_a_mapping_proxy():
    def proxy():
        inner = {"a": 2.0}
        view = types.MappingProxyType(inner)
        return lambda x: x * view["a"], inner

    flips(proxy, put("a", 3.0), put("a", 2.0))


def test_a_context_variable():
    def make():
        variable = contextvars.ContextVar("scale", default=2.0)
        return lambda x: x * variable.get(), variable

    flips(make, lambda v: v.set(3.0), lambda v: v.set(2.0))


def test_class_attributes_and_deleted_ones():
    def make():
        class Local:
            scale = 2.0

        box = Local()
        box.scale = 5.0
        return lambda x: x * box.scale, box

    flips(make, lambda box: delattr(box, "scale"))
    flips(make, lambda box: (delattr(box, "scale"), setattr(type(box), "scale", 7.0)))


def helper(x):
    return x * 2


def test_globals_and_cells():
    flips(lambda: (lambda x: helper(x), globals()), put("helper", lambda x: x * 5), put("helper", helper))

    def make():
        scale = 2.0

        def change(_):
            nonlocal scale
            scale = 3.0

        return lambda x: x * scale, change

    flips(make, lambda change: change(None))


def test_a_cleared_cache():
    options = [2.0]

    @functools.lru_cache
    def scale():
        return options[0]

    run = torch.compile(lambda x: x * scale())
    assert run(x2()).tolist() == [2, 2]
    options[0] = 3.0
    scale.cache_clear()
    assert run(x2()).tolist() == [3, 3]


# -- what the function itself changes ------------------------------------------------------------------------


def a_counter(wrap):
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    model = Count()
    run = wrap(model)
    return [run(x2()) for _ in range(4)], model.calls


def a_variable(wrap):
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * calls

    run = wrap(f)
    return [run(x2()) for _ in range(4)], calls


def an_iterator(wrap):
    scales = iter([1.0, 2.0, 3.0, 4.0])
    run = wrap(lambda x: x * next(scales))
    return [run(x2()) for _ in range(4)]


def a_generator(wrap):
    scales = (v * 1.0 for v in range(9))
    run = wrap(lambda x: x * next(scales))
    return [run(x2()) for _ in range(4)]


def counting(wrap):
    scales = itertools.count(3)
    run = wrap(lambda x: x * next(scales))
    return [run(x2()) for _ in range(4)]


def made_on_first_use(wrap):
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = None

        def forward(self, x):
            if self.scale is None:
                self.scale = x.shape[0] * 2.0
            return x * self.scale

    model = Lazy()
    run = wrap(model)
    return [run(torch.ones(n)) for n in (2, 2, 3, 2)], model.scale


def a_scheduler_inside(wrap):
    w = nn.Parameter(x2())
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        scheduler.step()
        return w.detach().clone()

    run = wrap(step)
    return [run(x2()) for _ in range(4)], optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("script", [an_iterator, a_generator, counting], ids=lambda f: f.__name__)
def test_changed_by_the_function(script):
    """A program would not change it again: Python runs in every call."""
    sequence(script, fullgraph=False)
    with pytest.raises(RuntimeError, match="which a program would not do again|iterator that was made outside"):
        sequence(script)


@pytest.mark.parametrize(
    "script", [a_counter, a_variable, made_on_first_use, a_scheduler_inside], ids=lambda f: f.__name__
)
def test_changed_by_programs(script):
    """A program changes it in every call."""
    sequence(script, fullgraph=False)
    sequence(script)


def test_values_made_on_first_use_cost_a_call_in_pieces():
    scale = {}

    def f(x):
        if "value" not in scale:
            scale["value"] = 2.0
        return x * scale["value"]

    run = torch.compile(f)
    assert [run(x2()).tolist() for _ in range(4)] == [[2, 2]] * 4 and run.count == 1 and run.eager is None


@pytest.mark.parametrize("draw", [random.random, lambda: float(np.random.rand())], ids=["random", "numpy"])
def test_pythons_random_numbers(draw):
    """Only Python can draw them: such a function is no program."""
    seen = []
    for wrap in (lambda f: f, torch.compile):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        run = wrap(lambda x: x * draw() + torch.rand(1))
        seen.append(numbers([run(x2()), run(x2()), draw(), torch.rand(1)]))
    same(*seen)
    with pytest.raises(RuntimeError, match="draws from random or numpy.random.*use torch.rand"):
        torch.compile(lambda x: x * draw(), fullgraph=True)(x2())


def test_a_log_is_appended_to_in_every_call():
    seen = []

    def f(x):
        seen.append("called")
        return x * 2

    run = torch.compile(f)
    for _ in range(3):
        run(x2())
    assert seen == ["called"] * 3 and run.count == 1


# -- arguments -------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    A = 1
    B = 2


@dataclasses.dataclass
class Options:
    scale: float = 2.0


CALLS = {
    "structure": (
        lambda d: [d["a"] * 2 if "a" in d else None, len(d)] if isinstance(d, dict) else d[0],
        [({"a": x2()},), ({"a": x2(), "b": x2()},), ([x2()],), ((x2(),),), ({"b": x2()},)],
    ),
    "None": (lambda x, m=None: x if m is None else x * m, [(x2(),), (x2(), x2(3)), (x2(), None), (x2(), 4.0)]),
    "numbers": (lambda x, k: x * k, [(x2(), k) for k in (1, 1.0, True, 2, float("inf"), 1)]),
    "large integers": (lambda x, k: x.long() * k, [(x2(), k) for k in (2**40, 2**41, -(2**62))]),
    "NaN": (lambda x, k: (x * k).isnan(), [(x2(), float("nan"))] * 3),
    "numpy numbers": (lambda x, k: x * k, [(x2(), k) for k in (np.float32(2), np.float64(2), np.int64(2), 2)]),
    "types": (lambda x, d: x.to(d), [(x2(), d) for d in (torch.float64, torch.int32, torch.device("cpu"), "cpu")]),
    "slices": (lambda x, s: x[s] * 1, [(x2(), slice(a, 2)) for a in (0, 1, 0)]),
    "ranges": (lambda x, r: sum(x * i for i in r), [(x2(), range(n)) for n in (2, 3, 2)]),
    "enums": (lambda x, c: x * c.value, [(x2(), c) for c in (Color.A, Color.B, Color.A)]),
    "functions": (lambda x, g: g(x), [(x2(), g) for g in (torch.sin, torch.cos, F.relu, torch.sin)]),
    "strings": (lambda x, s: getattr(torch, s)(x), [(x2(), s) for s in ("sin", "cos", "sin")]),
    "sets": (lambda x, s: x * max(s), [(x2(), frozenset([v])) for v in (1, 2, 1)]),
    "objects": (lambda x, o: x * o.scale, [(x2(), Options(s)) for s in (2.0, 3.0, 2.0)]),
    "arrays": (lambda x, a: x * torch.tensor(a), [(x2(), np.full(2, v, np.float32)) for v in (1, 5, 1)]),
    "generators": (lambda x, g: sum(x * v for v in g), [(x2(), (v for v in range(n))) for n in (2, 3)]),
    "requires_grad": (lambda x: (x * 2, x.requires_grad), [(x2(),), (x2().requires_grad_(),), (x2(),)]),
    "parameters": (lambda x: isinstance(x, nn.Parameter), [(nn.Parameter(x2()),), (x2().requires_grad_(),)]),
    "conjugated": (lambda x: x * 2, [(torch.tensor([1 + 2j]),), (torch.tensor([1 + 2j]).conj(),)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arguments(name):
    f, calls = CALLS[name]
    if name == "generators":  # they are used up
        calls = [(x, list(g)) for x, g in calls]
    run = torch.compile(f)
    for args in calls:
        same(numbers(f(*args)), numbers(run(*args)))


def test_an_argument_that_is_changed():
    def script(wrap):
        options, a = Options(), np.ones(2, np.float32)
        run = wrap(lambda x, o, a: x * o.scale * torch.tensor(a))
        out = [run(x2(), options, a)]
        options.scale = 3.0
        out += [run(x2(), options, a)]
        a[:] = 7
        return out + [run(x2(), options, a), run(x2(), options, a.copy())]

    sequence(script)
