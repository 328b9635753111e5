"""What a compiled function read has changed since: the next call must give what eager code gives.

Each case is a story: a function is called, something that it read is changed, it is called again. The story runs in
eager code and compiled, and all results must be the same, as must what it left behind.
"""

import contextlib
import random
import types

import numpy as np
import pytest
from guard_kit import x2
from stale_kit import Stories, Thing, calls, never_stale

import torchlike as torch
from torchlike import nn

STORIES = Stories()
story = STORIES.story


@story
def lr_of_an_optimizer(wrap):
    opt = torch.optim.SGD([nn.Parameter(x2())], lr=0.1)
    return calls(
        wrap(lambda x: x * opt.param_groups[0]["lr"]), lambda i: opt.param_groups[0].update(lr=0.1 * (i + 2)), times=5
    )


@story
def grad_is_none(wrap):
    p = nn.Parameter(x2())
    return calls(
        wrap(lambda x: x * 0 if p.grad is None else x * p.grad),
        lambda i: setattr(p, "grad", None if i == 1 else x2(i + 3)),
    )


@story
def norms_of_gradients(wrap):
    model = nn.Linear(2, 2)

    def norm(x):
        return sum((p.grad.norm() for p in model.parameters() if p.grad is not None), torch.zeros(()))

    return calls(wrap(norm), lambda i: model(x2(i + 1)).sum().backward())


@story
def numpys_generator(wrap):
    rng = np.random.default_rng(0)
    return calls(wrap(lambda x: x * float(rng.random())), lambda i: None)


@story
def numpys_global_generator(wrap):
    np.random.seed(0)
    return calls(wrap(lambda x: x * float(np.random.rand()) + np.random.uniform()), lambda i: None)


@story
def pythons_generator(wrap):
    rng = random.Random(0)
    random.seed(0)
    return calls(wrap(lambda x: x * rng.random() + random.uniform(0, 1)), lambda i: None)


@story
def a_layer_dropped_at_random(wrap):
    random.seed(1)
    layers = nn.ModuleList([nn.Tanh(), nn.Sigmoid(), nn.ReLU()])

    def f(x):
        for layer in layers:
            if random.random() < 0.5:
                x = layer(x) + 1
        return x

    return calls(wrap(f), lambda i: None, times=6)


@story
def defaults(wrap):
    def d(x, k=2.0):
        return x * k

    return calls(wrap(lambda x: d(x)), lambda i: setattr(d, "__defaults__", (i + 3.0,)))


@story
def keyword_defaults(wrap):
    def d(x, *, k=2.0):
        return x * k

    return calls(wrap(lambda x: d(x)), lambda i: d.__kwdefaults__.update(k=i + 3.0))


@story
def attributes_of_a_function(wrap):
    def d(x):
        return x * d.scale

    d.scale = 2.0
    return calls(wrap(d), lambda i: setattr(d, "scale", i + 3.0))


@story
def code_of_a_function(wrap):
    def d(x):
        return x * 2

    codes = [(lambda x: x * 3).__code__, (lambda x: x * 5).__code__, (lambda x: x + 7).__code__]
    return calls(wrap(lambda x: d(x)), lambda i: setattr(d, "__code__", codes[i]))


@story
def attributes_of_a_parameter(wrap):
    p = nn.Parameter(x2())
    p.scale = 2.0
    return calls(wrap(lambda x: x * p.scale), lambda i: setattr(p, "scale", i + 3.0))


@story
def getattr_with_a_default(wrap):
    thing = types.SimpleNamespace()
    return calls(wrap(lambda x: x * getattr(thing, "scale", 1.0)), lambda i: setattr(thing, "scale", i + 3.0))


@story
def getattr_with_a_default_of_an_instance(wrap):
    thing = Thing()
    return calls(wrap(lambda x: x * getattr(thing, "other", 1.0)), lambda i: setattr(thing, "other", i + 3.0))


@story
def getattr_of_a_parameter(wrap):
    p = nn.Parameter(x2())
    return calls(wrap(lambda x: x * getattr(p, "scale", 1.0)), lambda i: setattr(p, "scale", i + 3.0))


@story
def a_method_replaced_on_an_object(wrap):
    thing = Thing()
    return calls(wrap(lambda x: x * thing.factor()), lambda i: setattr(thing, "factor", lambda: i + 3.0))


@story
def a_method_replaced_in_a_class(wrap):
    class Local(Thing):
        pass

    thing = Local()
    return calls(wrap(lambda x: x * thing.factor()), lambda i: setattr(Local, "factor", lambda self: i + 3.0))


@story
def a_forward_replaced(wrap):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    return calls(wrap(model), lambda i: setattr(model[1], "forward", lambda x: x * (i + 2)))


@story
def a_class_replaced(wrap):
    class A:
        scale = 2.0

    class B:
        scale = 5.0

    thing = A()
    return calls(wrap(lambda x: x * thing.scale), lambda i: setattr(thing, "__class__", B if i % 2 == 0 else A))


@story
def hasattr_(wrap):
    thing = Thing()
    return calls(
        wrap(lambda x: x * 5 if hasattr(thing, "extra") else x),
        lambda i: setattr(thing, "extra", 1) if i == 0 else delattr(thing, "extra") if i == 1 else None,
    )


@story
def bool_of_a_class(wrap):
    class Switch:
        on = True

        def __bool__(self):
            return self.on

    switch = Switch()
    return calls(wrap(lambda x: x * 2 if switch else x), lambda i: setattr(switch, "on", bool(i % 2)))


@story
def len_of_a_class(wrap):
    class Sized:
        n = 0

        def __len__(self):
            return self.n

    sized = Sized()
    return calls(wrap(lambda x: (x * 2 if sized else x) + len(sized)), lambda i: setattr(sized, "n", i))


@story
def getitem_of_a_class(wrap):
    class Table:
        def __init__(self):
            self.held = {"a": 2.0}

        def __getitem__(self, key):
            return self.held[key]

    table = Table()
    return calls(wrap(lambda x: x * table["a"]), lambda i: table.held.update(a=i + 3.0))


@story
def iter_of_a_class(wrap):
    class Series:
        def __init__(self):
            self.n = 1

        def __iter__(self):
            return iter(range(self.n))

    series = Series()
    return calls(wrap(lambda x: x + sum(v for v in series)), lambda i: setattr(series, "n", i + 3))


@story
def call_of_a_class(wrap):
    class Scaled:
        by = 2.0

        def __call__(self, x):
            return x * self.by

    scaled = Scaled()
    return calls(wrap(lambda x: scaled(x)), lambda i: setattr(scaled, "by", i + 3.0))


@story
def a_context_manager_of_a_class(wrap):
    class Scaling:
        by = 2.0

        def __enter__(self):
            return self.by

        def __exit__(self, *exc):
            return False

    scaling = Scaling()

    def f(x):
        with scaling as k:
            return x * k

    return calls(wrap(f), lambda i: setattr(scaling, "by", i + 3.0))


@story
def a_context_manager_by_decorator(wrap):
    held = [2.0]

    @contextlib.contextmanager
    def scaling():
        yield held[0]

    def f(x):
        with scaling() as k:
            return x * k

    return calls(wrap(f), lambda i: held.__setitem__(0, i + 3.0))


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])
