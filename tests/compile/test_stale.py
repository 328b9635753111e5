"""What a compiled function read has changed since: the next call must give what eager code gives.

Each case is a story: a function is called, something that it read is changed, it is called again. The story runs in
eager code and compiled, and all results must be the same, as must what it left behind.
"""

import contextlib
import contextvars
import decimal
import enum
import functools
import io
import itertools
import os
import random
import sys
import tempfile
import types
import weakref

import numpy as np
import pytest
from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch
from torchlike import nn


class Thing:
    scale = 2.0
    flag = True

    def factor(self):
        return self.scale


STORIES = {}


def story(function):
    STORIES[function.__name__.removesuffix("_")] = function
    return function


def calls(run, change, times=3):
    """The results of calls with ``change(i)`` between them; ahead of the first, some that make it run ahead."""
    found = [run(x2()), run(x2())]
    for i in range(times):
        found.append(run(x2()))
        change(i)
    return [*found, run(x2())]


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


@story
def zip_made_outside(wrap):
    pairs = zip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], range(7), strict=True)
    return calls(wrap(lambda x: x * next(pairs)[0]), lambda i: None)


@story
def enumerate_made_outside(wrap):
    values = enumerate([1.0, 2.0, 3.0, 4.0])

    def f(x):
        for i, v in values:
            return x * v + i
        return x

    return calls(wrap(f), lambda i: None, times=5)


@story
def itertools_made_outside(wrap):
    cycle, chain = itertools.cycle([1.0, 2.0, 3.0]), itertools.chain([1.0], [5.0], [7.0], [9.0, 4.0, 2.0])
    return calls(wrap(lambda x: x * next(cycle) + next(chain)), lambda i: None)


@story
def an_iterator_given_to_a_builtin(wrap):
    values = iter([1.0, 2.0, 3.0])
    return calls(wrap(lambda x: x * sum(values)), lambda i: None)


@story
def an_import_inside(wrap):
    module = types.ModuleType("torchlike_test_settings")
    module.scale = 2.0
    sys.modules["torchlike_test_settings"] = module

    def f(x):
        import torchlike_test_settings

        return x * torchlike_test_settings.scale

    try:
        return calls(wrap(f), lambda i: setattr(module, "scale", i + 3.0))
    finally:
        del sys.modules["torchlike_test_settings"]


@story
def a_module_replaced(wrap):
    def settings(scale):
        module = types.ModuleType("torchlike_test_settings")
        module.scale = scale
        sys.modules["torchlike_test_settings"] = module

    def f(x):
        from torchlike_test_settings import scale

        return x * scale

    settings(2.0)
    try:
        return calls(wrap(f), lambda i: settings(i + 3.0))
    finally:
        del sys.modules["torchlike_test_settings"]


@story
def a_descriptor(wrap):
    class Scale:
        value = 2.0

        def __get__(self, x, cls=None):
            return self.value

    class Has:
        scale = Scale()

    thing = Has()
    return calls(wrap(lambda x: x * thing.scale), lambda i: setattr(vars(Has)["scale"], "value", i + 3.0))


@story
def a_weak_reference(wrap):
    held = {"thing": Thing()}
    ref = weakref.ref(held["thing"])
    return calls(wrap(lambda x: x if ref() is None else x * ref().scale), lambda i: held.pop("thing", None))


@story
def an_array_of_objects(wrap):
    a = np.array([1.0, None], dtype=object)
    return calls(wrap(lambda x: x * a[0]), lambda i: a.__setitem__(0, i + 3.0))


@story
def an_object_in_an_array_of_objects(wrap):
    thing = Thing()
    a = np.array([thing, None], dtype=object)
    return calls(wrap(lambda x: x * a[0].scale), lambda i: setattr(thing, "scale", i + 3.0))


@story
def numpy_of_a_list(wrap):
    values, rows = [1.0, 2.0], {"a": [np.ones(2, np.float32)]}

    def f(x):
        return x * float(np.mean(values)) + torch.from_numpy(np.stack(rows["a"]).sum(0)) + np.asarray(values)[0]

    def change(i):
        values[i % 2] = i + 3.0
        rows["a"][0][i % 2] += 1
        if i == 1:
            rows["a"].append(np.ones(2, np.float32))

    return calls(wrap(f), change, times=4)


