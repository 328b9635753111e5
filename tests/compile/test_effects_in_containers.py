"""Functions that change lists, dicts, sets and deques, and what they call; see test_effects."""

import bisect
import collections
import heapq
import operator
import types

import pytest
from effect_kit import Cases, as_eager_code, as_eager_code_in_pieces
from guard_kit import x2

import torchlike as torch
from torchlike import nn

CASES = Cases()
case = CASES.case


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


@pytest.mark.parametrize("name", CASES)
def test_every_call_changes_what_eager_code_changes(name):
    as_eager_code(*CASES[name])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_without_fullgraph(name):
    make, _, calls = CASES[name]
    as_eager_code_in_pieces(make, calls)


@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_a_set_whose_copy_has_another_order():
    """A program would see the order of a copy: after ``remove`` and ``add`` it is not the set's."""
    as_eager_code_in_pieces(sets_that_are_read, 4)
