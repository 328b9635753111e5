"""In-place operations: identity, versions, history, gradients, and what is refused."""

import numpy as np
import pytest
from both import agree, agree_error, attempt
from oracle import host

import torchlike


def leaf_of(t, *shape):
    """A double leaf with the numbers 1, 2, ..."""
    x = t.arange(1.0, float(np.prod(shape)) + 1, dtype=t.float64).reshape(shape).clone()
    return x.requires_grad_()


def double(t, numbers):
    return t.tensor(numbers, dtype=t.float64)


# name: (t, y) -> anything, with y = leaf * 2; then (y * y).sum() is differentiated
CHANGES = {
    "add number": lambda t, y: y.add_(1),
    "add with alpha": lambda t, y: y.add_(y.detach().clone(), alpha=3),
    "mul number": lambda t, y: y.mul_(3),
    "mul tensor": lambda t, y: y.mul_(double(t, [2.0, -1.0, 0.5])),
    "mul by a computed tensor": lambda t, y: y.mul_(y.exp().clone()),
    "sub broadcast": lambda t, y: y.sub_(double(t, [[1.0], [2.0]])),
    "div": lambda t, y: y.div_(double(t, [2.0, 4.0, 8.0])),
    "saves its result": lambda t, y: y.mul_(0.1).tanh_(),
    "saves its input": lambda t, y: y.cos_(),
    "several": lambda t, y: (y.add_(1), y.mul_(2), y.neg_(), y.sin_()),
    "copy": lambda t, y: y.copy_(y.exp().clone()),
    "fill with a tensor": lambda t, y: y.fill_(y.sum()),
    "row": lambda t, y: y[0].mul_(5),
    "row by row": lambda t, y: y[0].mul_(y[1]),
    "row takes row": lambda t, y: y[0].copy_(y[1]),
    "row becomes constant": lambda t, y: y[1].zero_(),
    "column of transpose": lambda t, y: y.t()[1].mul_(y.sum()),
    "view of view": lambda t, y: y.view(-1)[1:].view(5)[::2].mul_(4),
    "two overlapping views": lambda t, y: (y.view(-1)[:3].mul_(2), y.view(-1)[2:].exp_()),
    "stale view": lambda t, y: (v := y[0], y.mul_(2), v.mul_(3)),
    "diagonal": lambda t, y: y.diagonal().add_(y[0, :2].detach()),
    "expanded source": lambda t, y: y.add_(y[:, :1].expand(2, 3).clone()),
    "assignment": lambda t, y: y.__setitem__((0, 1), 7.0),
    "assignment of a part": lambda t, y: y.__setitem__(0, y[1] * y[0]),
    "assignment by mask": lambda t, y: y.__setitem__(y > 4, 0.5),
    "assignment at indices": lambda t, y: y.__setitem__(([1, 0], [0, 2]), y[0, :2] * 3),
    "masked fill": lambda t, y: y.masked_fill_(y > 4, 0.0),
    "in a loop": lambda t, y: [y[i].mul_(i + 2) for i in range(2)],
    "clamp": lambda t, y: y.clamp_(3, 8),
    "addcmul": lambda t, y: y.addcmul_(y.detach().clone(), y.clone(), value=2),
    "operators": lambda t, y: (y.__iadd__(1), y.__imul__(y.clone()), y.__isub__(0.5)),
}


