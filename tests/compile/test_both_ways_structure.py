"""Containers as arguments and results keep their types and order; hooks of what is given run once."""

import collections
import dataclasses

import numpy as np
import pytest
from compile_kit import data, numbers, same

import torchlike as torch
from torchlike._transforms.capture.structure import containers


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 1.0
    more: dict | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: torch.Tensor


class Outputs(collections.OrderedDict):
    """Has its items as attributes too."""

    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__.update(items)


class Items(dict):
    pass


class Rows(list):
    pass


class Pair(tuple):
    pass


def plain(x):
    """Types, keys in order, numbers."""
    if isinstance(x, torch.Tensor):
        return numbers(x)
    if isinstance(x, dict):
        return [type(x).__name__, list(x), [plain(v) for v in x.values()], sorted(getattr(x, "__dict__", ()))]
    if isinstance(x, list | tuple):
        return [type(x).__name__, *map(plain, x)]
    if dataclasses.is_dataclass(x):
        return [type(x).__name__, *[plain(getattr(x, f.name)) for f in dataclasses.fields(x)]]
    return x


def alike(f, *calls, programs=1):
    run = torch.compile(f, fullgraph=True)
    for call in calls:
        same(plain(f(*call())), plain(run(*call())))
    assert run.count == programs, f"{run.count} programs"


MADE = {
    "dict": lambda x: {"b": x * 2, "a": x + 1, 3: x},
    "nested dict": lambda x: [{"z": {"b": x * 2, "a": None}, "y": 1}],
    "defaultdict": lambda x: collections.defaultdict(list, b=x * 2, a=[x]),
    "OrderedDict": lambda x: collections.OrderedDict(b=x, a=x * 2),
    "class of dict": lambda x: Items(b=x * 2, a=x),
    "class of OrderedDict": lambda x: Outputs(b=x * 2, a={"d": x, "c": x}),
    "class of list": lambda x: Rows([x, x * 2]),
    "class of tuple": lambda x: Pair([x, x * 2]),
    "dataclass": lambda x: Batch(x * 2, 3.0, {"b": x, "a": x + 1}),
    "frozen dataclass": lambda x: Frozen(x * 2),
    "topk": lambda x: x.topk(1),
    "max": lambda x: x.max(0),
    "sort": lambda x: (x.sort(), torch.linalg.eigh(x @ x.t())),
}


@pytest.mark.parametrize("name", MADE)
def test_results(name):
    alike(MADE[name], *[lambda i=i: (data(i, 2, 2),) for i in range(4)])


@pytest.mark.parametrize("name", MADE)
def test_arguments(name):
    """The function gets what the caller gives, new in each call, and gives it back."""
    alike(lambda x: x, *[lambda i=i: (MADE[name](data(i, 2, 2)),) for i in range(4)])


def test_attributes_that_are_items():
    run = torch.compile(lambda x: Outputs(b=x * 2, a=x))
    for i in range(3):
        out = run(data(i, 2))
        assert out.b is out["b"] and out.a is out["a"]


def test_the_order_of_keys():
    def f(d, **more):
        return torch.cat([*d.values(), *more.values()])

    run = torch.compile(f, fullgraph=True)
    one, two, three = torch.zeros(1), torch.ones(1), torch.full((1,), 2.0)
    assert run({"b": one, "a": two}, z=one, y=three).tolist() == [0, 1, 0, 2]
    assert run({"a": two, "b": one}, y=three, z=one).tolist() == [1, 0, 2, 0]
    assert run({1: one, "a": two}).tolist() == [0, 1]


def appended(x):
    x.append(x[0] * 2)


def entered(x):
    x["new"] = x["a"] * 2


def replaced(x):
    x.x = x.x * 2


