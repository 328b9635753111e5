"""What a compiled call costs, in counts: Python calls, arrays sent, copies in the program, scans of the heap."""

import gc
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compile_kit import data, numbers, same, sequence, trainer
from jax.experimental.layout import Format, Layout

import torchlike as torch
from torchlike import nn
from torchlike._executor import direct as direct_calls
from torchlike._executor.direct import Direct
from torchlike._executor.pending import kind_of, pending
from torchlike._transforms.capture import numbers as inputs
from torchlike._transforms.capture import program as programs
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.guards import Guards
from torchlike._transforms.capture.structure import flatten_call
from torchlike._transforms.interpreter.run import Interpreter
from torchlike.optim._group import GroupOptimizer

F = nn.functional


def python_calls(f):
    """How many calls of Python functions ``f()`` makes."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "call"

    gc.disable()  # it may call Python functions
    sys.setprofile(seen)
    try:
        f()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def counted(monkeypatch, owner, name):
    """A list that grows with every call of ``owner.name``."""
    calls, before = [], getattr(owner, name)

    def call(*args, **kwargs):
        calls.append(args)
        return before(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


def perceptron(layers, width=40):
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def compiled_step(model, make=torch.optim.Adam):
    """(compiled training step, its argument, its optimizer), called twice."""
    optimizer = make(model.parameters())
    step, x = torch.compile(trainer(model, optimizer), fullgraph=True), data(0, 4, 40)
    step(x), step(x)
    return step, x, optimizer


def only_program(step):
    ((_, program),) = [pair for pairs in step.programs.values() for pair in pairs]
    return program


# -- Python around the program ---------------------------------------------------------------------------
def test_guards_of_more_layers_make_no_more_python_calls():
    counts = []
    for layers in (2, 12):
        step, x, _ = compiled_step(perceptron(layers), lambda p: torch.optim.SGD(p, lr=0.1))
        guards = [g for pairs in step.programs.values() for g, _ in pairs][0]
        counts.append(python_calls(guards.hold))
    assert counts[0] == counts[1] < 12


def test_only_new_gradients_need_python_for_each_parameter():
    counts = []
    for layers in (2, 12):
        step, x, _ = compiled_step(perceptron(layers))
        counts.append(python_calls(lambda step=step, x=x: step(x)))
    new_parameters = 2 * (12 - 2)
    assert counts[1] - counts[0] <= 8 * new_parameters
    assert counts[0] < 150


def test_no_search_among_programs_whose_turn_it_is_not(monkeypatch):
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    run = torch.compile(lambda x: model(x), fullgraph=True)
    for mode in (True, False):
        run(data(0, 2, 3)) if model.train(mode) else None
    searches = counted(monkeypatch, Guards, "failed")
    for mode in (True, False, True, False):
        model.train(mode)
        run(data(0, 2, 3))
    assert run.count == 2 and not searches


def test_a_number_set_again_is_no_reason_to_search(monkeypatch):
    class Scaled(nn.Module):
        def forward(self, x):
            return x * self.scale

    model = Scaled()
    model.scale = float("2.5")
    run = torch.compile(model.forward, fullgraph=True)
    run(data(0, 3))
    searches = counted(monkeypatch, Guards, "failed")
    model.scale = float("2.5")
    for _ in range(3):
        run(data(0, 3))
    assert run.count == 1 and not searches


# -- numbers ---------------------------------------------------------------------------------------------
OPTIMIZERS = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_numbers_are_sent_when_they_change(monkeypatch, name):
    step, x, optimizer = compiled_step(perceptron(2), OPTIMIZERS[name])
    step(x)
    sent = counted(monkeypatch, inputs.jax, "device_put")
    for _ in range(3):
        step(x)
    assert not sent
    optimizer.param_groups[0]["lr"] = 0.5
    step(x), step(x)
    assert len(sent) == 1 and 0.5 in np.ravel(sent[0][0])
    optimizer.param_groups[0]["lr"] = float("0.5")  # another object
    step(x)
    assert len(sent) == 1


@pytest.mark.parametrize("value", [0.0, -0.0, 1, 2.0, float("nan"), float("inf")])
def test_a_number_is_the_one_of_this_call(value):
    seen = iter([1.0, 0.0, value, value, 1.0])
    one = inputs.Numbers([(jnp.float64(1.0), lambda: next(seen))])
    for expected in (1.0, 0.0, value, value, 1.0):
        (array,) = one()
        assert repr(float(array)) == repr(float(expected))


def test_a_number_becomes_a_tensor():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.5)

    @torch.compile(fullgraph=True)
    def step():
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
        return p.detach() + 0

    assert [step().tolist()[0] for _ in range(2)] == [0.5, 0.0]
    lr = optimizer.param_groups[0]["lr"] = torch.tensor(1.0)
    assert step().tolist() == [-1.0, -1.0]
    lr.fill_(2.0)
    assert step().tolist() == [-3.0, -3.0]
    optimizer.param_groups[0]["lr"] = 0.25
    assert step().tolist() == [-3.25, -3.25]


# -- the program -----------------------------------------------------------------------------------------
MODELS = {"of one shape": (3, 40), "large": (2, 64)}


@pytest.mark.parametrize("name", MODELS)
def test_every_array_that_is_replaced_is_computed_in_place(name, monkeypatch):
    monkeypatch.setattr(programs, "_FEW", 0)  # of large programs; few and small ones are not overwritten
    layers, width = MODELS[name]
    step, _, _ = compiled_step(perceptron(layers, width)) if width == 40 else _wide(layers, width)
    program = only_program(step)
    assert program.donated == 3 * 2 * layers  # parameters and two moments
    text = program.lowered([data(0, 4, width)]).as_text()
    aliases = re.findall(r"%arg(\d+): [^%]*?tf\.aliasing_output = (\d+)", text)
    assert [(int(a), int(b)) for a, b in aliases] == [(i, i) for i in range(program.donated)]


def _wide(layers, width):
    model = perceptron(layers, width)
    optimizer = torch.optim.Adam(model.parameters())
    step, x = torch.compile(trainer(model, optimizer), fullgraph=True), data(0, 4, width)
    step(x), step(x)
    return step, x, optimizer


def test_nothing_is_copied():
    params = [nn.Parameter(data(i, 8, 8)) for i in range(20)]
    optimizer = torch.optim.Adam(params)
    for p in params:
        p.grad = torch.ones(8, 8)
    step = torch.compile(lambda: optimizer.step(), fullgraph=True)
    step(), step()
    text = only_program(step).lowered([]).compile().as_text()
    assert not re.search(r"= \S+ copy\(", text)


def test_equal_small_outputs_are_one():
    step, x, optimizer = compiled_step(perceptron(3))
    counts = {id(s["step"]._storage.value) for s in optimizer.state.values()}
    assert len(counts) == 1
    assert len({id(s["step"]._storage) for s in optimizer.state.values()}) == 6


def test_equal_outputs_go_separate_ways():
    def make(wrap):
        a, b, big, large = data(0, 3), data(1, 3), data(2, 50, 50), data(3, 50, 50)

        def f(x):
            total = a + b * x
            a.copy_(total), b.copy_(total)
            both = big + large * x
            big.copy_(both), large.copy_(both)
            return total.sum() + both.sum()

        run, seen = wrap(f), []
        for i in range(6):
            seen.append(run(torch.ones(1) * i))
            if i == 2:
                b.add_(1), large.add_(1)
            if i == 4:
                run(torch.ones(1, dtype=torch.float64))
            seen += [numbers(t) for t in (a, b, big, large)] + [a._version, b._version, big._version]
        return seen

    sequence(make)


def test_a_written_tensor_that_is_returned_too():
    def make(wrap):
        a = data(0, 4)
        run = wrap(lambda x: (a.add_(x), a + 0, a.view(2, 2)))
        outs = [run(torch.ones(1)) for _ in range(3)]
        return [[numbers(t) for t in out] for out in outs], a

    sequence(make)


def test_values_that_are_still_to_be_computed():
    seen = []
    for mode in ("immediate", "recorded"):
        with torch.set_execution(mode):
            model = nn.Linear(4, 4)
            with torch.no_grad():
                model.weight.copy_(data(0, 4, 4) * 2), model.bias.zero_()
            frozen = data(1, 4) * 3
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def step(x, model=model, frozen=frozen, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (model(x) * frozen).sum()
                loss.backward()
                optimizer.step()
                return loss

            run = torch.compile(step, fullgraph=True)
            for i in range(3):
                seen.append(run(data(i, 2, 4) + 1).item())
                frozen.mul_(2)
                with torch.no_grad():
                    model.weight.add_(1)
            assert run.count == 1
            seen.append(numbers(model.weight))
    same(seen[:4], seen[4:])


# -- the first call --------------------------------------------------------------------------------------
def test_the_heap_is_not_searched(monkeypatch):
    names = ("get_referrers", "get_objects", "get_referents", "freeze", "unfreeze", "disable", "collect")
    asked = [counted(monkeypatch, gc, name) for name in names]
    step, x, _ = compiled_step(perceptron(2))
    assert only_program(step) and not any(asked)


def test_a_trace_costs_what_the_function_touches():
    counts, x = [], data(0, 3)
    function = lambda x: (x * 2).sin() + 1  # noqa: E731
    for others in (10, 10, 10, 20_000):
        alive = [torch.ones(1) for _ in range(others)]
        f = torch.compile(function, fullgraph=True)
        counts.append(python_calls(lambda f=f, x=x: f(x)))
        del alive
    assert abs(counts[3] - counts[2]) < 50


@pytest.mark.parametrize("collects", [False, True])
def test_tensors_that_outlive_the_trace_are_found(collects):
    kept = []

    def f(x):
        kept.append(x * 2)
        if collects:
            gc.collect()
        return x + 1

    run = torch.compile(f)
    x = data(0, 3)
    out = run(x)
    same(numbers(kept[0]), numbers(x * 2))
    same(numbers(out), numbers(x + 1))


def recursion(x):
    def power(n):
        return x if n == 0 else power(n - 1) * x

    return power(3)


def objects_that_know_each_other(x):
    a, b = Linked(x + 1), Linked(x + 2)
    a.other, b.other = b, [a]
    return a.other.x * b.other[0].x


class Linked:
    def __init__(self, x):
        self.x, self.other, self.read = x, None, lambda: self.x * 2


@pytest.mark.parametrize("f", [recursion, objects_that_know_each_other], ids=lambda f: f.__name__)
def test_what_only_cycles_hold_is_gone(monkeypatch, f):
    """It is found without the collector, whose cost grows with the heap."""
    asked = [counted(monkeypatch, gc, name) for name in ("get_referrers", "get_objects", "collect")]
    w = nn.Parameter(data(0, 3))
    run, x = torch.compile(lambda x: f(x * w), fullgraph=True), data(1, 3)
    gc.disable()
    try:
        for _ in range(4):
            same(numbers(run(x)), numbers(f(x * w)))
    finally:
        gc.enable()
    assert only_program(run) and run.single == 0 and not any(asked)


def gpt(layers):
    layer = [nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(11, 8), *layer, nn.Linear(8, 11))


def traced(f, *args):
    leaves, tree = flatten_call(args, {})
    with Interpreter(f) as interpreter:
        return Trace(interpreter, leaves, tree)


def test_a_trace_of_many_layers_touches_what_it_reads():
    calls, tokens, heap = [], torch.zeros(2, 3, dtype=torch.int64), [torch.ones(1) for _ in range(5_000)]
    for layers in (4, 4, 8, 12, 16):
        model = gpt(layers)
        calls.append(python_calls(lambda model=model: traced(lambda t: model(t).sum().backward(), tokens)))
        found = traced(lambda t, model=model: model(t).sum().backward(), tokens).record.sources
        parameters = {id(p._storage) for p in model.parameters()}  # beside them it reads what stands for the tokens
        assert parameters < {*map(id, found)} and len(found) == len(parameters) + 1 and len(heap) == 5_000
    assert calls[4] - calls[3] < 1.2 * (calls[2] - calls[1])


@pytest.mark.parametrize("on", [True, False])
def test_a_trace_leaves_the_collector_as_it_was(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        torch.compile(lambda x: x + 1, fullgraph=True)(data(0, 3))
        with pytest.raises(ZeroDivisionError):
            torch.compile(lambda x: x + 1 // 0)(data(0, 3))
        assert gc.isenabled() == on
    finally:
        (gc.enable if was else gc.disable)()


def test_a_rule_is_traced_once_for_parameters_of_one_shape():
    traced = []

    class Descent(GroupOptimizer):
        _counts = False

        @staticmethod
        def _rule(p, g, state, t, n, *, sign):
            traced.append(p.shape)
            return p - sign * n["lr"].astype(p.dtype) * g, ()

        _numbers = lambda self, group: {"lr": group["lr"]}  # noqa: E731
        _options = lambda self, group: (("sign", 1),)  # noqa: E731
        _kept = lambda self, group: ()  # noqa: E731
        _start = lambda self, p, group: {"started": True}  # noqa: E731

    model = perceptron(5, 7)
    optimizer = Descent(model.parameters(), {"lr": 0.5})
    before = numbers(model.state_dict())
    step = torch.compile(trainer(model, optimizer), fullgraph=True)
    step(data(0, 4, 7))
    assert sorted(traced) == [(7,), (7, 7)]
    after = numbers(model.state_dict())
    same([before[k][0] - 0.5 * p.grad.numpy() for k, p in model.named_parameters()], [a[0] for a in after.values()])


def test_one_compilation_for_many_calls():
    step, x, _ = compiled_step(perceptron(2))
    compilations = []

    def heard(name, *_, **__):
        compilations.append(name)

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        for _ in range(3):
            step(x)
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert step.count == 1 and not [name for name in compilations if "compile" in name]


@pytest.mark.parametrize("form", ["a flag", "two functions", "eager steps"])
def test_accumulation_needs_a_program_for_each_kind_of_step(form):
    model = torch.nn.Linear(3, 2)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(4, 3)

    def step(x, last):
        model(x).sum().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()

    runs = {last: torch.compile(step, fullgraph=True) for last in (False, True)}
    for i in range(8):
        last = i % 2 == 1
        runs[last and form == "two functions"](x, last and form != "eager steps")
        if last and form == "eager steps":
            optimizer.step()
            optimizer.zero_grad()
    assert sum(run.count for run in runs.values()) == 2


def test_arrays_of_other_kinds_and_other_settings_are_left_to_jit():
    jitted = jax.jit(lambda x, y: (x + y, x * y), donate_argnums=0)
    direct, twos = Direct(jitted), np.full(3, 2, np.float32)

    def results(x, y):
        values = [x, y]
        assert direct.takes(values)
        [out] = map(direct.collect, map(direct.execute, [values]))
        return [a.tolist() for a in out]

    def arrays(dtype=np.float32):
        return jnp.asarray(twos.astype(dtype)), jnp.asarray(np.arange(3).astype(dtype))

    jitted(*arrays())
    assert not direct.takes([*arrays()])  # many programs are called once
    for _ in range(3):
        x, y = arrays()
        assert results(x, y) == [[2, 3, 4], [0, 2, 4]] and x.is_deleted() and not y.is_deleted()
    x, y = arrays()
    assert not direct.takes([*arrays(np.int32)]) and not direct.takes([*arrays(np.float16)])
    assert not direct.takes([x[:2], y[:2]]) and not direct.takes([x[None], y[None]]) and not direct.takes([x])
    assert not direct.takes([twos, y]) and not direct.takes([2.0, y])
    square = Direct(jax.jit(lambda a: a * 2))
    usual = jnp.arange(6.0).reshape(2, 3)
    turned = jax.device_put(usual, Format(Layout(major_to_minor=(1, 0)), usual.sharding))
    assert [square.takes([a]) for a in (usual, usual, turned, usual)] == [False, True, False, True]
    for setting in (jax.debug_nans(True), jax.default_matmul_precision("float32"), jax.disable_jit()):
        with setting:
            assert not direct.takes([x, y])
    found = []
    jax.jit(lambda a: found.append(direct.takes([x, y])))(1.0)
    assert found == [False]
    assert results(x, y) == [[2, 3, 4], [0, 2, 4]]


@pytest.mark.parametrize("fewest", [0, 64])  # what it replaces is overwritten, or not
def test_a_program_that_is_called_again_has_its_executable(fewest, monkeypatch):
    monkeypatch.setattr(programs, "_FEW", fewest)
    monkeypatch.setattr(programs, "_MANY", 3)
    x, counter = torch.ones(3), torch.zeros(3)

    @torch.compile(fullgraph=True)
    def step(y):
        counter.add_(x * y)
        return counter * 2

    results = [step(torch.full((3,), float(k))).tolist() for k in range(6)]
    ((_, program),) = [pair for pairs in step.programs.values() for pair in pairs]
    assert direct_of(program) and results == [[2.0 * total] * 3 for total in (0, 1, 3, 6, 10, 15)]


def turned(x):
    """The array of a tensor, in another memory layout."""
    array = x.jax()
    return jax.device_put(array, Format(Layout(major_to_minor=(1, 0)), array.sharding))


def waiting(x):
    """The array as what was recorded, and has been computed."""
    value = pending(kind_of(x.jax().aval, x.jax().sharding), None)
    value.array = x._storage.value
    return value


# What happens to a tensor between two calls of a program that has computed its value twice.
BETWEEN = {
    "nothing": lambda x: None,
    "a number": lambda x: x.__setitem__((0, 1), 7.0),
    "a copy": lambda x: x.copy_(torch.ones(2, 3)),
    "another layout": lambda x: x.copy_(torch.from_jax_array(turned(x))),
    "data in another layout": lambda x: setattr(x, "data", torch.from_jax_array(turned(x))),
    "numpy": lambda x: x.numpy().__setitem__(0, 5),
    "another program": lambda x: torch.compile(lambda: (x.mul_(3), None)[1])(),
    "a value that was recorded": lambda x: setattr(x._storage, "value", waiting(x)),
}


@pytest.mark.parametrize("fewest", [0, 64])  # what it replaces is overwritten, or not
@pytest.mark.parametrize("name", BETWEEN)
def test_values_that_a_program_has_computed_are_not_looked_at_again(name, fewest, monkeypatch):
    monkeypatch.setattr(programs, "_FEW", fewest)
    monkeypatch.setattr(programs, "_MANY", 3)
    looked = []
    monkeypatch.setattr(direct_calls, "_kind", lambda a, kind=direct_calls._kind: (looked.append(a), kind(a))[1])

    def run(compiled):
        x, y, counter = [torch.arange(6.0).reshape(2, 3).clone() for _ in range(3)]
        step = (torch.compile(fullgraph=True) if compiled else lambda f: f)(lambda: (x.add_(y), counter.add_(x))[1] * 2)
        results = []
        for k in range(12):
            if k in (7, 9):
                BETWEEN[name](x)
            looked.clear()
            results.append(step().tolist())
            if compiled and k == 6 and not fewest and len(jax.devices()) == 1:
                assert not looked
        return results, x.tolist(), counter.tolist(), x._version

    assert run(True) == run(False)


def test_a_program_of_few_inputs_is_left_to_jit():
    @torch.compile(fullgraph=True)
    def double(x):
        return x * 2

    for _ in range(4):
        double(torch.ones(3))
    ((_, program),) = [pair for pairs in double.programs.values() for pair in pairs]
    assert program.direct is None


def direct_of(program):
    """Whether the program has found its executable: where jax has one device, the CPU."""
    return program.direct._kinds is not None or len(jax.devices()) > 1
