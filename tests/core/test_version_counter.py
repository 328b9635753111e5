"""Version counters: what shares one, what bumps it, and what the check of a saved tensor says."""

import re

import pytest
from both import agree, attempt
from history_kit import double, leaf, no_grad


def message(f):
    """What an error says (without the operator's name, which only one library tells), or the result."""
    got = attempt(f)
    return re.sub(r" \((in )?\w+\)(?=\.?$)", "", f"{type(got).__name__}: {got}") if isinstance(got, Exception) else got


# -- who shares ----------------------------------------------------------------------------------------

SHARING = {
    "view": lambda t, x: x[0],
    "view of a view": lambda t, x: x.t()[1:],
    "view of the same shape": lambda t, x: x.view(2, 3),
    "view_as": lambda t, x: x.view_as(x),
    "alias by index": lambda t, x: x[...],
    "expand": lambda t, x: x[None],
    "detach": lambda t, x: x.detach(),
    "detach of a view": lambda t, x: x[0].detach(),
    "view of a detach": lambda t, x: x.detach()[0],
    "detach of a detach": lambda t, x: x.detach().detach(),
    "other dtype": lambda t, x: x.view(t.int64),
    "to the same dtype": lambda t, x: x.to(t.float64),
    "contiguous": lambda t, x: x.contiguous(),
    "reshape": lambda t, x: x.reshape(3, 2),
    "reshape that copies": lambda t, x: x.t().reshape(6),
    "data": lambda t, x: x.data,
    "view of data": lambda t, x: x.data[0],
    "data of a view": lambda t, x: x[0].data,
    "detach of data": lambda t, x: x.data.detach(),
    "clone": lambda t, x: x.clone(),
    "chunk": lambda t, x: x.chunk(2)[0],
    "unbind": lambda t, x: x.unbind(0)[1],
    "split": lambda t, x: x.split(1)[1],
    "diagonal": lambda t, x: x.diagonal(),
    "as_strided": lambda t, x: x.as_strided((2,), (1,)),
    "unfold": lambda t, x: x.unfold(1, 2, 1),
    "view made in no_grad": lambda t, x: no_grad(t, lambda: x[0]),
    "detach made in no_grad": lambda t, x: no_grad(t, lambda: x.detach()),
}


@pytest.mark.parametrize("name", SHARING)
def test_who_shares_a_counter(name):
    def f(t):
        x = double(t, 2, 3)
        x.add_(1)
        y = SHARING[name](t, x)
        start = x._version, y._version
        y.zero_()
        middle = x._version, y._version
        x.add_(1).mul_(2)
        return start, middle, (x._version, y._version), x, y

    agree(f)


def test_parameters_and_requires_grad():
    def f(t):
        x = double(t, 3)
        x.add_(1)
        p = t.nn.Parameter(x)
        with t.no_grad():
            p.mul_(2)
            q = p.requires_grad_(False).requires_grad_()
            q.add_(1)
        return x._version, p._version, q is p, p

    agree(f)


# -- what bumps ----------------------------------------------------------------------------------------

