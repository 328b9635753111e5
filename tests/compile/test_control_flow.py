"""Control flow over functions of tensors: against PyTorch, against the same steps written out, and by gradcheck."""

import functools

import jax
import pytest
import torch
from both import agree, agree_error

import torchlike
from torchlike._core.tensor.tensor import value_of, wrap
from torchlike._higher_order_ops import associative_scan, cond, scan, while_loop
from torchlike._higher_order_ops import map as tensor_map
from torchlike.autograd import gradcheck, gradgradcheck

F64 = torchlike.float64
YES = torchlike.tensor(True)


class Names:
    """A library together with its functions of control flow."""

    def __init__(self, library):
        self.library = library
        home = torch._higher_order_ops if library is torch else torchlike._higher_order_ops
        self.cond = torch.cond if library is torch else cond
        self.while_loop, self.scan, self.map = home.while_loop, home.scan, home.map
        self.associative_scan = functools.partial(home.associative_scan, combine_mode="generic")

    def __getattr__(self, name):
        return getattr(self.library, name)


def same(f):
    """``f(library, x, w)`` gives what it gives in PyTorch."""
    agree(lambda library: _run(f, library))


def same_error(f, match):
    agree_error(lambda library: _run(f, library), match)


def _run(f, library):
    x = library.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    w = library.tensor([2.0, 0.5, 1.5], requires_grad=True)
    return f(Names(library), x, w)


def grads(t, out, *inputs):
    """The results with their gradients, that of an output that is a sum of squares."""
    total = sum((y * y).sum() for y in out if y.requires_grad)
    return [*out, *t.autograd.grad(total, inputs)]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    yield
    torch._dynamo.reset()


# -- against PyTorch -----------------------------------------------------------------------------

COND = {
    "true": lambda t, x, w: grads(t, [t.cond(t.tensor(True), lambda a: (a * w).sin(), lambda a: a + w, (x,))], x, w),
    "false": lambda t, x, w: grads(t, [t.cond(t.tensor([0]), lambda a: (a * w).sin(), lambda a: a + w, (x,))], x, w),
    "number": lambda t, x, w: t.cond(2, lambda a: a.sin(), lambda a: a.cos(), (x,)),
    "unused": lambda t, x, w: grads(t, [t.cond(t.tensor(True), lambda a: a * 2, lambda a: a + w, (x,))], x, w),
    "depends on data": lambda t, x, w: t.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)),
    "structure": lambda t, x, w: t.cond(
        t.tensor(1.0), lambda d: {"o": d["k"].sin()}, lambda d: {"o": d["k"].cos()}, ({"k": x},)
    ),
    "list, closure only": lambda t, x, w: t.cond(t.tensor(True), lambda: [x + w], lambda: [x - w], []),
    "integers": lambda t, x, w: t.cond(t.tensor(False), lambda a: (a + 1, 3), lambda a: (a + 2, 3), (x,)),
    "bool result": lambda t, x, w: t.cond(t.tensor(True), lambda a: (a + 1, a > 0), lambda a: (a + 2, a < 0), (x,)),
    "constant": lambda t, x, w: t.cond(t.tensor(True), lambda a: t.zeros(2), lambda a: a[0, :2] * 1, (x,)),
    "no_grad": lambda t, x, w: t.no_grad()(lambda: t.cond(t.tensor(True), lambda a: a * w, lambda a: a + 1, (x,)))(),
    "nested": lambda t, x, w: grads(
        t,
        [t.cond(x.sum() > 0, lambda a: t.cond(a[0, 0] > 9, lambda b: b + w, lambda b: b * w, [a]), lambda a: -a, [x])],
        x, w,
    ),
}  # fmt: skip

