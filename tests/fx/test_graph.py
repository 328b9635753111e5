"""Graphs, steps and modules made of them by hand: what they hold, print and refuse is PyTorch's."""

import collections
import enum
import operator
import pickle
import random
import typing
import warnings

import pytest
import torch
from both import agree
from fx_programs import PROGRAMS, numbers
from story_kit import said, story

import torchlike

Pair = collections.namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 1


def started(t, *names):
    graph = t.fx.Graph()
    return graph, [graph.placeholder(name) for name in names]


FUNCTIONS = [
    operator.iadd, operator.add, operator.contains, operator.and_, operator.is_, operator.concat, operator.matmul,
    operator.not_, operator.pos, operator.abs, operator.index, operator.invert, operator.truth, len,
    collections.OrderedDict, Color,
]  # fmt: skip


@story
def test_calls_as_code(t):
    graph, (x,) = started(t, "x")
    for f in FUNCTIONS:
        binary = f in FUNCTIONS[:7]
        graph.call_function(f, (x, 1) if binary else (x,))
    graph.call_function(operator.setitem, (x, 0, 1))
    for args in ((x, "a b"), (x, "ab", 3), (x, "shape")):
        graph.call_function(getattr, args)
    graph.call_method("foo.bar", (x, 1))
    graph.call_method("__call__", (x,))
    graph.call_module("a.0.b-c", (x,))
    graph.get_attr("a.0.w")
    graph.call_function(t.ops.aten.add.Tensor, (x, x))
    graph.call_function(t.ops.aten.add, (x, x), name="myName")
    graph.call_function(t.Size, ([1],))
    graph.call_function(t.device, ("cpu",))
    graph.call_function(t.nn.Linear, (1, 2))
    return str(graph), graph.python_code("self").src, graph.python_code("self", verbose=True).src


@story
def test_arguments_as_code(t):
    graph, (x,) = started(t, "x")
    graph.call_function(
        t.add,
        (
            Color.RED, Pair(x, 1), {"a": x, 3: [1, x]}, t.device("cpu"), t.strided, t.channels_last, 1e-5, float("nan"),
            "q\"'", None, Ellipsis, slice(x, 1), range(3), 1j, (1,), True, t.ops.aten.add.Tensor, -float("inf"), ((),),
        ),
        {"dtype": t.float32, "x": x},
    )  # fmt: skip
    graph.output((x, Pair(x, [x])))
    return (
        str(graph),
        graph.python_code("self").src.replace("test_graph_Pair", "Pair"),
        [str(n.args) for n in graph.nodes],
    )


