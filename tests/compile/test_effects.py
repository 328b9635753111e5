"""Functions that change Python objects: every call of the program changes them, as eager code does.

Each case makes a world of objects and a function that changes them; it is called a few times in eager code, in pieces
and as one program, and the results and the whole world must be the same after every call.
"""

import bisect
import collections
import dataclasses
import heapq
import operator
import threading
import time
import types

import numpy as np
import pytest
from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch
from torchlike import nn
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.program import Program
from torchlike._transforms.capture.structure import flatten_call
from torchlike._transforms.interpreter.run import Interpreter
from torchlike.utils.checkpoint import checkpoint

COUNT = 0
CASES = {}


def case(programs=1, calls=4):
    """Register a case: ``make()`` gives a function of a tensor, and what shows the world."""

    def register(make):
        CASES[make.__name__.rstrip("_")] = make, programs, calls
        return make

    return register


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


# -- lists, dicts, sets, deques ----------------------------------------------------------------------------
@case()
def a_log_that_grows():
    log = []

    def f(x):
        log.append(x * 2)
        log.extend([1, x])
        log.insert(0, "first")
        return x

    return f, lambda: log


@case(programs=None)
def a_log_whose_length_is_read():
    log = []

    def f(x):
        log.append(x)
        return x * len(log)

    return f, lambda: log


@case(programs=None)
def a_window():
    log = []

    def f(x):
        log.append(x * 1)
        if len(log) > 2:
            log.pop(0)
        return sum(log, torch.zeros(2))

    return f, lambda: log


@case()
def a_deque():
    log = collections.deque(maxlen=3)

    def f(x):
        log.append(x * 2)
        log.appendleft(0)
        return x

    return f, lambda: (list(log), log.maxlen)


@case(programs=None)
def every_method_of_lists():
    values = [3, 1, 2]

    def f(x):
        nonlocal values
        values.sort()
        values.reverse()
        values.remove(2)
        values.insert(1, 7)
        values += [5]
        values[1:2] = [8, 9]
        del values[0]
        last = values.pop()
        copy = values.copy()
        values.clear()
        values.extend(v for v in copy)
        values.append(2)
        return x * last + len(values) + values.index(2) + values.count(9)

    return f, lambda: values


@case()
def entries_of_dicts():
    d = {"n": 0, "old": 1}

    def f(x):
        nonlocal d
        d["n"] += 1
        d["x"] = x * 2
        d.update(a=1, b=[x])
        d.update({"c": 2}, e=5)
        d.update([("g", 7)])
        d |= {"h": 8}
        d.setdefault("n", 100)
        return x * d["n"] + d["a"] + d.get("c") + ("zz" in d)

    return f, lambda: d


@case(programs=None)
def every_method_of_dicts():
    d = {"a": 1, "b": 2, "c": 3}

    def f(x):
        d["z"] = d.pop("a", 0)
        d.setdefault("a", 5)
        x = x * d.popitem()[1] + len(d) + sum(d.values())
        del d["z"]
        keys = [*d]
        d.pop("nothing", None)
        d["a"] = len(keys)
        return x

    return f, lambda: list(d.items())


@case(programs=None)
def a_dict_cleared_and_filled():
    d = {"old": 1}

    def f(x):
        d.clear()
        d["y"] = x * 2
        return x + len(d)

    return f, lambda: d


@case(programs=None)
def default_and_ordered_dicts():
    counts, order = collections.defaultdict(int), collections.OrderedDict(a=1, b=2)
    groups = collections.defaultdict(list)

    def f(x):
        counts["n"] += 1
        groups["k"].append(x)
        order.move_to_end("a")
        order["c"] = x
        return x * counts["n"]

    return f, lambda: (dict(counts), dict(groups), list(order.items()))


@case()
def sets():
    s = {1}

    def f(x):
        s.add(2)
        s.update((3, 4))
        s.discard(1)
        return x

    return f, lambda: sorted(s)


@case(programs=None)
def sets_that_are_read():
    s = {1, 2, 3}

    def f(x):
        s.discard(1)
        s.add(9)
        s.remove(2) if 2 in s else s.add(2)
        s.difference_update({3})
        return x * len(s) + sum(sorted(s))

    return f, lambda: sorted(s)


@case()
def a_cache_that_is_filled_by_the_first_call():
    cache = {}

    def f(x):
        if "mask" not in cache:
            cache["mask"] = torch.ones(2) * 3
        return x * cache["mask"]

    def warm():
        f(x2())
        return f

    return warm(), lambda: cache


@case()
def a_list_made_inside_is_kept_and_changed():
    box = types.SimpleNamespace(rows=None)

    def f(x):
        rows = []
        box.rows = rows
        rows.append(x)
        box.rows.append(x * 2)
        return x + len(rows)

    return f, lambda: box.rows


@case()
def nested_containers():
    tree = {"a": {"b": [0, {"n": 1}]}}

    def f(x):
        tree["a"]["b"][1]["n"] += 1
        tree["a"]["new"] = {"x": (x, [x * 2])}
        return x * tree["a"]["b"][1]["n"]

    return f, lambda: tree


