"""The names around torch.compile: what PyTorch accepts is accepted, what it refuses is refused alike."""

import copy
import functools
import pickle
import warnings
from unittest import mock

import pytest
import torch as pytorch
from both import agree, agree_error, attempt

import torchlike as torch
from torchlike import nn

X = [1.0, 2.0]


@pytest.fixture(autouse=True)
def fresh():
    """PyTorch limits how often one code object is compiled, wherever."""
    pytorch._dynamo.reset()
    torch._dynamo.reset()
    yield
    pytorch.compiler.set_stance("default")
    torch.compiler.set_stance("default")


def compiled(t, f, **options):
    """``f`` compiled; in PyTorch by the backend that generates no code."""
    return t.compile(f, **({"backend": "eager"} if t is pytorch else {}) | options)


def which(t):
    """A function that tells whether it was compiled: 2 if so, else 3."""
    return lambda x: x * 2 if t.compiler.is_compiling() else x * 3


# -- arguments of torch.compile ----------------------------------------------------------------------------

REFUSED = {
    "mode": (lambda t: t.compile(which(t), mode="x"), "Unrecognized mode=x, should be one of: default"),
    "mode type": (lambda t: t.compile(which(t), mode=3), "Unrecognized mode=3"),
    "both": (lambda t: t.compile(which(t), mode="default", options={}), "both can't be specified at the same time"),
    "option": (
        lambda t: t.compile(which(t), options={"nope": 1}),
        "Unexpected optimization option nope, known options",
    ),
    "option type": (
        lambda t: t.compile(which(t), options={"max_autotune": "yes"}),
        "Unexpected type of attr max_autotune, got str should be bool",
    ),
    "backend": (lambda t: t.compile(which(t), backend="nope"), "Invalid backend: 'nope', see `torch._dynamo.list_back"),
    "keyword": (lambda t: t.compile(which(t), foo=1), "unexpected keyword argument 'foo'"),
    "positional": (lambda t: t.compile(which(t), True), "takes from 0 to 1 positional arguments"),
    "callable": (lambda t: t.compile(3), "A callable function is expected"),
    "callable, disabled": (lambda t: t.compile(3, disable=True), "A callable function is expected"),
    "dynamic": (lambda t: t.compile(which(t), dynamic="x"), "Expected enable to be a bool, got <class 'str'>"),
    "module, mode": (lambda t: t.nn.Linear(1, 1).compile(mode="x"), "Unrecognized mode=x"),
    "module, positional": (lambda t: t.nn.Linear(1, 1).compile(True), "takes from 0 to 1 positional arguments"),
    "disable": (lambda t: t.compiler.disable(3), "fn must be callable"),
    "allow_in_graph": (lambda t: t.compiler.allow_in_graph(3), "allow_in_graph expects a callable"),
    "stance and backend": (
        lambda t: t.compiler.set_stance("force_eager", force_backend="eager"),
        "non-default stance cannot have force_backend set",
    ),
    "setting": (lambda t: setattr(t._dynamo.config, "foo", 1), "torch._dynamo.config.foo does not exist"),
    "setting read": (lambda t: t._dynamo.config.foo, "torch._dynamo.config.foo does not exist"),
    "setting of inductor": (lambda t: setattr(t._inductor.config, "foo", 1), "inductor.config.foo does not exist"),
    "setting of a group": (lambda t: setattr(t._inductor.config.triton, "foo", 1), "config.triton.foo does not exist"),
    "patch": (lambda t: t._dynamo.config.patch(3), "first argument must be a dict when passing a single positional"),
    "patch a name": (lambda t: t._dynamo.config.patch(foo=1).__enter__(), "torch._dynamo.config.foo does not exist"),
    "mark_dynamic": (lambda t: t._dynamo.mark_dynamic(t.ones(2), "a"), "Expected index to be int, list, or tuple, got"),
    "mark_static_address": (lambda t: t._dynamo.mark_static_address(3), "mark_static_address expects a tensor but rec"),
    "logs": (lambda t: t._logging.set_logs(foo=True), "set_logs.. got an unexpected keyword argument 'foo'"),
    "artifact": (lambda t: t._logging.set_logs(guards="x"), "Expected bool to enable artifact guards, received x"),
    "level": (
        lambda t: t._logging.set_logs(dynamo="x"),
        "Unrecognized log level for log dynamo: x, valid level values",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_pytorch(name):
    agree_error(*REFUSED[name])


@pytest.mark.parametrize(
    ("refused", "match"),
    [
        (lambda: torch.compile(lambda x: x, shapes_spec=1), "shapes_spec.*static shapes"),
        (lambda: torch.compiler.wrap_numpy(lambda x: x), "wrap_numpy.*write the function with tensors"),
        (lambda: torch.compiler.load_cache_artifacts(b""), "load_cache_artifacts.*TORCHLIKE_CACHE"),
        (lambda: torch.compiler.load_compiled_function(None), "load_compiled_function"),
        (lambda: torch._dynamo.export(lambda x: x, dynamic_shapes={}), "_dynamo.export.*torch.export.export"),
    ],
)
def test_what_cannot_work_is_named(refused, match):
    with pytest.raises(NotImplementedError, match=match):
        refused()


@pytest.mark.parametrize(
    "options",
    [
        {"dynamic": True}, {"dynamic": False}, {"backend": "inductor"}, {"backend": "aot_eager"}, {"backend": "eager"},
        {"backend": "cudagraphs"}, {"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"name": "step"},
        {"mode": "nope", "backend": "eager"}, {"options": {"nope": 1}, "backend": "eager"}, {"options": {}},
        {"options": {"triton.cudagraphs": True, "max-autotune": True}}, {"fullgraph": True}, {"recompile_limit": 3},
        {"isolate_recompiles": True}, {"options": {"guard_filter_fn": list}},
    ],
)  # fmt: skip
def test_accepted(options):
    assert which(pytorch) and pytorch.compile(lambda x: x, **options)  # PyTorch accepts it too
    f = torch.compile(which(torch), **options)
    assert f(torch.tensor(X)).tolist() == [2, 4]


def test_errors_of_a_decorator_arise_where_it_decorates():
    agree(lambda t: [callable(t.compile(mode="x")), attempt(lambda: t.compile(mode="x")(which(t)))])


def test_what_comes_back():
    def script(t):
        f = which(t)
        c = compiled(t, f)
        return c.__name__, c.__wrapped__ is f, c._torchdynamo_orig_callable is f, compiled(t, c)(t.tensor(X))

    agree(script)


# -- modules, classes, objects -----------------------------------------------------------------------------


def telling(t):
    class Telling(t.nn.Module):
        def forward(self, x):
            return x * 2 if t.compiler.is_compiling() else x * 3

        def other(self):
            return "compiling" if t.compiler.is_compiling() else "eager"

    return Telling


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return x * self.weight


def an_optimized_module(t):
    module = t.nn.Linear(2, 3)
    run = compiled(t, module)
    seen = [type(run).__name__, list(run.state_dict()), [n for n, _ in run.named_parameters()], str(run)]
    seen += [[n for n, _ in run.named_modules()], run.training, isinstance(run, t.nn.Linear), run.in_features]
    seen += [isinstance(run, t._dynamo.eval_frame.OptimizedModule), "in_features" in dir(run)]
    run.foo = 3
    seen += [module.foo]
    run.weight = t.nn.Parameter(t.zeros(3, 2))
    seen += [module.weight]
    run.eval()
    seen += [run.training, module.training]
    module.train()
    seen += [run.training]
    del run.foo
    seen += [hasattr(module, "foo"), type(copy.deepcopy(run)).__name__, run.to(t.float64) is run, module.weight.dtype]
    return seen + [str(run.load_state_dict(run.state_dict()))]


def hooks_of_an_optimized_module(t):
    run = compiled(t, telling(t)())
    run.register_forward_hook(lambda module, inputs, out: out + 100)
    return run(t.tensor(X)), run._orig_mod(t.tensor(X)), run.other()


def calls(t):
    Telling, x = telling(t), t.tensor(X)
    module = Telling()
    run = compiled(t, module)
    seen = [run(x), module(x)]
    seen += [module.compile(**({"backend": "eager"} if t is pytorch else {})), module(x), Telling()(x)]
    return seen + [compiled(t, Telling) is Telling, Telling()(x)]


def classes_and_objects(t):
    class Scale:
        def __call__(self, x):
            return x * 2 if t.compiler.is_compiling() else x * 3

    class Plain:
        def __init__(self):
            self.compiling = t.compiler.is_compiling()

    scale, x = Scale(), t.tensor(X)
    seen = [compiled(t, scale)(x), scale(x), compiled(t, Scale) is Scale, Scale()(x)]
    return seen + [compiled(t, Plain) is Plain, Plain().compiling]


def disabled(t):
    Telling, x = telling(t), t.tensor(X)
    inside = t.compiler.disable(which(t))
    recursive = t.compiler.disable(lambda x: running(x), recursive=True)
    shallow = t.compiler.disable(lambda x: running(x), recursive=False)
    running = compiled(t, which(t))
    seen = [inside(x), compiled(t, lambda x: inside(x))(x), compiled(t, t.compiler.disable(Telling()))(x)]
    seen += [shallow(x), recursive(x) if t is torch else which(t)(x)]
    module = t.compiler.disable(Telling())
    seen += [type(module).__name__, module(x), compiled(t, lambda x: module(x))(x)]
    seen += [t.compiler.disable(Telling) is Telling, compiled(t, Telling())(x)]
    return seen + [t._dynamo.disable(which(t))(x), t.compiler.disable(reason="why")(which(t))(x)]


def a_disabled_method(t):
    class Model(t.nn.Module):
        def forward(self, x):
            return self.part(x)

        @t.compiler.disable
        def part(self, x):
            return x * 2 if t.compiler.is_compiling() else x * 3

    return compiled(t, Model())(t.tensor(X))


SCRIPTS = [an_optimized_module, hooks_of_an_optimized_module, calls, classes_and_objects, disabled, a_disabled_method]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda f: f.__name__)
def test_as_pytorch(script):
    agree(script)


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"options": {"bucket": {"dims": {"x": 0}}}}])
def test_copies_of_an_optimized_module_are_compiled_alike(options):
    run = torch.compile(Pair(), **options)
    for again in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        assert again(torch.ones(2)).tolist() == [1, 1]
        assert type(again.forward) is type(run.forward) and again.weight is not run.weight
        assert getattr(again.forward, "fullgraph", None) == getattr(run.forward, "fullgraph", None)