LOOPS = {
    "while": lambda t, x, w: grads(
        t, t.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), (t.tensor(0), x)), x, w
    ),
    "while on values": lambda t, x, w: t.while_loop(lambda a: a.sum() < 99, lambda a: (a * a,), (x,)),
    "while never": lambda t, x, w: t.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * w), (t.tensor(0), x)),
    "while integers": lambda t, x, w: t.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (0, x.detach())),
    "while list": lambda t, x, w: t.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * 2], [t.tensor(0), x]),
    "while bare": lambda t, x, w: t.while_loop(lambda i: i < 3, lambda i: i + 1, (t.tensor(0),)),
    "while dict": lambda t, x, w: t.while_loop(lambda d: d["i"] < 3, lambda d: [{"i": d["i"] + 1}], [{"i": x[0, 0]}]),
    "while False": lambda t, x, w: t.while_loop(lambda i: False, lambda i: (i + 1,), (t.tensor(0),)),
    "while closure": lambda t, x, w: t.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, a * w), (t.tensor(0), t.ones(3))
    ),
    "scan": lambda t, x, w: grads(t, t.scan(lambda c, a: (c * w + a, c * a), w * 2, x), x, w),
    "scan dim": lambda t, x, w: t.scan(lambda c, a: (c + a, t.stack([c, a, a])), t.zeros(2), x, dim=-1),
    "scan reverse": lambda t, x, w: grads(t, t.scan(lambda c, a: (c * w + a, c * a), w * 2, x, reverse=True), x, w),
    "scan structure": lambda t, x, w: t.scan(
        lambda c, a: ({"s": c["s"] + a[0]}, [a[1] * 2, c["s"] + 0]), {"s": w}, (x, x * 2)
    ),
    "scan nothing": lambda t, x, w: t.scan(lambda c, a: (c + 1, c * 2), w, ()),
    "scan closure": lambda t, x, w: grads(t, t.scan(lambda c, a: (c + a * w, a * 2), t.zeros(3), x.detach()), w),
    "scan plain": lambda t, x, w: t.scan(lambda c, a: (c + a, a * 2), t.zeros(3), x.detach()),
    "map": lambda t, x, w: grads(t, [t.map(lambda a, b, n: a * b.sin() + n, x, w, 3)], x, w),
    "map closure": lambda t, x, w: grads(t, [t.map(lambda a: a * w, x)], x, w),
    "map structure": lambda t, x, w: t.map(lambda d: [d[0] + d[1], None], (x, x * 2)),
    "associative": lambda t, x, w: grads(t, [t.associative_scan(lambda a, b: a * b * w, x, 0)], x, w),
    "associative reverse": lambda t, x, w: t.associative_scan(lambda a, b: a + b, x, 1, reverse=True),
    "associative tree": lambda t, x, w: t.associative_scan(
        lambda a, b: {"p": a["p"] * b["p"], "q": a["q"] * b["p"] + b["q"]}, {"p": x, "q": x * 2}, -1
    ),
    "not associative": lambda t, x, w: t.associative_scan(lambda a, b: a - b, t.arange(5.0), 0),
    "associative of one": lambda t, x, w: t.associative_scan(lambda a, b: a - b, x[:1], 0),
}

HIGHER_ORDER = {
    "cond": lambda t, x, w: t.ops.higher_order.cond(True, lambda a: (a.sin(),), lambda a: (a.cos(),), (x,)),
    "while": lambda t, x, w: t.ops.higher_order.while_loop(
        lambda i, a, k: i < 3, lambda i, a, k: (i + 1, a * k), (t.tensor(0), w.detach()), (w.detach(),)
    ),
    "scan": lambda t, x, w: t.ops.higher_order.scan(
        lambda c, a, k: [c + a * k, c * 1], [t.zeros(3)], [x.detach()], (w.detach(),)
    ),
    "map": lambda t, x, w: t.ops.higher_order.map_impl(lambda a, k: (a * k,), [x.detach()], [w.detach()]),
}


@pytest.mark.compilers
@pytest.mark.parametrize("f", [*COND.values(), *LOOPS.values(), *HIGHER_ORDER.values()],
                         ids=[*COND, *LOOPS, *(f"ops {n}" for n in HIGHER_ORDER)])  # fmt: skip
def test_as_pytorch(f):
    same(f)


def c(true, false=lambda a: a + 1):
    return lambda t, x, w: t.cond(t.tensor(True), lambda a: true(t, a, w), false, (x,))


