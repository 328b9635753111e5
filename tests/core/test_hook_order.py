"""The order in which hooks of tensors and nodes run in backward, and when they do not: compared with torch by logs."""

import gc

import pytest
from both import agree
from hook_kit import Log, accumulator, leaf

# -- all six steps -------------------------------------------------------------------------------------
RUNS = {
    "backward": lambda T, o, x, y: o.backward(),
    "backward twice": lambda T, o, x, y: (o.backward(retain_graph=True), o.backward()),
    "create_graph": lambda T, o, x, y: o.backward(create_graph=True),
    "grad x": lambda T, o, x, y: T.autograd.grad(o, x),
    "grad y": lambda T, o, x, y: T.autograd.grad(o, y),
    "grad x y": lambda T, o, x, y: T.autograd.grad(o, (x, y)),
    "grad y x": lambda T, o, x, y: T.autograd.grad(o, (y, x)),
    "grad x x": lambda T, o, x, y: T.autograd.grad(o, (x, x)),
    "grad o": lambda T, o, x, y: T.autograd.grad(o, o),
    "grad o y": lambda T, o, x, y: T.autograd.grad(o, (o, y)),
    "grad with create_graph": lambda T, o, x, y: T.autograd.grad(o, (x, y), create_graph=True),
    "backward inputs x": lambda T, o, x, y: o.backward(inputs=x),
}


def six_steps(T, run, retain):
    log, x = Log(), leaf(T)
    y = x.exp()
    o = y.sum()
    for name in retain.split():
        {"y": y, "o": o}[name].retain_grad()
    for t, name in ((x, "x"), (y, "y"), (o, "o")):
        log.all(t, name)
    got = run(T, o, x, y)
    return log, got, x.grad, y.grad, o.grad


@pytest.mark.parametrize("retain", ["", "y", "y o"])
@pytest.mark.parametrize("run", RUNS)
def test_six_steps(run, retain):
    agree(lambda T: six_steps(T, RUNS[run], retain))


@pytest.mark.parametrize("kind", ["tensor", "pre", "post", "accumulated"])
def test_order_of_registration_within_a_kind(kind):
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        for i in range(4):
            if kind == "accumulated":
                x.register_post_accumulate_grad_hook(log.leaf(i))
            elif kind == "tensor":
                y.register_hook(log.tensor(("y", i), lambda g, i=i: g + i))
                x.register_hook(log.tensor(("x", i), lambda g, i=i: g + i))
            elif kind == "pre":
                y.grad_fn.register_prehook(log.pre(i, lambda gs, i=i: (gs[0] + i,)))
            else:
                y.grad_fn.register_hook(log.post(i, lambda gs, i=i: (gs[0] + i,)))
        y.sum().backward()
        return log, x.grad

    agree(code)


def test_retained_gradient_sees_every_tensor_hook_and_no_node_hook():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        y.register_hook(log.tensor(1, lambda g: g * 2))
        y.retain_grad()
        y.register_hook(log.tensor(2, lambda g: g * 3))
        y.grad_fn.register_prehook(log.pre(3, lambda gs: (gs[0] * 5,)))
        y.sum().backward()
        return log, y.grad, x.grad

    agree(code)


def test_captured_gradient_sees_tensor_hooks_and_no_node_hook():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        y.register_hook(log.tensor(1, lambda g: g * 2))
        y.grad_fn.register_prehook(log.pre(3, lambda gs: (gs[0] * 5,)))
        x.register_hook(log.tensor(4, lambda g: g * 7))
        return T.autograd.grad(y.sum(), (x, y)), log

    agree(code)


def test_post_hooks_of_the_accumulator_see_the_sum():
    def code(T):
        log, x = Log(), leaf(T)
        x.register_hook(log.tensor("tensor", lambda g: g * 2))
        node = accumulator(x)
        node.register_hook(lambda gi, go: log.append(("post", gi, go, x.grad)))
        node.register_prehook(lambda go: log.append(("pre", go, x.grad)))
        x.register_post_accumulate_grad_hook(log.leaf("accumulated"))
        for _ in range(2):
            x.exp().sum().backward()
        return log, x.grad

    agree(code)


