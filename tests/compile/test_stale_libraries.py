"""What was read of iterators, modules, numpy and the standard library has changed since; see test_stale."""

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
from guard_kit import x2
from stale_kit import Stories, Thing, calls, never_stale

import torchlike as torch
from torchlike import nn

STORIES = Stories()
story = STORIES.story


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


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])


def test_steps_of_a_graph_that_an_fx_interpreter_runs():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.add(x, 1)

    traced = torch.fx.symbolic_trace(Model())
    compiled = torch.compile(lambda x: torch.fx.Interpreter(traced).run(x))
    found = [compiled(torch.ones(1)).item()]
    (node,) = [n for n in traced.graph.nodes if n.op == "call_function"]
    for change in ({"args": (node.args[0], 7)}, {"target": torch.mul}):
        for name, value in change.items():
            setattr(node, name, value)
        found += [compiled(torch.ones(1)).item(), compiled(torch.ones(1)).item()]
    assert found == [2, 8, 8, 7, 7]
