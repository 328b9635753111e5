"""Behaviours of autograd, one small story each: grad modes and anomaly mode."""

import asyncio
import contextlib
import warnings

from both import attempt
from story_kit import leaf, said, story, warned


@story
def test_no_grad_and_enable_grad(t):
    x = leaf(t)
    seen = []
    with t.no_grad():
        seen.append((x * 2).requires_grad)
        with t.enable_grad():
            seen.append((x * 2).requires_grad)
        y = x.clone().requires_grad_()
        seen += [y.is_leaf, y.requires_grad, t.is_grad_enabled(), (y + 1).is_leaf]
    with t.set_grad_enabled(False):
        seen.append(x.exp().requires_grad)
    return seen, t.is_grad_enabled()


@story
def test_set_grad_enabled_as_a_function(t):
    t.set_grad_enabled(False)
    off = t.is_grad_enabled(), (leaf(t) * 2).requires_grad
    t.set_grad_enabled(True)
    return off, t.is_grad_enabled()


@story
def test_modes_as_decorators(t):
    @t.no_grad()
    def a(x):
        """doc of a"""
        return (x * 2).requires_grad

    @t.no_grad
    def b(x):
        return (x * 2).requires_grad

    @t.enable_grad()
    def c(x):
        return (x * 2).requires_grad

    @t.set_grad_enabled(False)
    def d(x):
        return (x * 2).requires_grad

    @t.inference_mode()
    def e(x):
        return (x * 2).is_inference()

    @t.inference_mode
    def f(x):
        return (x * 2).is_inference()

    x = leaf(t)
    with t.no_grad():
        inner = c(x)
    return [g(x) for g in (a, b, c, d, e, f)], inner, a.__name__, a.__doc__, t.is_grad_enabled()


@story
def test_a_decorated_function_calls_itself(t):
    @t.no_grad()
    def count(n):
        return [t.is_grad_enabled()] + (count(n - 1) if n else [])

    return count(3), t.is_grad_enabled()


@story
def test_modes_restored_after_errors(t):
    for mode in (t.no_grad, t.enable_grad, t.inference_mode, t.autograd.detect_anomaly):
        with contextlib.suppress(ValueError), mode():
            raise ValueError
    return t.is_grad_enabled(), t.is_inference_mode_enabled(), t.is_anomaly_enabled()


@story
def test_modes_and_generators(t):
    @t.no_grad()
    def off():
        for _ in range(2):
            yield t.is_grad_enabled()

    @t.enable_grad()
    def on():
        for _ in range(2):
            yield t.is_grad_enabled()

    seen = []
    for a, b in zip(off(), on(), strict=True):
        seen.append((a, b, t.is_grad_enabled()))
    with t.no_grad():
        for a, b in zip(off(), on(), strict=True):
            seen.append((a, b, t.is_grad_enabled()))
    return seen


@story
def test_modes_and_generators_that_receive(t):
    @t.no_grad()
    def talk():
        got = []
        try:
            while True:
                try:
                    got.append(((yield t.is_grad_enabled()), t.is_grad_enabled()))
                except ValueError as e:
                    got.append((str(e), t.is_grad_enabled()))
        finally:
            got.append(t.is_grad_enabled())
            seen.append(got)

    seen = []
    g = talk()
    seen.append(next(g))
    seen.append(g.send(5))
    seen.append(g.throw(ValueError("told")))
    seen.append(t.is_grad_enabled())
    g.close()
    return seen, t.is_grad_enabled()


@story
def test_modes_and_generators_that_return(t):
    @t.no_grad()
    def inner():
        got = yield 1
        return got, t.is_grad_enabled()

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    return next(g), g.send("x"), t.is_grad_enabled()


@story
def test_modes_and_coroutines(t):
    async def work():
        await asyncio.sleep(0)
        with t.no_grad():
            inside = t.is_grad_enabled()
        return inside, t.is_grad_enabled()

    return asyncio.run(work())


@story
def test_modes_on_classes(t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @t.no_grad()
        class A:
            def __init__(self):
                self.mode = t.is_grad_enabled()

            def method(self):
                return t.is_grad_enabled()

    a = A()
    return a.mode, a.method(), [w.category.__name__ for w in caught], isinstance(A, type)


@story
def test_modes_of_data(t):
    x = leaf(t)
    seen = []
    with t.no_grad():
        y = x * 2
        y.requires_grad_()
    (y * 3).sum().backward()
    seen += [y.grad, x.grad]
    with t.no_grad():
        v = x.view(3, 1)
    seen += [v.requires_grad, v.is_leaf, v._is_view()]
    return seen


@story
def test_wrong_arguments_of_modes(t):
    return [
        type(attempt(lambda: t.set_grad_enabled())).__name__,
        type(attempt(lambda: t.set_grad_enabled("on"))).__name__,
        type(attempt(lambda: t.no_grad(1, 2))).__name__,
        type(attempt(lambda: t.enable_grad(3))).__name__,
        type(attempt(lambda: t.inference_mode("x"))).__name__,
    ]


@story
def test_modes_can_be_entered_again(t):
    mode = t.no_grad()
    seen = []
    with mode:
        with mode:
            seen.append(t.is_grad_enabled())
        seen.append(t.is_grad_enabled())
    seen.append(t.is_grad_enabled())
    t.set_grad_enabled(True)
    other = mode.clone()
    with other:
        seen.append(t.is_grad_enabled())
    return seen, type(other).__name__


@story
def test_backward_in_no_grad_mode(t):
    x = leaf(t)
    y = (x**2).sum()
    with t.no_grad():
        y.backward(retain_graph=True)
        (g,) = t.autograd.grad(y, x, create_graph=True)
    return x.grad, g, g.requires_grad


@story
def test_detect_anomaly(t):
    def bad():
        x = leaf(t, -1, 2)
        with t.autograd.detect_anomaly():
            t.sqrt(x).sum().backward()

    def unchecked():
        x = leaf(t, -1, 2)
        with t.autograd.detect_anomaly(check_nan=False):
            t.sqrt(x).sum().backward()
        return x.grad

    return said(bad, "Function 'SqrtBackward0' returned nan values in its 0th output."), unchecked()


@story
def test_set_detect_anomaly(t):
    seen = [t.is_anomaly_enabled()]
    with t.autograd.set_detect_anomaly(True):
        seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
        with t.autograd.set_detect_anomaly(False):
            seen.append(t.is_anomaly_enabled())
    t.autograd.set_detect_anomaly(True, check_nan=False)
    seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
    t.autograd.set_detect_anomaly(False)
    return seen, t.is_anomaly_enabled()


@story
def test_anomaly_mode_warns_where_it_happened(t):
    def f():
        with t.autograd.detect_anomaly():
            x = leaf(t, 0.0)
            attempt((x / x.detach()).sum().backward)

    got = warned(f, "(Anomaly Detection has been enabled|Error detected in \\w+)")
    return got
