"""``torch.fx.experimental.symbolic_shapes`` on the sizes of tensors, which are plain numbers."""

import importlib

import pytest
from story_kit import said, story


@story
def test_conditions_on_plain_sizes(t):
    s = importlib.import_module(f"{t.__name__}.fx.experimental.symbolic_shapes")
    x = t.ones(2, 3)
    one = ["guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true", "statically_known_false"]
    asked = [getattr(s, name)(x.shape[0] > n) for name in [*one, "guard_bool"] for n in (1, 2)]
    numbers = [s.guard_int(3), s.guard_float(2.5), s.guard_scalar(3), s.guard_scalar(2.5), s.expect_true(True)]
    free = [list(f(v)) for f in (s.free_symbols, s.free_unbacked_symbols) for v in (3, x, (3, x))]
    known = [s.is_symbolic(3), s.is_concrete_int(3), s.is_concrete_bool(True), s.is_concrete_float(2.0)]
    known += [f(v) for f in (s.has_free_symbols, s.has_free_unbacked_symbols) for v in (3, x)]
    pairs = [(3, 3), (3, 4), ((1, 2), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (1,)), ([1], (1,)), (x.shape, (2, 3))]
    logic = [f(*c) for f in (s.sym_and, s.sym_or) for c in ((True, False), (True,), (False,), (True, True))]
    calls = [lambda: s.guard_or_false(3), lambda: s.guard_int(3.5), lambda: s.guard_float(2), lambda: s.guard_bool(0)]
    told = [said(c, "Expected (bool|int|float)") for c in [*calls, lambda: s.statically_known_true(1)]]
    error = issubclass(s.GuardOnDataDependentSymNode, RuntimeError)
    return asked, numbers, free, known, [s.sym_eq(*p) for p in pairs], logic, told, error


def test_an_environment_of_symbols_is_refused():
    with pytest.raises(NotImplementedError, match=r"ShapeEnv\(\): sizes are numbers here.*dynamic_shapes"):
        importlib.import_module("torchlike.fx.experimental.symbolic_shapes").ShapeEnv(duck_shape=False)
