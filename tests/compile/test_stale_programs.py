"""Programs made at random of reads and changes of Python state, which also changes between calls: as in eager code."""

import os
import random
import types

import pytest
from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch
from torchlike import nn

SCALE, CALLS = 2.0, 0
CASES = int(os.environ.get("TORCHLIKE_CASES", 12))


class Switch:
    def __init__(self):
        self.on, self.n, self.table = True, 2, {"a": 2.0, "b": 3.0}

    def __bool__(self):
        return self.on

    def __len__(self):
        return self.n

    def __getitem__(self, key):
        return self.table[key]

    def __iter__(self):
        return iter(self.table.values())

    def __enter__(self):
        return self.n

    def __exit__(self, *exc):
        return False

    @property
    def double(self):
        return self.n * 2

    def method(self, k=1.5):
        return self.n + k


def world():
    """All that the programs read."""
    w = types.SimpleNamespace()
    w.number, w.text, w.flag, w.none = 0.5, "sin", True, None
    w.items, w.table, w.chosen = [1.0, 2.0], {"a": 1.0, "b": 2.0}, {1, 2}
    w.switch, w.model, w.parameter = Switch(), nn.Sequential(nn.Linear(2, 2), nn.Tanh()), nn.Parameter(x2())
    w.parameter.scale, w.model.extra = 1.5, 3
    w.opt = torch.optim.SGD(w.model.parameters(), lr=0.1)
    w.seen, w.log, w.cache, w.state, w.pair = [], [], {}, x2(0.5), (x2(0), x2(1))
    w.last = w.rows = w.same = None

    def helper(x, k=2.0, *, m=1.0):
        return x * k + m * helper.extra

    helper.extra = 0.5
    w.helper = helper
    return w


def entered(w, x):
    with w.switch as n:
        return x * n


READS = {
    "number": lambda w, x: x * w.number,
    "text": lambda w, x: getattr(torch, w.text)(x),
    "flag": lambda w, x: x + 1 if w.flag else x - 1,
    "none": lambda w, x: x if w.none is None else x * w.none,
    "item": lambda w, x: x * w.items[-1] + len(w.items),
    "sum of items": lambda w, x: x + sum(w.items),
    "loop": lambda w, x: [x := x + v * i for i, v in enumerate(w.items)][-1],
    "entry": lambda w, x: x * w.table.get("a", 5.0) + w.table.get("z", 0.25),
    "entries": lambda w, x: x + sum(len(k) * v for k, v in w.table.items()),
    "in a dict": lambda w, x: x * 2 if "c" in w.table else x,
    "in a set": lambda w, x: x * 2 if 3 in w.chosen else x,
    "truth": lambda w, x: x * 3 if w.switch else x,
    "length": lambda w, x: x + len(w.switch),
    "getitem": lambda w, x: x * w.switch["a"],
    "iteration": lambda w, x: x + sum(w.switch),
    "property": lambda w, x: x * w.switch.double,
    "method": lambda w, x: x * w.switch.method(),
    "context": entered,
    "hasattr": lambda w, x: x * 2 if hasattr(w, "late") else x,
    "getattr": lambda w, x: x * getattr(w, "late", 1.25),
    "helper": lambda w, x: w.helper(x),
    "module": lambda w, x: w.model(x) * w.model.extra,
    "training": lambda w, x: x * 2 if w.model.training else x,
    "parameter": lambda w, x: x * w.parameter.scale + w.parameter,
    "gradient": lambda w, x: x if w.parameter.grad is None else x + w.parameter.grad,
    "lr": lambda w, x: x * w.opt.param_groups[0]["lr"],
    "global": lambda w, x: x * SCALE,
    "random": lambda w, x: x + random.random(),
    "append": lambda w, x: (w.seen.append(1), x + len(w.seen))[1],
    "backward": lambda w, x: ((w.parameter * x).sum().backward(), x * 1)[1],
    "comprehension": lambda w, x: x + max([v * 2 for v in w.items if v > 0] or [0]),
    "sorted": lambda w, x: x * sorted(w.table, key=lambda k: -w.table[k])[0].count("a"),
}


def counted(w, x):
    global CALLS
    CALLS += 1
    return x + CALLS % 7


EFFECTS = {
    "count": lambda w, x: (setattr(w.switch, "n", w.switch.n + 1), x * w.switch.n)[1],
    "count of a module": lambda w, x: (setattr(w.model, "extra", w.model.extra + 1), x + w.model.extra)[1],
    "number": lambda w, x: (setattr(w, "number", w.number * 0.5), x * w.number)[1],
    "last": lambda w, x: (setattr(w, "last", x * 2), x + w.last)[1],
    "last of a module": lambda w, x: (setattr(w.model, "last", x), x * 2)[1],
    "state": lambda w, x: (setattr(w, "state", torch.tanh(w.state + x)), w.state * 2)[1],
    "pair": lambda w, x: (setattr(w, "pair", (w.pair[1] + x, w.pair[0])), x + w.pair[0])[1],
    "toggle": lambda w, x: (setattr(w, "flag", not w.flag), x)[1],
    "log": lambda w, x: (w.log.append(x), x)[1],
    "log, read": lambda w, x: (w.log.append(x), x + len(w.log) % 3)[1],
    "log, taken": lambda w, x: (w.log.append(x * 2), w.log.pop(0))[1],
    "entry": lambda w, x: (w.table.update(a=w.table.get("a", 0) + 1), x + w.table["a"])[1],
    "no entry": lambda w, x: x + w.table.pop("b", 0.5),
    "element": lambda w, x: (w.items.__setitem__(0, w.items[0] + 1), x * w.items[0])[1],
    "set": lambda w, x: (w.chosen.add(3), x + len(w.chosen))[1],
    "cache": lambda w, x: x + w.cache.setdefault(w.text, x.detach() * 0 + 1),
    "attribute of a function": lambda w, x: (setattr(w.helper, "extra", w.helper.extra + 1), w.helper(x))[1],
    "attribute of a parameter": lambda w, x: (setattr(w.parameter, "scale", 2.5), x * w.parameter.scale)[1],
    "one list twice": lambda w, x: (setattr(w, "rows", [x]), setattr(w, "same", w.rows), w.same.append(1), x)[-1],
    "comprehension": lambda w, x: ([w.log.append(v) for v in w.items], x)[1],
    "global": counted,
    "no attribute": lambda w, x: (setattr(w, "tmp", 1), delattr(w, "tmp"), x)[-1],
    "sorted": lambda w, x: (w.items.sort(reverse=True), x + w.items[0])[1],
}