ERRORS = [
    (lambda t, x, w: t.cond(None, len, len, (x,)), "Expected pred to be bool or tensor"),
    (lambda t, x, w: t.cond(x > 0, len, len, (x,)), "single-element tensor"),
    (lambda t, x, w: t.cond(t.tensor(True), len, len, x), "Expect operands to be a tuple"),
    (lambda t, x, w: t.cond(t.tensor(True), len, len, (x, 3)), "only consists of tensor leaves"),
    (lambda t, x, w: t.cond(t.tensor(True), len, len, (x, None)), "only consists of tensor leaves"),
    (lambda t, x, w: t.while_loop(1, len, (x,)), "Expect cond_fn and body_fn to be callable"),
    (lambda t, x, w: t.while_loop(len, 1, (x,)), "Expect cond_fn and body_fn to be callable"),
    (lambda t, x, w: t.while_loop(lambda a: a < 1, len, (0.5,)), "can only be of"),
    (lambda t, x, w: t.while_loop(lambda a: a < 1, len, (None,)), "can only be of"),
    (lambda t, x, w: t.while_loop(lambda a: a < 1, lambda a: (a,), t.tensor(0)), "Can't unpack scalar tensors"),
    (lambda t, x, w: t.scan(1, w, x), "Combine_fn must be a callable"),
    (lambda t, x, w: t.scan(len, (), x), "requires init leaves"),
    (lambda t, x, w: t.scan(len, 3, x), "All init leaves must be a Tensor"),
    (lambda t, x, w: t.scan(len, w, x[:0]), "scan dimension > 0"),
    (lambda t, x, w: t.scan(len, w, t.tensor(1.0)), "must at least have 'dim'"),
    (lambda t, x, w: t.scan(len, w, x, dim=5), "Dimension out of range"),
    (lambda t, x, w: t.scan(len, w, x, reverse=1), "Reverse must be a bool"),
    (lambda t, x, w: t.map(len, x[:0]), "Leading dimensions of mapped xs cannot be 0"),
    (lambda t, x, w: t.map(len, (x, t.ones(3))), "must be consistent"),
    (lambda t, x, w: t.map(len, (1,)), "can only consist of tensors"),
    (lambda t, x, w: t.associative_scan(1, x, 0), "must be a callable"),
    (lambda t, x, w: t.associative_scan(len, x[:0], 0), "scan dimension > 0"),
    (lambda t, x, w: t.associative_scan(len, x, 4), "Dimension out of range"),
    (lambda t, x, w: t.associative_scan(len, x, 0, reverse=1), "Reverse must be a bool"),
    (lambda t, x, w: t.associative_scan(len, x, 0, combine_mode="x"), "Combine_mode must either"),
]


@pytest.mark.parametrize(("f", "match"), ERRORS)
def test_refused_as_pytorch(f, match):
    same_error(f, match)


# PyTorch wraps what goes wrong within a function in classes of its compiler, all of them RuntimeErrors.
def changes_outside(t, a, w):
    w.detach().add_(1)
    return a * 1


INSIDE = [
    (c(lambda t, a, w: a), "[Aa]liasing"),
    (c(lambda t, a, w: a.view(6)), "[Aa]liasing"),
    (c(lambda t, a, w: w), "[Aa]liasing"),
    (c(lambda t, a, w: a.detach().add_(1)), "mutation"),
    (c(changes_outside), "mutation"),
    (c(lambda t, a, w: a.sum()), "expected same dim but got 0 and 2"),
    (c(lambda t, a, w: a.double()), "expected same dtype"),
    (c(lambda t, a, w: (a + 1, a + 2)), "Unmatched output spec"),
    (c(lambda t, a, w: 1.5), "ints/bools only"),
    (c(lambda t, a, w: (a + 1, "s")), "ints/bools only"),
    (lambda t, x, w: t.while_loop(lambda a: a < 1, lambda a: (a + 1,), (w,)), "scalar tensor or a bool"),
    (lambda t, x, w: t.while_loop(lambda i: 3 - i, lambda i: (i + 1,), (t.tensor(0),)), "scalar tensor or a bool"),
    (lambda t, x, w: t.while_loop(lambda a: a.sum() < 1, lambda a: (t.cat([a, a]),), (w,)), "differ in 'shape"),
    (lambda t, x, w: t.while_loop(lambda a: a < 1, lambda a: (a + 1.5,), (t.tensor(0),)), "differ in 'dtype"),
    (lambda t, x, w: t.while_loop(lambda a, b: a < 1, lambda a, b: (a + 1,), (t.tensor(0), x)), "number of outputs"),
    (lambda t, x, w: t.while_loop(lambda a, b: a < 1, lambda a, b: (a + 1, b), (t.tensor(0), x)), "[Aa]liasing"),
    (lambda t, x, w: t.scan(lambda s, a: (s.sum(), s * 2), w, x), "differ in 'shape"),
    (lambda t, x, w: t.scan(lambda s, a: (s.double(), s * 2), w, x), "differ in 'dtype"),
    (lambda t, x, w: t.scan(lambda s, a: (s + a, a * 1, a * 2), w, x), r"return a tuple \(next_carry, y\)"),
    (lambda t, x, w: t.scan(lambda s, a: (s + a, a), w, x), "[Aa]liasing"),
    (lambda t, x, w: t.scan(lambda s, a: (s.add_(a), a * 1), w.detach(), x), "mutation"),
    (lambda t, x, w: t.map(lambda a: a, x), "[Aa]liasing"),
    (lambda t, x, w: t.map(lambda a: (a + 1, 3), x), "Expected all leaves to be of torch.Tensor type"),
]