def test_the_accumulator_is_one_while_it_is_held():
    def code(T):
        log, x = Log(), leaf(T)
        node = accumulator(x)
        node.register_hook(log.post("held"))
        x.exp().sum().backward()
        same = accumulator(x) is node
        del node
        gc.collect()
        x.exp().sum().backward()
        return same, log

    agree(code)


def test_tensor_hooks_of_a_leaf_outlive_its_accumulator():
    def code(T):
        log, x = Log(), leaf(T)
        handle = x.register_hook(log.tensor("x"))
        x.exp().sum().backward()
        gc.collect()
        x.exp().sum().backward()
        handle.remove()
        x.exp().sum().backward()
        return log

    agree(code)


def test_hooks_of_a_leaf_registered_after_the_graph():
    def code(T):
        log, x = Log(), leaf(T)
        o = x.exp().sum()
        x.register_hook(log.tensor("x"))
        x.register_post_accumulate_grad_hook(log.leaf("accumulated"))
        o.backward()
        return log

    agree(code)


def test_hooks_between_two_uses():
    def code(T):
        log, x = Log(), leaf(T)
        y = x.exp()
        a = y * y
        y.register_hook(log.tensor("y"))
        b = y.sin()
        (a.sum() + b.sum()).backward()
        return log, x.grad

    agree(code)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 1, 0)], ids=str)
def test_nodes_with_several_outputs(order):
    def code(T):
        log, x = Log(), leaf(T, 6)
        outs = (x * 1).split(2)
        for i in order:
            outs[i].register_hook(log.tensor(("tensor", i), lambda g: g * 10))
            outs[i].retain_grad()
        outs[0].grad_fn.register_prehook(log.pre("pre"))
        outs[0].grad_fn.register_hook(log.post("post"))
        (outs[2].sum() + outs[0].sum() * 2 + outs[1].sum() * 3).backward()
        return log, x.grad, [t.grad for t in outs]

    agree(code)


def test_a_chain_of_nodes():
    def code(T):
        log, x = Log(), leaf(T)
        t = x
        for name in "abc":
            t = log.all(t.sin(), name)
        t.sum().backward()
        return log

    agree(code)


# -- in-place changes ----------------------------------------------------------------------------------
def test_hooks_stay_with_the_old_node():
    def code(T):
        log, x = Log(), leaf(T)
        y = log.all(x.sin(), "before")
        y.exp_()
        log.all(y, "after")
        y.sum().backward()
        return log, x.grad

    agree(code)


@pytest.mark.parametrize("when", ["before", "between", "after", "before twice"])
def test_retain_grad_moves(when):
    def code(T):
        log, x = Log(), leaf(T)
        y = x * 2
        y.register_hook(log.tensor("old", lambda g: g * 2))
        if when.startswith("before"):
            y.retain_grad()
        if when == "before twice":
            y.retain_grad()
        y.mul_(3)
        if when == "between":
            y.retain_grad()
        retains = y.retains_grad
        y.register_hook(log.tensor("new", lambda g: g * 5))
        y.mul_(5)
        if when == "after":
            y.retain_grad()
        y.register_hook(log.tensor("newest", lambda g: g * 7))
        (y * y).sum().backward()
        return log, retains, y.retains_grad, y.grad, x.grad

    agree(code)


@pytest.mark.parametrize("retain", [(), (0,), (1,), (0, 1)], ids=str)
def test_in_place_on_one_of_several_outputs(retain):
    def code(T):
        log, x = Log(), leaf(T, 4)
        a, b = T.var_mean(x * x, dim=0)
        for i in retain:
            (a, b)[i].retain_grad()
        a.register_hook(log.tensor("a"))
        b.register_hook(log.tensor("b"))
        a.mul_(2)
        a.register_hook(log.tensor("a changed"))
        (a * b).backward()
        return log, x.grad, [t.grad if t.retains_grad else None for t in (a, b)]

    agree(code)


