"""Methods that call Python on every element, and small questions about tensors."""

import pytest
import torch
from both import agree, agree_error

import torchlike


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "complex64", "bfloat16", "float16"])
def test_apply(dtype):
    agree(lambda t: t.tensor([1, 2, 0]).to(getattr(t, dtype)).apply_(lambda v: v * 1.5))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0)])
def test_shapes(shape):
    agree(lambda t: t.ones(shape).apply_(lambda v: v + 1))
    agree(lambda t: t.ones(shape).map_(t.ones(shape), lambda a, b: a + b * 2))


def test_views_and_versions():
    def run(t):
        a = t.arange(6.0).reshape(2, 3)
        v = a.t()[1:]
        same = v.apply_(lambda x: -x) is v
        v.map_(t.tensor(10.0), lambda x, y: x + y)
        v.map2_(t.ones(2), t.ones(2, 1), lambda x, y, z: x + y + z)
        return a, a._version, same

    agree(run)


def test_meta_tensors_stay():
    agree(lambda t: str(t.ones(2, device="meta").apply_(lambda v: v).shape))


@pytest.mark.parametrize(
    ("run", "match"),
    [
        (lambda t: t.ones(1, requires_grad=True).apply_(lambda v: v), r"Can't call apply_\(\) on Variable"),
        (lambda t: t.ones(1, requires_grad=True).map_(t.ones(1), lambda v, w: v), r"Can't call map_\(\)"),
        (lambda t: t.ones(1).apply_(lambda v: "a"), "must be real number, not str"),
        (lambda t: t.ones(1).apply_(3), "not callable"),
        (lambda t: t.ones(1).map_(t.ones(1).double(), lambda a, b: a), "map_: expected torch.FloatTensor for 'other'"),
        (lambda t: t.ones(2).map_(t.ones(3), lambda a, b: a), "must match the existing size"),
        (lambda t: t.ones(2, 3).sum_to_size(4), "not expandable to size"),
        (lambda t: t.ones(2, 3).sum_to_size(1, 2, 3), "not expandable to size"),
        (lambda t: t.ones(2).is_same_size(3), "is_same_size.*must be Tensor, not int"),
        (lambda t: t.ones(2).reinforce(1), r"reinforce\(\) was removed"),
    ],
)
def test_errors(run, match):
    agree_error(run, match)


def test_a_failed_call_changes_nothing():
    x = torchlike.ones(3)
    with pytest.raises(ZeroDivisionError):
        x.apply_(lambda v: 1 / 0)
    assert x.tolist() == [1.0, 1.0, 1.0] and x._version == 0


@pytest.mark.parametrize("size", [(2, 3), (1, 3), (2, 1), (1, 1), (3,), (1,), ()])
def test_sum_to_size(size):
    def run(t):
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = x.sum_to_size(size)
        return y, y is x, y.grad_fn, t.autograd.grad(y.pow(2).sum(), x)

    agree(run)
    agree(lambda t: t.ones(3, 2, 3).sum_to_size(*size) if size else None)


def test_questions():
    agree(lambda t: (t.ones(2).is_same_size(t.ones(2)), t.is_same_size(t.ones(2), t.ones(2, 1))))
    agree(lambda t: (t.ones(2, 3).ndimension(), t.ones(()).ndimension(), t.ones(2).is_shared(), t.ones(2).name))
    agree(lambda t: [t.typename(x) for x in (t.ones(2), t.ones(2).long(), 3, None, "a", int)])
    agree(lambda t: t.typename(t.nn.Linear(1, 1)).partition(".")[2])


@pytest.mark.parametrize("t", [torch, torchlike], ids=["torch", "torchlike"])
def test_volatile_is_false_with_a_warning(t):
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert t.ones(1).volatile is False
