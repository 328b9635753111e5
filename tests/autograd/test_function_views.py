"""Custom Functions that return inputs as they are, views of inputs, or tensors from elsewhere."""

import pytest
from both import agree, agree_error
from function_kit import facts, function, leaf


def as_it_is(t):
    return function(t, lambda ctx, a: a, lambda ctx, g: g * 5)


def column(t):
    return function(t, lambda ctx, a: a.view(2, 1), lambda ctx, g: g.view(2) * 5)


MAKE = [
    lambda t: leaf(t),
    lambda t: leaf(t) * 1,
    lambda t: t.ones(2),
    lambda t: t.arange(2),
    lambda t: leaf(t, 1.0, 2.0, 3.0)[1:],
    lambda t: t.ones(3, 2)[1],
    lambda t: (leaf(t) * 1).view(2, 1).t()[0],
]


@pytest.mark.parametrize("mode", ["enable_grad", "no_grad"])
@pytest.mark.parametrize("kind", [as_it_is, column])
@pytest.mark.parametrize("make", MAKE)
def test_views_of_the_input(make, kind, mode):
    def run(t):
        a = make(t)
        with getattr(t, mode)():
            y = kind(t).apply(a)
        base = a._base if a._is_view() else a
        told = facts(y), y is a, y._base is base, y.data_ptr() == a.data_ptr(), y.stride(), y.storage_offset()
        return told, t.autograd.grad(y.sum(), a) if y.grad_fn is not None else None

    agree(run)


FORBIDDEN = "Output 0 of {} is a view and is being modified inplace. This view was created inside a custom Function"


@pytest.mark.parametrize("make", [lambda t: leaf(t), lambda t: leaf(t) * 1])
def test_they_must_not_be_changed_in_place(make):
    agree_error(lambda t: as_it_is(t).apply(make(t)).mul_(2), FORBIDDEN.format("MyFn"))
    agree_error(lambda t: column(t).apply(make(t)).mul_(2), FORBIDDEN.format("MyFn"))
    agree_error(lambda t: t.relu_(as_it_is(t).apply(make(t))), FORBIDDEN.format("MyFn"))
    agree_error(lambda t: as_it_is(t).apply(make(t)).view(2, 1).mul_(2), FORBIDDEN.format("View"))
    agree_error(lambda t: as_it_is(t).apply(make(t)).detach_(), "Can't detach views in-place")
    agree(lambda t: as_it_is(t).apply(make(t)).clone().mul_(2))


def test_changed_in_place_without_recording():
    def run(t):
        z = leaf(t) * 1
        y = column(t).apply(z)
        with t.no_grad():
            y.mul_(2)
        return y.detach(), z.detach()

    def recorded(t, kind):
        a = t.ones(2)
        y = kind(t).apply(a)
        y.mul_(2)
        y.mul_(leaf(t).view(y.shape))

    agree(run)
    agree_error(lambda t: recorded(t, column), "A view was created in no_grad mode.*inside a custom Function")
    agree_error(lambda t: recorded(t, as_it_is), "A view was created in no_grad mode.*inside a custom Function")


def test_a_view_made_in_no_grad_mode():
    def run(t, make):
        with t.no_grad():
            y = column(t).apply(make(t))
        y.mul_(leaf(t).view(2, 1))

    match = "A view was created in no_grad mode and is being modified inplace.*inside a custom Function"
    agree_error(lambda t: run(t, lambda t: leaf(t) * 1), match)


def test_the_base_is_changed_in_place():
    def run(t, kind, look):
        z = leaf(t) * 1
        y = kind(t).apply(z)
        q = y * y
        z.mul_(2)
        return facts(z), look(y, q)

    match = "is a view and its base or another view of its base has been modified inplace. This view was created inside"
    agree_error(lambda t: run(t, as_it_is, lambda y, q: y.grad_fn), match)
    agree_error(lambda t: run(t, column, lambda y, q: y * 2), match)
    agree(lambda t: run(t, column, lambda y, q: y.detach()))


def test_several_outputs_that_are_views():
    def run(t, act=lambda a, b: None):
        x = leaf(t)
        a, b = function(t, lambda ctx, a: (a.view(2, 1), a * 2), lambda ctx, g, h: g.view(2) + h).apply(x * 1)
        told = facts(a), facts(b)
        act(a, b)
        return told, t.autograd.grad(a.sum() + b.sum(), x)

    agree(run)
    agree(lambda t: run(t, lambda a, b: b.mul_(3)))
    agree_error(lambda t: run(t, lambda a, b: a.mul_(3)), "output of a function that returns multiple views")