@story
def numpy_of_a_tuple_in_a_list(wrap):
    pairs = [(1.0, [2.0])]
    return calls(wrap(lambda x: x * float(np.sum(pairs[0][1])) + np.max(pairs[0][0])), lambda i: pairs[0][1].append(i))


@story
def an_array(wrap):
    a = np.ones(2, np.float32)
    return calls(wrap(lambda x: x * torch.from_numpy(a.copy()) + float(a.sum())), lambda i: a.fill(i + 3))


@story
def environment(wrap):
    os.environ["TORCHLIKE_TEST_SCALE"] = "2"
    try:
        return calls(
            wrap(lambda x: x * float(os.environ["TORCHLIKE_TEST_SCALE"]) + float(os.environ.get("TORCHLIKE_NONE", 1))),
            lambda i: os.environ.__setitem__("TORCHLIKE_TEST_SCALE", str(i + 3)),
        )
    finally:
        del os.environ["TORCHLIKE_TEST_SCALE"]


@story
def a_context_variable(wrap):
    variable = contextvars.ContextVar("scale", default=2.0)
    return calls(wrap(lambda x: x * variable.get()), lambda i: variable.set(i + 3.0))


@story
def a_list_that_is_appended_to(wrap):
    log = []

    def f(x):
        log.append(1)
        return x * 2

    return calls(wrap(f), lambda i: None), log


@story
def tensors_kept_in_a_container(wrap):
    state = {"hist": []}

    def f(x):
        state["hist"].append(x * 2)
        return x + 1

    return calls(wrap(f), lambda i: None), [h.tolist() for h in state["hist"]]


@story
def a_counter(wrap):
    thing = types.SimpleNamespace(n=0)

    def f(x):
        thing.n += 1
        return x * 2

    return calls(wrap(f), lambda i: None), thing.n


@story
def a_hook_registered_and_removed_inside(wrap):
    w = nn.Parameter(x2())

    def f(x):
        handle = w.register_hook(lambda g: g * 2)
        w.grad = None
        (w * x).sum().backward()
        handle.remove()
        return w.grad.clone()

    return calls(wrap(f), lambda i: None)


@story
def printing(wrap):
    out = []

    class Out:
        def write(self, text):
            out.append(text)

    def f(x):
        print("called", file=sink)
        return x

    sink = Out()
    return calls(wrap(f), lambda i: None), out


@story
def a_global_that_chooses_no_grad(wrap):
    held = {"no_grad": False}
    w = nn.Parameter(x2())

    def f(x):
        with torch.set_grad_enabled(not held["no_grad"]):
            y = (w * x).sum()
        return y * 1, y.requires_grad

    return calls(wrap(f), lambda i: held.update(no_grad=i % 2 == 0))


@story
def a_step_that_raises(wrap):
    w = nn.Parameter(x2())
    held = {"bad": False}

    def step(x):
        (w * x).sum().backward()
        if held["bad"]:
            raise KeyError("bad")
        with torch.no_grad():
            w.sub_(w.grad)

    run, found = wrap(step), []
    for i in range(4):
        held["bad"] = i % 2 == 1
        with contextlib.suppress(KeyError):
            run(x2())
        found += [w.detach().clone(), w.grad.clone()]
    return found


@story
def entries_order_and_keys(wrap):
    d = {"a": 2.0, "b": 3.0}

    def f(x):
        for i, (k, v) in enumerate(d.items()):
            x = x * v + i * len(k)
        return x

    return calls(wrap(f), lambda i: d.update({str(i): d.pop(next(iter(d)))}))


@story
def a_property_and_getattr_of_a_class(wrap):
    class Lazy:
        def __init__(self):
            self.held = {"scale": 2.0}

        @property
        def double(self):
            return self.scale * 2

        def __getattr__(self, name):
            return self.__dict__["held"][name]

    thing = Lazy()
    return calls(wrap(lambda x: x * thing.double), lambda i: thing.held.update(scale=i + 3.0))


