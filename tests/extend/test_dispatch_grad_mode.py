"""The grad mode inside of ``__torch_dispatch__``, which is below autograd: seen and set as above, but of no effect."""

import pytest
from both import agree

import torchlike.utils._python_dispatch  # noqa: F401


def told(t, x):
    if isinstance(x, t.Tensor):
        return x.requires_grad, x.grad_fn is not None
    return [told(t, y) for y in x] if isinstance(x, tuple | list) else x


def noted(t, func, args, out, own, views=lambda x: (x.reshape(-1), x.view(x.shape))):
    """What a handler sees of the grad mode, of its arguments and results, and of what it computes with ``own``."""
    made = t.ones(2, requires_grad=True)
    line = [str(func), t.is_grad_enabled(), t.is_inference_mode_enabled(), told(t, args), told(t, out)]
    line += [told(t, [made * 2, own * 2, own.detach(), *views(own)])]
    with t.enable_grad():
        line += [t.is_grad_enabled(), told(t, [made * 2, own * 2, *views(own)])]
    with t.no_grad():
        line += [t.is_grad_enabled()]
        with t.set_grad_enabled(True):
            line += [t.is_grad_enabled()]
    with t.inference_mode():
        line += [t.is_grad_enabled()]
    return [*line, t.is_grad_enabled()]


def mode_over(f):
    def run(t):
        seen: list = []

        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                own = next((a for a in args if isinstance(a, t.Tensor)), t.ones(2))
                seen.append(noted(t, func, args, out, own))
                return out

        x = t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        with Mode():
            result = f(t, x)
        return [line for line in seen if "detach" not in line[0]], told(t, result), t.is_grad_enabled()

    return run


def inplace_of_view(t, x):
    y = x * 1
    y[0].mul_(3)
    return y


def backward(t, x):
    (x * x).sum().backward()
    return x.grad


def inference(t, x):
    with t.inference_mode():
        return x * 2


def without(t, x):
    with t.no_grad():
        return x * 2, x.view(-1)


MODES = {
    "a product": lambda t, x: x * 2,
    "a sum": lambda t, x: (x * x).sum(),
    "views": lambda t, x: x.t()[0],
    "several views": lambda t, x: x.split(1),
    "in place": lambda t, x: (x * 1).mul_(3),
    "in place, of a view": inplace_of_view,
    "out": lambda t, x: t.add(t.ones(2), 1, out=t.empty(2)),
    "a factory": lambda t, x: t.ones(2, requires_grad=True),
    "backward": backward,
    "grad of a grad": lambda t, x: t.autograd.grad((x * x).sum(), x, create_graph=True),
    "inference mode": inference,
    "no_grad": without,
}


@pytest.mark.parametrize("code", MODES.values(), ids=list(MODES))
def test_in_a_mode(code):
    agree(mode_over(code))


def wrapper(t, seen):
    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, x, grad=False):
            r = t.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, requires_grad=grad)
            r.inner = x
            return r

        def __init__(self, x, grad=False):
            pass

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            out = func(*plain, **(kwargs or {}))
            own = next((a for a in plain if isinstance(a, t.Tensor)), t.ones(2))
            seen.append(noted(t, func, args, out, own))
            return cls(out) if isinstance(out, t.Tensor) else out

    return Wrapper


def wrapped_backward(t, W):
    x = W(t.ones(2, 2), True)
    x.exp().sum().backward()
    return x.grad


WRAPPERS = {
    "a result": lambda t, W: W(t.ones(2, 2), True).exp(),
    "what is wrapped requires grad": lambda t, W: W(t.ones(2, 2, requires_grad=True), True).exp(),
    "only what is wrapped": lambda t, W: W(t.ones(2, 2, requires_grad=True)).exp(),
    "neither": lambda t, W: W(t.ones(2, 2)).exp(),
    "a view": lambda t, W: W(t.ones(2, 2), True).view(-1),
    "in place": lambda t, W: W(t.ones(2, 2), True).exp().add_(1),
    "backward": wrapped_backward,
}


@pytest.mark.parametrize("code", WRAPPERS.values(), ids=list(WRAPPERS))
def test_in_a_wrapper(code):
    def run(t):
        seen: list = []
        result = code(t, wrapper(t, seen))
        return [line for line in seen if "detach" not in line[0]], told(t, result)

    agree(run)


def test_in_kernels_of_custom_operators():
    def run(t):
        seen: list = []

        def kernel(x):
            seen.append(noted(t, "kernel", (x,), None, x, lambda x: ()))
            return x * 2

        plain = t.library.custom_op("grad_mode::plain", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
        derived = t.library.custom_op("grad_mode::derived", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
        derived.register_autograd(lambda ctx, grad: grad * 2)
        x = t.ones(2, requires_grad=True)
        for op in (plain, derived):
            seen.append(told(t, [op(x), op(x.detach())]))
            with t.no_grad():
                seen.append(told(t, op(x)))
        return seen

    agree(run)


def test_an_error_in_a_handler_leaves_the_grad_mode():
    def run(t):
        class Failing(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                t.set_grad_enabled(True).__enter__()
                raise ValueError(func.name())

        x = t.ones(2, requires_grad=True)
        with pytest.raises(ValueError), Failing():
            x * 2
        return t.is_grad_enabled(), told(t, x * 2)

    agree(run)