# -- stances and settings ----------------------------------------------------------------------------------


def stances(t):
    f, x, stance = compiled(t, which(t)), t.tensor(X), t.compiler.set_stance
    seen = []
    with stance("force_eager"):
        seen += [f(x)]
        with stance("default"):
            seen += [f(x)]
        seen += [f(x)]
    seen += [f(x)]

    @stance("force_eager")
    def run(x):
        return f(x)

    seen += [run(x), f(x), run(x)]
    stance("force_eager")
    seen += [f(x)]
    stance("default")
    return seen + [f(x)]


def eager_on_recompile(t):
    f, x = compiled(t, which(t)), t.tensor(X)
    seen = [f(x)]
    with t.compiler.set_stance("eager_on_recompile"):
        seen += [f(x), f(x.int())]
    return seen + [f(x.int())]


def fail_on_recompile(t):
    f, g, x = compiled(t, which(t)), compiled(t, which(t)), t.tensor(X)
    f(x)
    if t is pytorch:
        t._dynamo.reset()
        f(x)
    with t.compiler.set_stance("fail_on_recompile"):
        seen = [f(x), attempt(lambda: f(x.int()))]
        if t is torch:
            seen += [attempt(lambda: g(x))]
        else:
            seen += [RuntimeError()]
    return seen + [f(x.int())]


