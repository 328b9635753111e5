"""backward and grad: gradient edges as roots and inputs, dicts, several roots, given gradients, unused inputs."""

import inspect

import pytest
from both import agree, attempt
from story_kit import grid, leaf, said, story, warned

NO_GRAD = "element 0 of tensors does not require grad and does not have a grad_fn"
UNUSED = "appears to not have been used in the graph"
TWICE = "Trying to backward through the graph a second time"


def edge(t, x):
    return t.autograd.graph.get_gradient_edge(x)


def ones(t, *shape):
    return t.ones(shape, dtype=t.float64)


# -- edges ---------------------------------------------------------------------------------------------


@story
def test_what_an_edge_is(t):
    x = leaf(t)
    y = x * 2
    a, b = edge(t, y), edge(t, x)
    parts = edge(t, y.unbind()[2])
    same = a == edge(t, y) == t.autograd.graph.GradientEdge(y.grad_fn, 0), hash(a) == hash(edge(t, y))
    return (type(a).__name__, a._fields, isinstance(a, tuple), len(a), a.node is y.grad_fn, a.output_nr, same,
            a.ownership_token, b.node.name(), b.output_nr, b.ownership_token, parts.node.name(),
            parts.output_nr)  # fmt: skip


@story
def test_only_tensors_that_require_grad_have_an_edge(t):
    why = "It is not possible to get the gradient edge for a Tensor that does not require grad"
    return said(lambda: edge(t, t.ones(2)), why), said(lambda: edge(t, leaf(t).detach()), why)


@story
def test_edges_as_roots(t):
    x = leaf(t)
    y = x * x
    total = y.sum()
    a, b, g = edge(t, total), edge(t, y), ones(t, 3)

    def grad(*args):
        return said(lambda: t.autograd.grad(*args, retain_graph=True), "implicitly created only|Mismatch in shape")

    return (grad(a, x), grad(b, x), grad(b, x, g), grad([b, total], x, [g, None]), grad(b, x, ones(t, 2)),
            grad([b, y, a], [x, y], [g, g, None]), grad(edge(t, x), x, g), grad(b, b, g))  # fmt: skip


@story
def test_edges_as_roots_of_backward(t):
    x = leaf(t)
    y = x * x
    total, seen = y.sum(), []
    a, b, g = edge(t, total), edge(t, y), ones(t, 3)
    del y, total
    for args in ((a,), (b, g), ([a, b], [None, g]), ([b], [g])):
        x.grad = None
        t.autograd.backward(*args, retain_graph=True)
        seen.append(x.grad)
    return seen


@story
def test_edges_as_inputs(t):
    x = leaf(t)
    y = x * 2
    z, a, b = (y * y).sum(), edge(t, y), edge(t, x)
    seen = [t.autograd.grad(z, a, retain_graph=True), t.autograd.grad(z, [a, x, b, y], retain_graph=True)]
    for inputs in ([b], b, [b, x]):
        x.grad = None
        z.backward(inputs=inputs, retain_graph=True)
        seen.append(x.grad)
    return seen


@story
def test_an_edge_does_not_need_its_tensor(t):
    x = leaf(t)
    y = x.exp()
    a, b, total = edge(t, y), edge(t, x), (y * y).sum()
    del y
    return t.autograd.grad(total, [a, b])


@story
def test_an_edge_of_a_leaf_is_its_accumulation(t):
    x = leaf(t)
    a = edge(t, x)
    y = x * 2
    return a.node is y.grad_fn.next_functions[0][0], a == edge(t, x), a.node.variable is x


@story
def test_an_edge_of_a_view_is_current(t):
    x = leaf(t)
    y = x * 1
    view = y[:2]
    y.mul_(2)
    a = edge(t, view)
    return a.node.name(), a.node is view.grad_fn, t.autograd.grad(a, x, ones(t, 2))


# -- dicts of inputs -----------------------------------------------------------------------------------


@story
def test_a_dict_of_inputs(t):
    x, w, other = leaf(t), leaf(t, 4, 5, 6), leaf(t)
    y = (x * w).sum()

    def grad(inputs, **options):
        return said(lambda: t.autograd.grad(y, inputs, retain_graph=True, **options), UNUSED)

    seen = [grad({"x": x, 2: w}), grad({"other": other}), grad({"other": other, "x": x}, allow_unused=True),
            grad({"other": other}, materialize_grads=True), attempt(lambda: grad({}))]  # fmt: skip
    y.backward(inputs={"a": x}, retain_graph=True)
    return seen, type(seen[0]).__name__, x.grad, w.grad


# -- roots and their gradients -------------------------------------------------------------------------


