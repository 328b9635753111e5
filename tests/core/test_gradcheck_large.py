"""gradcheck of many elements: one backward serves many rows where nobody can tell, and inputs are put back."""

import numpy as np
import pytest
from both import agree, attempt
from gradcheck_kit import gradcheck, summary

import torchlike
from torchlike._base.state import state
from torchlike.autograd import _gradcheck_batches as batches
from torchlike.autograd import _gradcheck_jacobian as jacobian
from torchlike.autograd import _gradcheck_many as numerical

N = batches.FEWEST + 2


def many(t, grad=True, n=N):
    values = np.random.default_rng(n).standard_normal(n)
    return t.tensor(values, requires_grad=grad)


def counted(t, calls):
    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * 2

    return Twice.apply


def hooked(where):
    """A function whose backward the user watches, and the counter of what was seen."""

    def make(t, calls):
        def tick(*args):
            calls.append(1)

        def f(x, w):
            y = x * w
            if where == "tensor":
                y.register_hook(tick)
            elif where == "node":
                y.grad_fn.register_prehook(tick)
            elif where == "unpacking":
                with t.autograd.graph.saved_tensors_hooks(lambda s: s, lambda s: calls.append(1) or s):
                    return (x * w).sin()
            elif where == "retained":
                y.retain_grad()
            else:
                y = counted(t, calls)(y)
            return y.sin()

        return f

    return make


@pytest.mark.parametrize("where", ["tensor", "node", "unpacking", "retained", "custom function"])
def test_who_watches_the_backward_sees_every_row(where):
    def script(t):
        calls = []
        verdict = gradcheck(t, hooked(where)(t, calls), (many(t), many(t)), check_undefined_grad=False)
        return verdict, len(calls)

    agree(script)


def test_hooks_of_leaves_and_wrong_gradients_are_found():
    def script(t):
        x, seen = many(t), []
        x.register_hook(lambda g: seen.append(1) or g * 1.5)
        return summary(attempt(lambda: gradcheck(t, lambda x: x.sin(), x))), len(seen)

    agree(script)


FUNCTIONS = {
    "pointwise": lambda t: (lambda x, w: (x * w).sin(), (many(t), many(t))),
    "to complex": lambda t: (lambda x: t.complex(x, x * x), (many(t),)),
    "of complex": lambda t: (lambda z: z * z, (t.complex(many(t, False), many(t, False) + 1).requires_grad_(),)),
    "views": lambda t: (lambda x: x.view(2, -1).t().flip(0)[1:], (many(t),)),
    "of no leaf": lambda t: (lambda x: x.exp(), (many(t) * 2,)),
    "unused": lambda t: (lambda x, w: x.cumsum(0), (many(t), many(t))),
    "of a view": lambda t: (lambda x: x * x, (many(t, False)[1:].requires_grad_(),)),
    "in place": lambda t: (lambda x: x.clone().mul_(x).add_(1), (many(t),)),
    "float32": lambda t: (lambda x: x * 3, (many(t, False).float().requires_grad_(),), {"eps": 1e-2, "atol": 1e-2}),
}


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double precision")
@pytest.mark.parametrize("case", FUNCTIONS)
def test_right(case):
    def script(t):
        f, inputs, *keywords = FUNCTIONS[case](t)
        before = [x.detach().clone() for x in inputs]
        verdict = gradcheck(t, f, inputs, check_grad_dtypes=True, **(keywords[0] if keywords else {}))
        return verdict, all(bool((a == b).all()) for a, b in zip(before, inputs, strict=True))

    agree(script)