def eager_then_compile(t):
    f, x = compiled(t, which(t)), t.tensor(X)
    with t.compiler.set_stance("eager_then_compile"):
        return [f(x), f(x), f(x)]


def settings(t):
    c = t._dynamo.config
    seen = [c.cache_size_limit, c.recompile_limit, c.verbose, c.suppress_errors, c.disable, c.capture_scalar_outputs]
    with c.patch(verbose=True, recompile_limit=3):
        seen += [c.verbose, c.cache_size_limit]
        with c.patch({"recompile_limit": 5}), c.patch("suppress_errors", True):
            seen += [c.cache_size_limit, c.suppress_errors]
        seen += [c.cache_size_limit]

    @c.patch(cache_size_limit=2)
    def inside():
        return c.recompile_limit

    seen += [inside(), inside(), c.recompile_limit, c.verbose, "verbose" in c.get_config_copy()]
    i = t._inductor.config
    seen += [i.triton.cudagraphs, i.max_autotune, i.epilogue_fusion, i.cpp.threads]
    with i.patch({"triton.cudagraphs": True, "max_autotune": True}):
        seen += [i.triton.cudagraphs, i.max_autotune]
    i.coordinate_descent_tuning = True
    seen += [i.coordinate_descent_tuning, i.triton.cudagraphs]
    i.coordinate_descent_tuning = False
    return seen


def a_switch(t):
    f, x = which(t), t.tensor(X)
    with t._dynamo.config.patch(disable=True):
        return [compiled(t, f)(x), compiled(t, f)(x)]