def set_global(w, r):
    global SCALE
    SCALE = float(r.randrange(5))


CHANGES = {
    "number": lambda w, r: setattr(w, "number", r.choice([0.5, 1.5, -0.0, 0.0, 3, float("inf"), r.random()])),
    "text": lambda w, r: setattr(w, "text", r.choice(["sin", "cos", "tanh"])),
    "flag": lambda w, r: setattr(w, "flag", r.choice([True, False, 1, 0])),
    "none": lambda w, r: setattr(w, "none", r.choice([None, 2.0, 0])),
    "items": lambda w, r: w.items.append(r.random()) if len(w.items) < 3 else w.items.pop(0),
    "item": lambda w, r: w.items.__setitem__(-1, r.randrange(4) * 1.0),
    "entry": lambda w, r: w.table.update({r.choice("abcz"): r.random()}),
    "no entry": lambda w, r: w.table.pop(r.choice("cz"), None),
    "set": lambda w, r: w.chosen.symmetric_difference_update({r.choice([3, 4])}),
    "switch": lambda w, r: setattr(w.switch, "on", r.choice([True, False])),
    "count": lambda w, r: setattr(w.switch, "n", r.randrange(4)),
    "table": lambda w, r: w.switch.table.update(a=r.random()),
    "method": lambda w, r: setattr(w.switch, "method", r.choice([lambda: 7.0, lambda: w.switch.n])),
    "no method": lambda w, r: vars(w.switch).pop("method", None),
    "late": lambda w, r: setattr(w, "late", r.random()) if not hasattr(w, "late") else delattr(w, "late"),
    "defaults": lambda w, r: setattr(w.helper, "__defaults__", (r.random(),)),
    "keyword defaults": lambda w, r: w.helper.__kwdefaults__.update(m=r.random()),
    "extra of a function": lambda w, r: setattr(w.helper, "extra", r.random()),
    "extra of a module": lambda w, r: setattr(w.model, "extra", r.randrange(5)),
    "mode": lambda w, r: w.model.train(r.choice([True, False])),
    "layer": lambda w, r: w.model.__setitem__(1, r.choice([nn.ReLU(), nn.Sigmoid()])),
    "forward": lambda w, r: setattr(w.model[1], "forward", lambda x: x * 3),
    "scale": lambda w, r: setattr(w.parameter, "scale", r.random()),
    "gradient": lambda w, r: setattr(w.parameter, "grad", r.choice([None, x2(r.random())])),
    "lr": lambda w, r: w.opt.param_groups[0].update(lr=r.random()),
    "global": set_global,
    "nothing": lambda w, r: None,
}


def shown(w):
    """All that the programs change."""
    found = [w.number, w.flag, w.last, w.state, w.pair, w.log, w.table, w.items, sorted(w.chosen), w.cache, w.rows]
    found += [w.same is w.rows, w.switch.n, w.model.extra, getattr(w.model, "last", 0), w.helper.extra, len(w.seen)]
    return numbers([*found, w.parameter.scale, w.parameter.grad, CALLS, list(w.table), hasattr(w, "tmp")])


def run(case, wrap, steps=READS, changes=3):
    global SCALE, CALLS
    SCALE, CALLS = 2.0, 0
    r = random.Random(case)
    torch.manual_seed(0)
    w, chosen = world(), r.sample(list(steps.values()), r.randrange(1, 5))

    def program(x):
        for step in chosen:
            x = step(w, x)
        return x

    f, found = wrap(program), []
    for _ in range(8):
        random.seed(case)
        found.append((numbers(f(x2(r.random()))), shown(w)))
        for _ in range(r.randrange(changes)):
            CHANGES[r.choice(list(CHANGES))](w, r)
    return [*found, random.random()]


STEPS = {**{f"changes {k}": v for k, v in EFFECTS.items()}, **READS}


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_programs_of_reads(case):
    same(run(case, lambda f: f), run(case, torch.compile))


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_programs_of_reads_and_changes(case):
    same(run(case, lambda f: f, STEPS), run(case, torch.compile, STEPS))


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_programs_of_changes(case):
    same(run(case, lambda f: f, EFFECTS, 2), run(case, torch.compile, EFFECTS, 2))


@pytest.mark.parametrize("name", READS)
@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
def test_each_read_after_each_change(name):
    found = []
    for wrap in (lambda f: f, torch.compile):
        random.seed(1)
        torch.manual_seed(0)
        r, w, out = random.Random(2), world(), []
        f = wrap(lambda x, w=w: READS[name](w, x))
        for change in [*CHANGES.values()]:
            out.append(numbers(f(x2())))
            change(w, r)
        found.append(out)
    same(*found)