BUMPS = {
    "add_": lambda t, x: x.add_(1),
    "operator": lambda t, x: x.__iadd__(1),
    "two": lambda t, x: x.add_(1).sub_(1),
    "zero_": lambda t, x: x.zero_(),
    "fill_": lambda t, x: x.fill_(2),
    "fill_ tensor": lambda t, x: x.fill_(t.tensor(2.0)),
    "copy_": lambda t, x: x.copy_(t.ones(3)),
    "copy_ of itself": lambda t, x: x.copy_(x),
    "set item": lambda t, x: x.__setitem__(0, 1),
    "set item to a tensor": lambda t, x: x.__setitem__(0, t.ones(3)),
    "set item by None": lambda t, x: x.__setitem__(None, 1),
    "set item by dots": lambda t, x: x.__setitem__(..., 1),
    "set item of nothing": lambda t, x: x.__setitem__(slice(0, 0), 1),
    "set item by mask": lambda t, x: x.__setitem__(x > 2, 1),
    "set item by an empty mask": lambda t, x: x.__setitem__(x > 20, 1),
    "set item by list": lambda t, x: x.__setitem__([0, 1], 1),
    "set item by False": lambda t, x: x.__setitem__(False, 1),
    "set item by True": lambda t, x: x.__setitem__(True, 1),
    "masked_fill_": lambda t, x: x.masked_fill_(x > 2, 1),
    "index_fill_": lambda t, x: x.index_fill_(0, t.tensor([0]), 1),
    "index_copy_": lambda t, x: x.index_copy_(0, t.tensor([0]), t.ones(1, 3, dtype=t.float64)),
    "index_add_": lambda t, x: x.index_add_(0, t.tensor([0]), t.ones(1, 3, dtype=t.float64)),
    "index_put_": lambda t, x: x.index_put_((t.tensor([0]),), t.tensor(1.0, dtype=t.float64)),
    "scatter_": lambda t, x: x.scatter_(0, t.tensor([[0, 1, 0]]), 1),
    "scatter_add_": lambda t, x: x.scatter_add_(0, t.tensor([[0, 1, 0]]), t.ones(1, 3, dtype=t.float64)),
    "masked_scatter_": lambda t, x: x.masked_scatter_(x > 2, t.ones(6, dtype=t.float64)),
    "clamp_": lambda t, x: x.clamp_(0, 1),
    "uniform_": lambda t, x: (x.uniform_(), x.zero_()),
    "normal_": lambda t, x: (x.normal_(), x.zero_()),
    "bernoulli_": lambda t, x: x.bernoulli_(1.0),
    "random_": lambda t, x: (x.random_(), x.zero_()),
    "exponential_": lambda t, x: (x.exponential_(), x.zero_()),
    "out": lambda t, x: t.add(x, 1, out=x),
    "out of a view": lambda t, x: t.add(x[0], 1, out=x[1]),
    "requires_grad_": lambda t, x: x.requires_grad_(),
    "detach_": lambda t, x: x.detach_(),
    "transpose_": lambda t, x: x.transpose_(0, 1),
    "t_": lambda t, x: x.t_(),
    "squeeze_": lambda t, x: x.squeeze_(),
    "squeeze_ dim": lambda t, x: x.squeeze_(0),
    "unsqueeze_": lambda t, x: x.unsqueeze_(0),
    "as_strided_": lambda t, x: x.as_strided_((2,), (1,)),
    "swapaxes_": lambda t, x: x.swapaxes_(0, 1),
    "resize_": lambda t, x: x.resize_(3, 2),
    "resize_ to the same": lambda t, x: x.resize_(2, 3),
    "resize_ smaller": lambda t, x: x.resize_(2),
    "resize_as_": lambda t, x: x.resize_as_(t.ones(6)),
    "set_": lambda t, x: x.set_(t.ones(2, dtype=t.float64)),
    "set_ nothing": lambda t, x: x.set_(),
    "set_ itself": lambda t, x: x.set_(x),
    "backward": lambda t, x: x.requires_grad_().sum().backward(),
    "read": lambda t, x: (x.tolist(), x.sum().item(), x.clone(), x + 1, x.numpy()) and None,
    "tril_": lambda t, x: x.tril_(),
    "fill_diagonal_": lambda t, x: x.fill_diagonal_(1.0),
    "lerp_": lambda t, x: x.lerp_(x.clone(), 0.5),
    "addmm_": lambda t, x: x.addmm_(double(t, 2, 2), double(t, 2, 3)),
    "init": lambda t, x: t.nn.init.constant_(x, 2.0),
    "dropout_": lambda t, x: t.nn.functional.dropout(x, 0.0, inplace=True),
    "relu_": lambda t, x: t.nn.functional.relu(x, inplace=True),
    "relu_ function": lambda t, x: t.relu_(x),
    "threshold_": lambda t, x: t.nn.functional.threshold(x, 2.0, 0.0, inplace=True),
    "increment_version": lambda t, x: t.autograd.graph.increment_version(x),
    "cumsum_": lambda t, x: x.cumsum_(0),
    "apply_": lambda t, x: x.apply_(lambda v: v + 1),
    "map_": lambda t, x: x.map_(x.clone(), lambda a, b: a + b),
    "put_": lambda t, x: x.put_(t.tensor([0]), t.ones(1, dtype=t.float64)),
    "erfinv_": lambda t, x: x.mul_(0.1).erfinv_(),
    "sort out": lambda t, x: t.sort(x.clone(), out=(x, t.zeros(2, 3, dtype=t.int64)))[0],
}


