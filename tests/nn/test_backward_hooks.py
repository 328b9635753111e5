"""Full backward hooks of modules: every case runs with torch and with torchlike."""

from collections import namedtuple

import pytest
from both import agree, attempt
from hook_kit import FULL, KINDS, PRE, leaf, logged, messages, module, tensors, total

Pair = namedtuple("Pair", "a b")


# -- what the hooks get --------------------------------------------------------------------------------
OUTPUTS = {
    "tensor": lambda a: a * 2,
    "the input": lambda a: a,
    "the input twice": lambda a: (a, a),
    "tuple": lambda a: (a * 2, a.exp()),
    "tuple of one": lambda a: (a * 2,),
    "with a number": lambda a: (a * 2, 3, a.exp()),
    "with None": lambda a: (None, a.exp()),
    "with a constant": lambda a: (a.detach() * 2, a.exp()),
    "with integers": lambda a: (a.exp(), a.long()),
    "nested": lambda a: (a * 2, (a.exp(),)),
    "all nested": lambda a: ((a.exp(),),),
    "named tuple": lambda a: Pair(a.exp(), None),
    "list": lambda a: [a * 2],
    "dict": lambda a: {"k": a * 2},
    "None": lambda a: None,
    "empty": lambda a: (),
    "constant": lambda a: a.detach(),
    "views": lambda a: a.split(1),
    "an expanded view": lambda a: a[:1].expand(3),
    "0-dim": lambda a: a.sum(),
    "no elements": lambda a: a[2:] * 2,
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name):
    def code(T):
        m, log = logged(module(T, OUTPUTS[name]))
        x = leaf(T)
        out, warned = messages(lambda: m(x))
        if tensors(out):
            total(out).backward()
        return log, x.grad, out, warned, type(out).__name__, [t.grad_fn.name() for t in tensors(out)]

    agree(code)


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_a_module_with_inputs_that_need_no_grad(name):
    def code(T):
        w = leaf(T)
        m, log = logged(module(T, lambda a: OUTPUTS[name](a * w)))
        out, warned = messages(lambda: m(T.ones(2)))
        more = messages(lambda: total(out).backward())[1] if tensors(out) else []
        return log, w.grad, out, warned, more

    agree(code)


