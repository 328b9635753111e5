"""Stories of classes, orders, settings and replaced methods that change between the calls of a compiled function."""

import abc
import collections
import types
import typing

import pytest
from guard_kit import x2
from stale_kit import Stories, calls, never_stale

import torchlike as torch

STORIES = Stories()
story = STORIES.story


def folded(values, x):
    for v in values:
        x = x * 2 + v
    return x


class One:
    def k(self):
        return 1.0


class Two:
    def k(self):
        return 2.0


def heir():
    return type("Heir", (One,), {})


@story
def the_bases_of_a_class(wrap):
    cls = heir()
    thing = cls()
    return calls(wrap(lambda x: x * thing.k()), lambda i: setattr(cls, "__bases__", (Two,)))


@story
def the_bases_that_isinstance_looks_at(wrap):
    cls = heir()
    thing = cls()
    f = wrap(lambda x: x * (3.0 if isinstance(thing, Two) else 1.0) * (5.0 if issubclass(cls, One) else 1.0))
    return calls(f, lambda i: setattr(cls, "__bases__", (Two,)))


@story
def the_bases_that_super_looks_at(wrap):
    class Heir(One):
        def k(self):
            return super().k() * 10

    thing = Heir()
    return calls(wrap(lambda x: x * thing.k()), lambda i: setattr(Heir, "__bases__", (Two,)))


@story
def the_subclasses_of_a_class(wrap):
    cls, made = heir(), []
    f = wrap(lambda x: x * (1.0 + sum([len(kind.__name__) for kind in cls.__subclasses__()])))
    return calls(f, lambda i: made.append(type("Kind" * (i + 1), (cls,), {})))


@story
def a_class_that_is_registered(wrap):
    kind = abc.ABCMeta("Kind", (), {})
    cls = heir()
    thing = cls()
    return calls(wrap(lambda x: x * (2.0 if isinstance(thing, kind) else 1.0)), lambda i: kind.register(cls))


@story
def a_protocol(wrap):
    @typing.runtime_checkable
    class HasZ(typing.Protocol):
        z: float

    thing = One()
    return calls(wrap(lambda x: x * (2.0 if isinstance(thing, HasZ) else 1.0)), lambda i: setattr(thing, "z", 1.0))


@story
def the_order_of_an_ordered_dict(wrap):
    d = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
    return calls(wrap(lambda x: folded(d.values(), x)), lambda i: d.move_to_end(next(iter(d))))


@story
def the_order_of_a_set(wrap):
    s = {8, 0}

    def change(i):
        s.clear()
        [s.add(v) for v in ((0, 8), (8, 0), (1, 9, 17))[i]]

    return calls(wrap(lambda x: folded(s, x)), change)


@story
def a_set_with_gaps(wrap):
    s = {1, 2, 3, 10}
    return calls(wrap(lambda x: folded(s, x)), lambda i: s.discard(i + 1))


@story
def a_set_that_the_function_changes(wrap):
    s = {1, 2}

    def f(x):
        s.add(len(s) + 7)
        return folded(s, x)

    return [calls(wrap(f), lambda i: None), sorted(s)]


@story
def a_list_of_indices(wrap):
    at = [0, 1]
    return calls(wrap(lambda x: x[at] * 2), lambda i: at.__setitem__(i % 2, i % 2 ^ 1))


@story
def a_list_of_places_to_write(wrap):
    at, values = [0], [1.0, 2.0]

    def f(x):
        out = x * 2
        out[at] = 9.0
        out[(at, ...)] += torch.tensor(values[:1])
        return out

    return calls(wrap(f), lambda i: (at.__setitem__(0, (i + 1) % 2), values.__setitem__(0, i + 5.0)))


@story
def a_module_that_makes_its_names(wrap):
    module, held = types.ModuleType("made"), [2.0]
    module.__getattr__ = lambda name: held[0]
    return calls(wrap(lambda x: x * module.scale), lambda i: held.__setitem__(0, i + 3.0))


@story
def whether_a_tensor_is_a_leaf(wrap):
    held = [torch.ones(2, requires_grad=True)]
    f = wrap(lambda x: x * (2.0 if held[0].is_leaf else 3.0) * (5.0 if held[0].grad_fn is None else 7.0))
    return calls(f, lambda i: held.__setitem__(0, held[0] * 1 if i != 1 else torch.ones(2)))


@story
def a_method_of_tensors(wrap):
    ours = torch.Tensor.relu

    def change(i):
        torch.Tensor.relu = (lambda t: t * 5) if i == 0 else ours

    return calls(wrap(lambda x: x.relu()), change)


def scaling(**members):
    """A custom function of x * 2, with other members too."""
    given = {"forward": lambda ctx, x: x * 2, "backward": lambda ctx, g: g * 2} | members
    return type("Scaling", (torch.autograd.Function,), {k: staticmethod(f) for k, f in given.items()})


@story
def the_forward_of_a_custom_function(wrap):
    cls = scaling()
    return calls(wrap(lambda x: cls.apply(x)), lambda i: setattr(cls, "forward", staticmethod(lambda ctx, x: x * 5)))


@story
def the_forward_that_a_custom_function_inherits(wrap):
    base = scaling()
    cls = type("Heir", (base,), {})
    return calls(wrap(lambda x: cls.apply(x)), lambda i: setattr(base, "forward", staticmethod(lambda ctx, x: x * 5)))


@story
def the_context_of_a_custom_function(wrap):
    cls = scaling(setup_context=lambda ctx, inputs, output: None, forward=lambda x: x * 2, backward=lambda ctx, g: g)
    run, found = wrap(lambda x: cls.apply(x)), []
    for i in range(4):
        x = torch.ones(2, requires_grad=True)
        run(x).sum().backward()
        found.append(x.grad)
        if i == 1:
            cls.setup_context = staticmethod(lambda ctx, inputs, output: setattr(ctx, "k", 9.0))
            cls.backward = staticmethod(lambda ctx, g: g * ctx.k)
    return found


SETTINGS = {
    "num_threads": (torch.get_num_threads, torch.set_num_threads, (3, 5, 7)),
    "warn_always": (torch.is_warn_always_enabled, torch.set_warn_always, (True, False, True)),
    "the fast path": (
        torch.backends.mha.get_fastpath_enabled,
        torch.backends.mha.set_fastpath_enabled,
        (False, True, False),
    ),
    "flash attention": (
        torch.backends.cuda.flash_sdp_enabled,
        torch.backends.cuda.enable_flash_sdp,
        (False, True, False),
    ),
    "conversion": (
        torch.__future__.get_overwrite_module_params_on_conversion,
        torch.__future__.set_overwrite_module_params_on_conversion,
        (True, False, True),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_read_anew(name):
    get, put, values = SETTINGS[name]
    before = get()
    try:
        never_stale(lambda wrap: (put(before), calls(wrap(lambda x: x * float(get())), lambda i: put(values[i])))[1])
    finally:
        put(before)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_made_by_each_call(name):
    get, put, values = SETTINGS[name]
    before, seen = get(), []

    def f(x):
        put(values[0])
        return x * 2

    try:
        run = torch.compile(f)
        for _ in range(4):
            put(before)
            run(x2())
            seen.append(get())
    finally:
        put(before)
    assert seen == [values[0]] * 4


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])