@pytest.mark.parametrize("name", BUMPS)
def test_what_bumps_the_counter(name):
    def f(t):
        x = double(t, 2, 3)
        view, same = x.view(-1), x.detach()
        got = BUMPS[name](t, x)
        return x._version, view._version, same._version, x, view, got is x

    agree(f)


def test_a_refused_change_bumps_nothing():
    def f(t):
        x = double(t, 2, 3)
        errors = [
            attempt(g)
            for g in (
                lambda: x.add_(t.ones(4)),
                lambda: x.copy_(t.ones(4)),
                lambda: x.__setitem__(5, 1),
                lambda: x.expand(2, 2, 3).add_(1),
                lambda: x.mul_(1j),
                lambda: x.transpose_(0, 5),
            )
        ]
        return errors, x._version, x

    agree(f)


def test_counter_of_integers_and_bools():
    def f(t):
        x, y = t.tensor([1, 2]), t.tensor([True, False])
        x.add_(1)
        y.logical_not_()
        y[0] = True
        return x._version, y._version

    agree(f)


# -- .data ---------------------------------------------------------------------------------------------


def test_assigning_data_keeps_the_counter():
    def f(t):
        x = double(t, 2, 3)
        view = x[0]
        x.add_(1)
        saved = x._version
        other = double(t, 4)
        other.add_(1).add_(1)
        x.data = other
        after = x._version, view._version, other._version
        x.add_(1)
        return saved, after, x._version, view._version, other._version, x, view, other

    agree(f)


DATA = {
    "shape": lambda t, x: setattr(x, "data", double(t, 5)),
    "view": lambda t, x: setattr(x, "data", double(t, 4, 5)[:, 1]),
    "dtype of a plain tensor": lambda t, x: setattr(x.detach_(), "data", t.tensor([1, 2])),
    "integers where grad is required": lambda t, x: setattr(x, "data", t.tensor([1, 2])),
    "single": lambda t, x: setattr(x, "data", t.ones(2)),
    "complex": lambda t, x: setattr(x, "data", t.ones(2, dtype=t.complex64)),
    "None": lambda t, x: setattr(x, "data", None),
    "number": lambda t, x: setattr(x, "data", 3),
    "deleted": lambda t, x: delattr(x, "data"),
    "one that requires grad": lambda t, x: setattr(x, "data", leaf(t, 2)),
    "one with history": lambda t, x: setattr(x, "data", leaf(t, 2) * 2),
    "itself": lambda t, x: setattr(x, "data", x),
    "its data": lambda t, x: setattr(x, "data", x.data),
}


@pytest.mark.parametrize("name", DATA)
def test_assigning_data(name):
    def f(t):
        x = leaf(t, 2)
        key = id(x)
        got = message(lambda: DATA[name](t, x))
        grad = message(lambda: ((x * x).sum().abs().backward(), x.grad)[1]) if x.requires_grad else None
        return got, id(x) == key, x.is_leaf, x.requires_grad, x, x._version, grad, x._is_view()

    agree(f)


def test_data_shares_memory_with_what_it_came_from():
    def f(t):
        x, y = leaf(t, 3), double(t, 3)
        x.data = y
        y.mul_(2)
        seen = x.detach().clone()
        with t.no_grad():
            x.add_(1)
        return seen, y, x, x._version, y._version, x.data_ptr() == y.data_ptr(), x.data is x

    agree(f)


def test_data_of_a_saved_tensor_may_be_swapped():
    def f(t):
        x = leaf(t, 3)
        y = x * x
        x.data = double(t, 3) * 10
        return message(lambda: y.sum().backward()), x.grad

    agree(f)


# -- the check -----------------------------------------------------------------------------------------


def failing(t, make, change):
    """The message of a backward after ``change(saved...)``."""
    x = leaf(t, 2, 3)
    parts = make(t, x)
    change(t, x, *parts)
    return message(lambda: (parts[-1].sum().backward(), x.grad)[1])