INPUTS = {
    "two": (lambda a, b: a * b, lambda T: (leaf(T), leaf(T) + 1)),
    "unused": (lambda a, b: a * 2, lambda T: (leaf(T), leaf(T, 3))),
    "constant": (lambda a, b: a * b, lambda T: (leaf(T), T.full((2,), 5.0))),
    "constant first": (lambda a, b: a * b, lambda T: (T.full((2,), 5.0), leaf(T))),
    "integers": (lambda a, b: a[b], lambda T: (leaf(T), T.tensor([1, 1]))),
    "number": (lambda a, b: a * b, lambda T: (leaf(T), 3)),
    "None": (lambda a, b: a * 3, lambda T: (leaf(T), None)),
    "list of tensors": (lambda a, b: a * b[0], lambda T: (leaf(T), [leaf(T)])),
    "only in a list": (lambda b: b[0] * 2, lambda T: ([leaf(T)],)),
    "complex": (lambda a: a * 1j, lambda T: ((leaf(T) + 0j),)),
    "transposed": (lambda a: a * 2, lambda T: (leaf(T, 6).view(2, 3).t(),)),
    "expanded": (lambda a: a * 2, lambda T: (leaf(T, 1).expand(3),)),
    "0-dim": (lambda a: a * 2, lambda T: (leaf(T).sum(),)),
    "no elements": (lambda a: a * 2, lambda T: (leaf(T)[2:],)),
    "parameter": (lambda a: a * 2, lambda T: (T.nn.Parameter(T.ones(2)),)),
    "half": (lambda a, b: a.float() * b, lambda T: (leaf(T).half(), leaf(T))),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("create", [False, True])
def test_inputs(name, create):
    f, make = INPUTS[name]

    def code(T):
        m, log = logged(module(T, f))
        out = m(*make(T))
        (out.abs() ** 2).sum().backward(create_graph=create)
        return log, out, type(out).__name__ == "Tensor"

    agree(code)


def test_the_same_tensor_twice():
    def code(T):
        m, log = logged(module(T, lambda a, b: a * b))
        x = leaf(T)
        m(x, x).sum().backward()
        return log, x.grad

    agree(code)


def test_keyword_arguments_are_not_looked_at():
    def code(T):
        m, log = logged(module(T, lambda a, k: a * k))
        x, k = leaf(T), leaf(T) + 5
        m(x, k=k).sum().backward()
        m(k=x, a=x).sum().backward()
        return log, x.grad

    agree(code)


def test_no_arguments():
    def code(T):
        x = leaf(T)
        m, log = logged(module(T, lambda: x * 2))
        m().sum().backward()
        return log

    agree(code)


@pytest.mark.parametrize("which", [0, 1])
def test_one_output_used(which):
    def code(T):
        m, log = logged(module(T, lambda a: (a.sin(), a.exp())))
        x = leaf(T)
        outs = m(x)
        outs[which].sum().backward(retain_graph=True)
        outs[1 - which].sum().backward()
        return log, x.grad

    agree(code)


def test_names_of_nodes_and_edges():
    def code(T):
        def f(a, b, c):
            seen.append((a.grad_fn, b.grad_fn, c.grad_fn, a.grad_fn is c.grad_fn, a.output_nr, c.output_nr))
            seen.append([(t.requires_grad, t.is_leaf, t._is_view(), t._base is None, t._version) for t in (a, b, c)])
            seen.append([e[1] for e in a.grad_fn.next_functions])
            seen.append([None if e[0] is None else e[0].name() for e in a.grad_fn.next_functions])
            return a * c, b

        seen = []
        x, y, z = leaf(T), T.ones(2), leaf(T) * 2
        m, _ = logged(module(T, f))
        out = m(x, y, z)
        inner = out[0].grad_fn.next_functions
        return seen, repr(out[0]).partition("grad_fn")[2], out[1].grad_fn, len(inner), inner[0][0].name(), inner[1][0]

    agree(code)


def test_in_no_grad_mode_nothing_is_hooked():
    def code(T):
        m, log = logged(module(T, lambda a: a * 2))
        with T.no_grad():
            out = m(leaf(T))
        return out.requires_grad, out._is_view(), log

    agree(code)


# -- what the hooks return -----------------------------------------------------------------------------
RESULTS = {
    "None": lambda T, g: None,
    "tuple": lambda T, g: tuple(t * 10 for t in g),
    "list": lambda T, g: [t * 10 for t in g],
    "(None,)": lambda T, g: (None,),
    "tensor": lambda T, g: g[0] * 10,
    "tensor of as many rows": lambda T, g: (g[0] * 10)[None],
    "too many": lambda T, g: (g[0], g[0]),
    "too few": lambda T, g: (),
    "shape": lambda T, g: (T.ones(3),),
    "dtype": lambda T, g: (g[0].double(),),
    "number": lambda T, g: 3,
    "numbers": lambda T, g: (3,),
    "string": lambda T, g: "a",
}


def replaced(T, kind, name, f=lambda a: a * 2):
    m, log, x = module(T, f), [], leaf(T)
    result = RESULTS[name]
    if kind == PRE:
        m.register_full_backward_pre_hook(lambda m, go: result(T, go))
    m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
    if kind == FULL:
        m.register_full_backward_hook(lambda m, gi, go: result(T, gi))
        m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
    error = attempt(lambda: m(x).sum().backward())
    return error, str(error).partition(" (")[0] if isinstance(error, RuntimeError) else "", log, x.grad


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("kind", [FULL, PRE])
def test_results(kind, name):
    agree(lambda T: replaced(T, kind, name))


@pytest.mark.parametrize("name", ["None", "tuple", "too many", "too few", "(None,)"])
def test_results_where_no_input_requires_grad(name):
    def code(T):
        m, log, w = module(T, lambda a, b: a * w), [], leaf(T)
        m.register_full_backward_pre_hook(lambda m, go: RESULTS[name](T, go))
        m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
        return messages(lambda: m(T.ones(2), 3).sum().backward()), log, w.grad

    agree(code)


@pytest.mark.parametrize("result", [None, (), (None,), (None, None), (None,) * 3, [None, None], 3, (1, None)], ids=str)
def test_result_of_a_full_hook_where_no_input_requires_grad(result):
    def code(T):
        w = leaf(T)
        m = module(T, lambda a, b: a * w)
        m.register_full_backward_hook(lambda m, gi, go: result)
        return messages(lambda: m(T.ones(2), 3).sum().backward()), w.grad

    agree(code)


def test_results_among_several():
    def code(T):
        m, log, x, y = module(T, lambda a, n, b: (a * b, n, a + b)), [], leaf(T), leaf(T)
        m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2, None, go[2]))
        m.register_full_backward_pre_hook(lambda m, go: (None, "ignored", go[2] * 3))
        m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
        m.register_full_backward_hook(lambda m, gi, go: (None, "ignored", gi[2] + 1))
        total(m(x, 3, y)).backward()
        return log, x.grad, y.grad

    agree(code)