def graph(t):
    x, w = leaf(t), leaf(t, 4, 5, 6)
    return x, w, (x * w).sum(), x.exp().sum(), x * 3


ROOTS = {
    "two scalars": lambda t, x, w, a, b, c: ([a, b], [x, w]),
    "mixed": lambda t, x, w, a, b, c: ((a, b, c), x, (None, t.tensor(2.0, dtype=t.float64), ones(t, 3))),
    "one twice": lambda t, x, w, a, b, c: ((a, a), x),
    "one input twice": lambda t, x, w, a, b, c: (a, [x, x]),
    "root as input": lambda t, x, w, a, b, c: (a, [a, x]),
    "a generator": lambda t, x, w, a, b, c: ((v for v in (a, b)), (v for v in (x, w))),
    "too few gradients": lambda t, x, w, a, b, c: ((a, b), x, (None,)),
    "none": lambda t, x, w, a, b, c: (a, x, []),
    "more gradients": lambda t, x, w, a, b, c: (a, x, [ones(t), None]),
    "a root that is no scalar": lambda t, x, w, a, b, c: ((a, c), x),
    "a root without history": lambda t, x, w, a, b, c: (ones(t), x),
    "one of them": lambda t, x, w, a, b, c: ((a, ones(t)), x),
    "an input without": lambda t, x, w, a, b, c: (a, [x, ones(t, 3)]),
    "no inputs": lambda t, x, w, a, b, c: (a, []),
    "no tensor as root": lambda t, x, w, a, b, c: ([a, 3], x),
    "text as root": lambda t, x, w, a, b, c: ("a", x),
    "no tensor as input": lambda t, x, w, a, b, c: (a, [x, 3]),
    "None as input": lambda t, x, w, a, b, c: (a, [x, None]),
    "a number as input": lambda t, x, w, a, b, c: (a, 3),
    "no roots": lambda t, x, w, a, b, c: ([], x),
}


@pytest.mark.parametrize("name", ROOTS)
def test_roots(name):
    agree(lambda t: attempt(lambda: t.autograd.grad(*ROOTS[name](t, *graph(t)))))


BACKWARD = {
    "two scalars": lambda t, x, w, a, b, c: t.autograd.backward([a, b]),
    "with gradients": lambda t, x, w, a, b, c: t.autograd.backward([a, c], [None, ones(t, 3)]),
    "no roots": lambda t, x, w, a, b, c: t.autograd.backward([]),
    "None": lambda t, x, w, a, b, c: t.autograd.backward(None),
    "no tensor": lambda t, x, w, a, b, c: t.autograd.backward([a, "b"]),
    "no inputs": lambda t, x, w, a, b, c: t.autograd.backward(a, inputs=[]),
    "one input": lambda t, x, w, a, b, c: t.autograd.backward(a, inputs=x),
    "an input without history": lambda t, x, w, a, b, c: t.autograd.backward(a, inputs=[ones(t, 3)]),
    "no tensor as input": lambda t, x, w, a, b, c: t.autograd.backward(a, inputs=[3]),
    "an input that is not reached": lambda t, x, w, a, b, c: t.autograd.backward(b, inputs=[w]),
    "positional": lambda t, x, w, a, b, c: a.backward(None, True, False, [x]),
    "keywords": lambda t, x, w, a, b, c: c.backward(gradient=ones(t, 3), inputs=[x]),
    "no scalar": lambda t, x, w, a, b, c: c.backward(),
    "a list of gradients": lambda t, x, w, a, b, c: c.backward([ones(t, 3)]),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name):
    def f(t):
        x, w, a, b, c = graph(t)
        return attempt(lambda: BACKWARD[name](t, x, w, a, b, c)), x.grad, w.grad

    agree(f)


