"""What inspect, ctypes and numpy tell of objects that have changed since, and settings of numpy; see test_stale."""

import ctypes
import functools
import gc
import inspect
import string
import sys
import types
import typing

import numpy as np
import pytest
from compile_kit import numbers, same
from guard_kit import x2
from stale_kit import Stories, calls, never_stale, of_state

import torchlike as torch

STORIES = Stories()
story = STORIES.story


def scaled(k=2.0):
    "ab"
    return k


def _function():
    return types.FunctionType(scaled.__code__, globals(), "scaled", scaled.__defaults__)


def _kind():
    return type("Kind", (), {"n": 2, "__annotations__": {"n": int}})


class Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_float), ("rest", ctypes.c_float * 2)]


def _set(name, value):
    return lambda s: setattr(s, name, value)


def _put(key, value):
    return lambda s: s.__setitem__(key, value)


_DEFAULTS = _set("__defaults__", (5.0,))
_OVERRIDES = classmethod(lambda cls, *args, **kwargs: NotImplemented)
INSPECTED = {
    "defaults": (_function, lambda x, s: x * inspect.signature(s).parameters["k"].default, _DEFAULTS),
    "a_signature": (
        _function, lambda x, s: x * len(inspect.signature(s).parameters), _set("__signature__", inspect.Signature()),
    ),
    "a_specification": (_function, lambda x, s: x * inspect.getfullargspec(s).defaults[0], _DEFAULTS),
    "documentation": (_function, lambda x, s: x * len(inspect.getdoc(s) or ""), _set("__doc__", "abcd")),
    "hints": (
        _kind, lambda x, s: x * (typing.get_type_hints(s)["n"] is int), lambda s: s.__annotations__.update(n=str),
    ),
    "members": (_kind, lambda x, s: x * len([n for n, _ in inspect.getmembers(s()) if n[0] != "_"]), _set("m", 1)),
    "static_attributes": (_kind, lambda x, s: x * inspect.getattr_static(s(), "n"), _set("n", 5)),
    "whether_it_is_a_function": (lambda: [scaled], lambda x, s: x * inspect.isfunction(s[0]), _put(0, 3)),
    "a_template": (lambda: string.Template("$n"), lambda x, s: x * float(s.substitute(n=2)), _set("template", "7")),
    "an_array_of_c": (lambda: (ctypes.c_float * 2)(1, 2), lambda x, s: x * s[1], _put(1, 5.0)),
    "numbers_of_c": (lambda: (ctypes.c_float * 2)(1, 2), lambda x, s: x * sum(s), _put(1, 5.0)),
    "a_field_of_c": (lambda: Pair(1, (2, 3)), lambda x, s: x * s.first, _set("first", 5.0)),
    "an_array_in_a_field": (lambda: Pair(1, (2, 3)), lambda x, s: x * s.rest[1], lambda s: _put(1, 5.0)(s.rest)),
    "a_record": (lambda: np.ones(2, [("a", "f4")])[0], lambda x, s: x * s["a"], _put("a", 5.0)),
    "a_polynomial": (lambda: np.poly1d([1.0, 2.0]), lambda x, s: x * s(2.0), _put(0, 5.0)),
    "whether_it_is_like_a_tensor": (
        _kind, lambda x, s: x * (2 if torch.overrides.is_tensor_like(s()) else 1),
        _set("__torch_function__", _OVERRIDES),
    ),
    "whether_it_overrides": (
        _kind, lambda x, s: x * (2 if torch.overrides.has_torch_function((s(), x)) else 1),
        _set("__torch_function__", _OVERRIDES),
    ),
    "whether_its_memory_is_shared": (
        lambda: torch.ones(2), lambda x, s: x * (2 if s.is_shared() else 1), lambda s: s.share_memory_(),
    ),
    "whether_it_is_callable": (_kind, lambda x, s: x * (2 if callable(s()) else 1), _set("__call__", len)),
    "the_name_of_a_class": (_kind, lambda x, s: x * len(s.__name__), _set("__name__", "Name")),
    "another_partial": (
        lambda: functools.partial(torch.mul, 2.0), lambda x, s: s(x),
        lambda s: s.__setstate__((torch.add, (3.0,), {}, {})),
    ),
    "flags": (lambda: np.ones(2), lambda x, s: x * s.flags.writeable, lambda s: s.setflags(write=False)),
}  # fmt: skip
for name, (make, f, change) in INSPECTED.items():
    STORIES[name] = of_state(make, f, [change])


@story
def a_vectorized_function(wrap):
    scale = [1.0]
    twice = np.vectorize(lambda t: t * scale[0])
    return calls(wrap(lambda x: x * float(twice(2.0))), lambda i: scale.append(scale.pop() + 1))