# -- order ---------------------------------------------------------------------------------------------
def test_order_of_registration():
    def code(T):
        log, mm, x = [], T.nn.modules.module, leaf(T)
        m = module(T, lambda a: (log.append(("forward", a.grad_fn)), a * 2)[1])
        for i, prepend in enumerate((False, True, False, True)):
            m.register_full_backward_hook(lambda *a, i=i: log.append(("hook", i)), prepend=prepend)
            m.register_full_backward_pre_hook(lambda *a, i=i: log.append(("pre", i)), prepend=prepend)
        m.register_forward_pre_hook(lambda m, a: log.append(("forward pre", a[0].grad_fn)))
        m.register_forward_hook(lambda m, a, o: log.append(("forward hook", a[0].grad_fn, o.grad_fn)))
        with (
            mm.register_module_full_backward_hook(lambda *a: log.append("global")),
            mm.register_module_full_backward_pre_hook(lambda *a: log.append("global pre")),
        ):
            out = m(x)
        out.register_hook(lambda g: log.append("output"))
        out.grad_fn.register_prehook(lambda g: log.append("node pre"))
        out.grad_fn.register_hook(lambda a, b: log.append("node"))
        with x.register_hook(lambda g: log.append("input")):
            out.sum().backward()
        return log

    agree(code)


def test_nested_modules():
    def code(T):
        nn, log = T.nn, []
        net = nn.Sequential(module(T, lambda a: a * 2), nn.Sequential(nn.ReLU(), module(T, lambda a: a.exp())))
        for name, m in net.named_modules():
            m.register_full_backward_pre_hook(lambda m, go, name=name: log.append((name, go)))
            m.register_full_backward_hook(lambda m, gi, go, name=name: log.append((name, gi, go)))
        x = leaf(T)
        net(x).sum().backward()
        return log, x.grad

    agree(code)


def test_a_module_that_calls_itself():
    def code(T):
        log, left = [], [3]

        def f(a):
            left[0] -= 1
            return m(a) * 2 if left[0] else a * 5

        m, _ = logged(module(T, f), log=log)
        m(leaf(T)).sum().backward()
        return log

    agree(code)


def test_one_module_called_twice():
    def code(T):
        m, log = logged(module(T, lambda a: a * a))
        x = leaf(T)
        m(m(x)).sum().backward()
        return log, x.grad

    agree(code)