@case(programs=None)
def iteration_while_entries_change():
    d = {"a": 1.0, "b": 2.0}

    def f(x):
        for k, v in d.items():
            d[k] = v + 1
        return x * d["a"] + sum(d.values())

    return f, lambda: d


@case(programs=None)
def a_list_that_grows_while_it_is_iterated():
    names = ["a"]

    def f(x):
        for name in names:
            if len(names) < 4:
                names.append(name * 2)
        return x * len(names)

    return f, lambda: names


@case(programs=None)
def what_was_changed_is_read_by_c():
    values = [3.0, 1.0]

    def f(x):
        values.append(2.0)
        values[0] = 5.0
        best, ordered = max(values), sorted(values)
        if len(values) > 2:
            values.pop()
        return x * best + ordered[0] + sum(values) + (5.0 in values) + (values == [5.0, 1.0])

    return f, lambda: values


@case(programs=None)
def functions_of_c_that_change_lists():
    values, heap, d = [1.0, 5.0], [2, 7], {"a": 1}

    def f(x):
        bisect.insort(values, 3.0)
        operator.iadd(values, [9.0])
        heapq.heappush(heap, 1)
        least = heapq.heappop(heap)
        operator.setitem(d, "b", x)
        operator.delitem(d, "a") if "a" in d else None
        return x * least + values[1]

    return f, lambda: (values, heap, d)


@case(programs=None)
def two_names_of_one_list():
    a = [1]
    box = types.SimpleNamespace(a=a)

    def f(x):
        a.append(2)
        box.a.append(3)
        found = x * len(a) + (box.a is a)
        a.pop(), a.pop()
        return found

    return f, lambda: (a, box.a is a)


# -- calls -------------------------------------------------------------------------------------------------
@case()
def generators_and_nested_calls():
    seen = []

    def values(x):
        for k in range(3):
            seen.append(k)
            yield x * k

    class Visitor:
        def visit(self, x):
            seen.append("v")
            return sum(values(x))

    v = Visitor()
    return lambda x: v.visit(x) + v.visit(x), lambda: seen


@case()
def an_error_that_is_caught():
    log = []

    def risky(x):
        log.append("before")
        raise ValueError("no")

    def f(x):
        try:
            risky(x)
        except ValueError as error:
            log.append(str(error))
        finally:
            log.append("end")
        return x

    return f, lambda: log


@case(programs=2)  # the first call finds no attribute in the object
def hooks_and_contexts():
    class Region:
        depth = 0

        def __enter__(self):
            self.depth += 1
            return self.depth

        def __exit__(self, *exc):
            self.depth -= 1

    m, seen, region = nn.Linear(2, 2), [], Region()
    m.register_forward_hook(lambda module, args, out: seen.append(out * 2))

    def f(x):
        with region as depth:
            return m(x) * depth

    return f, lambda: (seen, region.depth)


@case()
def a_training_step_with_a_count():
    m, box = nn.Linear(2, 2), {"steps": 0, "losses": []}
    opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

    def f(x):
        opt.zero_grad()
        loss = m(x).pow(2).sum()
        loss.backward()
        opt.step()
        box["steps"] += 1
        box["losses"].append(loss.detach())
        return loss.detach()

    return f, lambda: (box, m.weight, opt.state_dict()["state"])