TYPES = [
    typing.List[int], typing.Optional[int], list[int], typing.Any, typing.Dict[str, typing.List[int]], int | None,  # noqa: UP006,UP007,UP045
    "Foo", typing.Tuple[int, ...], type(None), int, float,  # noqa: UP006
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_as_code(kind):
    def run(t):
        graph, (x,) = started(t, "x")
        graph.call_function(len, (x,), type_expr=kind)
        graph.output(x, type_expr=t.Tensor)
        return str(graph), graph.python_code("self").src

    agree(run)


@story
def test_types_of_tensors_as_code(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x", t.Tensor, 3)
    graph.call_function(len, (x,), type_expr=typing.Tuple[t.Tensor, t.nn.Parameter])  # noqa: UP006
    graph.output(x, type_expr=t.nn.Linear)
    return str(graph), graph.python_code("self").src, x.format_node()


@story
def test_comments(t):
    graph, (x,) = started(t, "x")
    one, two, three = [graph.call_function(t.relu, (x,)) for _ in range(3)]
    one.meta["stack_trace"] = two.stack_trace = '  File "a.py", line 3, in foo\n    x + 1\n'
    three.stack_trace = '  File "b.py", line 5, in bar\n    y\n  File "c.py", line 9, in baz\n    zed()\n'
    graph.call_function(t.neg, (three,))
    graph.output(two)
    gm = t.fx.GraphModule(t.nn.Module(), graph)
    return graph.python_code("self", verbose=True).src, gm.print_readable(False), gm.code, one.stack_trace


def test_names():
    """At random, from few candidates."""
    candidates = [
        "a", "a_1", "a_2", "b_7", "0", "0_1", "*x", "**x", "sum", "sum_1", "def", "self", "input", "class_1", "Abc",
        "x__1", "x_01", "__init__", "inf", "device", "torch", "_", "_1", "x-y", "x_y", "a.b.c", "x", "nan_2",
    ]  # fmt: skip
    draw = random.Random(3)
    for _ in range(20):
        wanted = [draw.choice(candidates) for _ in range(40)]
        agree(lambda t, wanted=wanted: list(map(t.fx.graph._Namespace().create_name, wanted, [None] * 40)))


@story
def test_names_of_targets(t):
    graph = t.fx.Graph()
    targets = (t.add, "FooBar", "foo.Bar2Baz", "__call__", "HTTPResponse", operator.and_, len, "aB_cD", t.nn.functional.
               linear, t.nn.functional.threshold, t.linalg.norm, t.Tensor.add_)  # fmt: skip
    return [graph._target_to_str(x) for x in targets]


def test_names_of_functions():
    """Every function of these namespaces is called as PyTorch calls it, and found by that name."""
    from torch.fx.node import _get_qualified_name as theirs

    from torchlike.fx.node import _get_qualified_name as ours

    known = torch.overrides.get_testing_overrides()
    aside = {"segment_reduce", "true_divide"}
    count = 0
    for space in ("", "nn.functional", "linalg", "fft", "special", "nn.init"):
        t, home = [operator.attrgetter(space)(m) if space else m for m in (torch, torchlike)]
        for name in sorted({*dir(home)} & {*dir(t)}):  # PyTorch warns of names beside these
            function, other = getattr(home, name), getattr(t, name)
            if name.startswith("_") or name in aside or not hasattr(function, "__code__") or isinstance(other, type):
                continue
            if other not in known:
                continue
            expected = theirs(other)
            if expected.startswith("torch._") and not expected.startswith("torch._C."):
                continue  # a name of PyTorch's own, which generated code here need not have
            assert ours(function) == expected, name
            found = operator.attrgetter(ours(function)[6:])(torchlike)
            assert found is function or found.__name__ == function.__name__
            count += 1
    assert count > 600


# -- steps ------------------------------------------------------------------------------------------


@story
def test_places(t):
    graph, (x,) = started(t, "x")
    with graph.inserting_before(x):
        first = graph.get_attr("w")
    y, z = graph.call_function(t.add, (x, first)), graph.call_method("relu", (x,))
    with graph.inserting_after(x):
        a = graph.call_method("neg", (x,))
        graph.call_method("abs", (a,))
    y.prepend(z)
    x.append(y)
    with graph.inserting_before():
        graph.get_attr("v")
    graph.inserting_after(y)
    graph.call_method("cos", (y,))
    order = [n.name for n in graph.nodes]
    return (
        order, [n.name for n in reversed(graph.nodes)], len(graph.nodes), y.next.name, y.prev.name, x < y, y > x,
        sorted([y, x, a])[0].name, said(lambda: x.append(t.fx.Graph().placeholder("z"))), str(graph),
        said(lambda: graph.inserting_before(t.fx.Graph().placeholder("q"))),
        said(lambda: graph.inserting_after(t.fx.Graph().placeholder("q"))),
    )  # fmt: skip


@story
def test_arguments(t):
    graph, (x, y) = started(t, "x", "y")
    z = graph.call_function(t.cat, ([x, y, x],), {"dim": 0})
    out = [[n.name for n in z.all_input_nodes], [n.name for n in x.users]]
    z.update_arg(0, [y, {"k": y}])
    z.insert_arg(1, x)
    z.update_kwarg("out", x)
    out += [z.format_node(), [n.name for n in z.all_input_nodes], [n.name for n in x.users]]
    z.args = (x, slice(y, None))
    z.kwargs = {}
    z.replace_input_with(x, y)
    out += [z.format_node(), [n.name for n in x.users], said(lambda: z.update_arg(9, 1)), said(
        lambda: z.insert_arg(9, 1), "^.{6}")]  # fmt: skip
    w = graph.call_function(t.add, (z, z))
    out += [[n.name for n in z.replace_all_uses_with(x)], w.format_node(), str(z.users), [
        n.name for n in x.replace_all_uses_with(y, lambda user: False)]]  # fmt: skip
    x.meta["a"] = 1
    x.replace_all_uses_with(z, propagate_meta=True)
    return [*out, z.meta, said(lambda: x.replace_all_uses_with(z, propagate_meta=True), "already")]


@story
def test_arguments_cannot_be_changed(t):
    graph, (x,) = started(t, "x")
    z = graph.call_function(t.cat, ([x],), {"a": {}})
    pattern = "object does not support mutation"
    return [
        said(lambda: z.args[0].append(x), pattern), said(lambda: z.kwargs.update(a=1), pattern),
        said(lambda: z.kwargs["a"].pop(1), pattern), said(lambda: z.args[0].sort(), pattern),
        said(lambda: operator.setitem(z.args[0], 0, 1), pattern), said(lambda: operator.delitem(z.args[0], 0), pattern),
        repr(pickle.loads(pickle.dumps(t.fx.immutable_collections.immutable_list([1, 2])))),
        [type(a).__name__ for a in (z.args, z.args[0], z.kwargs, z.kwargs["a"])],
        t.utils._pytree.tree_map(lambda v: v + 1, t.fx.immutable_collections.immutable_dict(a=1)),
    ]  # fmt: skip


@story
def test_refused_steps(t):
    graph, (x,) = started(t, "x")
    y = graph.call_function(t.relu, (x,))
    other = t.fx.Graph()
    other.call_function(t.add, (x,))
    return [
        said(lambda: graph.create_node("foo", "x"), "op 'foo' is not"), said(lambda: graph.erase_node(x), "^[^!]*"),
        type(said(lambda: graph.create_node("call_function", "x"))), said(lambda: graph.call_method(3), "^.{31}"),
        said(lambda: graph.create_node("call_function", t.relu, [x]), "args must be a tuple"),
        said(other.lint, "^[^!]*"), said(graph.output_node), said(lambda: t.fx.Graph().erase_node(y), "wrong graph"),
        said(lambda: graph.find_nodes(op="call_function"), "target must not be None"),
        said(lambda: t.fx.node.map_arg(1, 2), "fn must be a callable"),
    ]  # fmt: skip


@story
def test_lint(t):
    graph, (x,) = started(t, "x")
    y = graph.call_function(t.relu, (x,))
    z = graph.call_function(t.relu, (y,))
    z.append(y)
    early = said(graph.lint, "^[^!]*")
    y.append(z)
    graph.output(z)
    graph.lint()
    gm = t.fx.GraphModule(t.nn.Module(), graph)
    y.op, y.target = "call_module", "missing"
    return early, said(gm.graph.lint, "^.{20}"), y._sort_key < z._sort_key


@story
def test_dead_code(t):
    graph, (x,) = started(t, "x")
    graph.call_function(t.relu, (graph.call_function(t.neg, (x,)),))
    graph.call_function(t._assert, (x, "text"))
    graph.call_function(operator.setitem, (x, 0, 1))
    graph.call_function(t.rand, (3,))
    graph.call_function(t.ops.aten.add_.Tensor, (x, x))
    graph.call_function(t.ops.aten.add.Tensor, (x, x))
    graph.call_function(print, (x,))
    graph.placeholder("unused")
    graph.get_attr("w")
    graph.output(x)
    t.fx.has_side_effect(print)
    changed = graph.eliminate_dead_code()
    kept = [n.name for n in graph.nodes]
    return (
        changed,
        kept,
        graph.eliminate_dead_code(),
        graph.eliminate_dead_code(lambda n: n.op != "call_function"),
        str(graph),
    )


@story
def test_dead_methods_and_modules(t):
    graph, (x,) = started(t, "x")
    graph.call_method("relu", (x,))
    graph.call_method("relu_", (x,))
    early = said(t.fx.symbolic_trace(lambda x: x).graph.eliminate_dead_code)
    graph.call_module("relu", (x,))
    graph.output(x)
    root = t.nn.Module()
    root.relu = t.nn.ReLU()
    gm = t.fx.GraphModule(root, graph)
    return early, gm.graph.eliminate_dead_code(), str(gm.graph)


@story
def test_finding(t):
    graph = PROGRAMS["residual"](t)[0]
    graph = t.fx.symbolic_trace(graph).graph
    return [
        [n.name for n in graph.find_nodes(op="call_function", target=operator.add)],
        [n.name for n in graph.find_nodes(op="call_module")], [n.name for n in graph.find_nodes(op="placeholder")],
        [n.name for n in graph.find_nodes(op="call_module", target="fc")], graph.output_node().name,
    ]  # fmt: skip


@story
def test_copies_of_graphs(t):
    graph = t.fx.symbolic_trace(lambda x, y: t.relu(x) * y).graph
    made = t.fx.Graph()
    a, b = made.placeholder("a"), made.placeholder("b")
    first, second = [n for n in graph.nodes if n.op == "placeholder"]
    copies = {first: a, second: b}
    once = made.graph_copy(graph, copies)
    twice = made.graph_copy(graph, {first: once, second: b})
    made.output((once, made.node_copy(copies[first].next.next, lambda n: n), twice))
    return str(made), len(copies)


@story
def test_code_may_be_changed(t):
    gm = t.fx.symbolic_trace(lambda x: t.relu(x) + 1)

    def before(lines):
        return ["x = x * 2\n", *lines]

    with gm.graph.on_generate_code(lambda current: before):
        inside = gm.recompile().src
    first = gm(t.ones(1))
    gm.recompile()

    class Named(t.fx.graph.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, **more):
            return super().gen_fn_def(free_vars, maybe_return_annotation) + "\n    print_me = 1"

        def generate_output(self, output_args, **more):
            return f"return [{output_args}]"

        def process_outputs(self, outputs):
            return [outputs]

        def additional_globals(self):
            return [("twice", len)]

    gm.graph.set_codegen(Named())
    made = gm.recompile()
    again = gm(t.ones(1)), t.fx.Interpreter(gm).run(t.ones(1))
    return (
        inside,
        first,
        gm.code,
        "twice" in made.globals,
        again,
        gm.graph.process_outputs(3),
        gm.graph.process_inputs(3),
    )


# -- modules ----------------------------------------------------------------------------------------


@story
def test_modules_of_dicts(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_module("a.0", (graph.call_function(t.add, (x, graph.get_attr("p.q"))),))
    graph.output((y, graph.get_attr("w")))
    given = {"a.0": t.nn.ReLU(), "p.q": t.ones(2), "w": t.nn.Parameter(t.zeros(2)), "more": 3}
    gm = t.fx.GraphModule(given, graph, "Named")
    missing = said(lambda: t.fx.GraphModule({}, graph))
    return (
        str(gm).replace("torchlike", "t"), gm(-t.ones(2)), sorted(gm.state_dict()), type(gm).__name__, missing,
        [n for n, _ in gm.named_parameters()], said(lambda: t.fx.GraphModule(3, graph), "^.{20}"),
        said(lambda: setattr(gm, "graph", 3), "Expected a Graph instance"), gm.graph is graph,
    )  # fmt: skip


@story
def test_submodules(t):
    gm = t.fx.symbolic_trace(PROGRAMS["residual"](t)[0])
    out = [gm.add_submodule("new.deep.er", t.nn.ReLU()), gm.add_submodule("fc.weight.x", t.nn.ReLU())]
    out += [gm.delete_submodule("nothing.here"), gm.delete_submodule("layer1.1.relu"), gm.delete_submodule("fc.weight")]
    before = [n for n, _ in gm.named_modules()]
    fc = gm.graph.find_nodes(op="call_module", target="fc")[0]
    fc.replace_all_uses_with(fc.args[0])
    gm.graph.erase_node(fc)
    gm.delete_all_unused_submodules()
    return out, before, [n for n, _ in gm.named_modules()]


@story
def test_hooks_of_graphs(t):
    gm, told = t.fx.symbolic_trace(lambda x: x + 1), []
    made, gone = (lambda n: told.append(("made", n.name))), (lambda n: told.append(("gone", n.name)))
    gm._register_create_node_hook(made)
    gm._register_erase_node_hook(gone)
    add = gm.graph.output_node().args[0]
    with (
        gm.graph.inserting_after(add),
        gm._set_replace_hook(lambda old, new, user: told.append((old.name, new, user.name))),
    ):
        new = gm.graph.call_function(t.relu, (add,))
        add.replace_all_uses_with(new)
    new.args = ()
    gm.graph.erase_node(add)
    gm._unregister_create_node_hook(made)
    gm.graph.call_function(t.relu, ())
    return told


@story
def test_gradients_and_training(t):
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Dropout(0.5)).eval()
    gm = t.fx.symbolic_trace(net)
    net[0].weight.data.fill_(0.5)
    gm(t.ones(1, 2)).sum().backward()
    first = net[0].weight.grad.clone(), gm.training, gm.get_parameter("0.weight") is net[0].weight
    gm.train()
    return first, net.training, gm.state_dict().keys() == net.state_dict().keys()


def test_errors_show_the_code():
    gm = torchlike.fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(RuntimeError) as error:
        gm(torchlike.ones(3))
    shown = [str(entry.statement).strip() for entry in error.traceback]
    assert "view = x.view(7);  x = None" in shown


def test_folders(tmp_path):
    import importlib.util
    import sys

    gm = torchlike.fx.symbolic_trace(PROGRAMS["nested"](torchlike)[0])
    gm.to_folder(tmp_path / "net", "Net")
    torchlike.install_as_torch() if sys.modules.get("torch") is None else None
    source = (tmp_path / "net" / "module.py").read_text()
    (tmp_path / "net" / "module.py").write_text(source.replace("import torch\n", "import torchlike as torch\n").replace(
        "from torch import", "from torchlike import"))  # fmt: skip
    spec = importlib.util.spec_from_file_location("net_module", tmp_path / "net" / "module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = numbers(torchlike, 2, 3)
    assert module.Net()(x).tolist() == gm(x).tolist()


# -- running ----------------------------------------------------------------------------------------


@story
def test_interpreters(t):
    gm, seen = t.fx.symbolic_trace(lambda x, y=2.0: t.relu(x).neg() * y), []

    class Told(t.fx.Interpreter):
        def run_node(self, n):
            out = super().run_node(n)
            seen.append((n.name, out, len(self.env)))
            return out

        def call_method(self, target, args, kwargs):
            return -super().call_method(target, args, kwargs)

    x = t.tensor([1.0, -1.0])
    first = Told(gm).run(x, 3.0)
    relu = gm.graph.find_nodes(op="call_function", target=t.relu)[0]
    known = t.fx.Interpreter(gm, garbage_collect_values=False).run(x, initial_env={relu: t.ones(2)})
    boxed = [x, 1.0]
    return (
        first, seen, known, t.fx.Interpreter(gm).boxed_run(boxed), boxed, Told(gm).run(x),
        said(lambda: t.fx.Interpreter(gm).run(), "^[^!]*"), said(lambda: t.fx.Interpreter(gm).fetch_attr("a.b")),
    )  # fmt: skip


@story
def test_transformers(t):
    class Changed(t.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(t.sigmoid if target is t.neg else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("cos" if target == "sin" else target, args, kwargs).abs()

    gm = t.fx.symbolic_trace(lambda x, n=2: t.neg(x).sin() + n)
    made = Changed(gm).transform()
    return str(made.graph), made(t.ones(2)), type(made).__name__


@story
def test_meta_is_preserved(t):
    gm = t.fx.symbolic_trace(lambda x: t.relu(x) + 1)
    for n in gm.graph.nodes:
        n.meta["mine"] = n.name
    with t.fx.traceback.preserve_node_meta():
        inside = t.fx.traceback.has_preserved_node_meta()
        made = t.fx.Transformer(gm).transform()
    return inside, t.fx.traceback.has_preserved_node_meta(), [n.meta.get("mine") for n in made.graph.nodes]


def parts(t):
    class Parts(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.number = t.nn.Linear(2, 2), 3
            self.register_buffer("b", t.ones(2))

        def forward(self, x):
            return t.relu(self.lin(x)) + self.b

    return Parts()


@pytest.mark.parametrize("path", ["b", "lin", "lin.weight", "nope", "lin.nope", "nope.b", "number"])
def test_paths_that_are_not_there(path):
    def run(t):
        graph = t.fx.symbolic_trace(parts(t)).graph
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            names = [graph.get_attr(path).name, graph.create_node("get_attr", path).name]
        try:
            names.append(graph.call_module(path).name)
        except AttributeError as error:
            names.append(str(error))
        return names, [str(w.message)[:60] for w in told], t.fx.Graph().call_module(path).name

    assert run(torchlike) == run(torch)


@story
def test_replicas_compute(t):
    traced = t.fx.symbolic_trace(parts(t))
    replica = traced._replicate_for_data_parallel()
    other = t.fx.symbolic_trace(t.nn.Sequential(t.nn.ReLU()))._replicate_for_data_parallel()
    return other(t.tensor([-1.0, 2.0])), replica.code == traced.code, list(replica.parameters()), replica._is_replica


@story
def test_the_rest_of_what_tracers_are_told(t):
    class Refusing(t.fx.Tracer):
        check_mutable_operations = True

    def said(f):
        try:
            return f() and None
        except (RuntimeError, AssertionError) as error:
            return str(error).split("(")[0]

    elsewhere = t.fx.Tracer()
    elsewhere.traced_func_name = "other"
    return [
        said(lambda: Refusing().trace(lambda x: t.sigmoid(x, out=x))),
        said(lambda: Refusing().trace(lambda x: t.add(x, 1, out=x))),
        said(lambda: Refusing().trace(lambda x: t.sigmoid(x) + x)), said(lambda: elsewhere.trace(parts(t))),
    ]  # fmt: skip


@story
def test_outputs_are_given_to_code_generators_as_they_are(t):
    kinds = []

    class Listing(t.fx.graph.CodeGen):
        def generate_output(self, output_args, **_):
            kinds.append([isinstance(output_args, kind) for kind in (tuple, list, dict)])
            return f"return list({output_args!r})"

    codes = []
    for f in (lambda a, b: (a, {"k": [b, float("inf")]}), lambda a, b: [a, b], lambda a, b: {"a": t.float32}):
        traced = t.fx.symbolic_trace(f)
        traced.graph.set_codegen(Listing())
        traced.recompile()
        codes.append(traced.code)
    return codes, kinds


@story
def test_ranges_of_the_profiler_are_kept(t):
    graph = t.fx.Graph()
    handle = graph.call_function(t.ops.profiler._record_function_enter, ("range",))
    graph.call_function(t.ops.profiler._record_function_exit, (handle,))
    graph.output(None)
    return graph.eliminate_dead_code(), len(graph.nodes)


def test_an_argument_may_write_itself():
    class Mine(tuple):
        def _custom_fx_repr_fn(self):
            return "mine"

    assert torchlike.fx.node._format_arg((Mine(), 1)) == torch.fx.node._format_arg((Mine(), 1)) == "(mine, 1)"


def test_every_function_may_be_asked_for_its_signatures():
    found = [torchlike.fx.operator_schemas.get_signature_for_torch_op(getattr(torchlike, n)) for n in dir(torchlike)]
    assert sum(signatures is not None for signatures in found) > 500
    (first,) = {str(s).split(", to")[0] for s in torchlike.fx.operator_schemas.get_signature_for_torch_op(
        torchlike.ops.aten.random_) if "from" in s.parameters}  # fmt: skip
    assert first.endswith("from, /")