@story
def a_member_of_an_enum(wrap):
    class Mode(enum.Enum):
        A = 2.0
        B = 3.0

    thing = types.SimpleNamespace(mode=Mode.A)
    return calls(
        wrap(lambda x: x * thing.mode.value if thing.mode is not Mode.B else x),
        lambda i: setattr(thing, "mode", [Mode.B, Mode.A][i % 2]),
    )


@story
def the_clock(wrap):
    times = iter(range(100))
    clock = functools.partial(next, times)
    return calls(wrap(lambda x: x * clock()), lambda i: None)


@story
def a_cache_of_functools(wrap):
    held = [2.0]

    @functools.lru_cache
    def scale():
        return held[0]

    def change(i):
        held[0] = i + 3.0
        if i % 2:
            scale.cache_clear()

    return calls(wrap(lambda x: x * scale()), change)


@story
def partials_and_sorted(wrap):
    order = {"reverse": False}
    key = functools.partial(lambda k, v: v * k, 1.0)

    def f(x):
        first, *_ = sorted([1.0, 3.0, 2.0], key=key, reverse=order["reverse"])
        return x * first

    return calls(wrap(f), lambda i: order.update(reverse=i % 2 == 0))


@story
def a_callback_of_a_builtin(wrap):
    held = [2.0]
    return calls(
        wrap(lambda x: x * max([1.0, 5.0], key=lambda v: v * held[0]) + sum(map(lambda v: v * held[0], [1, 2]))),
        lambda i: held.__setitem__(0, -1.0 if i % 2 == 0 else 3.0),
    )


@story
def a_hook_that_reads(wrap):
    held, w = [2.0], nn.Parameter(x2())
    w.register_hook(lambda g: g * held[0])

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad * 1

    return calls(wrap(f), lambda i: held.__setitem__(0, i + 3.0))


@story
def a_custom_function_that_reads(wrap):
    class Scaled(torch.autograd.Function):
        by = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Scaled.by

        @staticmethod
        def backward(ctx, g):
            return g * Scaled.by

    w = nn.Parameter(x2())

    def f(x):
        w.grad = None
        Scaled.apply(w * x).sum().backward()
        return w.grad * 1

    return calls(wrap(f), lambda i: setattr(Scaled, "by", i + 3.0))


@story
def seeds_of_torch(wrap):
    torch.manual_seed(1)
    return calls(wrap(lambda x: x * (torch.initial_seed() % 100)), lambda i: torch.manual_seed(i + 5))


class Wrong(ValueError):
    pass


@story
def attributes_that_c_computes(wrap):
    error, context, text = Wrong(2), decimal.Context(prec=3), io.StringIO()

    def f(x):
        return x * error.args[0] * context.prec * (2 if text.closed else 1)

    def change(i):
        error.args, context.prec = (i + 3,), i + 4
        if i == 1:
            text.close()

    return calls(wrap(f), change)


@story
def objects_of_c_that_draw(wrap):
    # a generator made inside draws anew in every call: the numbers differ, but none is kept
    found = calls(wrap(lambda x: x + random.Random().random()), lambda i: None)
    return len({v[0].item() for v in found})


@story
def objects_of_c_that_read_files(wrap):
    with tempfile.NamedTemporaryFile() as file:

        def f(x):
            raw = io.FileIO(file.name)
            found = x * len(raw.read())
            raw.close()
            return found

        run = wrap(f)

        def change(i):
            file.write(b"more")
            file.flush()

        return calls(run, change)


def compiled(f):
    run = torch.compile(f)
    WATCHED.append(getattr(run, "forward", run))
    return run


WATCHED = []


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    found = []
    for wrap in (lambda f: f, compiled):
        Thing.scale = 2.0
        torch.manual_seed(0)
        found.append(numbers(STORIES[name](wrap)))
    same(*found)
    assert "Interpreter" not in str(WATCHED.pop().eager)  # no error of the interpreter's own
