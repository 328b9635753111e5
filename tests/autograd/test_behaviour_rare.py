"""Histories, fields and gradients that few programs have, each as PyTorch has them."""

import io
import sys
import warnings
from collections import OrderedDict

import pytest
from both import agree
from story_kit import said, story


@story
def test_a_gradient_of_another_layout_replaces_the_sparse_one(t):
    p = t.tensor([1.5, 1.5], requires_grad=True)
    p.grad = old = t.sparse_coo_tensor(t.tensor([[1, 1]]), t.tensor([1.0, 1.0]), (2,), check_invariants=False)
    p.backward(t.ones(2))
    same = p.grad is old
    p.backward(t.sparse_coo_tensor(t.tensor([[0]]), t.tensor([2.0]), (2,), check_invariants=False))
    return same, str(old.layout), old.to_dense(), str(p.grad.layout), p.grad


@pytest.mark.parametrize("of, at", [((10,), ()), ((), (2,)), ((), ()), ((3,), (2,))])
def test_sparse_gradients_of_gather_and_scalars(of, at):
    def f(t):
        x = t.ones(of, requires_grad=True)
        out = t.gather(x, 0, t.zeros(at, dtype=t.long), sparse_grad=True)
        out.backward(t.full_like(out, 2.0))
        return str(x.grad.layout), x.grad._indices(), x.grad._values(), x.grad.to_dense()

    agree(f)


@story
def test_data_keeps_its_kind(t):
    def put(x, y):
        x.data = y
        return x

    def sparse():
        return t.sparse_coo_tensor(t.tensor([[0]]), t.tensor([1.0]), (2,), check_invariants=False)

    pairs = [(t.ones(2), sparse()), (sparse(), t.ones(2)), (t.ones(2), t.ones(2, device="meta"))]
    return [said(lambda: put(x, y), "^.* incompatible tensor type") for x, y in pairs], put(t.ones(2), t.zeros(3))  # noqa: B023


@story
def test_the_dict_of_hooks_can_be_assigned(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2)
    y._backward_hooks = OrderedDict(a=None)  # of a tensor without gradient: nobody calls them
    x.register_hook(lambda g: g * 3)
    kinds = [type(x._backward_hooks).__name__, type(y._backward_hooks).__name__]
    (x * y).sum().backward()
    x._backward_hooks = OrderedDict(a=lambda g: g * 5)
    (x * y).sum().backward()
    both = x.grad.clone()
    x._backward_hooks = None
    (x * y).sum().backward()
    return kinds, both, x.grad, x._backward_hooks is None


@story
def test_views_of_inference_tensors_have_no_history(t):
    with t.inference_mode():
        x = t.ones(2, 3, requires_grad=True)
    views = [x.view(-1), x.t(), x[0], x.view(6).view(3, 2), x.unbind()[0], x.split(1)[1]]
    return [(v.is_inference(), v.requires_grad, v.is_leaf, v._is_view(), v.grad_fn is None) for v in views]


@story
def test_names_of_second_derivatives(t):
    nn = t.nn.functional

    def names(f):
        x = t.ones(2, requires_grad=True)
        g = t.autograd.grad(f(x).sum(), x, create_graph=True)[0]
        return g.grad_fn.name()

    ops = [
        t.relu, t.tanh, t.sigmoid, nn.hardtanh, nn.softplus, nn.gelu, nn.elu, nn.leaky_relu, nn.logsigmoid, nn.glu,
        lambda x: t.softmax(x, 0), lambda x: t.log_softmax(x, 0), lambda x: nn.threshold(x, 0.0, 0.0),
        nn.softshrink, nn.hardswish,
    ]  # fmt: skip
    return [names(f) for f in ops]


def test_a_product_of_two_zeros_has_its_second_derivative():
    """PyTorch refuses it."""
    import torchlike as t

    x = t.tensor([2.0], requires_grad=True)
    y = t.tensor([0.0, 0.0, 3.0], requires_grad=True)
    for fn in (t.scatter_reduce, t.index_reduce):
        out = fn(x, 0, t.tensor([0, 0, 0]), y, "prod")
        first = t.autograd.grad(out, (x, y), create_graph=True)
        assert [g.tolist() for g in first] == [[0.0], [0.0, 0.0, 0.0]]
        second = t.autograd.grad(first[1] @ t.tensor([1.0, 10.0, 0.0]), y)[0]
        assert second.tolist() == [60.0, 6.0, 0.0]


def test_lobpcg_is_a_function_of_both_triangles():
    import torchlike as t

    a = t.arange(9.0).reshape(3, 3).requires_grad_()
    value = t.lobpcg(a, k=1)[0]
    value.sum().backward()
    assert t.allclose(value, t.lobpcg((a + a.mT) / 2, k=1)[0])
    assert t.allclose(a.grad, a.grad.mT)


def test_anomaly_mode_prints_where_warnings_are_errors():
    import torchlike as t

    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                warnings.simplefilter("error")
                x = t.ones(2, requires_grad=True)
                y = x + 1
                z = (y**2).sum()
                y += 1
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    z.backward()
        assert "Error detected in PowBackward0" in sys.stderr.getvalue()
    finally:
        sys.stderr = before


def _logging(t):
    class Logging(t.Tensor):
        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            made = t.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, requires_grad=requires_grad)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def out(x):
                return x.inner if isinstance(x, cls) else x

            def wrapped(x):
                return cls(x) if isinstance(x, t.Tensor) else x

            tree_map = t.utils._pytree.tree_map
            return tree_map(wrapped, func(*tree_map(out, args), **tree_map(out, kwargs or {})))

    return Logging


@story
def test_derivatives_of_wrapper_subclasses(t):
    logging = _logging(t)
    x = logging(t.tensor([1.0, 2.0], dtype=t.float64), requires_grad=True)
    y = x * x * x
    rows = t.autograd.grad(y, x, t.eye(2, dtype=t.float64), is_grads_batched=True, retain_graph=True)[0]
    hessian = t.autograd.functional.hessian(lambda x: (x * x * x).sum(), x, vectorize=True)
    assert t.autograd.gradcheck(lambda x: x * x * x, x)
    return [(type(r).__name__, r.inner) for r in (rows, hessian)]


@story
def test_no_dispatch_switches_classes_off(t):
    class Plain(t.Tensor):
        __torch_function__ = t._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with t.utils._mode_utils.no_dispatch():
                return func(*args, **(kwargs or {}))

    x = t.Tensor._make_subclass(Plain, t.tensor([1.0, 2.0]))
    return type(x.exp()).__name__, (x + 1).sum()