@pytest.mark.parametrize(("f", "match"), INSIDE)
def test_refused_inside(f, match):
    for library in (torch, torchlike):
        with pytest.raises(RuntimeError, match=match):
            _run(f, library)


# -- derivatives of the first and second order -----------------------------------------------------


def pair(complex_=False):
    x, w = [1.0, -2.0, 3.0], [2.0, 0.5, 1.5]
    if complex_:
        x, w = [1 + 2j, -0.3j, 0.5], [0.3 - 1j, 1.0, 2j]
    return [torchlike.tensor(v, dtype=torchlike.complex128 if complex_ else F64, requires_grad=True) for v in (x, w)]


def zero(x):
    return torchlike.zeros((), dtype=x.dtype)


SMOOTH = {
    "cond": lambda x, w: cond(YES, lambda a: (a * w).sin() * w, lambda a: a + w, (x,)),
    "scan": lambda x, w: scan(lambda s, a: (s * w + a.sin(), s * a * w), w * 0, x),
    "scan of powers": lambda x, w: scan(lambda s, a: (s * a + a, s * 1), zero(x), x),
    "map": lambda x, w: tensor_map(lambda a, b: (a * w).sin() + b * a, torchlike.stack([x, w]), x),
    "associative": lambda x, w: associative_scan(lambda a, b: a * b * w.cos(), torchlike.stack([x, w, x * w, w]), 0),
    "while": lambda x, w: while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, (a * w).sin()), (0, x))[1],
    "nested": lambda x, w: cond(
        YES, lambda a: cond(YES, lambda b: (b * w).sin() * a, lambda b: b + w, (a,)), lambda a: a + 5, (x,)
    ),
    "cond in scan": lambda x, w: scan(
        lambda s, a: (cond(a.abs() < 2.5, lambda a: s * a * w, lambda a: s - a * w, (a,)), s * a), w * 0 + 1, x
    ),
    "views": lambda x, w: cond(YES, lambda a: a[0] * w[1:] + w[:2], lambda a: a[1:] * 1, (x,)),
    "in place": lambda x, w: cond(YES, lambda a: written(a, w), lambda a: a * 1, (x,)),
    "from within a graph": lambda x, w: (lambda h: cond(YES, lambda a: a * h * h, lambda a: a + h, (x,)))(w.sin()),
    "detached": lambda x, w: cond(YES, lambda a: a * a * w.detach() * 0 + w * a, lambda a: a + w, (x,)),
}  # fmt: skip


def written(a, w):
    out = a.clone()
    out[0] = w[1] * a[2]
    out *= w
    return out


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name, complex_):
    assert gradcheck(SMOOTH[name], pair(complex_))
    assert gradgradcheck(SMOOTH[name], pair(complex_))


def test_higher_orders():
    x, _ = pair()
    y = cond(YES, lambda a: a**4, lambda a: a * 1, (x,))
    for expected in (4 * x**3, 12 * x**2, 24 * x, 24 + 0 * x):
        (y,) = torchlike.autograd.grad(y.sum(), x, create_graph=True)
        torchlike.testing.assert_close(y, expected)