def test_many_rows_at_once_are_the_rows_one_by_one(monkeypatch):
    x, w = many(torchlike), many(torchlike)
    out = (x.softmax(0) * w).cumsum(0)
    assert batches.is_plain(out)
    monkeypatch.setattr(batches, "_MOST", 50 * N)  # three batches, the last of which is not full
    at_once, seen = jacobian.jacobians(out, (x, w, many(torchlike)))
    assert len(seen) == 6
    monkeypatch.setattr(batches, "is_plain", lambda out: False)
    for a, b in zip(at_once, jacobian.jacobians(out, (x, w, many(torchlike)))[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_what_the_function_is_called_with():
    def script(t):
        x, calls = t.tensor([0.5, -1.0], dtype=t.float64, requires_grad=True), []

        def f(x):
            calls.append(x.tolist())
            return x.exp()

        return gradcheck(t, f, x), calls

    agree(script)


def test_inputs_are_put_back_when_the_function_raises():
    x, calls = many(torchlike, n=3), []

    def f(x):
        calls.append(1)
        if len(calls) == 4:
            raise ValueError("enough")
        return x.exp()

    before = x.tolist()
    with pytest.raises(ValueError, match="enough") as raised:
        gradcheck(torchlike, f, x)
    assert x.tolist() == before and raised.traceback  # put back at once, not when the frames of the traceback go


# -- One call of the function for many perturbations -----------------------------------------------------------------
def grown(t):
    """A function that differs from call to call."""
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    return f


def own_exp(t):
    class Exp(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].exp() * (1 + 1e-2 * (ctx.saved_tensors[0] > 2))

    return Exp.apply


def closed_over(t, f):
    x = many(t)
    return lambda given: f(x), (x,)


def of_parameters(t):
    layer, x = t.nn.Linear(1, N).double(), t.linspace(-1, 1, 3, dtype=t.float64)[:, None]
    with t.no_grad():
        for p in layer.parameters():
            p.copy_(many(t, grad=False).reshape(p.shape))
    return lambda *p: layer(x).tanh(), tuple(layer.parameters())


def into_a_buffer(t):
    total = t.zeros(N, dtype=t.float64)
    return lambda x: total.add_(x.detach()) * 0 + x * 2


# name: whether one call can stand for many; the function and its inputs
AT_ONCE = {
    "closure": (True, lambda t: closed_over(t, lambda x: x.sin() * 2)),
    "parameters": (True, of_parameters),
    "the same twice": (True, lambda t: (lambda a, b: a * b.sin(), (x := many(t), x))),
    "of complex": (True, FUNCTIONS["of complex"]),
    "in place": (True, FUNCTIONS["in place"]),
    "wrong at some": (True, lambda t: (own_exp(t), (many(t),))),
    "wrong everywhere": (True, lambda t: (lambda x: x.sin() + x.detach(), (many(t),))),
    "wrong by a closure": (True, lambda t: closed_over(t, lambda x: x.sin() + x.detach()[77] * 3)),
    "values on the host": (False, lambda t: (lambda x: x * float(x[1].detach()), (many(t),))),
    "a branch": (False, lambda t: (lambda x: x * 2 if x.sum() > 0 else x * 3, (many(t),))),
    "numpy": (False, lambda t: (lambda x: x * t.tensor(x.detach().numpy()), (many(t),))),
    "another at each call": (False, lambda t: (grown(t), (many(t),))),
    "into the input": (False, lambda t: (lambda x: x.data.mul_(2) + x, (many(t),))),
    "into a buffer": (False, lambda t: (into_a_buffer(t), (many(t),))),
    "batch norm": (False, lambda t: (t.nn.BatchNorm1d(2).double(), (many(t, False).reshape(-1, 2).requires_grad_(),))),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_one_call_for_many_perturbations(case, monkeypatch):
    many_at_once, make = AT_ONCE[case]
    plain, made = numerical.jacobians, []

    def seen(*args):
        made.append(plain(*args))
        return made[-1]

    def script(t):
        f, inputs = make(t)
        before = [x.detach().clone() for x in inputs]
        said = summary(attempt(lambda: gradcheck(t, f, inputs)))
        return said, case == "into the input" or all(bool((a == b).all()) for a, b in zip(before, inputs, strict=True))

    monkeypatch.setattr(numerical, "jacobians", seen)
    agree(script)
    if state.recorder is None:  # recorded calls are made one by one
        assert {found is not None for found in made} == {many_at_once}


def test_many_perturbations_in_several_calls_are_those_one_by_one(monkeypatch):
    x = many(torchlike)
    function = jacobian.Function(lambda x: ((x * x).cumsum(0), x.sum()), (x,), 1e-6)
    outputs = function()
    monkeypatch.setattr(numerical, "_MOST", 100 * N)  # three calls, the last of which is not full
    found = numerical.jacobians(function, x, outputs, [0, 1])
    assert state.recorder is not None or found is not None
    for a, b in zip(found or (), function.jacobians(x, outputs, [0, 1]), strict=found is not None):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