def mocked(t):
    config = t._dynamo.config
    with mock.patch.object(config, "suppress_errors", True):
        inside = config.suppress_errors
    del config.suppress_errors
    gone = hasattr(config, "suppress_errors")
    config.suppress_errors = False
    return [inside, gone, config.suppress_errors]


def default_backend(t):
    c = t.compiler
    seen = [c.get_default_backend(), c.set_default_backend("eager"), c.get_default_backend()]
    return seen + [c.set_default_backend(None), c.get_default_backend()]


SETTINGS = [
    stances, eager_on_recompile, fail_on_recompile, eager_then_compile, settings, a_switch, mocked,
    default_backend
]  # fmt: skip


@pytest.mark.parametrize("execution", ["immediate"], indirect=True)  # PyTorch's stances remember code
@pytest.mark.parametrize("script", SETTINGS, ids=lambda f: f.__name__)
def test_settings_as_pytorch(script):
    agree(script)


def with_types(t, f, **options):
    run = compiled(t, f, **options)
    return [run(t.ones(2, dtype=d)) for d in (t.float32, t.float64, t.int32, t.int64)]


LIMITS = {
    "limit": lambda t: with_types(t, which(t), recompile_limit=2),
    "no limit": lambda t: with_types(t, which(t), recompile_limit=9),
    "zero": lambda t: with_types(t, which(t), recompile_limit=0),
    "fullgraph": lambda t: attempt(lambda: with_types(t, which(t), recompile_limit=2, fullgraph=True)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_as_pytorch(name):
    """Over the limit, a function runs in eager code, or may not run."""
    agree(LIMITS[name])


def test_limits_by_settings():
    def script(t):
        with t._dynamo.config.patch(cache_size_limit=2):
            seen = [with_types(t, which(t))]
            pytorch._dynamo.reset()
            with t._dynamo.config.patch(fail_on_recompile_limit_hit=True):
                seen += [attempt(lambda: with_types(t, which(t)))]
        pytorch._dynamo.reset()
        with t._dynamo.config.patch(error_on_recompile=True):
            seen += [attempt(lambda: with_types(t, which(t)))]
        return seen

    agree(script)


def test_a_limit_is_read_when_it_is_needed():
    f = torch.compile(lambda x: x * 2)
    f(torch.ones(1))
    with torch._dynamo.config.patch(recompile_limit=1), pytest.warns(UserWarning, match="compiled 1 times; last, arg"):
        f(torch.ones(2))
    assert f.count == 1


# -- graph breaks --------------------------------------------------------------------------------------------

BREAKS = {
    "graph_break": lambda t: lambda x: (t._dynamo.graph_break(), x * 2)[1],
    "skip_frame": lambda t: lambda x: (t._dynamo.skip_frame("here"), x * 2)[1],
    "disable": lambda t: functools.partial(lambda f, x: f(x), t.compiler.disable(lambda x: x * 2)),
    "forbid_in_graph": lambda t: functools.partial(lambda f, x: f(x), t._dynamo.forbid_in_graph(lambda x: x * 2)),
    "item": lambda t: lambda x: x * 2 if x.sum() > 0 else x,
}


@pytest.mark.parametrize("name", ["graph_break", "disable", "item"])
def test_a_break_is_an_error_of_fullgraph(name):
    agree(lambda t: [compiled(t, BREAKS[name](t))(t.tensor(X))])
    pytorch._dynamo.reset()
    agree_error(lambda t: compiled(t, BREAKS[name](t), fullgraph=True)(t.tensor(X)), "")
    with pytest.raises(torch._dynamo.exc.TorchDynamoException) as error:
        torch.compile(BREAKS[name](torch), fullgraph=True)(torch.tensor(X))
    assert isinstance(error.value, torch._dynamo.exc.Unsupported) and isinstance(error.value, RuntimeError)


@pytest.mark.parametrize("name", BREAKS)
def test_breaks_are_explained_and_counted(name):
    f = BREAKS[name](torch)
    found = torch._dynamo.explain(f)(torch.tensor(X))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (0, 1, 0)
    assert "test_names.py" in found.break_reasons[0].reason or name != "item"
    assert "Graph Break Count: 1\n" in str(found) and "Break Reason 1:\n" in str(found)
    torch.compile(f)(torch.tensor(X))
    counters = torch._dynamo.utils.counters
    assert sum(counters["graph_break"].values()) == 1 and counters["stats"]["unique_graphs"] == 0
    assert f(torch.tensor(X)).tolist() == [2, 4]  # outside of a trace they do nothing
    torch.compiler.reset()
    assert not counters


def test_explain_of_one_program():
    def script(t):
        seen = []
        for f in (lambda x: x.sin() + 1, compiled(t, lambda x: x.sin() + 1)):
            found = t._dynamo.explain(f)(t.tensor(X))
            seen += [found.graph_count, found.graph_break_count, found.break_reasons, str(found)]
        return seen

    agree(lambda t: [x for x in script(t) if not isinstance(x, str)])
    assert script(torch)[3] == "Graph Count: 1\nGraph Break Count: 0\nOp Count: 2\nBreak Reasons:"
    model = nn.Linear(2, 2)
    assert [torch._dynamo.explain(m)(torch.tensor(X)).graph_count for m in (model, torch.compile(model))] == [1, 1]


def test_programs_are_counted():
    def script(t):
        t._dynamo.utils.counters.clear()
        f = compiled(t, which(t))
        f(t.tensor(X)), f(t.tensor(X)), f(t.tensor(X).int())
        counted = t._dynamo.utils.counters
        return counted["stats"]["unique_graphs"], counted["frames"]["total"], counted["frames"]["ok"]

    agree(script)


# -- names that do nothing -----------------------------------------------------------------------------------


def names_that_give_back(t):
    def f(x):
        return x * 2

    c, d, x = t.compiler, t._dynamo, t.tensor(X)
    seen = [c.allow_in_graph(f) is f, c.allow_in_graph([f])[0] is f, c.assume_constant_result(f) is f]
    seen += [d.allow_in_graph(f) is f, d.assume_constant_result(f) is f, c.nested_compile_region(f)(x)]
    seen += [c.cudagraph_mark_step_begin(), c.is_exporting(), c.is_dynamo_compiling(), d.is_compiling()]
    seen += [d.mark_dynamic(x, 0), d.mark_dynamic(x, [0]), d.maybe_mark_dynamic(x, 0), d.mark_static(x, 0)]
    seen += [d.mark_static(x), d.mark_static_address(x), d.mark_static(t.nn.Linear) is t.nn.Linear]
    seen += [d.graph_break(), d.skip_frame(), d.reset(), c.reset(), d.eval_frame.is_dynamo_supported()]
    seen += [d.run(f)(x), t._inductor.cudagraph_mark_step_begin()]
    seen += [c.set_enable_guard_collectives(False), d.external_utils.is_compiling(), c.config.job_id]
    with d.error_on_graph_break(False):
        seen += [t._logging.set_logs(output_code=False, inductor=20), t._logging.set_logs()]
    return seen + [d.optimize("eager")(f)(x), d.optimize("eager", nopython=True)(f)(x)]


def test_names_that_give_back():
    agree(names_that_give_back)
    assert torch.compiler.save_cache_artifacts() is None  # PyTorch's holds what its compiler made in this process


def test_backends_are_pytorchs():
    mine = {"plain"}  # of the example in register_backend's docstring, if it ran before
    assert set(torch.compiler.list_backends()) - mine <= set(pytorch.compiler.list_backends())
    assert set(torch.compiler.list_backends(None)) - mine <= set(pytorch.compiler.list_backends(None))
    assert torch._dynamo.list_backends() == torch.compiler.list_backends()


@pytest.mark.parametrize("module", ["_dynamo.config", "_inductor.config", "compiler.config"])
def test_settings_are_pytorchs(module):
    """Each with PyTorch's default, except those that it takes from the machine."""

    def look(t):
        found = t
        for part in module.split("."):
            found = getattr(found, part)
        return found

    ours = look(torch).get_config_copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = look(pytorch).get_config_copy()
    different = {k: v for k, v in ours.items() if k not in theirs or type(theirs[k]) is not type(v)}
    different |= {k: v for k, v in ours.items() if isinstance(v, bool) and theirs.get(k) is not v}
    assert not different


ERRORS = [name for name in vars(torch._dynamo.exc) if isinstance(vars(torch._dynamo.exc)[name], type)]


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    ours, theirs = getattr(torch._dynamo.exc, name), getattr(pytorch._dynamo.exc, name)
    bases = {c.__name__ for c in theirs.__mro__}
    assert {c.__name__ for c in ours.__mro__} - {"Unfit"} <= bases


def test_missing_names_say_so():
    with pytest.raises(AttributeError, match=r"torchlike does not have torch\._dynamo\.no_such yet"):
        _ = torch._dynamo.no_such
    with pytest.raises(ImportError):
        from torchlike._dynamo.utils import no_such  # noqa: F401