@pytest.mark.parametrize("retain", ["", "base", "view", "base view"])
@pytest.mark.parametrize("change", ["base", "view"])
def test_in_place_with_a_view(change, retain):
    def code(T):
        log, x = Log(), leaf(T)
        base = x * 2
        view = base[:1]
        both = {"base": base, "view": view}
        for name in retain.split():
            both[name].retain_grad()
        for name, t in both.items():
            t.register_hook(log.tensor((name, "before"), lambda g: g * 2))
        both[change].mul_(3)
        for name, t in both.items():
            if name == "base" or change == "view":
                t.register_hook(log.tensor((name, "after"), lambda g: g * 5))
        (base.sum() * 7 + view.sum()).backward()
        return log, x.grad, [t.grad if t.retains_grad else None for t in both.values()]

    agree(code)


def test_hooks_on_a_view_and_its_base_unchanged():
    def code(T):
        log, x = Log(), leaf(T)
        base = log.all(x.exp(), "base")
        view = log.all(base[0], "view")
        (base.sum() * 2 + view).backward()
        return log, x.grad

    agree(code)


def test_in_place_between_use_and_hook():
    def code(T):
        log, x = Log(), leaf(T)
        y = x * 2
        z = y * 3
        y.add_(1)
        y.register_hook(log.tensor("y"))
        z.register_hook(log.tensor("z"))
        (z.sum() + y.sum() * 5).backward()
        return log, x.grad

    agree(code)


def test_retain_grad_of_a_view_whose_base_changes():
    def code(T):
        base = leaf(T) * 2
        view = base[:1]
        view.retain_grad()
        base.mul_(3)
        retains = view.retains_grad
        (view * 5).sum().backward()
        return retains, view.retains_grad, view.grad

    agree(code)


def test_a_leaf_that_becomes_a_result():
    def code(T):
        log, a = Log(), T.zeros(2, requires_grad=True)
        a.register_hook(log.tensor("leaf"))
        a.requires_grad_(False)
        a.copy_(leaf(T))
        a.register_hook(log.tensor("copy"))
        a.mul_(leaf(T))
        a.register_hook(log.tensor("product"))
        a.sum().backward()
        return log

    agree(code)


def test_a_leaf_changed_in_no_grad_mode_or_given_other_data():
    def code(T):
        log, w = Log(), leaf(T)
        w.register_hook(log.tensor("w"))
        with T.no_grad():
            w.mul_(2)
        (w * w).sum().backward()
        w.data = T.full((2,), 5.0)
        (w * w).sum().backward()
        return log, w.grad

    agree(code)


# -- roots that are leaves, edges, modules -------------------------------------------------------------
def test_a_leaf_as_root():
    def code(T):
        log, w = Log(), T.ones((), requires_grad=True)
        log.all(w, "w")
        w.register_hook(log.tensor("times", lambda g: g * 5))
        w.backward()
        return log, w.grad, T.autograd.grad(w, w), len(log)

    agree(code)


def test_a_root_with_hooks():
    def code(T):
        log, x = Log(), leaf(T)
        o = log.all(x.sum(), "o")
        o.register_hook(log.tensor("times", lambda g: g * 5))
        o.retain_grad()
        o.backward(T.tensor(3.0))
        return log, x.grad, o.grad

    agree(code)


def test_an_edge_as_root_runs_the_hooks_of_its_tensor():
    def code(T):
        log, x = Log(), leaf(T)
        y = log.all(x.exp(), "y")
        edge = T.autograd.graph.get_gradient_edge(y)
        T.autograd.backward((edge,), (T.ones(2),))
        return log, x.grad

    agree(code)


def test_module_hooks_among_node_hooks():
    def code(T):
        log, module = Log(), T.nn.Identity()
        module.register_full_backward_hook(lambda m, gi, go: log.note("module"))
        module.register_full_backward_pre_hook(lambda m, go: log.note("module pre"))
        x = leaf(T)
        t = x
        for i in range(3):
            t = log.all(module(t), str(i))
        t.sum().backward()
        return log, x.grad

    agree(code)