def _settings(get, choose, values):
    def story(wrap):
        run, before, found = wrap(lambda x: (x + 1, get())), get(), []
        for value in values:
            choose(value)
            found += [run(x2()), run(x2())]
        choose(before)
        return found

    return story


INVARIANTS = torch.sparse.check_sparse_tensor_invariants
STORIES |= {
    "invariants": _settings(
        INVARIANTS.is_enabled, lambda on: INVARIANTS.enable() if on else INVARIANTS.disable(), (False, True)
    ),
    "multithreading": _settings(
        torch.autograd.is_multithreading_enabled, torch.autograd.set_multithreading_enabled, (True, False)
    ),
    "the_execution": _settings(torch.get_execution, torch.set_execution, ("recorded", "immediate")),
    "the_folder_of_downloads": _settings(torch.hub.get_dir, torch.hub.set_dir, ("/a", "/b")),
}


@story
def what_a_mode_inside_reads(wrap):
    scale = [2.0]

    class Scaling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {})) * scale[0]

    def f(x):
        with Scaling():
            return torch.sin(x)

    return calls(wrap(f), lambda i: scale.append(scale.pop() + 1))


@story
def the_frame_of_who_calls(wrap):
    def name():
        return sys._getframe(1).f_code.co_name

    return calls(wrap(lambda x: x * len(name())), lambda i: None)


@story
def a_kernel_that_was_registered_later(wrap):
    library = torch.library.Library(f"stale_kernels_{id(wrap)}", "DEF")
    library.define("scale(Tensor x) -> Tensor")
    library.impl("scale", lambda x: x * 2, "CompositeExplicitAutograd")
    op = getattr(torch.ops, library.ns).scale
    return calls(wrap(lambda x: op(x)), lambda i: library.impl("scale", lambda x: x * 3, "CPU") if i == 0 else None)


def under_errstates(wrap, divided):
    def f(x):
        try:
            return x * float(divided() > 0)
        except FloatingPointError:
            return x * 7

    run, found = wrap(f), []
    for mode in ("ignore", "raise", "ignore"):
        with np.errstate(divide=mode):
            found += [run(x2()), run(x2())]
    return found


@story
def the_errstate(wrap):
    zero = [np.float64(0)]
    return under_errstates(wrap, lambda: 1 / zero[0])


@story
def the_errstate_of_numbers(wrap):
    zero = [0.0]
    return under_errstates(wrap, lambda: np.divide(1.0, zero[0]))


@story
def numpy_s_settings_themselves(wrap):
    def f(x):
        called = 1 if np.geterrcall() is None else 2
        return x * len(np.geterr()["divide"]) + np.getbufsize() + called + np.get_printoptions()["precision"]

    run, found, size = wrap(f), [], np.getbufsize()
    contexts = np.errstate(divide="raise"), np.errstate(call=print), np.printoptions(precision=3)
    for context in contexts:
        found.append(run(x2()))
        with context:
            found += [run(x2()), run(x2())]
    np.setbufsize(2 * size)
    found.append(run(x2()))
    np.setbufsize(size)
    return [*found, run(x2())]


@story
def the_printoptions(wrap):
    third, found = np.array([1 / 3]), []
    run = wrap(lambda x: x * len(str(third)))
    for precision in (8, 2, 8):
        with np.printoptions(precision=precision):
            found += [run(x2()), run(x2())]
    return found


@story
def a_seed_that_was_the_last_one_too(wrap):
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            first = torch.rand(2)
        return x + first + torch.rand(2)

    return calls(wrap(f), lambda i: None)


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")
def test_anomaly_mode_looks_into_compiled_functions():
    weight = torch.ones(2, requires_grad=True)

    def step(x):
        weight.grad = None
        (weight.log() * x).sum().backward()
        return weight.grad.clone()

    run = torch.compile(step)
    same(numbers(run(x2())), numbers(step(x2())))
    with torch.no_grad():
        weight.zero_()
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
        run(x2() * 0)
    assert run(x2()).isinf().all()


def seeded_inside(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        y = torch.rand(2)
        if x.sum().item() > 0:
            y = y + 1
    return y + torch.rand(2) + x


def test_contexts_that_a_trace_left_end_with_it():
    """Not when the garbage collector finds them, which would put the generator back once more."""
    found = []
    for function in (seeded_inside, torch.compile(seeded_inside)):
        torch.manual_seed(0)
        outs = []
        for i in range(3):
            outs += [function(torch.full((2,), i + 1.0)), torch.rand(1)]
            gc.collect()
            outs.append(torch.rand(1))
        found.append(torch.cat(outs).tolist())
    assert found[0] == pytest.approx(found[1], abs=1e-6)
