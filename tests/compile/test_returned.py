"""What compiled functions return, and see of views given to them, against the same functions on PyTorch, uncompiled."""

import pytest
import torch
from both import attempt, plain

import torchlike


def numbers(t, n=3):
    return t.arange(1.0, n + 1, dtype=t.float64)


def leaf(t):
    return numbers(t).requires_grad_()


def twice(story):
    """What two calls show: ``story(t, compiled or plain function, round)``."""
    theirs, ours = (plain([story(t, wrap) for _ in range(2)]) for t, wrap in (
        (torch, lambda f: f), (torchlike, torchlike.compile),
    ))  # fmt: skip
    assert ours == theirs, f"{ours}\nPyTorch: {theirs}"


def gradient(t, wrap, f, use):
    """The gradient of what ``use`` makes of the results of ``f(2 * x)``."""
    x = leaf(t)
    use(*wrap(f)(x)).sum().backward()
    return x.grad


def pair(x):
    y = x * 2
    return y, y[1:]


def after(write, read):
    """``read(a, b)`` when ``write(a, b)`` has changed results in place."""
    return lambda a, b: (write(a, b), read(a, b))[1]


VIEWS = {
    "a view changed, its base used": (pair, after(lambda a, b: b.mul_(10), lambda a, b: a * a)),
    "a base changed, its view used": (pair, after(lambda a, b: a.mul_(10), lambda a, b: b * b)),
    "a view changed, another used": (
        lambda x: ((y := x * 2)[1:], y[:2]), after(lambda a, b: b.mul_(10), lambda a, b: a * a),
    ),
    "strides over the base": (
        lambda x: ((y := x * 2), y.as_strided((2,), (1,), 1)), after(lambda a, b: b.mul_(10), lambda a, b: a * a),
    ),
    "the base changed before it returns": (lambda x: (y := x * 2, y[1:], y.mul_(3))[:2], lambda a, b: b),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_results_that_share_memory_share_history(name):
    twice(lambda t, wrap: gradient(t, wrap, *VIEWS[name]))


def pieces_changed(t, wrap):
    pieces = wrap(lambda x: (x * 2).chunk(3))(leaf(t))
    return attempt(lambda: pieces[0].mul_(2)), pieces[1]


def a_constant_view_changed(t, wrap):
    w, (a, b) = leaf(t), wrap(pair)(numbers(t))
    b.mul_(w[0])
    a.sum().backward()
    return a.requires_grad, w.grad


def shows(x):
    return x.is_leaf, x.requires_grad, type(x).__name__


def a_leaf(t, wrap):
    z = wrap(lambda x: x.detach().clone().requires_grad_())(numbers(t))
    (z * z).sum().backward()
    return *shows(z), z.grad


def a_parameter(t, wrap):
    x = numbers(t)
    p = wrap(lambda x: t.nn.Parameter(x))(x)
    with t.no_grad():
        p.mul_(2)
    return *shows(p), x


def a_leaf_and_what_is_made_of_it(t, wrap):
    z, y = wrap(lambda x: ((z := x.detach().requires_grad_()), z * z))(numbers(t))
    y.sum().backward()
    return z.grad, *shows(z)


def a_leaf_with_a_gradient(t, wrap):
    def f(x):
        z = x.detach().requires_grad_()
        (z * z).sum().backward()
        return z

    return wrap(f)(numbers(t)).grad


def retained(t, wrap):
    def f(x):
        y = x * 2
        y.retain_grad()
        return y, y * y

    y, z = wrap(f)(leaf(t))
    z.sum().backward()
    return y.grad


def an_attribute(t, wrap):
    def f(x):
        y = x * 2
        y.tag = 3
        return y

    return wrap(f)(numbers(t)).tag


def a_subclass(t, wrap):
    class Own(t.Tensor):
        pass

    run = wrap(lambda x: (x * 2, x[1:]))
    return [type(y).__name__ for x in (numbers(t), numbers(t).as_subclass(Own)) for y in run(x)]


def calls_that_a_subclass_sees(t, wrap):
    seen = []

    class Watching(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    wrap(lambda x: x * 2)(numbers(t).as_subclass(Watching))
    return seen


def an_inference_tensor(t, wrap):
    def f(x):
        with t.inference_mode():
            return x * 2

    return wrap(f)(numbers(t)).is_inference()


def containers_from_outside(t, wrap):
    held = {"all": [], "by": {"n": [1]}}

    def f(x):
        held["all"].append(x.sum())
        return held["all"], [held["by"]], held["by"]["n"]

    run = wrap(f)
    facts = []
    for _ in range(3):
        a, (b,), c = run(numbers(t))
        facts += [a is held["all"], b is held["by"], c is held["by"]["n"], len(a)]
        held["all"] = []
    return facts


RESULTS = [
    pieces_changed, a_constant_view_changed, a_leaf, a_parameter, a_leaf_and_what_is_made_of_it,
    a_leaf_with_a_gradient, retained, an_attribute, a_subclass, calls_that_a_subclass_sees, an_inference_tensor,
    containers_from_outside,
]  # fmt: skip


@pytest.mark.parametrize("told", RESULTS, ids=lambda f: f.__name__)
def test_results_are_what_eager_code_returns(told):
    twice(told)


def rooted(t, x):
    """Writes where the memory of ``x`` begins."""
    x.as_strided((1,), (1,), 0).fill_(9)
    return x + 0


GIVEN = {
    "strides": lambda t, x: (list(x.stride()), x.is_contiguous(), x.storage_offset()),
    "memory before it": lambda t, x: x.as_strided((3,), (1,), 0) * 1,
    "memory before it written": rooted,
    "its base": lambda t, x: (x._is_view(), x._base.zero_() if x._base is not None else None, x + 0),
    "its storage": lambda t, x: t.empty(0, dtype=x.dtype).set_(x.untyped_storage(), 0, (2,), (1,)) * 1,
    "views of it": lambda t, x: (x.mul_(2), x.t()[1:], x.unsqueeze(0)[..., 1]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_views_that_are_given(name):
    def seen(t, wrap):
        base, out = numbers(t, 16).view(4, 4), []
        run = wrap(lambda x: GIVEN[name](t, x))
        for x in (base[1:, ::2], base[2:], base[:, 1:3], base.t()[1:]):
            got = run(x)
            out += [got, [list(y.stride()) for y in got[1:]] if name == "views of it" else None, base]
        return out

    twice(seen)


def test_an_expanded_argument_is_not_written():
    f = torchlike.compile(lambda x: x.add_(1))
    with pytest.raises(RuntimeError, match="more than one element"):
        f(torchlike.ones(1, 3).expand(2, 3))
