"""Programs over graphs: what they make of them is what PyTorch's make."""

import copy
import operator
import pickle
import warnings

import pytest
import torch
import torch.fx.annotate
import torch.fx.experimental.const_fold
import torch.fx.experimental.proxy_tensor
import torch.fx.passes.dialect.common.cse_pass
import torch.fx.passes.graph_manipulation
import torch.fx.passes.infra.partitioner
import torch.fx.passes.infra.pass_manager
import torch.fx.passes.split_utils
import torch.fx.passes.utils.source_matcher_utils
import torch.fx.tensor_type
from both import agree
from fx_programs import PROGRAMS, filled, numbers
from story_kit import said, story

import torchlike

with warnings.catch_warnings(action="ignore"):  # PyTorch's module has decorators that PyTorch deprecates
    import torch.fx.experimental.optimization


def traced(t, name):
    root, inputs, *concrete = PROGRAMS[name](t)
    return t.fx.symbolic_trace(root, *concrete), root, inputs


def replaced(f, pattern, replacement):
    """What is made of ``f`` by replacing a pattern; all are functions of a library."""

    def run(t):
        gm = t.fx.symbolic_trace(f(t))
        matches = t.fx.replace_pattern(gm, pattern(t), replacement(t))
        return str(gm.graph), gm.code, [(str(m.anchor), str(m.nodes_map)) for m in matches]

    return run