def test_one_input_returned_twice():
    def run(t):
        x = leaf(t)
        y, z = function(t, lambda ctx, a: (a, a), lambda ctx, g, h: g + 10 * h).apply(x)
        return facts(y), facts(z), y is z, t.autograd.grad(y.sum() + 3 * z.sum(), x)

    agree(run)


def test_views_of_an_output():
    def run(t):
        def forward(ctx, a):
            y = a * 2
            return y, y[0], y.view(2, 1)

        x = leaf(t)
        y, first, col = function(t, forward, lambda ctx, g, h, k: g + h + k.view(2)).apply(x)
        return [facts(v) for v in (y, first, col)], first._base is y, t.autograd.grad(first * 2 + col.sum(), x)

    agree(run)


def test_a_detached_output_is_no_view():
    def run(t):
        x = leaf(t)
        y = function(t, lambda ctx, a: a.detach(), lambda ctx, g: g * 5).apply(x * 1)
        told = facts(y)
        return told, y.mul_(2), t.autograd.grad(y.sum(), x)

    agree(run)


def test_strides_of_views():
    def run(t, forward, make):
        a = make(t)
        y = function(t, forward, lambda ctx, g: t.ones_like(a)).apply(a)
        return y.stride(), y._is_view(), y.is_contiguous(), y.storage_offset(), t.autograd.grad(y.sum(), a)

    agree(lambda t: run(t, lambda ctx, a: a.t(), lambda t: t.ones(3, 2, requires_grad=True)))
    agree(lambda t: run(t, lambda ctx, a: a, lambda t: t.ones(3, 2, requires_grad=True).t()))
    agree(lambda t: run(t, lambda ctx, a: a[1:, 0], lambda t: t.ones(3, 2, requires_grad=True)))
    agree(lambda t: run(t, lambda ctx, a: a, lambda t: t.ones(1, 2, requires_grad=True).expand(3, 2)))


def test_an_input_changed_but_not_marked():
    def run(t):
        x = leaf(t)
        z = x * 1
        y = function(t, lambda ctx, a: a.mul_(2), lambda ctx, g: g * 5).apply(z)
        return y is z, facts(y), facts(z), t.autograd.grad(y.sum(), x)

    agree(run)


@pytest.mark.parametrize("make", MAKE[:3])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_an_output_from_elsewhere(make, requires_grad):
    def run(t):
        w, x = make(t), t.ones(2, requires_grad=requires_grad)
        y = function(t, lambda ctx, a: w, lambda ctx, g: g * 5).apply(x)
        return facts(y), y is w, facts(w), t.autograd.grad(y.sum(), x) if requires_grad else None

    agree(run)


def test_the_input_of_a_function_that_returns_it_is_untouched():
    def run(t):
        x = leaf(t)
        as_it_is(t).apply(x)
        other = function(t, lambda ctx, a, b: b, lambda ctx, g: (None, g)).apply(x, t.ones(2))
        return facts(x), facts(other)

    agree(run)


def test_inference_mode():
    def run(t, make):
        a = make(t)
        with t.inference_mode():
            y = as_it_is(t).apply(a)
            return y is a, y._is_view(), y.is_inference(), y.requires_grad

    def inner(t, make):
        with t.inference_mode():
            a = make(t)
            y = as_it_is(t).apply(a)
            return y is a, y._is_view(), y.is_inference(), y.requires_grad

    agree(lambda t: run(t, leaf))
    agree(lambda t: inner(t, lambda t: t.ones(2)))


def test_a_returned_view_is_saved():
    def run(t):
        x, seen = leaf(t), []

        def forward(ctx, a):
            y = a[:1]
            ctx.save_for_backward(a, y)
            return y

        def backward(ctx, g):
            a, y = ctx.saved_tensors
            seen.append((a is x, y, y.grad_fn, y._is_view()))
            return t.cat([g * y, g * 0])

        y = function(t, forward, backward).apply(x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        return g, seen[0][:3], t.autograd.grad(g.sum(), x)

    agree(run)
