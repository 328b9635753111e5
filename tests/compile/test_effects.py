"""Functions that change Python objects: every call of the program changes them, as eager code does.

Each case makes a world of objects and a function that changes them; it is called a few times in eager code, in pieces
and as one program, and the results and the whole world must be the same after every call.
"""

import dataclasses
import types

import pytest
from effect_kit import Cases, as_eager_code, as_eager_code_in_pieces
from guard_kit import x2

import torchlike as torch
from torchlike import nn

COUNT = 0
CASES = Cases()
case = CASES.case


class Slotted:
    __slots__ = ("n", "last")

    def __init__(self):
        self.n, self.last = 0, None


class Shared:
    total = 0
    last = None


@dataclasses.dataclass
class State:
    step: int
    value: object


class Checked:
    """Sets attributes through a property and through ``__setattr__``."""

    def __init__(self):
        object.__setattr__(self, "changes", [])
        object.__setattr__(self, "_rate", 1.0)

    @property
    def rate(self):
        return self._rate

    @rate.setter
    def rate(self, value):
        object.__setattr__(self, "_rate", value * 2)

    def __setattr__(self, name, value):
        self.changes.append(name)
        object.__setattr__(self, name, value)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.last, self.seen = nn.Linear(2, 2), 0, None, []
        self.register_buffer("h", torch.zeros(2))
        self.state = (torch.zeros(2), torch.ones(2))


def ordinals(box, found):
    """What is the same object as what."""
    return [[i for i, y in enumerate(found) if y is x] for x in found] + [len(vars(box))]


# -- attributes --------------------------------------------------------------------------------------------
@case()
def a_counter_of_a_module():
    m = Stateful()

    def f(x):
        m.calls += 1
        return m.linear(x) * m.calls

    return f, lambda: m.calls


@case()
def a_counter_that_is_not_read_otherwise():
    box = types.SimpleNamespace(n=0, total=0.5)

    def f(x):
        box.n += 1
        box.total = box.total * 2 + box.n
        return x * 2

    return f, lambda: (box.n, box.total)


@case()
def a_counter_that_a_branch_reads():
    box = types.SimpleNamespace(n=0)

    def f(x):
        box.n += 1
        return x * 2 if box.n < 10 else x

    return f, lambda: box.n


@case(programs=2)
def a_counter_whose_parity_a_branch_reads():
    box = types.SimpleNamespace(n=0)

    def f(x):
        box.n += 1
        return x * 2 if box.n % 2 else x

    return f, lambda: box.n


@case(programs=2)
def a_flag_that_is_toggled():
    m = Stateful()
    m.flag = True

    def f(x):
        m.flag = not m.flag
        return x * 2 if m.flag else x

    return f, lambda: m.flag


@case()
def the_last_result_is_the_result():
    m = Stateful()

    def f(x):
        y = m.linear(x)
        m.last, m.both = y, (y, [y])
        return y

    return f, lambda: (m.last, m.both[0] is m.last, m.both[1][0] is m.last)


@case()
def a_result_twice():
    def f(x):
        y = x * 2
        return y, {"y": y}

    return f, lambda: None


@case()
def a_view_of_the_result_is_kept():
    box = types.SimpleNamespace()

    def f(x):
        y = x * 2
        box.view, box.half = y[1:], y[:1]
        return y

    def look():
        box.view.add_(1)
        return box.view, box.half, box.view._base is box.half._base

    return f, look


@case()
def an_argument_is_kept():
    box = types.SimpleNamespace()

    def f(x):
        box.x = x
        return x + 1

    return f, lambda: box.x


@case()
def a_hidden_state():
    m = Stateful()

    def f(x):
        m.h = torch.tanh(m.linear(x) + m.h).detach()
        return m.h * 1

    return f, lambda: m.h


@case(programs=2)
def a_hidden_state_with_history():
    m = Stateful()

    def f(x):
        m.h = torch.tanh(m.linear(x) + m.h)
        return m.h.sum()

    return f, lambda: m.h


@case()
def a_pair_of_states():
    m = Stateful()

    def f(x):
        h, c = m.state
        m.state = (torch.tanh(c + x), h * 2)
        return h + c

    return f, lambda: m.state