GRADIENTS = {
    "None": lambda t: None,
    "fitting": lambda t: ones(t, 3),
    "a sequence": lambda t: [ones(t, 3)],
    "fewer": lambda t: ones(t, 2),
    "scalar": lambda t: ones(t),
    "one more dimension": lambda t: ones(t, 1, 3),
    "single precision": lambda t: t.ones(3),
    "half precision": lambda t: t.ones(3, dtype=t.half),
    "integers": lambda t: t.ones(3, dtype=t.long),
    "bools": lambda t: t.ones(3, dtype=t.bool),
    "complex": lambda t: t.ones(3, dtype=t.complex128),
    "requires grad": lambda t: ones(t, 3).requires_grad_(),
    "expanded": lambda t: ones(t, 1).expand(3),
    "strided": lambda t: ones(t, 6)[::2],
    "a number": lambda t: 3,
    "text": lambda t: "a",
    "numbers": lambda t: [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_given_gradients(name):
    def f(t):
        x, g = leaf(t), GRADIENTS[name](t)
        y = x * 2
        got = attempt(lambda: t.autograd.grad(y, x, g, retain_graph=True))
        return got, attempt(lambda: y.backward(g)), x.grad

    agree(f)


@story
def test_complex_roots(t):
    z = t.tensor([1 + 2j, 3j], requires_grad=True)
    y, one = z * z, t.ones(2, dtype=t.complex64)

    def grad(*args):
        why = "implicitly created only for real scalar outputs|are required to have the same dtype"
        return said(lambda: t.autograd.grad(*args, retain_graph=True), why)

    return (grad(y.sum(), z), grad(y[0], z), grad(y, z, one), grad(y, z, one * 1j), grad(y, z, t.ones(2)),
            grad(y, z, one.to(t.complex128)), grad(y.real.sum(), z), grad(y.abs(), z, t.ones(2)), grad(y.abs(), z, one),
            said(lambda: y.sum().backward(), "implicitly created only for real scalar outputs"))  # fmt: skip


@story
def test_integer_roots(t):
    return [said(lambda r=r: r.backward(), NO_GRAD) for r in ((leaf(t) > 1).sum(), leaf(t).argmax(), t.ones(1).long())]


@story
def test_a_leaf_as_root(t):
    x, s = leaf(t, 2), t.tensor(3.0, requires_grad=True)
    x.backward()
    s.backward()
    s.backward()
    g = ones(t, 1)
    (x * 1).backward(g)
    g.mul_(5)
    return x.grad, s.grad, t.autograd.grad(s, s), t.autograd.grad(s, s, t.tensor(5.0)), x.grad.is_leaf


@story
def test_a_view_as_root(t):
    x = leaf(t)
    y = x * 2
    y[0].backward(retain_graph=True)
    view = y[1:]
    y.mul_(3)
    view.sum().backward()
    return x.grad


# -- inputs=, unused inputs ----------------------------------------------------------------------------


@story
def test_inputs_of_backward(t):
    x, w = leaf(t), leaf(t, 4, 5, 6)
    y = x * w
    z, seen = (y * x).sum(), []
    for inputs in ([x], w, (y,), (y, x), [x, x], [z]):
        x.grad = w.grad = None
        z.backward(inputs=inputs, retain_graph=True)
        seen.append((x.grad, w.grad, y.retains_grad, y.grad if y.retains_grad else None))
    return seen, z.grad


@story
def test_unused_inputs(t):
    x, w = leaf(t), leaf(t)
    y = x.sum()

    def grad(inputs, **options):
        return said(lambda: t.autograd.grad(y, inputs, retain_graph=True, **options), f"{UNUSED}|Expected allow_unused")

    return [grad([x, w], **o) for o in ({}, {"allow_unused": True}, {"allow_unused": False}, {"allow_unused": None},
            {"materialize_grads": True}, {"allow_unused": True, "materialize_grads": True},
            {"allow_unused": False, "materialize_grads": True})] + [grad(y * 2), grad([y, x]), grad(w)]  # fmt: skip


@story
def test_materialized_gradients(t):
    x, log = leaf(t), []
    others = [grid(t).float().detach().requires_grad_(), t.ones(2, dtype=t.complex64, requires_grad=True),
              t.ones(0, requires_grad=True), grid(t).t(), t.ones((), requires_grad=True)]  # fmt: skip
    others[0].register_hook(lambda g: log.append(g))
    got = t.autograd.grad(x.sum(), others, materialize_grads=True)
    why = "materialize_grads cannot be used when the given input is a GradientEdge"
    refused = said(lambda: t.autograd.grad(x.sum(), edge(t, others[0]), materialize_grads=True), why)
    return got, [g.stride() for g in got], log, refused, t.autograd.grad(x.sum(), edge(t, x), materialize_grads=True)


# -- keeping and recording the graph -------------------------------------------------------------------


@story
def test_retain_graph(t):
    x = leaf(t)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    seen = [x.grad, said(lambda: y.backward(), TWICE), said(lambda: t.autograd.grad(y, x), TWICE)]
    z = (x + 1).sum()  # nothing is saved
    z.backward()
    z.backward()
    w = (x * 2).sum()
    w.backward()
    part = x.exp()
    part.sum().backward()
    return seen, x.grad, said(lambda: w.backward(), TWICE), said(lambda: (part * 2).sum().backward(), TWICE)


@story
def test_higher_orders(t):
    x = leaf(t)
    out = [(x**4 * x.sin()).sum()]
    for _ in range(4):
        (g,) = t.autograd.grad(out[-1].sum(), x, create_graph=True)
        out.append(g)
    return out


@story
def test_create_graph_without_retaining(t):
    x = leaf(t)
    y = (x**3).sum()
    (g,) = t.autograd.grad(y, x, create_graph=True, retain_graph=False)
    return g, said(lambda: t.autograd.grad(y, x), TWICE), said(lambda: t.autograd.grad(g.sum(), x), TWICE)


@story
def test_backward_that_is_recorded(t):
    x = leaf(t)
    x.grad = before = ones(t, 3)
    (x**3).sum().backward(create_graph=True)
    g, x.grad = x.grad, None
    g.sum().backward()
    return g is before, before, g, g.grad_fn, x.grad


def test_a_recorded_backward_warns():
    import torchlike as t

    x = leaf(t)
    why = "Using backward.. with create_graph=True will create a reference cycle"
    assert warned(lambda: (x**3).sum().backward(create_graph=True), why) == [
        "UserWarning: Using backward() with create_graph=True will create a reference cycle"
    ]


@story
def test_deprecated_arguments(t):
    x = leaf(t)
    two = [t.tensor(2.0, dtype=t.float64)]
    why = "`grad_variables` is deprecated|only_inputs argument is deprecated"
    seen = [warned(lambda: t.autograd.backward(x.sum(), grad_variables=two), why),
            warned(lambda: t.autograd.grad(x.sum(), x, only_inputs=False), why)]  # fmt: skip
    return seen, x.grad, attempt(lambda: t.autograd.backward(x.sum(), two, grad_variables=two))


@story
def test_calling_a_node(t):
    x = leaf(t)
    y = x * x
    g, why = ones(t, 3), r"expected 1 arguments, got \d instead"
    return (y.grad_fn(g), y.sum().grad_fn(ones(t)), said(lambda: y.grad_fn(), why), said(lambda: y.grad_fn(g, g), why))


@pytest.mark.parametrize("f", ["autograd.grad", "autograd.backward", "Tensor.backward"])
def test_signatures(f):
    def names(t):
        for name in f.split("."):
            t = getattr(t, name)
        parameters = inspect.signature(t).parameters.values()
        return [(p.name, p.default is inspect.Parameter.empty or p.default) for p in parameters]

    agree(names)


NUMBERS = {
    "alpha": lambda t, x, w: x.add(x, alpha=w),
    "value": lambda t, x, w: t.addcmul(x, x, x, value=w),
    "a slope": lambda t, x, w: t.nn.functional.leaky_relu(x, w),
    "beta of softplus": lambda t, x, w: t.nn.functional.softplus(x, w),
    "beta of a loss": lambda t, x, w: t.nn.functional.smooth_l1_loss(x, x, beta=w),
    "a margin": lambda t, x, w: t.nn.functional.margin_ranking_loss(x, x, x, margin=w),
    "the order of a norm": lambda t, x, w: t.linalg.vector_norm(x, w),
    "fill_value": lambda t, x, w: t.full((2,), w),
    "the end of a range": lambda t, x, w: t.arange(w),
    "the order of a distance": lambda t, x, w: t.cdist(x.view(1, -1), x.view(1, -1), w),
    "a tolerance": lambda t, x, w: t.isclose(x, x, rtol=w),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_that_requires_grad_is_no_number(name):
    def script(t):
        x, w = leaf(t), t.tensor(1.5, dtype=t.float64, requires_grad=True)
        numbers = [said(lambda: NUMBERS[name](t, x, w), "must be Number|must be float")]
        with t.no_grad():
            numbers.append(said(lambda: NUMBERS[name](t, x, w), "must be Number|must be float"))
        return [n.replace("float", "Number") for n in numbers], NUMBERS[name](t, x, w.detach())

    agree(script)


@story
def test_asarray_keeps_history(t):
    x = leaf(t)
    y, z = t.asarray(x * 2), t.asarray(x, copy=True)
    (y + z).sum().backward()
    off = t.asarray(x, requires_grad=False)
    return x.grad, t.asarray(x) is x, off.requires_grad, t.asarray(x.detach(), requires_grad=True).is_leaf


UNDEFINED = {
    "unique": lambda t, x: t.unique(x, return_counts=True)[0],
    "slices": lambda t, x: t.unique(x.expand(2, 3), dim=0),
    "consecutive": lambda t, x: x.unique_consecutive(),
    "weights": lambda t, x: t.bincount(t.tensor([0, 1, 1]), x),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_has_no_derivative_says_so_in_backward(name):
    def script(t):
        y = UNDEFINED[name](t, leaf(t))
        with t.no_grad():
            off = UNDEFINED[name](t, leaf(t)).requires_grad
        return y, off, said(lambda: y.sum().backward(), "derivative for .* is not implemented")

    agree(script)
