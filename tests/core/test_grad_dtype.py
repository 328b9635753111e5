"""``grad_dtype``, and which gradients are one tensor."""

from both import attempt
from history_kit import double, leaf
from story_kit import story


def message(f):
    """What an error says in its first sentence, or the result."""
    got = attempt(f)
    return f"{type(got).__name__}: {got}".partition(". ")[0].partition(" (in")[0] if isinstance(got, Exception) else got


@story
def test_gradients_are_cast_to_grad_dtype(t):
    out = []
    for dtype in (t.float16, t.float64, t.complex64, None):
        x, seen = t.ones(2, requires_grad=True), []
        x.grad_dtype = dtype
        x.register_hook(lambda g: seen.append(str(g.dtype)))  # noqa: B023
        (x**2).sum().backward()
        first = x.grad
        (x**3).sum().backward()
        out += [first is x.grad, x.grad, seen, t.autograd.grad((x**2).sum(), x)]
        x.grad = None
        (x**3).sum().backward(create_graph=True)
        out += [x.grad.dtype is dtype, x.grad.requires_grad, t.autograd.grad(x.grad.abs().sum(), x)]
    return out


@story
def test_any_dtype_accumulates(t):
    out = []
    for dtype in (t.float16, t.float64, t.complex64, t.int32):
        x = t.ones(2, requires_grad=True)
        x.grad_dtype = None
        x.grad = t.ones(2, dtype=dtype)
        out += [message(lambda: (x**2).sum().backward()), x.grad]  # noqa: B023
    return out


@story
def test_gradients_from_grad_share_what_they_are(t):
    a, b, seed = leaf(t, 2), leaf(t, 2), double(t, 2)
    first, second = t.autograd.grad(a + b, (a, b), seed)
    third, fourth = t.autograd.grad((a + b) * 2, (a, b), seed)
    third.mul_(5)
    return first is second, first is seed, third is fourth, fourth, t.autograd.grad(a, a, seed)[0] is seed
