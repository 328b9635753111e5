"""Graphs of programs: what is printed of them is PyTorch's, letter by letter, and what they compute the program's."""

import contextlib
import copy
import dataclasses
import importlib
import io
import operator
import pickle
import threading
import typing
from functools import partial

import pytest
import torch
import torch.fx.annotate
import torch.fx.experimental.const_fold
import torch.fx.experimental.rewriter
import torch.fx.tensor_type
from both import agree, agree_error, plain
from fx_programs import PROGRAMS, filled, numbers
from story_kit import said, story

import torchlike

annotate = torch.fx.annotate.annotate  # PyTorch's rewritten code looks it up here


def traced(t, name):
    root, inputs, *concrete = PROGRAMS[name](t)
    return t.fx.symbolic_trace(root, *concrete), root, inputs


def printed(function):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        function()
    return text.getvalue().replace("torchlike", "torch")


def texts(gm):
    """All that is printed of a module."""
    return [
        str(gm.graph), gm.code, str(gm).replace("torchlike", "torch"), gm.graph.python_code("self").src,
        gm.print_readable(print_output=False), [(n.op, n.name, str(n.args), str(n.kwargs)) for n in gm.graph.nodes],
        sorted(gm.state_dict()), [n._pretty_print_target(n.target) for n in gm.graph.nodes],
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name):
    ours, theirs = (texts(traced(t, name)[0]) for t in (torchlike, torch))
    assert ours == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name):
    """The module of the graph computes what the program does; so do a copy, and its own graph run step by step."""
    gm, root, inputs = traced(torchlike, name)
    if isinstance(root, torchlike.nn.Module):
        filled(root, torchlike)
    gm.eval()
    again = PROGRAMS[name](torchlike)[1]
    expected = plain(root(*inputs))
    assert plain(gm(*again)) == expected
    assert plain(copy.deepcopy(gm)(*PROGRAMS[name](torchlike)[1])) == expected
    assert plain(torchlike.fx.Interpreter(gm).run(*PROGRAMS[name](torchlike)[1])) == expected


@pytest.mark.parametrize("name", ["mlp", "residual", "attention", "nested", "functional", "concrete_tree", "slices"])
def test_copies(name):
    """A pickled module, a transformed one and a traced one of its own code have the same graph."""
    gm, _, inputs = traced(torchlike, name)
    unpickled = pickle.loads(pickle.dumps(gm))
    if name != "concrete_tree":  # which is taken apart once more
        assert str(unpickled.graph) == str(gm.graph) and unpickled.code == gm.code
    assert sorted(unpickled.state_dict()) == sorted(gm.state_dict())
    assert plain(unpickled(*inputs)) == plain(gm(*inputs))
    assert torchlike.fx.Transformer(gm).transform().code == gm.code
    if name != "concrete_tree":
        assert torchlike.fx.symbolic_trace(gm).code.split() == gm.code.split()


@pytest.mark.parametrize("name", ["mlp", "conv_bn", "attention", "function", "nested"])
def test_compiled(name):
    gm, root, inputs = traced(torchlike, name)
    gm.eval()
    expected = plain(gm(*inputs))
    compiled = torchlike.compile(gm, fullgraph=True)
    assert plain(compiled(*inputs)) == expected and plain(compiled(*inputs)) == expected


def test_a_changed_graph_is_compiled_anew():
    gm = torchlike.fx.symbolic_trace(lambda x: torchlike.relu(x) + 1)
    compiled, x = torchlike.compile(gm, fullgraph=True), torchlike.tensor([-1.0, 2.0])
    assert compiled(x).tolist() == [1.0, 3.0]
    next(n for n in gm.graph.nodes if n.target is torchlike.relu).target = torchlike.neg
    gm.recompile()
    assert gm(x).tolist() == compiled(x).tolist() == [2.0, -1.0]


def test_tables():
    """As the package tabulate prints them, which PyTorch asks."""
    gm = torchlike.fx.symbolic_trace(lambda x: x + 1)
    assert printed(gm.graph.print_tabular) == (
        "opcode         name    target                   args    kwargs\n"
        "-------------  ------  -----------------------  ------  --------\n"
        "placeholder    x       x                        ()      {}\n"
        "call_function  add     <built-in function add>  (x, 1)  {}\n"
        "output         output  output                   (add,)  {}\n"
    )


