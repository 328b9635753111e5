"""Compiled functions keep alive nothing of the user's: what a program was made for may die, and is forgotten then."""

import gc
import weakref

import pytest

import torchlike as torch
from torchlike import nn


class Thing:
    def __init__(self, v):
        self.v, self.t, self.child = v, torch.ones(2) * v, None


class Child:
    def __init__(self, parent):
        self.parent, self.k = parent, 3.0


class Net(nn.Module):
    def __init__(self, v=1.0):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)


def sets(o):
    o.k = o.v + 1
    return torch.ones(2) * o.k


def writes(o):
    return o.t.add_(1) * 2


CASES = {
    "number": (lambda o: torch.ones(2) * o.v, Thing),
    "tensor": (lambda o: o.t + 1, Thing),
    "returned": (lambda o: (torch.ones(2) * o.v, o), Thing),
    "instance": (lambda o: torch.ones(2) if isinstance(o, Thing) else None, Thing),
    "method": (lambda o: torch.ones(2) * o.v if callable(o.__init__) else None, Thing),
    "nested": (lambda o: torch.ones(2) * o.t, Thing),
    "sets": (sets, Thing),
    "writes": (writes, Thing),
    "module": (lambda o: o(torch.ones(2)), Net),
    "backward": (lambda o: o(torch.ones(2)).sum().backward(), Net),
    "function": (lambda f: f(torch.ones(2)), lambda v: lambda x: x + v),
    "argument": (lambda t: t + 1, lambda v: torch.ones(2) * v),
    "parameter": (lambda t: t + 1, lambda v: nn.Parameter(torch.ones(2) * v)),
}


def values(x):
    x = x[0] if isinstance(x, tuple) else x
    return None if x is None else x.tolist()


@pytest.mark.parametrize("name", CASES)
def test_an_argument_dies_when_the_caller_drops_it(name):
    f, make = CASES[name]
    compiled = torch.compile(f)
    for v in (1.0, 2.0):
        o = make(v)
        compiled(o)
        compiled(o)
        died = weakref.ref(o)
        del o
        assert died() is None
    assert compiled.count == 1 if name in ("argument", "parameter") else not any(compiled.programs.values())


@pytest.mark.parametrize("name", ["number", "function", "returned", "sets"])
def test_an_object_in_the_place_of_a_dead_one_is_another(name):
    """Objects that are made and dropped in turns often have one address."""
    f, make = CASES[name]
    compiled = torch.compile(f)
    for v in range(6):
        assert values(compiled(make(float(v)))) == values(f(make(float(v))))


def test_an_object_that_its_child_refers_to():
    def f(o):
        return torch.ones(2) * o.child.k * o.child.parent.v

    compiled = torch.compile(f)
    o = Thing(2.0)
    o.child = Child(o)
    assert compiled(o).tolist() == compiled(o).tolist() == [6, 6]
    died = weakref.ref(o)
    del o
    gc.collect()
    assert died() is None


def test_what_a_closure_reads():
    held = [Thing(2.0)]
    compiled = torch.compile(lambda x: x * held[0].v + held[0].t)
    assert compiled(torch.ones(2)).tolist() == compiled(torch.ones(2)).tolist() == [4, 4]
    died = weakref.ref(held[0])
    held[0] = Thing(3.0)
    assert died() is None
    assert compiled(torch.ones(2)).tolist() == [6, 6]
    held[0] = None
    with pytest.raises(AttributeError):
        compiled(torch.ones(2))


def test_a_layer_that_is_replaced():
    net = Net()
    compiled = torch.compile(net)
    for _ in range(2):
        compiled(torch.ones(2))
    died = weakref.ref(net.inner), weakref.ref(net.inner.weight)
    net.inner = nn.Linear(2, 2)
    gc.collect()  # what a first call leaves in cycles
    assert [r() for r in died] == [None, None]
    assert torch.equal(compiled(torch.ones(2)), net.inner(torch.ones(2)))


def test_attributes_that_are_another_dict():
    thing = Thing(2.0)

    def f(x):
        thing.n = thing.v + 1
        return x * thing.n

    compiled = torch.compile(f)
    assert compiled(torch.ones(2)).tolist() == compiled(torch.ones(2)).tolist() == [3, 3]
    thing.__dict__ = {"v": 4.0}
    assert compiled(torch.ones(2)).tolist() == [5, 5]
    assert vars(thing) == {"v": 4.0, "n": 5.0}
