"""Gradients of tensors whose shape or dtype has changed, without history, since they were computed."""

import pytest
from both import agree_error
from story_kit import leaf, story


def changed(t, change, *shape):
    """A leaf of ones, and its product with 1 after ``change`` without history."""
    x = t.ones(*shape or (2, 3), dtype=t.float64, requires_grad=True)
    y = x * 1
    with t.no_grad():
        change(y)
    return x, y


def unsqueezed(t):
    return changed(t, lambda y: y.unsqueeze_(0))


@story
def test_a_dimension_more(t):
    x, y = unsqueezed(t)
    (y.abs().sum() + y.abs().sum()).backward(retain_graph=True)
    return x.grad, y.shape


@story
def test_expanded(t):
    x, y = unsqueezed(t)
    y.expand(4, 2, 3).sum().backward()
    return x.grad


@story
def test_a_view(t):
    x = leaf(t)
    y = x.view(3)
    with t.no_grad():
        y.unsqueeze_(0)
    (y.abs().sum() + y.abs().sum()).backward()
    return x.grad


@story
def test_hooks_see_the_recorded_shape(t):
    x, shapes = leaf(t), []
    y = x * 1
    y.register_hook(lambda g: shapes.append(g.shape))
    with t.no_grad():
        y.unsqueeze_(0)
    y.register_hook(lambda g: shapes.append(g.shape))
    y.retain_grad()
    y.sum().backward()
    return shapes, x.grad, y.grad


@story
def test_grad_of_both(t):
    x, y = unsqueezed(t)
    return t.autograd.grad(y.sum(), [y, x])


@story
def test_create_graph(t):
    x, y = unsqueezed(t)
    (grad,) = t.autograd.grad((y**3).sum(), x, create_graph=True)
    grad.sum().backward()
    return grad, x.grad


@story
def test_a_gradient_given(t):
    x, y = unsqueezed(t)
    y.backward(t.ones(1, 2, 3, dtype=t.float64))
    return x.grad


@story
def test_history_goes_on(t):
    x, y = unsqueezed(t)
    y.add_(1).sum().backward()
    return x.grad, y.shape


@story
def test_data_of_another_shape(t):
    x = leaf(t)
    y = x * 1
    y.data = t.ones(2, 3, dtype=t.float64)
    y.sum().backward()
    return x.grad


@story
def test_data_of_another_dtype(t):
    x = t.ones(3, requires_grad=True)
    y = x * 1
    y.data = t.ones(3, dtype=t.float64)
    y.sum().backward()
    return x.grad


CHANGES = {
    "transposed": (lambda y: y.t_(), r"Function AbsBackward0 .* got \[3, 2\] but expected .* \[2, 3\]"),
    "squeezed": (lambda y: y.squeeze_(0), r"Function AbsBackward0 .* index 0 - got \[3\] but expected .* \[1, 3\]"),
    "other strides": (lambda y: y.as_strided_((3,), (1,)), r"got \[3\] but expected shape compatible with \[1, 3\]"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_shapes_that_do_not_fit(name):
    change, message = CHANGES[name]
    shape = (2, 3) if name == "transposed" else (1, 3)
    agree_error(lambda t: changed(t, change, *shape)[1].abs().sum().backward(), message)


def test_a_given_gradient_that_does_not_fit():
    match = r"^invalid gradient at index 0 - got \[3, 2\] but expected shape compatible with \[2, 3\]"
    agree_error(lambda t: changed(t, lambda y: y.t_())[1].backward(t.ones(3, 2, dtype=t.float64)), match)