PATTERNS = {
    "twice": (lambda t: lambda x, y: t.relu(x + y) * t.relu(x + y), lambda t: lambda a, b: t.relu(a + b),
              lambda t: lambda a, b: t.maximum(a, b)),
    "overlap": (lambda t: lambda x: t.relu(t.relu(t.relu(x))), lambda t: lambda a: t.relu(t.relu(a)),
                lambda t: lambda a: t.tanh(a)),
    "chain": (lambda t: lambda x: t.relu(t.relu(t.relu(x))), lambda t: lambda a: t.relu(a),
              lambda t: lambda a: t.tanh(a) + 1),
    "used elsewhere": (lambda t: lambda x: (lambda y: (y + 1, y))(t.relu(x)), lambda t: lambda a: t.relu(a) + 1,
                       lambda t: lambda a: t.tanh(a)),
    "method": (lambda t: lambda x: x.view(2).view(3), lambda t: lambda a: a.view(2), lambda t: lambda a: a.reshape(2)),
    "one for two": (lambda t: lambda x: t.cat([x, x], dim=1), lambda t: lambda a, b: t.cat([a, b], dim=1),
                    lambda t: lambda a, b: t.stack([a, b])),
    "several results": (lambda t: lambda x, y: (x + y, x - y), lambda t: lambda a, b: (a + b, a - b),
                        lambda t: lambda a, b: (a * b, a / b)),
    "another constant": (lambda t: lambda x: x + 1, lambda t: lambda a: a + 2, lambda t: lambda a: a),
    "the same twice": (lambda t: lambda x, y: x * x + x * y, lambda t: lambda a: a * a, lambda t: lambda a: a**2),
    "nothing": (lambda t: lambda x: t.relu(x) + t.relu(x) * 2, lambda t: lambda a: t.relu(a), lambda t: lambda a: a),
    "keywords": (lambda t: lambda x: t.sum(t.relu(x), dim=1), lambda t: lambda a: t.sum(t.relu(a), dim=1),
                 lambda t: lambda a: t.mean(a, dim=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_replaced_patterns(name):
    agree(replaced(*PATTERNS[name]))


@story
def test_replaced_modules(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.r, self.w = t.nn.Linear(2, 2), t.nn.ReLU(), t.nn.Parameter(t.ones(2))

        def forward(self, x):
            return self.r(self.l(x)) + self.w

    class Pattern(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.r = t.nn.Linear(2, 2), t.nn.ReLU()

        def forward(self, x):
            return self.r(self.l(x))

    class New(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.t, self.v = t.nn.Tanh(), t.nn.Parameter(t.ones(2))

        def forward(self, x):
            return self.t(x) * self.v

    gm = t.fx.symbolic_trace(Net())
    matches = t.fx.replace_pattern(gm, Pattern(), New())
    return str(gm.graph), str(gm), list(gm.state_dict()), len(matches), gm(t.zeros(2))


@story
def test_replaced_with_filters(t):
    gm = t.fx.symbolic_trace(lambda x: (x + 1) * (x + 2) * (x + 3))
    found = t.fx.subgraph_rewriter.replace_pattern_with_filters(
        gm, lambda a: a + 0, lambda a: a - 5,
        [lambda match, graph, pattern: match.returning_nodes[0].args[1] != 2], ignore_literals=True,
    )  # fmt: skip
    return gm.code, [(str(m.anchor), [str(n) for n in m.replacements]) for m in found]


@story
def test_matches(t):
    matcher = t.fx.passes.utils.matcher_utils.SubgraphMatcher
    graph = t.fx.symbolic_trace(lambda x, y: t.relu(x + y) + t.relu(x * y)).graph
    pattern = t.fx.symbolic_trace(lambda a: t.relu(a)).graph
    found = matcher(pattern).match(graph)
    dead = said(lambda: matcher(t.fx.symbolic_trace(lambda a: (t.relu(a), a)[1]).graph), "dead code")
    compare = t.fx.passes.utils.compare_graphs
    one, two = (t.fx.symbolic_trace(f).graph for f in (lambda x: x + 1, lambda y: y + 2))
    return [
        [(str(m.placeholder_nodes), str(m.returning_nodes), str(m.anchors)) for m in found], dead,
        compare(one, t.fx.symbolic_trace(lambda z: z + 1).graph), compare(one, two),
    ]  # fmt: skip


SHAPED = ["nested", "conv_bn", "containers", "slices", "attention"]


@pytest.mark.parametrize("name", SHAPED)
def test_shapes(name):
    def run(t):
        gm, _, inputs = traced(t, name)
        t.fx.passes.shape_prop.ShapeProp(gm).propagate(*inputs)
        notes = [str(n.meta.get("tensor_meta")) for n in gm.graph.nodes]
        return notes, gm.print_readable(False), gm.print_readable(False, include_stride=True)

    agree(run)


@story
def test_a_step_that_fails(t):
    gm = t.fx.symbolic_trace(lambda x: x.view(7))
    return said(lambda: t.fx.passes.shape_prop.ShapeProp(gm).propagate(t.ones(3)), "^ShapeProp error for: node=%view")


LAST = ("dict_a", "add_2", "sub", "avgpool", "flatten", "fc")
SPLITS = {
    "mlp": lambda n: int(n.name[1]) // 2,
    "nested": lambda n: 1 if "list" in n.name or n.name in ("mul_1", "add_1") else 2 * (n.name in LAST),
    "residual": lambda n: 1 if "layer1_1" in n.name or n.name == "add_1" else 2 * (n.name in LAST),
    "containers": lambda n: n.name,
    "functional": lambda n: "a" if n.name in ("linear", "gelu", "silu") else "b",
    "attributes": lambda n: 0,
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"keep_original_order": True}, {"keep_original_node_name": True}], ids=str)
@pytest.mark.parametrize("name", SPLITS)
def test_splits(name, options):
    def run(t):
        gm, root, inputs = traced(t, name)
        if isinstance(root, t.nn.Module):
            filled(root, t)
        paths = {}
        made = t.fx.passes.split_module.split_module(
            gm, root if isinstance(root, t.nn.Module) else t.nn.Module(), SPLITS[name], paths, **options
        )  # fmt: skip
        made.eval()
        again = PROGRAMS[name](t)[1]
        return str(made.graph), made.print_readable(False), paths, list(made.state_dict()), str(made(*again))

    agree(run)


def test_a_circle_is_no_split():
    gm = torchlike.fx.symbolic_trace(lambda x: ((x + 1) * 2) + 3)
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        torchlike.fx.passes.split_module.split_module(gm, torchlike.nn.Module(), lambda n: n.name.startswith("mul"))
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        torchlike.fx.passes.split_module.split_module(
            gm, torchlike.nn.Module(), lambda n: n.name.startswith("mul"), keep_original_order=True
        )


@story
def test_split_by_tags(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (t.nn.Linear(2, 2) for _ in range(3))

        def forward(self, x):
            y = self.a(x)
            return self.c(self.b(y).relu()) + y

    gm = t.fx.symbolic_trace(filled(Net(), t))
    tags = {"a": "left", "b": "middle", "relu": "middle", "c": "right", "add": "right"}
    for n in gm.graph.nodes:
        n.tag = tags.get(n.name)
    made = t.fx.passes.split_utils.split_by_tags(gm, ["left", "middle", "right"])
    return (
        str(made.graph),
        [(k, str(m.graph)) for k, m in made.named_children()],
        list(made.state_dict()),
        made(t.ones(2)),
    )


def steps(t):
    def f(a, b, c):
        v = t.relu(t.exp(t.relu(a + b)) + c)
        u = t.exp(a)
        return v + u, t.relu(u)

    return t.fx.symbolic_trace(f)


@story
def test_partitions(t):
    passes = t.fx.passes

    class Supported(passes.operator_support.OperatorSupport):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and node.target in (operator.add, t.relu)

    gm = steps(t)
    partitioner = passes.infra.partitioner.CapabilityBasedPartitioner(gm, Supported())
    parts = partitioner.propose_partitions()
    names = [sorted(n.name for n in part.nodes) for part in parts]
    fused = partitioner.fuse_partitions(parts)
    one = t.ones(2)
    return names, str(fused.graph), [(k, str(m.graph)) for k, m in fused.named_children()], fused(one, one, one)


@story
def test_support(t):
    s = t.fx.passes.operator_support
    calls, adds = (s.create_op_support(f) for f in (lambda m, n: n.op == "call_function", lambda m, n: n.name == "add"))
    named = s.OperatorSupport({"_operator.add": None, "neg": None})
    gm = t.fx.symbolic_trace(lambda x: x.neg() + t.relu(x))
    rules = (
        calls,
        adds,
        s.chain(calls, adds),
        s.any_chain(calls, adds),
        named,
        s.OpSupports.decline_if_node_in_names({"x"}),
    )
    return [[rule.is_node_supported({}, n) for n in gm.graph.nodes] for rule in rules]


@story
def test_fusing(t):
    utils = t.fx.passes.utils.fuser_utils
    gm = steps(t)
    by = {n.name: n for n in gm.graph.nodes}
    groups = ("add relu", "add exp", "add relu exp add_1", "add add_1")
    valid = [utils.validate_partition([by[name] for name in group.split()]) for group in groups]
    fused = utils.fuse_by_partitions(gm, [{by["add"]: None, by["relu"]: None}])
    return valid, str(fused.graph), str(fused.fused_0.graph)


@story
def test_common_subexpressions(t):
    make_fx, cse = t.fx.experimental.proxy_tensor.make_fx, t.fx.passes.dialect.common.cse_pass.CSEPass()

    def f(x):
        a, b = x.cos(), x.cos()
        return a + a + (b + b), x.sum(dim=1), x.sum(dim=1)

    first = cse(make_fx(f)(t.ones(2, 2)))
    return first.modified, first.graph_module.code, cse(first.graph_module).modified


class Normalized:
    def __init__(self, t):
        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.bn, self.drop = t.nn.Conv2d(1, 2, 3), t.nn.BatchNorm2d(2), t.nn.Dropout()
                self.conv2, self.bn2 = t.nn.Conv2d(2, 1, 1), t.nn.BatchNorm2d(1)

            def forward(self, x):
                z = self.conv2(self.drop(self.bn(self.conv(x))))
                return self.bn2(z) + z

        self.net = filled(Net(), t)


@story
def test_fused_normalization(t):
    net, x = Normalized(t).net, numbers(t, 1, 1, 4, 4)
    fused = t.fx.experimental.optimization.fuse(net)
    near = bool((fused(x) - net(x)).abs().max() < 1e-5)
    return (
        str(fused.graph),
        list(fused.state_dict()),
        near,
        str(t.fx.experimental.optimization.remove_dropout(net).graph),
    )


@story
def test_extracted(t):
    gm = steps(t)
    by = {n.name: n for n in gm.graph.nodes}
    chosen = [by[n] for n in ("exp", "add_1")]
    part = t.fx.experimental.optimization.extract_subgraph(gm, chosen, [by["relu"], by["c"]], [by["add_1"]])
    return str(part.graph), part(t.ones(2), t.ones(2))


@story
def test_the_order_of_steps(t):
    gm = steps(t)
    nodes = list(gm.graph.nodes)
    nodes[3].prepend(nodes[7])
    nodes[4].append(nodes[1])
    early = said(gm.graph.lint, "used before it has been defined")
    names = t.fx.passes.tools_common.get_node_target
    called = [names({}, n) for n in gm.graph.nodes if n.args and n.op != "output"]
    return early, str(t.fx.passes.tools_common.legalize_graph(gm).graph), called


@story
def test_other_targets(t):
    gm = t.fx.symbolic_trace(lambda x: t.relu(x) + t.relu(x * 2))
    manipulation = t.fx.passes.graph_manipulation
    manipulation.replace_target_nodes_with(gm, "call_function", t.relu, "call_method", "tanh")
    manipulation.get_size_of_all_nodes(gm, [t.ones(2, 3)])
    return gm.code, [tuple(getattr(n, "size_bytes", ())) for n in gm.graph.nodes]


@story
def test_passes_in_a_row(t):
    infra, told = t.fx.passes.infra, []

    class Clean(infra.pass_base.PassBase):
        def requires(self, graph_module):
            told.append("before")

        def call(self, graph_module):
            return infra.pass_base.PassResult(graph_module, graph_module.graph.eliminate_dead_code())

        def ensures(self, graph_module):
            told.append("after")

    def other(gm):
        told.append("other")

    wrapped, clean = infra.pass_manager.pass_result_wrapper(other), Clean()
    before = infra.pass_manager.this_before_that_pass_constraint(wrapped, clean)
    manager = infra.pass_manager.PassManager([clean, wrapped], constraints=[before])
    broken = said(manager.validate_constraints, "pass schedule constraint violated")
    gm = t.fx.symbolic_trace(lambda x: (x + 1, x)[1])
    result = manager(gm)
    unwrapped = said(
        lambda: infra.pass_manager.PassManager([other])(gm), "An error occurred when running the 'other' pass"
    )
    return broken, result.modified, result.graph_module.code, told, unwrapped


ORDERS = {
    "none": (), "one": ((3, 0),), "freed late": ((4, 2), (0, 2), (3, 1)), "chain": ((4, 3), (3, 2), (2, 1)),
    "twice": ((1, 0), (1, 0)), "circle": ((0, 1), (1, 0), (1, 2), (4, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDERS)
def test_orders_of_passes(case):
    def run(t):
        infra, passes = t.fx.passes.infra.pass_manager, [abs, len, max, min, sum]
        wanted = [infra.this_before_that_pass_constraint(passes[a], passes[b]) for a, b in ORDERS[case]]
        manager = infra.PassManager(passes, wanted)
        try:
            manager.solve_constraints()
        except RuntimeError as error:
            return str(error)
        return [p.__name__ for p in manager.passes]

    agree(run)


CHECKS = {"two": lambda a, b: 0, "none": lambda: 0, "one": lambda a: 0, "a default": lambda a, b=1: 0, "a number": 3}


@pytest.mark.parametrize("case", CHECKS)
def test_checks_take_a_module(case):
    def run(t):
        manager = t.fx.passes.infra.pass_manager.PassManager()
        try:
            return manager.add_checks(CHECKS[case])
        except TypeError as error:
            return str(error)

    agree(run)


def test_pictures_need_pydot():
    gm = torchlike.fx.symbolic_trace(lambda x: x)
    try:
        import pydot  # noqa: F401
    except ImportError:
        with pytest.raises(RuntimeError, match="requires the pydot package"):
            torchlike.fx.passes.graph_drawer.FxGraphDrawer(gm, "name")
    else:
        dot = torchlike.fx.passes.graph_drawer.FxGraphDrawer(gm, "name").get_dot_graph()
        assert [n.get_name() for n in dot.get_nodes()] == ["x", "output"]


NORMALIZED = [
    ("nn.functional.relu", 1, {}), ("nn.functional.linear", 2, {}), ("relu", 1, {}), ("cat", 1, {"dim": 1}),
    ("ops.aten.add.Tensor", 2, {}), ("nn.functional.softmax", 1, {"dim": 1}), ("flatten", 1, {"start_dim": 1}),
    ("nn.functional.max_pool2d", 2, {}), ("nn.functional.dropout", 1, {"training": False}),
]  # fmt: skip


@pytest.mark.parametrize("name, count, kwargs", NORMALIZED)
def test_normalized_arguments(name, count, kwargs):
    def run(t):
        function = operator.attrgetter(name)(t)
        x = [1, 2] if name == "nn.functional.max_pool2d" else [t.ones(2)]
        args = ([t.ones(2)],) if name == "cat" else tuple((x * 2)[:count])
        both = [
            t.fx.operator_schemas.normalize_function(function, args, kwargs, normalize_to_only_use_kwargs=only)
            for only in (False, True)
        ]
        return [(list(found.args), sorted(map(str, found.kwargs.items()))) for found in both]

    agree(run)


@story
def test_normalized_modules(t):
    net = t.nn.Sequential(t.nn.Linear(2, 2))
    normalize = t.fx.operator_schemas.normalize_module
    graph = t.fx.symbolic_trace(lambda x: t.nn.functional.relu(x)).graph
    node = graph.output_node().args[0]
    return (
        sorted(normalize(net, "0", (1,), {}, normalize_to_only_use_kwargs=True).kwargs.items()),
        said(lambda: normalize(net, "7", (1,)), "^.{40}"), t.fx.operator_schemas.normalize_function(len, (1,)),
        str(node.normalized_arguments(t.nn.Module(), normalize_to_only_use_kwargs=True)),
    )  # fmt: skip


@story
def test_annotations_and_types(t):
    types = t.fx.tensor_type
    T, Dyn = types.TensorType, types.Dyn
    pairs = [
        (T((1, Dyn)), T((1, 2))),
        (T((1, 3)), T((1, 2))),
        (Dyn, int),
        (int, Dyn),
        (int, float),
        (T((1,)), T((1, 2))),
    ]
    annotate = t.fx.annotate.annotate
    return [
        [(types.is_consistent(*p), types.is_more_precise(*p), types.is_more_precise(*p[::-1])) for p in pairs],
        str(T((1, Dyn))),
        t.fx.symbolic_trace(lambda x: annotate(x.neg(), t.Tensor)).code, annotate(3, int),
        said(lambda: t.fx.symbolic_trace(lambda x: annotate(annotate(x, int), int)), "already had a type"),
    ]  # fmt: skip


@story
def test_sources(t):
    matcher = t.fx.passes.utils.source_matcher_utils
    gm = t.fx.symbolic_trace(lambda x: t.exp(t.relu(x) + 1))
    by = {n.name: n for n in gm.graph.nodes}
    by["relu"].meta["source_fn_stack"] = by["add"].meta["source_fn_stack"] = [("a", t.nn.ReLU)]
    by["exp"].meta["source_fn_stack"] = [("b", t.nn.Tanh)]
    found = matcher.get_source_partitions(gm.graph, [t.nn.ReLU, t.nn.Tanh])
    first, second = found[t.nn.ReLU][0], found[t.nn.Tanh][0]
    return [
        [str(p.nodes) + str(p.input_nodes) + str(p.output_nodes) for p in (first, second)],
        matcher.check_subgraphs_connected(first, second), matcher.check_subgraphs_connected(second, first),
    ]  # fmt: skip


def network(t, forward):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (t.nn.Parameter(t.full((2, 3), v), v < 4) for v in (2.0, 5.0))
            self.bn, self.deep = t.nn.BatchNorm1d(3).eval(), t.nn.Sequential(t.nn.Sequential(t.nn.Tanh()), t.nn.ReLU())
            self.t = t

    Net.forward = forward
    return Net()


def folded(t, forward, skipped="nothing"):
    """What becomes of a function of a network and an argument, before and after its constants are folded."""
    gm = t.fx.symbolic_trace(network(t, forward))
    for n in gm.graph.nodes:
        n.meta["was"] = n.name
    made = t.fx.experimental.const_fold.split_const_subgraphs(gm, lambda n: n.name == skipped)
    const, name = made.const_subgraph_module, made.fx_const_folded_attrs_name
    return [
        made.code, const and const.code, name, made.device_for_folded_attrs, [m for m, _ in made.named_modules()],
        [(n.name, n.meta.get("was")) for n in made.graph.nodes], sorted(made.state_dict()),
        [said(lambda: made(t.ones(2, 3)), "^.{30}") for _ in range(2)],
        [(p, v) for p, v in made.named_parameters()], made.has_folding_been_run,
    ]  # fmt: skip


FOLDED = {
    "one": lambda s, x: s.a + s.b + x,
    "several": lambda s, x: (x + 1) * (s.a * 2) + (x * 2) * (s.b * 4) + (s.a * 2)[0],
    "modules": lambda s, x: s.deep(s.bn(s.a)) + s.deep(x),
    "none": lambda s, x: x + s.a,
    "everything": lambda s, x: s.a * 2,
    "containers": lambda s, x: {"k": s.a * 2, "l": [s.b * 3, x, s.a > 0]},
    "integers": lambda s, x: (x + s.a.size(0), s.a.dim() > 1),
    "effects stay": lambda s, x: (s.t._assert(s.a.sum() > 0, "no"), x + s.a * 2)[1],
    "nothing is used": lambda s, x: (s.b.mul_(2), x + s.b)[1],
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded_constants(name):
    agree(lambda t: folded(t, FOLDED[name]))


@story
def test_folding(t):
    fold = t.fx.experimental.const_fold
    made = fold.split_const_subgraphs(network(t, FOLDED["one"]))
    made.run_folding()
    made(t.ones(2, 3)).sum().backward()
    root = t.nn.Module()
    root.a_1 = root.a_2 = 1
    return [
        made._FX_CONST_FOLDED_ATTRS.grad, said(made.run_folding),
        folded(t, lambda s, x: x + s.a.neg() * s.a.exp(), "mul"), folded(t, lambda s, x: x + s.a.neg(), "a"),
        said(lambda: fold.split_const_subgraphs(network(t, lambda s, x: s.a.tolist()))(1), "^.*'detach'"),
        [fold.get_unique_attr_name_in_module(root, n) for n in ("a", "a_1", "a_5", "0q", "q.w", "forward")],
        said(lambda: fold.get_unique_attr_name_in_module(root, ""), "^"),
    ]  # fmt: skip


def test_copies_of_what_is_folded():
    """PyTorch's copies never fold: they raise, or compute with empty parameters; and keywords are lost."""
    made = torchlike.fx.experimental.const_fold.split_const_subgraphs(network(torchlike, FOLDED["one"]))
    x = torchlike.ones(2, 3)
    for again in (copy.deepcopy(made), copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert again(x=x).tolist() == [[8.0] * 3] * 2


def test_what_is_refused():
    """By name, and when it is used."""
    gm = torchlike.fx.symbolic_trace(lambda x: x)
    alike = network(torchlike, lambda s, x: s.d_a(s.a) + s.d.a(x))
    alike.d_a, alike.d = torchlike.nn.Tanh(), torchlike.nn.ModuleDict({"a": torchlike.nn.ReLU()})
    for call, words in (
        (lambda: gm.print_readable(colored=True), "python_code.colored=True"),
        (lambda: torchlike.fx.experimental.optimization.optimize_for_inference(gm), "optimize_for_inference"),
        (lambda: torchlike.fx.passes.shape_prop.ShapeProp(gm, fake_mode=1), "fake_mode"),
        (lambda: torchlike.fx.proxy.MetaProxy(None), "MetaProxy"),
        (lambda: gm.graph.output_node().format_node(include_tensor_metadata=True), "include_tensor_metadata"),
        (lambda: torchlike.fx.experimental.const_fold.split_const_subgraphs(alike), "module d.a would be d_a"),
        (lambda: torchlike.fx.passes.operator_support.OperatorSupport({"a": ([],)}), "dtypes of arguments"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()
    assert torch.fx  # what the others are compared with
