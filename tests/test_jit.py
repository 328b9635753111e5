"""torch.jit: scripts and traces compute what PyTorch's do; what has no meaning here says so."""

import copy
import io
import itertools
import pickle
from functools import partial
from typing import Any, Optional, Union  # noqa: UP035

import pytest
import torch
from both import agree
from story_kit import said, story, warned

import torchlike
import torchlike._jit_internal

ANY = Any, dict, list, Optional, tuple, Union


def layers(t):
    """A class of modules with children, a number and two further methods."""

    class Layers(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = t.nn.Linear(2, 2)
            self.tail = t.nn.Sequential(t.nn.ReLU(), t.nn.Dropout(0.5), t.nn.BatchNorm1d(2))
            self.factor = 3
            with t.no_grad():
                self.linear.weight.copy_(t.tensor([[1.0, 2.0], [3.0, -4.0]]))
                self.linear.bias.fill_(0.5)

        def forward(self, x):
            return self.tail(self.linear(x)) * self.factor

        @t.jit.export
        def other(self, x):
            return self.linear(x) + 1

    return Layers().eval()


@story
def test_scripted_modules(t):
    module = layers(t)
    script = t.jit.script(module)
    x = t.ones(3, 2)
    script(x).sum().backward()
    kinds = [isinstance(script, k) for k in (t.nn.Module, t.jit.ScriptModule, t.jit.RecursiveScriptModule)]
    names = [name for name, _ in script.named_modules()], list(script.state_dict()), script.original_name
    same = script.linear.weight is module.linear.weight, t.jit.script(script) is script, script.factor
    return script(x), script.other(x), module.linear.weight.grad, kinds, names, same, repr(script)


@story
def test_scripted_modules_are_modules_of_their_own(t):
    module = layers(t)
    script = t.jit.script(module)
    script.train()
    module.factor = 5
    copied = copy.deepcopy(script)
    copied.linear.weight.data.zero_()
    state = {k: v + 1 for k, v in script.state_dict().items()}
    seen = [module.training, module.tail.training, script.factor, script.linear.weight.sum()]
    script.load_state_dict(state)
    script.double()
    return seen, copied.linear.weight.sum(), script.eval()(t.ones(1, 2, dtype=t.float64)), len(script.tail)


@story
def test_what_scripts_refuse(t):
    script = t.jit.script(t.nn.Linear(2, 2))
    return [
        said(lambda: t.jit.script(t.nn.Linear), "cannot be compiled since it inherits from nn.Module"),
        said(lambda: t.jit.freeze(t.nn.Linear(2, 2)), "Freezing expects a ScriptModule as input"),
        said(lambda: t.jit.freeze(script), "only implemented for modules in eval mode"),
        said(lambda: pickle.dumps(script), "Tried to serialize object"),
        type(said(lambda: t.jit.script(3))).__name__,
    ]


@story
def test_functions(t):
    def double(x, n: int = 2):
        return x * n

    f = t.jit.script(double)
    traced = t.jit.trace(lambda x, y: (x @ y, {"sum": x + y}), (t.ones(2, 2), t.eye(2)), strict=False)
    kinds = isinstance(f, t.jit.ScriptFunction), isinstance(traced, t.jit.ScriptFunction), t.jit.script(f) is f
    x = t.arange(4.0).reshape(2, 2).requires_grad_()
    traced(x, x)[0].sum().backward()
    return f(x), f(x, 3), f(x, n=4), f.name, kinds, traced(x, x), x.grad


@story
def test_traces(t):
    module = layers(t)
    traced = t.jit.trace(module, t.ones(3, 2))
    x = t.tensor([[1.0, -2.0], [0.5, 3.0]])
    first = traced(x)
    traced(x).sum().backward()
    traced.train()  # which a trace does not ask
    grad = module.linear.weight.grad.clone()
    with t.no_grad():
        module.linear.weight.mul_(2)
    kinds = isinstance(traced, t.jit.RecursiveScriptModule), traced.original_name
    return first, traced(x), grad, module.training, kinds, list(traced.state_dict()), traced(t.ones(5, 2))


@story
def test_a_trace_knows_that_it_is_one(t):
    def f(x):
        return x + 1 if t.jit.is_tracing() else x

    traced = t.jit.trace(f, t.ones(1))
    return f(t.ones(1)), traced(t.ones(1)), t.jit.is_tracing(), t.jit.is_scripting(), t._C._get_tracing_state() is None


@story
def test_what_traces_refuse(t):
    return [
        said(lambda: t.jit.trace(lambda x, n: x, (t.ones(1), 3)), "Type '.*' cannot be traced. Only Tensors and"),
        said(lambda: t.jit.trace(lambda x: x, [t.ones(1), "a"]), "cannot be traced"),
        said(lambda: t.jit.trace_module(t.nn.ReLU(), 3), "expected a dictionary of"),
        said(lambda: t.jit.trace_module(3, {}), "expected torch.nn.Module"),
        warned(lambda: t.jit.trace(t.jit.script(t.nn.ReLU()), t.ones(1)), "already a ScriptModule")[-1],
    ]


@story
def test_methods_are_traced(t):
    made = t.jit.trace_module(t.nn.Embedding(3, 2), {"forward": t.tensor([1])})
    return made(t.tensor([0, 2])).shape


@story
def test_files_of_traces(t):
    module, file = layers(t), io.BytesIO()
    t.jit.save(t.jit.trace(module, t.ones(3, 2)), file, _extra_files={"about": "text"})
    file.seek(0)
    extra = {"about": ""}
    loaded = t.jit.load(file, _extra_files=extra)
    about = extra["about"] if isinstance(extra["about"], str) else extra["about"].decode()
    x = t.tensor([[1.0, -2.0], [0.5, 3.0], [1.0, 1.0]])
    loaded(x).sum().backward()
    grads = {name: p.grad for name, p in loaded.named_parameters()}
    return loaded(x), about, isinstance(loaded, t.jit.ScriptModule), grads["linear.weight"]


@story
def test_decorators(t):
    def f(x):
        return x

    marks = []
    for mark in (t.jit.ignore, t.jit.unused, t.jit.export, t.jit.ignore(drop=True), t.jit.ignore(), t.jit._drop):
        assert mark(f) is f
        marks.append(f._torchscript_modifier)
    conditional = t.jit.script_if_tracing(f)
    return marks, conditional(2), conditional.__name__, said(lambda: t.jit.ignore(3), "must be a bool or a function")


@story
def test_small_functions(t):
    class Old(t.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(t.ones(2))

        @t.jit.script_method
        def forward(self, x):
            return self.weight * x

    future = t.jit.fork(t.neg, t.ones(2))
    previous = t.jit.set_fusion_strategy([("STATIC", 1)])
    assert t.jit.set_fusion_strategy(previous) == [("STATIC", 1)]
    t.jit.enable_onednn_fusion(True)
    fused = t.jit.onednn_fusion_enabled()
    t.jit.enable_onednn_fusion(False)
    return [
        Old()(t.ones(2)), isinstance(Old(), t.jit.ScriptModule), t.jit.wait(future), future.done(), previous, fused,
        t.jit.annotate(int, 3), tuple(t.jit.Attribute(3, int))[0], t.jit.onednn_fusion_enabled(),
        warned(t.jit.strict_fusion, "Only works in script mode"),
    ]  # fmt: skip


TYPES = [
    ([1, 2], list[int]), ([1, "a"], list[int]), ((1, "a"), tuple[int, str]), ((1, 2), tuple[int, str]),
    ({"a": 1}, dict[str, int]), ({1: 1}, dict[str, int]), (None, int | None), (3, int | str),
    ([], list[int]), ([1.0], list[float] | None), ({"a": [1]}, dict[str, list[int]]), (3, (int, str)), ([3], list),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), TYPES, ids=range(len(TYPES)))
def test_isinstance(value, kind):
    agree(lambda t: said(lambda: t.jit.isinstance(value, kind), "without a contained type"))


@story
def test_internal_names(t):
    import importlib

    internal = importlib.import_module(f"{t.__name__}._jit_internal")
    f = internal.boolean_dispatch("flag", 1, False, lambda x, flag=False: "yes", lambda x, flag=False: "no", "m", "fn")

    @internal._overload
    def g(x: int) -> int: ...

    qualified = internal._qualified_name(g)
    return [
        f(1), f(1, True), f(1, flag=True), f.__name__, f.__module__, internal.BroadcastingList2[int], qualified,
        bool(internal._get_fn_overloads(qualified)), internal.is_ignored_fn(t.jit.ignore(lambda: 1)),
        [[test(kind) for kind in (list[int], int | None, tuple[int], dict[str, int], int | str)]
         for test in (internal.is_list, internal.is_optional, internal.is_tuple, internal.is_dict, internal.is_union)],
    ]  # fmt: skip


@story
def test_bare_modules_hold_others(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = t.nn.Module()
            self.held.w, self.held.relu = t.nn.Parameter(t.ones(2)), t.nn.ReLU()

        def forward(self, x):
            return self.held.relu(x) + self.held.w

    x = t.tensor([-1.0, 2.0])
    graph = t.fx.symbolic_trace(Net())
    made = [t.jit.script(Net()), t.jit.trace(Net(), x), t.jit.script(graph), t.jit.trace(graph, x)]
    return [
        *[m(x) for m in made], *[[name for name, _ in m.named_parameters()] for m in made], made[0].held.original_name,
        type(made[0].held).__name__, type(t.jit.script(t.nn.Module())).__name__,
    ]  # fmt: skip


def ended(f):
    """What it gives, or the class of its error and the message's first line."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0].split(": expected")[0].split(". The foll")[0]


@story
def test_futures(t):
    first, second = t.futures.Future(), t.futures.Future()
    both, doubled = t.futures.collect_all([first, second]), first.then(lambda done: done.value() * 2)
    failing = first.then(lambda done: 1 / 0)
    later, of_none = failing.then(lambda done: done.value()), first.then(lambda: 1)
    first.set_result(3)
    early = both.done()
    second.set_exception(ValueError("no"))
    Future = t.futures.Future
    return [
        early, both.done(), doubled.wait(), t.futures.wait_all([first, doubled]), ended(t.futures.collect_all([]).wait),
        *map(ended, [second.wait, second.value, failing.value, later.wait, of_none.wait, both.wait]),
        ended(lambda: first.set_result(1)), ended(lambda: second.set_exception(ValueError("again"))),
        ended(lambda: second.set_exception(3)), ended(lambda: t.futures.wait_all([doubled, second])),
        ended(lambda: t.jit.wait(None)), ended(lambda: t.jit.wait(1)), ended(lambda: t.futures.wait_all([None])),
        ended(lambda: first.then(1)), ended(lambda: first.add_done_callback(1)), ended(lambda: pickle.dumps(first)),
        ended(lambda: copy.copy(first)), ended(lambda: Future(devices=["cpu"])), Future(devices=["cpu:0"]).done(),
    ]  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_futures_together_end_with_the_first_exception_of_the_list(order):
    def run(t):
        several = [t.futures.Future() for _ in range(3)]
        whole = t.futures.collect_all(several)
        for i in order:
            several[i].set_exception(ValueError(i)) if i else several[i].set_result(i)
        return ended(whole.wait)

    assert run(torchlike) == run(torch) == ("ValueError", "1")


def test_what_a_callback_raises_is_printed(capsys):
    torchlike.jit.fork(int).add_done_callback(lambda done: 1 / 0)
    assert "when running the callback: ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_there_is_no_torchscript():
    script = torchlike.jit.script(torchlike.nn.ReLU())
    for name in ("code", "graph", "inlined_graph"):
        with pytest.raises(NotImplementedError, match=f"ScriptModule.{name}: scripted functions run as the Python"):
            getattr(script, name)
    with pytest.raises(NotImplementedError, match="ScriptFunction.graph"):
        _ = torchlike.jit.script(lambda x: x).graph
    with pytest.raises(NotImplementedError, match=r"torch.jit.save: .* has no example inputs"):
        script.save(io.BytesIO())
    with pytest.raises(NotImplementedError, match="torch.jit.script: a dict"):
        torchlike.jit.script({})


def test_files_of_pytorch_are_refused(tmp_path):
    torch.jit.script(torch.nn.ReLU()).save(tmp_path / "relu.pt")
    with pytest.raises(NotImplementedError, match="torch.jit.load: the file is a TorchScript program"):
        torchlike.jit.load(tmp_path / "relu.pt")
    with pytest.raises(ValueError, match="does not exist"):
        torchlike.jit.load(tmp_path / "none.pt")
    (tmp_path / "text").write_text("text")
    with pytest.raises(RuntimeError, match="no zip archive"):
        torchlike.jit.load(tmp_path / "text")


def failing(t):
    """Functions and a module that fail, each with its arguments."""

    def asserts(x):
        assert x.shape[0] == 2, "not two"
        return x

    def raises(x):
        if x.shape[0] != 2:
            raise ValueError("not two", 2)
        return x

    def selects(x, at: int):
        return x[at]

    def reads(x: list[int]):
        return x[7]

    def looks(x: dict[str, int]):
        return x["b"]

    @t.jit.ignore
    def outside(x):
        raise ValueError("outside")

    def leaves(x):
        return outside(x)

    def norm(x):
        return t.nn.functional.batch_norm(x, None, None, training=True)

    def unsupported(x):
        return t.linalg.ldl_factor(x.half())[0]

    class Asserting(t.nn.Module):
        def forward(self, x, least: int = 3):
            assert x.numel() > least, "few"
            return x

    module, x = t.jit.script(Asserting()), t.ones(3)
    found = [(f, a) for f, *a in (
        (asserts, x), (raises, x), (selects, x, 5), (reads, [1]), (looks, {"a": 1}), (leaves, x), (norm, t.ones(1, 2)),
        (unsupported, t.ones(2, 2)), (asserts,), (asserts, x, x),
    )]  # fmt: skip
    return [(t.jit.script(f), a) for f, a in found] + [(module, [x]), (module.forward, [x]), (module, [])]


@story
def test_errors_of_scripts_are_those_of_torchscript(t):
    told = []
    for f, arguments in failing(t):
        error = said(partial(f, *arguments), r"[^\n]*(?=[.] Declaration)|(?<=\n)(RuntimeError|builtins[^:]*): [^\n]*\n")
        told.append(error.replace("torch.Size([1, 2])", "[1, 2]"))
    told[2] = told[2].partition(":")[0]  # PyTorch's message is of another operator
    return told, t.jit.Error.__mro__[1], t.jit.Error.__module__.replace("torchlike", "torch")


@story
def test_errors_of_traces_are_runtime_errors(t):
    traced = t.jit.trace(lambda x: x[:, 2], t.ones(3, 3))
    failed = [said(partial(traced, t.ones(2, 2)), "of the kind"), said(partial(traced), ".* value for argument")]
    return (
        failed[0].partition(":")[0],
        failed[1].partition(":")[0],
        said(lambda: t.jit.trace(lambda x: [][1], t.ones(1))),
    )


@story
def test_modules_of_jit_are_not_called_with_other_tensors(t):
    linear, given = t.nn.Linear(1, 1), {"weight": t.ones(1, 1), "bias": t.zeros(1)}
    made = [t.jit.script(linear), t.jit.trace(linear, t.ones(1))]
    call = t.func.functional_call
    return [
        said(partial(call, m, given, t.ones(1)), "The stateless API can't be used with Jitted modules") for m in made
    ]


@story
def test_frozen_traces(t):
    class Scaled(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.factor = t.nn.Linear(3, 3), 2
            self.register_buffer("shift", t.ones(3))

        def forward(self, x):
            return self.linear(x) * self.factor + self.shift

    t.manual_seed(0)
    module, x = Scaled(), t.ones(2, 3)
    trained = t.jit.trace(module, x)
    traced = t.jit.trace(module.eval(), x)
    frozen, kept = t.jit.freeze(traced), t.jit.freeze(traced, preserved_attrs=["shift"])
    quick = t.jit.optimize_for_inference(traced)
    return (
        frozen(x), quick(x), kept(x), kept.shift, traced(x), list(frozen.state_dict()), list(kept.state_dict()),
        [name for name, _ in frozen.named_modules()], hasattr(frozen, "factor"), hasattr(frozen, "linear"),
        said(lambda: t.jit.freeze(trained), "only implemented for modules in eval mode"),
        said(lambda: t.jit.freeze(traced, preserved_attrs=["none"]), "Unknown name: none"),
    )  # fmt: skip


def test_frozen_traces_see_no_later_changes():
    module, x = torchlike.nn.Linear(2, 2).eval(), torchlike.ones(2)
    frozen = torchlike.jit.freeze(torchlike.jit.trace(module, x))
    before, _ = frozen(x), module.weight.data.zero_()
    assert torchlike.equal(frozen(x), before)