@case()
def a_running_mean_in_a_list():
    means = [torch.zeros(2), 1]

    def f(x):
        means[0] = 0.9 * means[0] + 0.1 * x
        means[-1] += 1
        return x - means[0]

    return f, lambda: means


@case()
def attributes_by_setattr_and_the_dict():
    m = Stateful()

    def f(x):
        m.late = 1
        vars(m)["other"] = m.late + 1
        m.__dict__.update(third=m.other * 2)
        return x * m.third

    return f, lambda: (m.late, m.other, m.third)


@case(programs=None)
def attributes_that_come_and_go():
    box = Stateful()

    def f(x):
        box.tmp = x
        had = hasattr(box, "tmp")
        del box.tmp
        return x * 2 if had and not hasattr(box, "tmp") else x

    return f, lambda: hasattr(box, "tmp")


@case()
def properties_and_setattr():
    c = Checked()

    def f(x):
        c.rate = 3.0
        return x * c.rate

    return f, lambda: (c.rate, len(c.changes))


@case()
def slots():
    s = Slotted()

    def f(x):
        s.n += 2
        s.last = x * s.n
        return x + s.n

    return f, lambda: (s.n, s.last)


@case()
def members_of_a_class():
    Shared.total, Shared.last = 0, None

    def f(x):
        Shared.total += 1
        Shared.last = x * 2
        return x + Shared.total

    return f, lambda: (Shared.total, Shared.last)


@case()
def attributes_of_functions_and_modules():
    def helper(x):
        helper.calls += 1
        return x * helper.calls

    helper.calls = 0
    space = types.ModuleType("space")
    space.n = 0

    def f(x):
        space.n += 1
        return helper(x) + space.n

    return f, lambda: (helper.calls, space.n)


@case()
def an_attribute_of_a_parameter():
    p = nn.Parameter(x2())
    p.uses = 0

    def f(x):
        p.uses += 1
        return x * p

    return f, lambda: p.uses


@case()
def an_object_made_inside():
    box = types.SimpleNamespace()

    def f(x):
        s = State(1, x * 2)
        box.state, box.states = s, [s]
        return x

    return f, lambda: (box.state.value, box.states[0] is box.state)


@case()
def a_buffer_is_replaced():
    m = Stateful()

    def f(x):
        m.h = m.h + x
        return x * 1

    return f, lambda: (m.h, m.state_dict()["h"])


@case()
def a_write_in_place_of_what_was_set():
    m = Stateful()

    def f(x):
        m.h = m.h * 2
        m.h.add_(x)
        return m.h + 1

    return f, lambda: m.h


# -- variables ---------------------------------------------------------------------------------------------
@case()
def a_global():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    return f, lambda: COUNT


@case()
def a_variable_of_a_closure():
    n, last = 0, None

    def f(x):
        nonlocal n, last
        n += 3
        last = x * n
        return x + n

    return f, lambda: (n, last)


@case()
def a_variable_set_by_a_helper():
    n = 0

    def bump(k=1):
        nonlocal n
        n += k

    def f(x):
        bump()
        for k in (1, 2):
            bump(k)
        return x * n

    return f, lambda: n


@pytest.mark.parametrize("name", CASES)
def test_every_call_changes_what_eager_code_changes(name):
    as_eager_code(*CASES[name])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_without_fullgraph(name):
    make, _, calls = CASES[name]
    as_eager_code_in_pieces(make, calls)


def test_programs_that_undo_what_they_rely_on_end_in_pieces():
    log = []

    @torch.compile
    def f(x):
        log.append(x * 1)
        if len(log) > 2:
            log.pop(0)
        return sum(log, torch.zeros(2))

    assert [f(x2(i)).tolist()[0] for i in range(9)] == [0, 1, 3, 5, 7, 9, 11, 13, 15]
    assert f.count < 6 and "changes what the next one relies on" in f.eager


def test_what_is_kept_twice_is_one_object():
    box = types.SimpleNamespace()

    @torch.compile(fullgraph=True)
    def f(x):
        y, rows = x * 2, [x]
        box.a, box.b, box.c, box.d = y, y, rows, (rows, x)
        return y

    for _ in range(3):
        x = x2()
        y = f(x)
        assert box.a is box.b is y and box.c is box.d[0] and box.d[1] is x and box.c[0] is x