class Averaging(torch.optim.Optimizer):
    """An optimizer of the user's: its step is Python like any other."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["n"], state["mean"] = 0, torch.zeros_like(p)
                state["n"] += 1
                state["mean"].mul_(0.9).add_(p.grad)
                p.sub_(group["lr"] * state["mean"] / state["n"])


@case(programs=2)
def an_optimizer_of_the_users():
    p = nn.Parameter(x2())
    optimizer = Averaging([p])

    def f(x):
        optimizer.zero_grad()
        (p * x).pow(2).sum().backward()
        optimizer.step()
        return p.detach().clone()

    return f, lambda: (optimizer.state[p], p)


def run(make, calls, wrap):
    torch.manual_seed(0)
    function, look = make()
    f, seen = wrap(function), []
    for i in range(calls):
        seen.append((numbers(f(x2(i + 1))), numbers(look())))
    return seen, f


@pytest.mark.parametrize("name", CASES)
def test_every_call_changes_what_eager_code_changes(name):
    make, programs, calls = CASES[name]
    expected, _ = run(make, calls, lambda f: f)
    found, f = run(make, calls, lambda f: torch.compile(f, fullgraph=True))
    same(expected, found)
    if programs is not None:
        assert f.count == programs


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_without_fullgraph(name):
    make, _, calls = CASES[name]
    same(run(make, calls, lambda f: f)[0], run(make, calls, torch.compile)[0])


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


# -- when nothing may have changed -----------------------------------------------------------------------------
def world():
    return types.SimpleNamespace(n=0, log=[1], d={"a": 1}, s={1}, last=None)


def change_all(w, x):
    w.n += 1
    w.last = x
    w.log.append(x)
    w.d["a"] = w.d.pop("a") + 1
    w.s.add(w.n)


ITERATOR = iter([1.0] * 9)
ENDS = {
    "an iterator from outside": lambda x: x * next(ITERATOR),
    "the value of a tensor": lambda x: x * x.sum().item(),
    "an unknown function in C": lambda x: x * len(time.ctime()) * 0 + x,
}


@pytest.mark.parametrize("name", ENDS)
def test_a_capture_that_is_given_up_has_changed_nothing(name):
    w = world()

    def f(x):
        change_all(w, x)
        return ENDS[name](x)

    with pytest.raises(RuntimeError, match="is not one program"):
        torch.compile(f, fullgraph=True)(x2())
    same(vars(w), vars(world()))
    torch.compile(f)(x2())
    assert (w.n, len(w.log), w.d, w.s) == (1, 2, {"a": 2}, {1})


def test_an_error_of_the_function_happens_after_what_it_has_changed():
    found = []
    for wrap in (lambda f: f, torch.compile):
        w = world()

        def f(x, w=w):
            change_all(w, x)
            if w.n == 3:
                raise KeyError("three")
            return x * w.n

        run, errors = wrap(f), 0
        for i in range(5):
            try:
                run(x2(i))
            except KeyError:
                errors += 1
        found.append((numbers(vars(w)) | {"s": sorted(w.s)}, errors))
    same(*found)


def test_an_error_of_the_program_leaves_all_as_it_was(monkeypatch):
    w = world()

    @torch.compile(fullgraph=True)
    def f(x):
        change_all(w, x)
        return x * w.n

    f(x2())
    [(_, program)] = f.programs.popitem()[1]
    before = numbers(vars(w))

    def fail(*values):
        raise MemoryError

    with pytest.raises(MemoryError):
        leaves = [x2()]
        monkeypatch.setitem(program.run_alone.__globals__, "early", fail)
        program.run_alone(leaves, program.numbers())
    same(before, numbers(vars(w)))


def test_nothing_changes_before_the_program_has_run():
    w, (leaves, tree) = world(), flatten_call((x2(),), {})
    moving = {("entry", id(vars(w)), "n"), ("entry", id(w.d), "a")}
    with Interpreter(lambda x: (change_all(w, x), x * 2)[1], moving) as interpreter:
        trace = Trace(interpreter, leaves, tree)
    same(vars(w), vars(world()))
    assert Program(trace)(leaves, first=True).tolist() == [2, 2] and w.n == 1 and w.d == {"a": 2}


def test_threads_that_change_one_world():
    w = types.SimpleNamespace(log=[], d={}, last=None)

    @torch.compile(fullgraph=True)
    def f(x, k):
        w.log.append(x * 2)
        w.d[k] = w.last = x + 1
        return x

    def work(k):
        for i in range(50):
            f(x2(i), k)

    threads = [threading.Thread(target=work, args=(k,)) for k in "ab"]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(int(x[0]) for x in w.log) == sorted([2 * i for i in range(50)] * 2)
    assert w.d["a"].tolist() == w.d["b"].tolist() == [50, 50] and any(w.last is x for x in w.d.values())


# -- what stays in pieces ----------------------------------------------------------------------------------------
class Meta(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value + 1)


class Odd(metaclass=Meta):
    n = 0


def stores(value):
    def make():
        box = types.SimpleNamespace()

        def f(x):
            box.kept = value(x)
            return x

        return f

    return make


def stored_within_a_transform():
    box = types.SimpleNamespace(n=0, y=None)

    def g(y):
        box.n, box.y = box.n + 1, y * 2
        return (y * y).sum()

    return lambda x: torch.func.grad(g)(x)


def recomputed():
    log, w = [], nn.Parameter(x2())

    def f(x):
        y = checkpoint(lambda v: (log.append(1), v * w)[1], x, use_reentrant=False)
        return y.sum()

    return f


def chosen():
    log = []

    def branch(v):
        log.append(1)
        return v * 2

    return lambda x: torch.cond(x.sum() > 0, branch, branch, (x,))


def in_backward():
    log = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append(1)
            return g * 2

    w = nn.Parameter(x2())
    return lambda x: Twice.apply(w * x)


REFUSED = {
    "a function made inside": stores(lambda x: lambda: x),
    "an iterator": stores(lambda x: iter([x])),
    "a numpy array": stores(lambda x: np.zeros(2)),
    "a parameter made inside": stores(lambda x: nn.Parameter(torch.zeros(2))),
    "a list that holds itself": stores(lambda x: (rows := [x], rows.append(rows))[0]),
    "rows of a native map": stores(lambda x: list(map(list, ["ab"]))),
    "a metaclass with __setattr__": lambda: lambda x: (setattr(Odd, "n", 3), x)[1],
    "a tensor of a transform": stored_within_a_transform,
    "a checkpoint": recomputed,
    "cond": chosen,
    "a backward that is traced later": in_backward,
    "a bound append": lambda log=[]: lambda x: (list(map(log.append, [1])), x)[1],  # noqa: B006
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_program_for(name):
    f = REFUSED[name]()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.compile(f, fullgraph=True)(x2())
