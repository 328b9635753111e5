"""Arguments that are, or share memory with, each other or what a function reaches without them."""

import pytest
import torch
from story_kit import story

import torchlike


def compiled(t, f):
    """``f`` as one program; PyTorch's eager code says what it must do."""
    return torchlike.compile(f, fullgraph=True) if t is torchlike else f


@story
def test_which_arguments_are_one_tensor(t):
    a, b = t.ones(3), t.ones(3)
    pair = compiled(t, lambda x, y: (x is y, x is not y, x + 1))
    nested = compiled(t, lambda x, xs, d: (x is xs[0], d["k"] is x, xs[0] is d["k"], len({id(v) for v in (x, xs[0])})))
    return (
        [pair(*given) for given in ((a, a), (a, b), (b, b), (a, a.detach()), (b, a), (a, a))],
        [nested(*given) for given in ((a, [a], {"k": b}), (a, [b], {"k": a}), (a, [b], {"k": b}), (a, [a], {"k": a}))],
    )


@story
def test_gradients_of_one_tensor_that_is_two_arguments(t):
    u, v = (t.ones(2, requires_grad=True) for _ in range(2))
    run = compiled(t, lambda x, y: t.autograd.grad((x * y * y).sum(), [x, y]))
    loss = compiled(t, lambda x, y: (x * y * y).sum())
    loss(u, u).backward()
    loss(u, v).backward()
    return run(u, u), run(u, v), run(v, v), u.grad, v.grad


@story
def test_one_tensor_written_under_two_names(t):
    def f(x, y):
        x.add_(1)
        return y * 1, x is y

    b, c = t.zeros(2), t.zeros(2)
    run = compiled(t, f)
    return [run(b, b), run(b, c), run(b, b.detach()), run(b, b), b, c]


ORDERS = ["pa", "ap", "pap", "aapp"]


@pytest.mark.parametrize("order", ORDERS)
def test_an_argument_is_written_and_a_closure_read(order):
    @story
    def test(t):
        p, a = t.ones(3), t.zeros(3)

        def f(x):
            x.add_(1)
            return p.sum(), x is p

        run = compiled(t, f)
        return [(run({"p": p, "a": a}[name]), p.tolist(), a.tolist()) for name in order]

    test()


@pytest.mark.parametrize("order", ORDERS)
def test_a_closure_is_written_and_an_argument_read(order):
    @story
    def test(t):
        p, a = t.ones(3), t.zeros(3)

        def f(x):
            p.add_(1)
            return x.sum(), x * p

        run = compiled(t, f)
        return [(run({"p": p, "a": a, "d": p.detach()}[name]), p.tolist()) for name in order + "d" + order]

    test()


@story
def test_an_argument_is_a_parameter_of_the_module(t):
    m = t.nn.Linear(2, 2, bias=False)
    with t.no_grad():
        m.weight.fill_(1.0)
    run = compiled(t, lambda x: (m(x).sum(), x is m.weight, any(x is q for q in m.parameters())))
    other = t.ones(2, 2)
    found = []
    for x in (m.weight, other, m.weight, m.weight.detach()):
        total, *same = run(x)
        total.backward()
        found += [total, same, m.weight.grad.tolist()]
    return found


@story
def test_an_argument_is_what_an_optimizer_steps(t):
    p, a = (t.nn.Parameter(t.ones(2)) for _ in range(2))
    optimizer = t.optim.SGD([p], lr=0.5)

    def f(x):
        (x * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return x * 1, x.grad is None

    run = compiled(t, f)
    found = []
    for x in (a, p, a, p):
        p.grad = t.ones(2)
        found += [run(x), p.tolist(), a.grad is None]
        a.grad = None
    return found


@story
def test_an_argument_is_a_gradient(t):
    p, a = t.nn.Parameter(t.ones(2)), t.zeros(2)
    optimizer = t.optim.SGD([p], lr=0.5)

    def f(x):
        x.mul_(2)
        optimizer.step()

    run = compiled(t, f)
    found = []
    for which in "aga":
        p.grad = t.ones(2)
        run(a if which == "a" else p.grad)
        found += [p.tolist(), p.grad.tolist()]
    return found


@story
def test_an_argument_is_an_attribute_that_changes(t):
    class Cell:
        state = t.zeros(2)

    cell = Cell()

    def f(x):
        return x + cell.state, x is cell.state

    run = compiled(t, f)
    found = []
    for i in range(4):
        found += [run(cell.state), run(t.ones(2))]
        cell.state = t.full((2,), float(i))
    return found


def test_rows_of_what_is_read_need_one_program():
    table = torchlike.arange(12.0).reshape(4, 3)
    run = torchlike.compile(lambda row: (table * row).sum(), fullgraph=True)
    rows = torch.arange(12.0).reshape(4, 3)
    assert [run(table[i].clone()).item() for i in range(4)] == [(rows * row).sum().item() for row in rows]
    assert run.count == 1
    row = table[1]
    assert run(row).item() == run(row).item() == (rows * rows[1]).sum().item()
    assert run.count == 2


# -- modes that a function leaves changed ----------------------------------------------------------------
LEFT = {
    "set_grad_enabled(False)": "is_grad_enabled()",
    "set_default_dtype(t.float64)": "get_default_dtype()",
    "set_printoptions(precision=2)": "tensor(1.23456)",
}
UNDO = "t.set_grad_enabled(True), t.set_default_dtype(t.float32), t.set_printoptions(profile='default')"


@pytest.mark.parametrize("change", LEFT)
def test_modes_that_a_function_leaves_changed(change):
    @story
    def test(t):
        def f(x):
            eval(f"t.{change}", {"t": t})
            return x * 2

        run, found = (torchlike.compile(f) if t is torchlike else f), []
        for _ in range(3):
            y = run(t.ones(2, requires_grad=True))
            found += [y.requires_grad, str(eval(f"t.{LEFT[change]}", {"t": t}))]
            eval(UNDO, {"t": t})
        return found

    test()


def test_a_mode_that_is_left_changed_is_no_single_program():
    def f(x):
        torchlike.set_grad_enabled(False)
        return x * 2

    with pytest.raises(RuntimeError, match="leaves the grad mode otherwise than it was"):
        torchlike.compile(f, fullgraph=True)(torchlike.ones(2))
    assert torchlike.is_grad_enabled()