CONSTANT = {
    "copy": lambda t, y: y.copy_(t.ones(3)),
    "zero": lambda t, y: y.zero_(),
    "fill": lambda t, y: y.fill_(3),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_gradients_end_where_a_constant_is_written(name):
    def f(t):
        leaf = leaf_of(t, 2, 3)
        y = leaf * 2
        CONSTANT[name](t, y)
        (y * y).sum().backward()
        return y, y.grad_fn, leaf.grad

    agree(f)


@pytest.mark.parametrize("name", CHANGES)
def test_gradients(name):
    def f(t):
        leaf = leaf_of(t, 2, 3)
        y = leaf * 2
        CHANGES[name](t, y)
        history = y.grad_fn, y.requires_grad, y._version
        return y, history, attempt(lambda: gradients(t, y, leaf))

    agree(f)


def gradients(t, y, leaf):
    """Gradients of first and second order."""
    first = t.autograd.grad((y * y).sum(), leaf, create_graph=True, allow_unused=True)[0]
    return first, t.autograd.grad((first * first).sum(), leaf, allow_unused=True)


def test_a_tensor_without_history_gets_one():
    def f(t):
        leaf = leaf_of(t, 2)
        buffer, other = double(t, [[1.0, 2.0], [3.0, 4.0]]), double(t, [0.0, 0.0])
        part = buffer[1]
        buffer[0] = leaf * leaf
        other += leaf
        names = buffer.grad_fn, part.grad_fn, other.grad_fn, buffer.is_leaf, part.requires_grad
        ((buffer * buffer).sum() + other.sum()).backward()
        return names, leaf.grad, buffer

    agree(f)


def test_what_is_returned_and_shared():
    def f(t):
        x = t.ones(2, 2)
        y, row, same = x, x[0], x.detach()
        y += 1
        returned = x.add_(1)
        return y is x, returned is x, row, same, [a._version for a in (x, row, same)], row.add_(1) is row

    agree(f)


def test_dtypes():
    def f(t):
        whole, single = t.tensor([1, 2]), t.tensor([1.0, 2.0])
        whole.add_(t.tensor(3))
        single.add_(t.tensor([1, 2])).mul_(t.tensor(2.5, dtype=t.float64))
        refused = [lambda: whole.add_(0.5), lambda: whole.mul_(single), lambda: single.add_(1j)]
        errors = [attempt(x) for x in [*refused, lambda: (whole > 1).add_(2)]]
        return errors, whole.copy_(t.tensor([1.9, -1.9])), single.copy_(t.tensor([1, 0]) > 0), whole

    agree(f)


def test_under_no_grad_a_leaf_may_change():
    def f(t):
        leaf = leaf_of(t, 2, 2)
        row, shared = leaf[0], leaf.detach()
        with t.no_grad():
            leaf -= 0.5
            leaf[1].zero_()
            row.mul_(2)
        names = leaf.is_leaf, leaf.grad_fn, row.grad_fn, leaf._version
        (row * row).sum().backward()
        return names, leaf.grad, leaf, shared

    agree(f)


def test_saved_values_survive_in_place_changes_that_do_not_touch_them():
    def f(t):
        leaf = leaf_of(t, 3)
        y = leaf * 2
        z = y + 1  # saves nothing of y
        y.mul_(5)
        w = y.exp()  # saves its result
        y.zero_()
        (z.sum() + w.sum()).backward()
        return leaf.grad, z, w

    agree(f)


# -- refused -------------------------------------------------------------------------------------------

VERSION = (
    r"one of the variables needed for gradient computation has been modified by an inplace operation: "
    r"\[torch.DoubleTensor \[2, 3\]\]{} is at version 1; expected version 0 instead"
)


def backward_after(change, what=lambda y: y * y):
    def f(t):
        y = leaf_of(t, 2, 3) * 2
        z = what(y)
        change(t, y, z)
        z.sum().backward()

    return f


STALE = {
    "an input": (backward_after(lambda t, y, z: y.add_(1)), ", which is output 0 of Add,"),
    "a result": (backward_after(lambda t, y, z: z.add_(1), lambda y: y.exp()), ", which is output 0 of Exp,"),
    "a result through a view": (backward_after(lambda t, y, z: z[0].add_(1), lambda y: y.exp()), ", which.* of Exp,"),
    "an input through detach": (backward_after(lambda t, y, z: y.detach().add_(1)), ", which is output 0 of Mul,"),
    "a leaf": (lambda t: stale_leaf(t, leaf_of(t, 2, 3)), ""),
    "a constant": (lambda t: stale_constant(t, double(t, [[1.0] * 3] * 2)), ""),
    "itself": (lambda t: (y := leaf_of(t, 2, 3) * 2, y.mul_(y), y.sum().backward()), ".*"),
}


def stale_leaf(t, x):
    y = x * x
    with t.no_grad():
        x.add_(1)
    y.sum().backward()


def stale_constant(t, c):
    y = leaf_of(t, 2, 3) * c
    c.mul_(2)
    y.sum().backward()


@pytest.mark.parametrize("name", STALE)
def test_saved_values_that_were_changed(name):
    f, producer = STALE[name]
    agree_error(f, VERSION.format(producer))


def test_data_escapes_the_version_check():
    def f(t):
        leaf = leaf_of(t, 3)
        y = leaf * leaf
        leaf.data.mul_(10)
        y.sum().backward()
        return leaf.grad, leaf, leaf._version

    agree(f)


REFUSED = {
    "leaf": (lambda t, x: x.add_(1), "^a leaf Variable that requires grad is being used in an in-place operation"),
    "leaf with operator": (lambda t, x: x.__imul__(2), "^a leaf Variable that requires grad"),
    "leaf takes a value": (lambda t, x: x.__setitem__((0, 0), 1.0), "a (view of a )?leaf Variable that requires grad"),
    "view of leaf": (lambda t, x: x[0].add_(1), "^a view of a leaf Variable that requires grad is being used in an"),
    "view of view of leaf": (lambda t, x: x.t()[0].zero_(), "^a view of a leaf Variable that requires grad"),
    "leaf from other": (lambda t, x: x.copy_(x * 2), "^a leaf Variable that requires grad"),
    "shape": (lambda t, x: (x * 2).add_(t.ones(3, 2, 3)), r"output with shape \[2, 3\] doesn't match the broadcast"),
    "size": (lambda t, x: (x * 2).add_(t.ones(4)), r"size of tensor a \(3\) must match the size of tensor b \(4\)"),
    "overlap": (lambda t, x: x.detach()[:1].expand(2, 3).mul_(2), "more than one element of the written-to tensor"),
    "type": (lambda t, x: t.ones(2, dtype=t.int32).add_(1.5), "result type Float can't be cast to .* Int"),
    "out that requires grad": (lambda t, x: t.add(x, 1, out=t.ones(2, 3)), "don't support automatic differentiation"),
    "copy of another shape": (lambda t, x: t.ones(2, 3).copy_(t.ones(2, 2)), r"expanded size|must match"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    script, match = REFUSED[name]
    agree_error(lambda t: script(t, leaf_of(t, 2, 3)), match)


def test_a_refused_change_leaves_everything_as_it_was():
    leaf = leaf_of(torchlike, 2, 3)
    y = leaf * 2
    row = y[0]
    before = y.grad_fn, row.grad_fn, y._version, host(y).tolist()
    for change in (
        lambda: row.add_(torchlike.ones(2, 3)),
        lambda: y.add_(torchlike.ones(4)),
        lambda: row.mul_("x"),
        lambda: y.copy_(torchlike.ones(3, 3)),
        lambda: y.unbind(0)[0].add_(1),
        lambda: torchlike.add(y, torchlike.ones(5), out=row),
    ):
        assert isinstance(attempt(change), Exception)
    assert (y.grad_fn, row.grad_fn, y._version, host(y).tolist()) == before
    (row * row).sum().backward()
    assert leaf.grad.tolist() == [[8.0, 16.0, 24.0], [0.0, 0.0, 0.0]]


# -- out= ----------------------------------------------------------------------------------------------


def test_out():
    def f(t):
        x, out, wide = t.ones(2, 2), t.zeros(2, 2), t.zeros(2, 4, dtype=t.float64)
        alias = out[0]
        same = t.add(x, 2, out=out) is out
        t.mul(x, 3, out=wide[:, ::2])
        empty = t.empty(0)
        t.add(x, x, out=empty)
        t.exp(out, out=out)
        return same, out, alias, out._version, wide, empty, x

    agree(f)


# -- hooks and kept gradients follow the value ---------------------------------------------------------


def test_hooks_and_retained_gradients():
    def f(t):
        leaf, seen = leaf_of(t, 2), []
        y = leaf * 2
        y.retain_grad()
        y.register_hook(lambda g: seen.append(("before", g.tolist())))
        y.mul_(3)
        y.register_hook(lambda g: seen.append(("after", g.tolist())))
        z = leaf * 4
        part = z[0]
        part.retain_grad()
        z.mul_(5)
        ((y * y).sum() + part * part).backward()
        return seen, y.grad, y.retains_grad, part.grad, part.retains_grad, leaf.grad

    agree(f)