def under_no_grad(f):
    def change(t, *args):
        with t.no_grad():
            f(t, *args)

    return change


CHECKED = {
    "leaf": (lambda t, x: (x * x,), under_no_grad(lambda t, x, z: x.add_(1))),
    "leaf twice": (lambda t, x: (x * x,), under_no_grad(lambda t, x, z: x.add_(1).add_(1))),
    "leaf through data": (lambda t, x: (x * x,), lambda t, x, z: x.data.add_(1)),
    "leaf through detach": (lambda t, x: (x * x,), lambda t, x, z: x.detach().add_(1)),
    "leaf through a view of detach": (lambda t, x: (x * x,), lambda t, x, z: x.detach()[0].add_(1)),
    "leaf through a view": (lambda t, x: (x * x,), under_no_grad(lambda t, x, z: x[0].add_(1))),
    "input": (lambda t, x: (y := x * 2, y * y), lambda t, x, y, z: y.add_(1)),
    "input of power": (lambda t, x: (y := x + 2, y**2), lambda t, x, y, z: y.add_(1)),
    "one that exp made": (lambda t, x: (y := x.exp(), y + 1), lambda t, x, y, z: y.add_(1)),
    "tanh": (lambda t, x: (y := x.tanh(), y + 1), lambda t, x, y, z: y.add_(1)),
    "sigmoid": (lambda t, x: (y := x.sigmoid(), y + 1), lambda t, x, y, z: y.add_(1)),
    "softmax": (lambda t, x: (y := x.softmax(1), y + 1), lambda t, x, y, z: y.add_(1)),
    "sqrt": (lambda t, x: (y := x.sqrt(), y + 1), lambda t, x, y, z: y.mul_(1)),
    "relu keeps its result": (lambda t, x: (y := x.relu(), y + 1), lambda t, x, y, z: y.mul_(1)),
    "sin": (lambda t, x: (y := x + 1, y.sin()), lambda t, x, y, z: y.mul_(1)),
    "the transpose of an input": (lambda t, x: (y := (x + 1).t(), y * y), lambda t, x, y, z: y.mul_(1)),
    "a part changed": (lambda t, x: (y := x + 1, y * y), lambda t, x, y, z: y[0].mul_(1)),
    "a part saved": (lambda t, x: (y := x + 1, y[0] * y[0]), lambda t, x, y, z: y[1].mul_(1)),
    "second output of max": (lambda t, x: (y := x.max(1), y[0]), lambda t, x, y, z: y[1].zero_()),
    "indices of gather": (
        lambda t, x: (i := t.tensor([[0, 1, 1]]), x.gather(0, i)),
        lambda t, x, i, z: i.zero_(),
    ),
    "constant factor": (lambda t, x: (c := double(t, 2, 3), x * c), lambda t, x, c, z: c.add_(1)),
    "single precision": (lambda t, x: (y := x.float(), y * y), lambda t, x, y, z: y.add_(1)),
    "complex": (lambda t, x: (y := x.to(t.complex128), (y * y).abs()), lambda t, x, y, z: y.add_(1)),
    "half": (lambda t, x: (y := x.half(), y * y), lambda t, x, y, z: y.add_(1)),
    "bfloat16": (lambda t, x: (y := x.bfloat16(), y * y), lambda t, x, y, z: y.add_(1)),
    "mask": (lambda t, x: (m := x > 2, t.where(m, x, x * 2)), lambda t, x, m, z: m.logical_not_()),
    "scalar": (lambda t, x: (y := x.sum(), y * y), lambda t, x, y, z: y.add_(1)),
    "an output of split": (lambda t, x: (y := (x + 1).split(1), y[1].exp()), lambda t, x, y, z: z.add_(1)),
    "divided": (lambda t, x: (y := x + 1, 1 / y), lambda t, x, y, z: y.add_(1)),
    "reciprocal": (lambda t, x: (y := x + 1, y.reciprocal()), lambda t, x, y, z: z.add_(1)),
    "not needed": (lambda t, x: (y := x * 2, y + 1), lambda t, x, y, z: y.add_(1)),
    "not needed by a number": (lambda t, x: (y := x * 2, y * 3), lambda t, x, y, z: y.add_(1)),
    "set item": (lambda t, x: (y := x * 2, y * y), lambda t, x, y, z: y.__setitem__(0, 0)),
    "increment_version": (
        lambda t, x: (y := x * 2, y * y),
        lambda t, x, y, z: t.autograd.graph.increment_version(y),
    ),
    "resized data": (lambda t, x: (y := x * 2, y * y), lambda t, x, y, z: setattr(y, "data", double(t, 2, 3))),
    "mean": (lambda t, x: (y := x * 2, y.mean()), lambda t, x, y, z: y.zero_()),
    "sum": (lambda t, x: (y := x * 2, y.sum()), lambda t, x, y, z: y.zero_()),
    "norm": (lambda t, x: (y := x * 2, y.norm()), lambda t, x, y, z: y.zero_()),
    "prod": (lambda t, x: (y := x * 2, y.prod()), lambda t, x, y, z: y.mul_(1)),
    "cumsum": (lambda t, x: (y := x * 2, y.cumsum(0)), lambda t, x, y, z: y.mul_(1)),
    "cat": (lambda t, x: (y := x * 2, t.cat([y, y])), lambda t, x, y, z: y.mul_(1)),
    "index": (lambda t, x: (y := x * 2, y[[0]]), lambda t, x, y, z: y.mul_(1)),
    "clamp": (lambda t, x: (y := x * 2, y.clamp(1, 3)), lambda t, x, y, z: y.mul_(1)),
    "mse_loss": (lambda t, x: (y := x * 2, t.nn.functional.mse_loss(y, double(t, 2, 3))),
                 lambda t, x, y, z: y.mul_(1)),
    "log_softmax": (lambda t, x: (y := x.log_softmax(1), y * 1), lambda t, x, y, z: y.mul_(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_what_the_check_says(name):
    agree(lambda t: failing(t, *CHECKED[name]))


def test_the_check_is_repeated_on_every_use():
    def f(t):
        x = leaf(t, 3)
        y = x * 2
        z = y * y
        first = t.autograd.grad(z.sum(), x, retain_graph=True)
        y.add_(1)
        node = z.grad_fn
        errors = [message(g) for g in (lambda: t.autograd.grad(z.sum(), x), lambda: node._saved_self)]
        return first, errors

    agree(f)


def test_second_derivatives_are_checked_too():
    def f(t):
        x = leaf(t, 3)
        y = x * 2
        (first,) = t.autograd.grad((y * y * y).sum(), y, create_graph=True)
        y.add_(1)
        return message(lambda: t.autograd.grad(first.sum(), x))

    agree(f)


def test_detached_in_place():
    def f(t):
        a = t.tensor(1.0, requires_grad=True).clone()
        b = a.sin()
        a.detach_()
        first = message(lambda: b.backward())
        a = (leaf_ := t.tensor(1.0, requires_grad=True)).clone()
        b = a.exp()
        a.detach_()
        return first, message(lambda: b.backward()), leaf_.grad

    agree(f)


def test_unsafe_preserve_version_counter():
    def f(t):
        x = leaf(t, 3)
        y = x * 2
        z = y * y
        with t.autograd._unsafe_preserve_version_counter(y):
            y.mul_(10)
        inside = y._version
        return inside, message(lambda: t.autograd.grad(z.sum(), y))

    agree(f)


def test_increment_version():
    def f(t):
        x, y = double(t, 2), double(t, 3)
        t.autograd.graph.increment_version(x)
        t.autograd.graph.increment_version([x, y])
        return x._version, y._version, x[0]._version

    agree(f)


def test_anomaly_mode_points_to_the_forward():
    """The hint changes; the traceback of the forward comes as a warning."""

    def f(t):
        import warnings

        x = leaf(t, 2, 3)
        with t.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = x.exp()
            z = y + 1
            y.add_(1)
            text = message(lambda: z.sum().backward())
        heads = [re.split(r"Traceback", str(w.message))[0] for w in caught if "Error detected" in str(w.message)]
        return text, heads, ["x.exp()" in str(w.message) for w in caught if "Error detected" in str(w.message)]

    agree(f)