# -- less common -----------------------------------------------------------------------------------------
INNER_INPUTS = {
    "backward inputs y": lambda T, o, x, y: o.backward(inputs=[y]),
    "backward inputs x y": lambda T, o, x, y: o.backward(inputs=[x, y]),
    "backward inputs o": lambda T, o, x, y: o.backward(inputs=[o]),
}


@pytest.mark.parametrize("retain", ["", "y"])
@pytest.mark.parametrize("run", INNER_INPUTS)
def test_the_node_of_an_inner_input_of_backward_runs(run, retain):
    agree(lambda T: six_steps(T, INNER_INPUTS[run], retain))


@pytest.mark.parametrize("which", [0, 1])
def test_hooks_of_an_output_without_gradient_get_none(which):
    def code(T):
        log, x = Log(), leaf(T, 4)
        outs = (x * 1).split(2)
        for i, t in enumerate(outs):
            t.register_hook(log.tensor(("tensor", i)))
            t.retain_grad()
        outs[0].grad_fn.register_prehook(log.pre("pre"))
        outs[0].grad_fn.register_hook(log.post("post"))
        outs[which].sum().backward()
        return log, x.grad, [t.grad for t in outs]

    agree(code)


def test_nodes_without_a_gradient_run_all_the_same():
    def code(T):
        log, x = Log(), leaf(T)
        y = log.all(x.sin(), "y")
        log.all(x, "x")
        z = y.exp()
        z.grad_fn.register_hook(lambda gi, go: (None,))
        z.sum().backward()
        return log, x.grad

    agree(code)


@pytest.mark.parametrize(
    "f",
    [
        lambda T, x: x * 2,
        lambda T, x: x + 1,
        lambda T, x: x * T.ones(2),
        lambda T, x: T.ones(2) * x,
        lambda T, x: T.where(x > 1, x, 0.0),
        lambda T, x: x.clone().mul_(2),
        lambda T, x: T.cat([x, x]),
        lambda T, x: x.max(0)[0],
    ],
)
def test_grad_inputs_are_as_many_as_next_functions(f):
    def code(T):
        log, x = Log(), leaf(T)
        y = f(T, x)
        y.grad_fn.register_hook(log.post("post"))
        y.sum().backward()
        return log, len(y.grad_fn.next_functions)

    agree(code)


@pytest.mark.parametrize("run", ["grad", "backward"])
def test_gradients_that_no_input_needs_are_none(run):
    def code(T):
        log, x, w = Log(), leaf(T), leaf(T)
        y = x * w
        y.grad_fn.register_hook(log.post("post"))
        w.register_hook(log.tensor("w"))
        if run == "grad":
            return T.autograd.grad(y.sum(), x), log
        y.sum().backward(inputs=[x])
        return log, x.grad, w.grad

    agree(code)


def test_post_accumulate_hooks_of_a_disabled_leaf():
    def code(T):
        log, x, y = Log(), leaf(T), leaf(T)
        y.register_post_accumulate_grad_hook(log.leaf("accumulated"))
        o = (x * y).sum()
        y.requires_grad_(False)
        o.backward()
        return log, x.grad, y.grad

    agree(code)


def test_dicts_of_hooks():
    def code(T):
        x = leaf(T)
        before = x._backward_hooks, x._post_accumulate_grad_hooks
        h = x.register_hook(print)
        p = x.register_post_accumulate_grad_hook(print)
        within = h.id in x._backward_hooks, p.id in x._post_accumulate_grad_hooks
        within += (h.hooks_dict_ref() is x._backward_hooks,)
        h.remove()
        p.remove()
        return before, within, len(x._backward_hooks), len(x._post_accumulate_grad_hooks), (x * 2)._backward_hooks

    agree(code)


