"""torch.utils.swap_tensors: who holds one tensor has the other; graphs and views of them are no silent loss."""

import weakref

import pytest
from both import agree, agree_error

import torchlike


def values(t):
    a, b = t.ones(2), t.zeros(3, requires_grad=True)
    a.label, held = "a", [a, b]
    t.utils.swap_tensors(a, b)
    return held[0], held[1], held[1].label, hasattr(a, "label"), a.is_leaf


def classes(t):
    a, b = t.nn.Parameter(t.ones(2)), t.zeros(2, dtype=t.float64)
    (a * 3).sum().backward()
    t.utils.swap_tensors(a, b)
    return [type(x).__name__ for x in (a, b)], a.grad, b.grad, a, b


def of_module(t):
    layer = t.nn.Linear(2, 1, bias=False)
    weight = layer.weight
    t.utils.swap_tensors(weight, t.nn.Parameter(t.tensor([[2.0, 3.0]])))
    layer(t.ones(1, 2)).sum().backward()
    return layer.weight is weight, layer(t.ones(1, 2)), weight.grad


def history(t):
    a, found = t.ones(2, requires_grad=True), []
    b, c = a * 2, t.zeros(2)
    b.register_hook(lambda g: found.append(g.sum().item()))
    t.utils.swap_tensors(b, c)
    c.sum().backward()
    return b.grad_fn is None, a.grad, found, b._version, c._version


@pytest.mark.parametrize("f", [values, classes, of_module, history])
def test_each_is_the_other(f):
    agree(f)


def saved(t, a, b):
    product = a * a
    t.utils.swap_tensors(a, b)
    product.sum().backward()


def poisoned(t, a, b):
    double = a * 2
    t.utils.swap_tensors(a, b)
    double.sum().backward()


def weak(t, a, b):
    keep = weakref.ref(b)
    t.utils.swap_tensors(a, b)
    return keep


@pytest.mark.parametrize(
    "f, match",
    [(saved, "Expected use_count of t1"), (poisoned, "poisoned by swap_tensors"), (weak, "t2 because it has weakref")],
)
def test_refusals(f, match):
    agree_error(lambda t: f(t, t.ones(2, requires_grad=True), t.zeros(2)), match)


def test_a_view_is_refused():
    a = torchlike.ones(2)
    keep = a.view(2, 1)
    with pytest.raises(RuntimeError, match="use_count of t1"):
        torchlike.utils.swap_tensors(a, torchlike.zeros(2))
    assert keep._base is a


def test_a_tensor_with_a_view_is_not_swapped_with_itself():
    def swap(t):
        a = t.ones(2, requires_grad=True)
        keep = a.view(2, 1)
        t.utils.swap_tensors(a, a)
        return keep

    agree_error(swap, "use_count of t1")