def double(f):
    """Second derivatives of ``f(x, w)``: of the sum of the gradient of x."""
    x, w = pair()
    (g,) = torchlike.autograd.grad(f(x, w).sum(), x, create_graph=True)
    return [g.tolist(), *(d.tolist() for d in torchlike.autograd.grad(g.sum(), (x, w)))]


def test_detached_inside():
    def f(a, w):
        return a * a.detach() * w.detach() + w * a

    assert double(lambda x, w: cond(YES, lambda a: f(a, w), lambda a: a * 1, (x,)))[0] == double(f)[0]
    assert double(lambda x, w: cond(YES, lambda a: f(a, w), lambda a: a * 1, (x,)))[2] == double(f)[2]


def test_kinks_are_those_of_eager_code():
    def kinky(a):
        return a.abs() + a.relu() + a.clamp(0, 1) + a.norm()

    z = torchlike.zeros(3, requires_grad=True)
    expected = torchlike.autograd.grad(kinky(z).sum(), z)[0].tolist()
    for f in (
        lambda z: cond(YES, kinky, lambda a: a * 1, (z,)),
        lambda z: tensor_map(kinky, z[None]),
        lambda z: while_loop(lambda i, a: i < 1, lambda i, a: (i + 1, kinky(a)), (torchlike.tensor(0), z))[1],
    ):
        assert torchlike.autograd.grad(f(z).sum(), z)[0].tolist() == expected


def test_custom_functions():
    class Hundred(torchlike.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 100

    x, w = pair()
    y = scan(lambda s, a: (s + Hundred.apply(a), s * 1), zero(x), x)[0]
    assert torchlike.autograd.grad(y, x)[0].tolist() == [100.0, -200.0, 300.0]
    y = cond(YES, lambda a: Hundred.apply(w) * a, lambda a: a * 1, (x,))  # given a tensor from outside
    assert torchlike.autograd.grad(y.sum(), w)[0].tolist() == (x * w * 100).tolist()


@pytest.mark.parametrize("steps", [0, 1, 31, 33, 1500])
def test_long_loops(steps):
    def written_out(a):
        for _ in range(steps):
            a = (a * 1.01).sin()
        return a

    x = torchlike.tensor([0.5, 1.5], dtype=F64, requires_grad=True)
    y = while_loop(lambda i, a: i < steps, lambda i, a: (i + 1, (a * 1.01).sin()), (torchlike.tensor(0), x))[1]
    torchlike.testing.assert_close(y, written_out(x))
    expected = torchlike.autograd.grad(written_out(x).sum(), x)
    torchlike.testing.assert_close(torchlike.autograd.grad(y.sum(), x), expected)


def test_a_function_that_changed_is_not_differentiated_again():
    x, _ = pair()
    outs = []
    for k in (1.0, 2.0):
        outs.append(cond(YES, lambda a: a * a * k, lambda a: a * 1, (x,)))  # noqa: B023
    assert torchlike.autograd.grad(outs[0].sum(), x, retain_graph=True)[0].tolist() == [2.0, -4.0, 6.0]
    with pytest.raises(RuntimeError, match="not what it was when it was called"):
        torchlike.autograd.grad(outs[0].sum(), x, create_graph=True)


# -- in programs -----------------------------------------------------------------------------------


def everything(x, w):
    y = cond(x.sum() > 0, lambda a: a * w, lambda a: a - w, (x,)).sum()
    y = y + scan(lambda s, a: (s * w.sum() + a, s * 1), zero(x), x)[0]
    return y + while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, (a * w).sin()), (torchlike.tensor(0), x))[1].sum()


def test_compiled_step():
    _, w = pair()

    def step(x):
        w.grad = None
        loss = everything(x, w)
        loss.backward()
        return loss

    compiled = torchlike.compile(step, fullgraph=True)
    for sign in (1, -1, 1):
        x = torchlike.tensor([1.0, -2.0, 3.0], dtype=F64) * sign
        loss, grad = compiled(x), w.grad
        torchlike.testing.assert_close((loss, grad), (step(x), w.grad))
    assert compiled.count == 1


def test_compiled_forward():
    x, w = pair()
    compiled = torchlike.compile(everything, fullgraph=True)
    expected = torchlike.autograd.grad(everything(x, w), (x, w))
    torchlike.testing.assert_close(torchlike.autograd.grad(compiled(x, w), (x, w)), expected)