def test_forward_hooks_act_before_the_output_is_hooked():
    def code(T):
        m, log = logged(module(T, lambda a: [a * 2]))
        m.register_forward_hook(lambda m, a, o: o[0] * 7)
        m.register_forward_pre_hook(lambda m, a: (a[0] * 3,))
        x = leaf(T)
        m(x).sum().backward()
        return log, x.grad

    agree(code)


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_registered_after_the_call_do_not_see_it(kind):
    def code(T):
        m, log = logged(module(T, lambda a: a.exp()), kind)
        handle, x = getattr(m, kind)(lambda *a: log.append("removed")), leaf(T)
        out = m(x)
        handle.remove()
        getattr(m, kind)(lambda *a: log.append("late"))
        out.sum().backward()
        m(x).sum().backward()
        return log, len(m._backward_hooks), len(m._backward_pre_hooks)

    agree(code)


def test_a_hook_that_adds_a_hook():
    def code(T):
        m, log, x = module(T, lambda a: a * 2), [], leaf(T)

        def hook(*args):
            log.append("first")
            m.register_full_backward_hook(lambda *a: log.append("second"))

        m.register_full_backward_hook(hook)
        out = m(x)
        out.sum().backward(retain_graph=True)
        out.sum().backward()
        m(x).sum().backward()
        return log

    agree(code)


# -- grad, inputs=, create_graph -----------------------------------------------------------------------
@pytest.mark.parametrize("which", ["x", "w", "out", "x w", "out x"])
@pytest.mark.parametrize("how", ["grad", "backward"])
def test_inputs_of_backward(how, which):
    def code(T):
        w = leaf(T)
        m, log = logged(module(T, lambda a: a * w))
        x = leaf(T)
        out = m(x)
        inputs = [{"x": x, "w": w, "out": out}[n] for n in which.split()]
        if how == "grad":
            return T.autograd.grad(out.sum(), inputs), log
        out.sum().backward(inputs=inputs)
        return x.grad, w.grad, out.grad, log

    agree(code)


def test_double_backward():
    def code(T):
        m, log = logged(module(T, lambda a: a**3))
        x = leaf(T)
        (g,) = T.autograd.grad(m(x).sum(), x, create_graph=True)
        (g2,) = T.autograd.grad(g.sum(), x, create_graph=True)
        g2.sum().backward()
        return log, g, g2, x.grad

    agree(code)


def test_replacing_under_create_graph():
    def code(T):
        m = module(T, lambda a: a.exp())
        m.register_full_backward_hook(lambda m, gi, go: (gi[0] * gi[0],))
        m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        x = leaf(T)
        (g,) = T.autograd.grad(m(x).sum(), x, create_graph=True)
        return g, T.autograd.grad(g.sum(), x)

    agree(code)


@pytest.mark.parametrize("create", [False, True])
def test_grad_mode_in_hooks(create):
    def code(T):
        m, log, x = module(T, lambda a: a * 2), [], leaf(T)
        m.register_full_backward_hook(lambda m, gi, go: log.append((T.is_grad_enabled(), gi[0].requires_grad)))
        m.register_full_backward_pre_hook(lambda m, go: log.append((T.is_grad_enabled(), go[0].requires_grad)))
        T.autograd.grad((m(x) ** 2).sum(), x, create_graph=create)
        return log

    agree(code)


def test_a_backward_inside_a_hook():
    def code(T):
        m, log = module(T, lambda a: a * 2), []

        def hook(m, gi, go):
            with T.enable_grad():
                y = leaf(T)
                (y * y).sum().backward()
            log.append(y.grad)
            return (gi[0] * y.grad,)

        m.register_full_backward_hook(hook)
        x = leaf(T)
        m(x).sum().backward()
        return log, x.grad

    agree(code)


# -- hooks that raise ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_that_raises(kind):
    def code(T):
        m, log, x = module(T, lambda a: a.exp()), [], leaf(T)

        def hook(*args):
            log.append(len(args))
            if len(log) == 1:
                raise ValueError("once")

        getattr(m, kind)(hook)
        out = m(x)
        first = messages(lambda: out.sum().backward(retain_graph=True))[0]
        before = x.grad, T.is_grad_enabled()
        out.sum().backward()
        return first, log, before, x.grad

    agree(code)


