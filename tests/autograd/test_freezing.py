"""requires_grad of leaves and of modules: who may be frozen, when, and what that changes."""

import pytest
from both import agree
from story_kit import leaf, said, story


@story
def test_only_leaves_stop_requiring_grad(t):
    y = leaf(t) * 2
    why = "you can only change requires_grad flags of leaf variables"
    return (said(lambda: y.requires_grad_(False), why), said(lambda: setattr(y, "requires_grad", False), why),
            y.requires_grad_(True) is y, y.detach().requires_grad_().is_leaf)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_cannot_require_grad(dtype):
    def f(t):
        x, why = t.ones(2).to(getattr(t, dtype)), "nly Tensors of floating point"
        return (said(lambda: x.requires_grad_(), why), said(lambda: setattr(x, "requires_grad", True), why),
                x.requires_grad_(False) is x, said(lambda: t.ones(2, dtype=x.dtype, requires_grad=True), why),
                x.requires_grad)  # fmt: skip

    agree(f)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_numbers_with_a_fraction_can(dtype):
    agree(lambda t: t.ones(2, dtype=getattr(t, dtype)).requires_grad_())


@pytest.mark.parametrize("value", [1, None, "a"])
def test_requires_grad_is_a_bool(value):
    agree(lambda t: said(lambda: setattr(leaf(t), "requires_grad", value), "requires_grad must be a bool"))


@story
def test_frozen_between_forward_and_backward(t):
    x, w = leaf(t), leaf(t)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    return x.grad, w.grad, x.requires_grad


@story
def test_a_frozen_module(t):
    m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 1))
    seen = [m.requires_grad_(False) is m, [p.requires_grad for p in m.parameters()], m(t.ones(1, 2)).requires_grad]
    m[1].requires_grad_()
    m(t.ones(1, 2)).sum().backward()
    return seen, [(p.requires_grad, p.grad is None) for p in m.parameters()]


@story
def test_eval_is_another_matter(t):
    m = t.nn.Linear(2, 2).eval()
    seen = [m(t.ones(1, 2)).requires_grad, t.is_grad_enabled()]
    with t.no_grad():
        seen += [m.train()(t.ones(1, 2)).requires_grad, m.training]
    return seen


@story
def test_dropout_is_off_in_eval_not_in_no_grad(t):
    m = t.nn.Dropout(1.0)
    with t.no_grad():
        seen = [m(t.ones(3)), m.eval()(t.ones(3))]
    return seen