CHANGES = {
    "list": (appended, lambda: [data(0, 2)]),
    "dict": (entered, lambda: {"a": data(0, 2)}),
    "dataclass": (replaced, lambda: Batch(data(0, 2))),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_container_that_the_function_changes(name):
    """The caller sees it, as in eager code."""
    change, make = CHANGES[name]
    for run in (torch.compile(change), torch.compile(change, fullgraph=True)):
        for _ in range(2):
            ours, theirs = make(), make()
            run(ours), change(theirs)
            same(plain(ours), plain(theirs))


# -- what tells arguments apart --------------------------------------------------------------------------------


class Named:
    def __init__(self, name, scale):
        self.name, self.scale = name, scale

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    scale: float = dataclasses.field(compare=False)


APART = {
    "equal objects": (lambda x, c: x * c.scale, [Named("a", 2.0), Named("a", 3.0)]),
    "fields that are not compared": (lambda x, c: x * c.scale, [Config("a", 2.0), Config("a", 3.0)]),
    "signs of zero": (lambda x, c: x / c, [0.0, -0.0]),
    "numpy numbers": (lambda x, c: torch.tensor(c) * x, [np.float32(2), np.float16(2), np.int64(2)]),
}


@pytest.mark.parametrize("name", APART)
def test_arguments_that_look_alike(name):
    f, values = APART[name]
    run = torch.compile(f, fullgraph=True)
    x = torch.ones(2)
    for value in values:
        assert str(run(x, value)) == str(f(x, value))


def test_alike_arguments_share_a_program():
    for values in ([slice(0, 2), slice(0, 2)], [float("nan")] * 2, [range(2), range(2)], [torch.device("cpu")] * 2):
        f = torch.compile(lambda x, c: (x * 2, c), fullgraph=True)
        for value in values:
            f(torch.ones(2), value)
        assert f.count == 1


def test_the_sign_of_zero_in_a_closure():
    scale = [0.0]
    run = torch.compile(lambda x: x / scale[0])
    assert run(torch.ones(1)).item() == float("inf")
    scale[0] = -0.0
    assert run(torch.ones(1)).item() == float("-inf")


# -- hooks -----------------------------------------------------------------------------------------------------


def leaf(hooked):
    w = torch.ones(2, requires_grad=True)
    if hooked:
        w.register_hook(lambda g: g * 10)
    return w, w


def inner(hooked):
    w = torch.ones(2, requires_grad=True)
    h = w * 1
    if hooked:
        h.register_hook(lambda g: g * 10)
    return w, h


@pytest.mark.parametrize("make", [leaf, inner])
@pytest.mark.parametrize("first", [True, False])
def test_hooks_of_arguments_run_once(make, first):
    run = torch.compile(lambda x: (x * 2).sum(), fullgraph=True)
    for hooked in (first, not first, first):
        w, x = make(hooked)
        run(x).backward()
        assert w.grad.tolist() == [20 if hooked else 2] * 2


@pytest.mark.parametrize("make", [leaf, inner])
def test_hooks_of_outer_tensors_run_once(make):
    w, x = make(True)
    run = torch.compile(lambda: (x * 2).sum(), fullgraph=True)
    run().backward(retain_graph=True)
    assert w.grad.tolist() == [20, 20]


def test_retained_gradients_of_outer_tensors():
    w, x = inner(False)
    x.retain_grad()
    torch.compile(lambda: (x * 2).sum(), fullgraph=True)().backward()
    assert x.grad.tolist() == [2, 2] and w.grad.tolist() == [2, 2]


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_arguments_inside(kind):
    """Backward runs in the function: each kind of hooks has its program."""

    def f(x):
        (x * 2).sum().backward()
        return x.grad

    def times_ten(g):
        if kind == "register_hook":
            return g * 10
        g.grad.mul_(10)

    run = torch.compile(f, fullgraph=True)
    for hooked in (False, True, False):
        x = torch.ones(2, requires_grad=True)
        if hooked:
            getattr(x, kind)(times_ten)
        assert run(x).tolist() == [20 if hooked else 2] * 2


RETURNED = {
    "a list": ([1.0], lambda c: c),
    "a dict": ({"b": 1.0, "a": 2.0}, lambda c: c),
    "within a list": ([1.0], lambda c: [c, c[0] * 2]),
    "within a dict": ({"a": 1.0}, lambda c: {"given": c, "new": c["a"] + 1}),
    "a part": ({"a": [1.0]}, lambda c: (c["a"], c["a"])),
    "of a part": ([[1.0], [2.0]], lambda c: c[1]),
    "without tensors": ([[1.0], [3]], lambda c: (c[1], c[0][0] * c[1][0])),
}


@pytest.mark.parametrize("name", RETURNED)
def test_containers_of_the_arguments_are_returned_themselves(name):
    made, function = RETURNED[name]
    given = torch.utils._pytree.tree_map(lambda x: torch.tensor(x) if isinstance(x, float) else x, made)
    compiled, known = torch.compile(function, fullgraph=True), [id(c) for c in containers(given)]

    def places(x):
        return [known.index(id(c)) for c in containers(x) if id(c) in known]

    for _ in range(3):
        expected, got = function(given), compiled(given)
        assert places(got) == places(expected) != []
        same(got, expected)


def test_a_dataclass_of_the_arguments_is_returned_itself():
    batch = Batch(torch.ones(2))
    compiled = torch.compile(lambda b: (b, b.x * b.scale), fullgraph=True)
    for _ in range(2):
        got, product = compiled(batch)
        assert got is batch and product.tolist() == [1.0, 1.0]
