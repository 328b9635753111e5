"""Methods of the user's classes that C calls, slots that are empty at first, and what a program cannot run again."""

import gc
import sys

import pytest
from guard_kit import x2
from stale_kit import never_stale, of_state

import torchlike as torch


class Key:
    """Equal to others of its ``k``, and a place in a list."""

    def __init__(self, k=1):
        self.k = k

    def __hash__(self):
        return hash(self.k % 100)

    def __eq__(self, other):
        return self.k == other.k

    def __index__(self):
        return self.k

    def __float__(self):
        return self.k / 2


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1.0


class WrongFloat:
    def __float__(self):
        return 1


class WrongTruth:
    def __bool__(self):
        return "yes"


def _k(value):
    return lambda s: setattr(s, "k", value)


KEYS = {
    "a_set": lambda x, s: x * len({s, Key()}),
    "a_set_built": lambda x, s: x * len({v for v in (s, Key())}),
    "a_set_unpacked": lambda x, s: x * len({*[s], *[Key()]}),
    "a_dict": lambda x, s: x * {Key(): 2.0}.get(s, 3.0),
    "a_dict_built": lambda x, s: x * len({v: 1 for v in (s, Key())}),
    "a_subscript_of_a_dict": lambda x, s: x * {Key(1): 2.0, Key(0): 5.0, Key(2): 7.0}[s],
    "a_list_compared": lambda x, s: x * (2 if [s] == [Key()] else 3),
    "a_tuple_within": lambda x, s: x * (2 if (s,) in [(Key(),)] else 3),
    "a_place": lambda x, s: x * [5.0, 7.0, 9.0][s],
    "a_place_of_a_range": lambda x, s: x * range(4, 9)[s],
    "a_float": lambda x, s: x * float(s),
}


@pytest.mark.parametrize("name", KEYS)
def test_methods_that_c_calls_are_seen(name):
    never_stale(of_state(Key, KEYS[name], [_k(2), _k(0), _k(1)]))


def test_a_slot_may_be_set_later():
    changes = [lambda s: setattr(s, "b", 3.0), lambda s: delattr(s, "b"), lambda s: setattr(s, "a", 9.0)]
    never_stale(of_state(Slots, lambda x, s: x * getattr(s, "b", 7.0) + s.a, changes))


def test_the_limit_of_recursion_is_read_anew():
    before = sys.getrecursionlimit()
    changes = [lambda s: sys.setrecursionlimit(before + 9), lambda s: sys.setrecursionlimit(before)]
    try:
        never_stale(of_state(lambda: None, lambda x, s: x * (sys.getrecursionlimit() % 97), changes))
    finally:
        sys.setrecursionlimit(before)


def test_del_runs_in_every_call():
    def f(x, s):
        kind = type("Told", (), {"__del__": lambda self: s.append(1.0)})
        kind()
        return x * len(s)

    never_stale(of_state(list, f, [lambda s: s.clear()]))
    gc.collect()


@pytest.mark.parametrize("f", [lambda x: x * float(WrongFloat()), lambda x: x * (2 if WrongTruth() else 3)])
def test_wrong_types_are_refused(f):
    with pytest.raises(TypeError) as expected:
        f(x2())
    with pytest.raises(TypeError) as found:
        torch.compile(f)(x2())
    assert str(found.value) == str(expected.value)