def test_under_jax():
    x, w = (t.detach() for t in pair())
    f = lambda a, b: value_of(everything(wrap(a), wrap(b)))  # noqa: E731
    expected = everything(x, w).item()
    assert float(jax.jit(f)(value_of(x), value_of(w))) == pytest.approx(expected)
    x, w = pair()
    grads_ = torchlike.autograd.grad(everything(x, w), (x, w))
    for ours, theirs in zip(grads_, jax.jit(jax.grad(f, (0, 1)))(value_of(x), value_of(w)), strict=True):
        torchlike.testing.assert_close(ours, wrap(theirs))


def test_compiled_once():
    x, _ = pair()
    operators = [cond(YES, lambda a: a * 2, lambda a: a * 3, (x,)).grad_fn.plan.op for _ in range(3)]
    assert len(set(map(id, operators))) == 1
    assert cond(YES, lambda a: a * 2, lambda a: a * 4, (x,)).grad_fn.plan.op is not operators[0]
    assert cond(YES, lambda a: a.detach() * 2, lambda a: a * 3, (x,)).grad_fn.plan.op is not operators[0]


# -- value checks and random numbers ---------------------------------------------------------------


def looked_up(i, table):
    return torchlike.nn.functional.embedding(i, table.reshape(3, 1))


@pytest.mark.parametrize("f", [
    lambda i, x: cond(YES, lambda a: looked_up(a, x), lambda a: x[:2, None] * 1, (i,)),
    lambda i, x: scan(lambda s, a: (s + looked_up(a, x).sum(), s * 1), zero(x), i),
    lambda i, x: tensor_map(lambda a: looked_up(a, x), i),
    lambda i, x: while_loop(lambda k, s: k < 5, lambda k, s: (k + 1, s + looked_up(k, x).sum()), (i[0], zero(x))),
])  # fmt: skip
def test_value_checks(f):
    x, _ = pair()
    bad = torchlike.tensor([0, 7])
    with pytest.raises(IndexError, match="embedding"):
        f(bad, x)
    compiled = torchlike.compile(f, fullgraph=True)
    compiled(bad, x)
    with pytest.raises(IndexError, match="embedding"):
        compiled(bad, x)


def test_checks_of_the_other_branch_are_silent():
    x, _ = pair()
    bad = torchlike.tensor([0, 7])
    out = cond(~YES, lambda a: looked_up(a, x), lambda a: x[:2, None] * 1, (bad,))
    assert out.tolist() == [[1.0], [-2.0]]


def test_random_numbers():
    x, _ = pair()

    def noisy():
        return cond(YES, lambda a: a + torchlike.rand(3), lambda a: a * 1, (x,)).tolist()

    torchlike.manual_seed(0)
    first, second = noisy(), noisy()
    torchlike.manual_seed(0)
    assert first != second
    assert [noisy(), noisy()] == [first, second]
    with pytest.raises(NotImplementedError, match="cannot draw random numbers; draw them before"):
        scan(lambda s, a: (s + torchlike.rand(()), s * 1), torchlike.zeros(()), x)


def test_a_failed_call_changes_nothing():
    x, w = pair()
    before = w._version, w.tolist()
    with pytest.raises(RuntimeError, match="mutation"):
        cond(YES, lambda a: w.detach().mul_(a), lambda a: a * 1, (x,))
    with pytest.raises(ValueError, match="boom"):
        cond(YES, boom, lambda a: a * 1, (x,))
    assert (w._version, w.tolist()) == before
    assert cond(YES, lambda a: a * w, lambda a: a * 1, (x,)).tolist() == [2.0, -1.0, 4.5]


def boom(a):
    raise ValueError("boom")


def test_different_sizes():
    x, _ = pair()
    with pytest.raises(NotImplementedError, match=r"differ in size, \[2\] and \[3\].*pad one"):
        cond(YES, lambda a: a[:2] * 1, lambda a: a * 1, (x,))


def test_endless():
    with pytest.raises(RuntimeError, match="would never end"):
        while_loop(lambda i: True, lambda i: (i + 1,), (torchlike.tensor(0),))