# -- the parameters of modules ---------------------------------------------------------------------------
MODULES = {
    "linear 2d": lambda T: (T.nn.Linear(3, 4), ((2, 3),)),
    "linear 3d": lambda T: (T.nn.Linear(3, 4), ((2, 2, 3),)),
    "linear without bias": lambda T: (T.nn.Linear(3, 4, bias=False), ((2, 2, 3),)),
    "two layers": lambda T: (T.nn.Sequential(T.nn.Linear(3, 4), T.nn.LayerNorm(4), T.nn.Linear(4, 2)), ((2, 3),)),
    "convolution": lambda T: (T.nn.Conv1d(2, 3, 2), ((1, 2, 4),)),
    "batch norm": lambda T: (T.nn.BatchNorm1d(3), ((2, 3),)),
    "instance norm": lambda T: (T.nn.InstanceNorm1d(2, affine=True), ((2, 2, 3),)),
    "bilinear": lambda T: (T.nn.Bilinear(2, 3, 4), ((2, 2), (2, 3))),
    "gru": lambda T: (T.nn.GRU(3, 2, 2, bidirectional=True), ((2, 3, 3),)),
    "rnn": lambda T: (T.nn.RNN(3, 2, 2), ((2, 3, 3),)),
    "lstm": lambda T: (T.nn.LSTM(3, 2, 2, batch_first=True), ((2, 3, 3),)),
    "lstm with projections": lambda T: (T.nn.LSTM(3, 4, proj_size=2), None),
    "lstm cell": lambda T: (T.nn.LSTMCell(3, 2), ((2, 3),)),
    "gru cell": lambda T: (T.nn.GRUCell(3, 2), ((2, 3),)),
    "rnn cell without bias": lambda T: (T.nn.RNNCell(3, 2, bias=False), ((2, 3),)),
    "encoder layer": lambda T: (T.nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=True), ((2, 3, 4),)),
}


@pytest.mark.parametrize("name", MODULES)
def test_parameters_get_their_gradients_in_pytorchs_order(name):
    def code(T):
        (m, shapes), log = MODULES[name](T), Log()
        xs = [T.ones(*shape, requires_grad=shapes is not None) for shape in shapes or ((2, 3, 3),)]
        for place, leaf_ in [*m.named_parameters(), *enumerate(xs)]:
            if leaf_.requires_grad:
                leaf_.register_hook(log.tensor(("hook", place)))
                leaf_.register_post_accumulate_grad_hook(log.leaf(place))
        out = m(*xs)
        out = out if isinstance(out, T.Tensor) else out[0]
        out.sum().backward()
        return [entry[0] for entry in log]

    agree(code)


def test_operands_of_einsum_get_their_gradients_in_pytorchs_order():
    def code(T):
        log, ps = Log(), [T.ones(2, 2, requires_grad=True) for _ in range(3)]
        for i, p in enumerate(ps):
            p.register_post_accumulate_grad_hook(log.leaf(i))
        T.einsum("ij,jk,kl->il", *ps).sum().backward()
        return [entry[0] for entry in log]

    agree(code)


PRODUCTS = {
    "x y": lambda x, y: x * y,
    "y x": lambda x, y: y * x,
    "twice x": lambda x, y: x * y + x,
    "twice y": lambda x, y: y * x + y,
    "square": lambda x, y: x * x * y,
    "late": lambda x, y: (x * y).exp() + y,
    "number": lambda x, y: (x * 2 + y) / 3,
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("kind", ["accumulated", "tensor"])
def test_gradients_that_the_hook_of_a_leaf_finds_in_another(product, kind):
    def code(T):
        x, y, found = leaf(T), leaf(T), []
        register = y.register_post_accumulate_grad_hook if kind == "accumulated" else y.register_hook
        register(lambda _: found.append((x.grad is None, y.grad is None)))
        out = PRODUCTS[product](x, y).sum()
        for retain in (True, False):
            out.backward(retain_graph=retain)
        return found, x.grad, y.grad

    agree(code)