# -- what cannot be traced --------------------------------------------------------------------------

REFUSED = {
    "a branch": lambda t, x: x if x.sum() > 0 else -x, "a loop": lambda t, x: [y for y in x],
    "its length": lambda t, x: len(x), "an int": lambda t, x: int(x), "a range": lambda t, x: range(x),
    "a splat": lambda t, x: t.relu(*x), "a double splat": lambda t, x: dict(**x), "not": lambda t, x: not x,
    "in": lambda t, x: x in [1], "contains": lambda t, x: 1 in x, "next": lambda t, x: next(x),
    "a key": lambda t, x: {x: 1}, "an object": lambda t, x: object(), "another": lambda t, x: x + object(),
    "a parameter": lambda t, x: x + t.nn.Parameter(t.ones(1)), "a module": lambda t, x: t.nn.Linear(2, 2)(x),
    "an item": lambda t, x: operator.setitem(x, 0, 1), "round": lambda t, x: round(x), "max": lambda t, x: max(x, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    first = r"^(.{12})"  # how the messages begin is the same; ours say what to do
    agree(lambda t: said(lambda: t.fx.symbolic_trace(lambda x: REFUSED[name](t, x)), first))


def test_a_failed_trace_leaves_no_trace():
    call, get = torchlike.nn.Module.__call__, torchlike.nn.Module.__getattr__
    with pytest.raises(torchlike.fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        torchlike.fx.symbolic_trace(lambda x: bool(x))
    assert torchlike.nn.Module.__call__ is call and torchlike.nn.Module.__getattr__ is get
    assert not torchlike.fx._symbolic_trace.is_fx_tracing()


def test_other_threads_are_not_traced():
    """While one thread traces, modules run in another as ever."""
    inside, done, seen = threading.Event(), threading.Event(), []
    layer = torchlike.nn.Linear(2, 2)

    def work():
        inside.wait(10)
        seen.append(layer(torchlike.ones(2)).shape)
        done.set()

    class Net(torchlike.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            inside.set()
            assert done.wait(10)
            return self.layer(x)

    thread = threading.Thread(target=work)
    thread.start()
    gm = torchlike.fx.symbolic_trace(Net())
    thread.join()
    assert seen == [(2,)] and [n.op for n in gm.graph.nodes] == ["placeholder", "call_module", "output"]


# -- arguments that are given -----------------------------------------------------------------------


def choose(x, b=None, c=2, *, d=5):
    return x


def first(*args, **kwargs):
    return args[0]


GIVEN = {
    "none": {"b": None}, "int": {"b": 3}, "float": {"b": 3.0}, "text": {"b": "s"}, "bool": {"b": True},
    "keyword": {"d": 7}, "unknown": {"zz": 1}, "type": {"b": object}, "few": (1, True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GIVEN)
def test_concrete_args(name):
    agree(lambda t: said(lambda: t.fx.symbolic_trace(choose, GIVEN[name]).code))


def test_concrete_args_are_checked():
    agree(lambda t: said(lambda: t.fx.symbolic_trace(lambda x, b: x if b else -x, {"b": True})(t.ones(1), False)))


@story
def test_placeholders_in_containers(t):
    gm = t.fx.symbolic_trace(lambda a: a["x"] + a["y"][1], {"a": {"x": t.fx.PH, "y": (t.fx.PH, t.fx.PH)}})
    one = t.ones(2)
    return gm.code, gm({"x": one, "y": (one, 2 * one)}), type(said(lambda: gm({"x": one}))), str(gm.graph)


@story
def test_stars(t):
    gm = t.fx.symbolic_trace(first)
    return gm.code, str(gm.graph), said(lambda: t.fx.symbolic_trace(lambda *a: [b for b in a]), "^.{12}")


# -- tracers ----------------------------------------------------------------------------------------


@story
def test_leaves(t):
    class Deep(t.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, (t.nn.Conv2d, t.nn.BatchNorm2d))

    root = PROGRAMS["residual"](t)[0]
    tracer = Deep()
    graph = tracer.trace(root)
    return str(graph), sorted(t.fx.GraphModule(root, graph).state_dict()), tracer.root is root


@story
def test_own_proxies_and_steps(t):
    seen = []

    class Tagged(t.fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *more):
            proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, *more)
            proxy.node.meta["kind"] = kind
            return proxy

        def create_arg(self, a):
            return int(a) if isinstance(a, bool) else super().create_arg(a)

        def call_module(self, m, forward, args, kwargs):
            seen.append((self.path_of_module(m), type(m).__name__))
            return super().call_module(m, forward, args, kwargs)

        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh())

        def forward(self, x):
            pair = [y for y in self.layers(x)]
            return pair[0] + pair[1] if x.sum() > 0 else t.sum(x, dim=0, keepdim=True)

    graph = Tagged().trace(Net())
    return str(graph), seen, [n.meta.get("kind") for n in graph.nodes]


@story
def test_where_steps_come_from(t):
    class Part(t.nn.Module):
        def forward(self, x):
            return x + 1

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.linear = Part(), t.nn.Linear(2, 2)
            self.both = t.nn.Sequential(self.linear, t.nn.ReLU())

        def forward(self, x):
            return self.both(self.linear(self.part(self.part(x)))) + self.both(x)

    tracer = t.fx.Tracer()
    graph = tracer.trace(Net())
    stacks = [
        [(k, path, kind.__name__) for k, (path, kind) in n.meta.get("nn_module_stack", {}).items()] for n in graph.nodes
    ]
    return stacks, {k: (v[0], getattr(v[1], "__name__", None)) for k, v in tracer.node_name_to_scope.items()}


def test_stack_traces():
    tracer = torchlike.fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(lambda x: x + 1)
    add = graph.output_node().args[0]
    assert 'test_symbolic_trace.py", line' in add.stack_trace and "x + 1" in add.stack_trace.split("\n")[-1]
    gm = torchlike.fx.GraphModule(tracer.root, graph)
    assert "# File: " in gm.print_readable(print_output=False) and "code: graph = " in gm.print_readable(False)


@story
def test_parameters_are_asked_for_their_shape(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = t.nn.Parameter(t.ones(2, 3))

        def forward(self, x):
            return x + self.w if self.w.dim() > 1 and self.w.shape[0] == 2 and self.w.ndim == 2 else x

    return str(t.fx.Tracer(param_shapes_constant=True).trace(Net())), said(lambda: t.fx.symbolic_trace(Net()), "^.{12}")


@story
def test_buffers_may_be_proxies(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", t.ones(3))

        def forward(self, x):
            return self.b.sum() + x

    class Buffers(t.fx.Tracer):
        proxy_buffer_attributes = True

    return str(Buffers().trace(Net())), str(t.fx.Tracer().trace(Net()))


@story
def test_classes_of_steps(t):
    class Pair(metaclass=t.fx.ProxyableClassMeta):
        def __init__(self, a, b):
            self.a, self.b = a, b

        def total(self):
            return self.a + self.b

    Pair.__module__ = "pairs"
    gm = t.fx.symbolic_trace(lambda x: Pair(x, Pair(1, 2)).a + Pair(3, 4).total())
    return str(gm.graph).replace(Pair.__qualname__, "Pair")


@story
def test_proxies_of_a_graph(t):
    graph = t.fx.Graph()
    x = t.fx.Proxy(graph.placeholder("x"))
    y = t.relu(x.real[0]).sum(dim=0) + x.shape[-1]
    graph.output(y.node)
    return str(graph), repr(x), repr(x.foo), type(x.tracer).__name__, said(lambda: t.cat([x, t.fx.Proxy(
        t.fx.Graph().placeholder("z"))]), "^.{40}")  # fmt: skip


def test_wrapped_functions():
    """In a module of its own, since wrap() is called at the top level of one."""
    source = (
        "import math\nfrom math import sqrt\nimport {0} as t\nimport {0}.fx\n"
        "t.fx.wrap('len')\nt.fx.wrap('sqrt')\n"
        "@t.fx.wrap\ndef twice(x, *, n=2):\n    return n * x\n"
        "def f(x):\n    return twice(x, n=3) + len(x) * sqrt(x.size(0)) + math.log(x.size(0)) + twice(4)\n"
    )

    def run(t):
        scope = {"__name__": "wrapped"}
        exec(compile(source.format(t.__name__), "wrapped.py", "exec"), scope)
        gm = t.fx.symbolic_trace(scope["f"])
        text = str(gm.graph), gm.code, [n.meta.get("is_wrapped", False) for n in gm.graph.nodes]
        return text, gm(numbers(t, 3)), scope["len"] is len if "len" in scope else None, scope["twice"](2)

    agree(run)


@story
def test_wrap_is_for_the_top_level(t):
    return said(lambda: t.fx.wrap("len")), said(lambda: t.fx.wrap(3)), t.fx._symbolic_trace.is_fx_tracing()


@story
def test_features_are_extracted(t):
    """As torchvision's feature_extraction does: a tracer that names steps, and other outputs."""

    class Named(t.fx.Tracer):
        def __init__(self):
            super().__init__()
            self.names = {}

        def call_module(self, m, forward, args, kwargs):
            out = super().call_module(m, forward, args, kwargs)
            if isinstance(out, t.fx.Proxy):
                self.names[out.node] = self.path_of_module(m)
            return out

    net = filled(PROGRAMS["residual"](t)[0], t)
    tracer = Named()
    graph = tracer.trace(net)
    wanted = {"layer1.0": "a", "fc": "b"}
    found = {}
    for node, path in reversed(tracer.names.items()):
        for query in list(wanted):
            if path.startswith(query):
                found.setdefault(wanted.pop(query), node)
    gm = t.fx.GraphModule(tracer.root, graph, "Features")
    old = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    with gm.graph.inserting_after(old):
        gm.graph.output(found)
    gm.graph.erase_node(old)
    gm.graph.eliminate_dead_code()
    gm.delete_all_unused_submodules()
    gm.recompile()
    return gm.code, gm(numbers(t, 1, 2, 4, 4)), sorted(gm.state_dict()), [n for n, _ in gm.named_modules()]


@story
def test_operators_whose_names_end_like_those_that_write(t):
    class Strict(t.fx.Tracer):
        check_mutable_operations = True

    found = [[node.name for node in Strict().trace(lambda x: (x & x, x | x, x ^ x)).nodes]]
    return [*found, said(lambda: Strict().trace(lambda x: t.relu_(x)), "Tried to trace mutable operation")]


def asserting():
    """Functions whose assertions are to become steps; PyTorch rewrites none that has a closure or is global."""

    def in_loops(a):
        for i in range(2):
            if i:
                assert a.sum() > i, "z"
        return a

    def annotated(a):
        x: int = 3
        y: float = a + x
        return y

    def twice(a: int):
        y: float = a
        return y

    def inner(a, *, k=3):
        def f(b):
            assert b > 0
            c: 3 = b + 1
            return c

        assert a
        return f(a) + k

    def stars(*a, **k):
        assert a, k
        return a

    def both_sides(a):
        assert a == 1 and a == 2

    return in_loops, annotated, twice, inner, stars, both_sides


def rewritten(t, root):
    made = t.fx.experimental.rewriter.RewritingTracer()
    graph = made.trace(root)
    return t.fx.GraphModule(made.root, graph).code, [(n.op, n.name, n.type) for n in graph.nodes]


@pytest.mark.parametrize("function", asserting(), ids=lambda f: f.__name__)
def test_assertions_become_steps(function):
    agree(lambda t: said(lambda: rewritten(t, function), "^.{40}"))


@story
def test_assertions_of_modules(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.w = t.nn.Linear(2, 2), t.nn.Parameter(t.ones(2))

        def forward(self, x, y: int = 3, *, z=2):
            assert y == z, f"{1}"
            return self.l(x) + self.w

    net, tracer = Net(), t.fx.experimental.rewriter.RewritingTracer()
    gm = t.fx.GraphModule(tracer.trace(net) and tracer.root, tracer.graph)
    return [
        gm.code, gm.l is net.l, gm.w is net.w, tracer.root is net, type(tracer.root).__name__, tracer.graph.lint(),
        said(lambda: gm(t.ones(1, 2), z=4)), gm(t.ones(1, 2), 2).shape, rewritten(t, t.nn.Linear(2, 2))[0],
    ]  # fmt: skip


def checked(x):
    """A function of the module: PyTorch refuses to rewrite it."""
    assert x == 1, "no"
    y: float
    y = x
    return y


def test_rewriting_where_pytorch_fails():
    """Closures, in which PyTorch's code finds other values; private names, ``super``, methods and global functions."""
    n = 7

    class Base(torchlike.nn.Module):
        def forward(self, x):
            return x * 2

    class Net(Base):
        def forward(self, x):
            assert x == n, "no"
            return self.__private(super().forward(x))

        def __private(self, x):
            @dataclasses.dataclass
            class Two:
                a: int = n

            return x + Two().a

    seven = rewritten(torchlike, Net())
    assert "x == 7" in seven[0] and "mul + 7" in seven[0]
    assert "torch._assert(eq, 'no')" in rewritten(torchlike, checked)[0]
    rewrite = torchlike.fx.experimental.rewriter.AST_Rewriter().rewrite
    again = rewrite(checked)
    assert (again.__doc__, again.__qualname__, again.__code__.co_firstlineno, again(1)) == (
        checked.__doc__, checked.__qualname__, checked.__code__.co_firstlineno, 1,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="^no$"):
        again(2)
    assert rewrite(plain) is plain and rewrite(f := lambda x: x) is f


@story
def test_annotations_that_are_no_classes(t):
    T, Dyn = t.fx.tensor_type.TensorType, t.fx.tensor_type.Dyn

    class Net(t.nn.Module):
        def forward(self, x: T((1, 2, Dyn)), y: Dyn, z: T[Dyn, 3], a: list[T((1,))], b: 3, c: T(())) -> T((1,)):
            return x + y

    class Bare(t.nn.Module):
        def forward(self, x: typing.List, y: typing.Tuple, z: typing.Dict, a: typing.Callable):  # noqa: UP006
            return x

    gm, bare = t.fx.symbolic_trace(Net()), t.fx.symbolic_trace(Bare())
    return gm.code, str(gm.graph), gm(t.ones(2), *range(5)), copy.deepcopy(gm).code, bare.code, str(bare.graph)


@story
def test_annotations_survive_another_trace(t):
    def f(x: t.Tensor, n: int = 2) -> t.Tensor:
        return x * n

    once = t.fx.symbolic_trace(f)
    twice = t.fx.symbolic_trace(once)
    return once.code, twice.code, [str(a) for a in once.forward.__annotations__], twice(t.ones(1))


@story
def test_containers_of_a_module_are_taken_apart(t):
    PH = t.fx.PH

    class Net(t.nn.Module):
        def forward(self, x):
            return {"sum": x["a"] + sum(x["z"])}

    given = {"x": {"a": PH, "z": [PH, PH]}}
    values = {"a": t.ones(1), "z": [t.ones(1), t.ones(1) * 2]}
    once = t.fx.symbolic_trace(Net(), concrete_args=given)
    twice = t.fx.symbolic_trace(once)
    again = t.fx.symbolic_trace(twice, concrete_args=given)
    return [(gm.code, gm(values)) for gm in (once, twice, again)], pickle.loads(pickle.dumps(again))(values)


@pytest.mark.parametrize("what", [3, "a", None, len, [].append, partial(print, 1), contextlib.ExitStack().close])
def test_what_has_no_code_is_not_traced(what):
    agree_error(lambda t: t.fx.symbolic_trace(what), "Expected FunctionType, got <class")


def test_nothing_to_fold():
    for lib in (torchlike, torch):
        fold = importlib.import_module(f"{lib.__name__}.fx.experimental.const_fold").split_const_subgraphs
        assert fold(lib.nn.ReLU()).run_folding() is None