@pytest.mark.parametrize("always", [False, True])
def test_forward_that_raises(always):
    def code(T):
        m, log = logged(module(T, lambda a: 1 / 0))
        m.register_forward_hook(lambda m, a, o: log.append((a[0].grad_fn, o)), always_call=always)
        return messages(lambda: m(leaf(T)))[0], log

    agree(code)


# -- changes in place ----------------------------------------------------------------------------------
def no_grad_(T, t):
    with T.no_grad():
        t.mul_(3)


IN_PLACE = {
    "input": (lambda T, a: a.mul_(2), None),
    "a view of the input": (lambda T, a: a[0].mul_(2), None),
    "relu of the input": (lambda T, a: T.relu_(a), None),
    "detached input": (lambda T, a: (a.detach().mul_(2), a * a)[1], None),
    "no_grad input": (lambda T, a: (no_grad_(T, a), a * a)[1], None),
    "no_grad input, read no more": (lambda T, a: (no_grad_(T, a), T.ones(2))[1], None),
    "base of the input": (lambda T, a: (a._base.mul_(2), a * a)[1], None),
    "output": (lambda T, a: a * 2, lambda T, o: o.mul_(2)),
    "a view of the output": (lambda T, a: a * 2, lambda T, o: o[0].mul_(2)),
    "a reshaped output": (lambda T, a: a * 2, lambda T, o: o.view(2, 1).add_(1)),
    "detached output": (lambda T, a: a * 2, lambda T, o: o.detach().mul_(2)),
    "detached output, read": (lambda T, a: a * 2, lambda T, o: (o.detach().mul_(2), o * 1)[1]),
    "no_grad output": (lambda T, a: a * 2, lambda T, o: no_grad_(T, o)),
    "no_grad output, read": (lambda T, a: a * 2, lambda T, o: (no_grad_(T, o), o * 1)[1]),
    "base of the output": (lambda T, a: a * 2, lambda T, o: o._base.mul_(2)),
    "base of the output, read": (lambda T, a: a * 2, lambda T, o: (o._base.mul_(2), o * 1)[1]),
    "grad_fn": (lambda T, a: a * 2, lambda T, o: (o._base.mul_(2), o.grad_fn)[1]),
    "multiple views": (lambda T, a: a.split(1), lambda T, o: o[0].mul_(2)),
    "clone of the output": (lambda T, a: a * 2, lambda T, o: o.clone().mul_(2)),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("kind", [FULL, PRE])
def test_in_place(kind, name):
    inside, outside = IN_PLACE[name]

    def code(T):
        m, log = logged(module(T, lambda a: inside(T, a)), kind)
        x = leaf(T)

        def run():
            out = m(x * 1)
            return out if outside is None else outside(T, out)

        got, _ = messages(run)
        if tensors(got):
            total(got).backward()
        return got, log, x.grad

    agree(code)


def test_in_place_message():
    def code(T):
        m, _ = logged(module(T, lambda a: a.mul_(2)))
        return messages(lambda: m(leaf(T) * 1))

    agree(code)


@pytest.mark.parametrize("with_grad", [False, True])
def test_in_place_on_a_constant_argument(with_grad):
    def code(T):
        m, _ = logged(module(T, lambda a, b: (b.mul_(a if with_grad else 3), a * b)[1]))
        x, y = leaf(T), T.full((2,), 3.0)
        got = messages(lambda: m(x, y))
        return got, y, y._version, y.requires_grad

    agree(code)


def test_the_version_counter_is_shared():
    def code(T):
        m, _ = logged(module(T, lambda a: a * a))
        y = leaf(T) * 1
        out = m(y)
        y.mul_(2)
        return attempt(lambda: out.sum().backward()), out.grad_fn

    agree(code)


def test_retain_grad_and_detach_of_an_output():
    def code(T):
        m, log = logged(module(T, lambda a: a * 2))
        x = leaf(T)
        out = m(x)
        out.retain_grad()
        (out * out).sum().backward()
        refused = attempt(lambda: out.detach_()), attempt(lambda: out.requires_grad_(False))
        return out.grad, x.grad, out.detach(), refused

    agree(code)
