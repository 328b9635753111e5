"""Grad modes: as contexts and decorators of everything that can be called, nested, in threads, with errors."""

import asyncio
import functools
import inspect
import threading

import pytest
from both import agree, attempt
from story_kit import leaf, said, story, warned

MODES = {
    "no_grad": lambda t: t.no_grad,
    "no_grad()": lambda t: t.no_grad(),
    "enable_grad": lambda t: t.enable_grad,
    "enable_grad()": lambda t: t.enable_grad(),
    "set_grad_enabled(True)": lambda t: t.set_grad_enabled(True),
    "set_grad_enabled(False)": lambda t: t.set_grad_enabled(False),
    "inference_mode": lambda t: t.inference_mode,
    "inference_mode()": lambda t: t.inference_mode(),
    "inference_mode(False)": lambda t: t.inference_mode(False),
    "inference_mode(mode=True)": lambda t: t.inference_mode(mode=True),
}
OUTER = {
    "grad": lambda t: t.enable_grad(),
    "no_grad": lambda t: t.no_grad(),
    "inference": lambda t: t.inference_mode(),
}


def modes(t):
    """The modes of this thread."""
    return t.is_grad_enabled(), t.is_inference_mode_enabled()


@pytest.fixture(autouse=True)
def as_before():
    """A test that leaves a mode set fails."""
    import torch

    import torchlike

    yield
    assert modes(torch) == modes(torchlike) == (True, False)


# -- decorators ----------------------------------------------------------------------------------------


def function(t):
    def f(a, b=2):
        """doc"""
        return modes(t), a, b

    return f, lambda g: (g(1, b=3), g(a=5), g.__name__, g.__doc__, g.__wrapped__ is f)


def raising(t):
    def f():
        raise ValueError(str(modes(t)))

    return f, lambda g: said(g)


def generator(t):
    def f(n):
        """doc"""
        seen = []
        for i in range(n):
            before = modes(t)
            got = yield before, i
            seen.append((modes(t), got))
        return seen

    def use(g):
        steps = g(3)
        seen = [modes(t), next(steps), modes(t), steps.send("a"), modes(t), steps.send("b"), modes(t)]
        end = attempt(lambda: steps.send("c"))
        return seen, end.value, modes(t), g.__name__, g.__doc__, inspect.isgeneratorfunction(g), list(g(2))

    return f, use


def thrown_into(t):
    def f():
        try:
            yield modes(t)
        except ValueError as error:
            yield str(error), modes(t)
        finally:
            log.append(modes(t))

    log = []

    def use(g):
        steps = g()
        seen = [next(steps), steps.throw(ValueError("x")), modes(t), steps.close(), modes(t)]
        steps = g()
        seen += [next(steps), steps.close(), modes(t)]
        steps = g()
        seen += [next(steps), said(lambda: steps.throw(KeyError("y"))), modes(t)]
        steps = g()
        return seen, said(lambda: steps.throw(ValueError("early"))), log

    return f, use


def closing_refused(t):
    def f():
        try:
            yield 1
        except GeneratorExit:
            yield modes(t)

    def use(g):
        steps = g()
        next(steps)
        return said(steps.close), modes(t)

    return f, use


def switching_generator(t):
    def f():
        with t.no_grad():
            yield modes(t)
            yield modes(t)
        yield modes(t)
        t.set_grad_enabled(True)
        yield modes(t)
        yield modes(t)

    return f, lambda g: [(v, modes(t)) for v in g()]


def recursive(t):
    def f(n):
        return [modes(t)] + (again(n - 1) if n else [])

    again = f
    return f, lambda g: g(3)


def coroutine(t):
    async def f():
        await asyncio.sleep(0)
        return 1

    return f, lambda g: (asyncio.run(g()), modes(t))


def method(t):
    def f(self):
        return modes(t), type(self).__name__

    return f, lambda g: type("A", (), {"f": g})().f()


def partial(t):
    return functools.partial(lambda a: (a, modes(t)), 1), lambda g: g()


def callable_object(t):
    class A:
        def __call__(self):
            return modes(t)

    return A(), lambda g: g()


def klass(t):
    class A:
        def __init__(self, a):
            self.made = modes(t), a

        def f(self):
            return modes(t)

    return A, lambda g: (g(3).made, g(3).f(), type(g(3)) is A, inspect.isclass(g))


TARGETS = [function, raising, generator, thrown_into, closing_refused, switching_generator, recursive, coroutine,
           method, partial, callable_object, klass]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODES)
def test_decorated(name, target):
    def f(t):
        decorated, use = target(t)
        with t.enable_grad():
            g = MODES[name](t)(decorated)
            out = [modes(t)]
        for outer in OUTER.values():
            with outer(t):
                out.append(said(lambda: use(g)))
                out.append(modes(t))
        return out

    agree(f)


@pytest.mark.parametrize("name", MODES)
def test_decorating_a_class_warns(name):
    def f(t):
        mode = MODES[name](t)
        return warned(lambda: mode(type("A", (), {})), "Decorating classes is deprecated")

    agree(f)


@story
def test_a_decorator_can_be_used_again(t):
    mode = t.no_grad()
    f, g = mode(lambda: modes(t)), mode(lambda: (f(), modes(t)))
    return f(), g(), f(), modes(t)


@story
def test_methods_of_every_kind(t):
    class A:
        @t.no_grad()
        def f(self):
            return modes(t)

        @staticmethod
        @t.no_grad
        def g():
            return modes(t)

        @classmethod
        @t.set_grad_enabled(False)
        def h(cls):
            return modes(t), cls.__name__

        @property
        @t.inference_mode()
        def p(self):
            return modes(t)

    return A().f(), A.g(), A.h(), A().p


# -- contexts ------------------------------------------------------------------------------------------


@story
def test_nested(t):
    seen = []
    with t.no_grad():
        seen.append(modes(t))
        with t.enable_grad():
            seen.append(modes(t))
            with t.set_grad_enabled(False):
                seen.append(modes(t))
                with t.set_grad_enabled(mode=True), t.no_grad(), t.inference_mode():
                    seen.append(modes(t))
                    with t.enable_grad():
                        seen.append(modes(t))
                    with t.inference_mode(False):
                        seen.append(modes(t))
                        with t.no_grad():
                            seen.append(modes(t))
                    with t.no_grad(), t.inference_mode(False):
                        seen.append(modes(t))
                    seen.append(modes(t))
                seen.append(modes(t))
        seen.append(modes(t))
    return seen, modes(t)


@pytest.mark.parametrize("name", [n for n in MODES if "(" in n])
def test_an_exception_restores(name):
    def f(t):
        out = []
        for outer in OUTER.values():
            with outer(t):
                try:
                    with MODES[name](t) as entered:
                        out += [modes(t), entered]
                        raise KeyboardInterrupt
                except KeyboardInterrupt:
                    out.append(modes(t))
        return out

    agree(f)


@story
def test_one_context_entered_again(t):
    mode, seen = t.no_grad(), []
    for _ in range(2):
        with mode:
            seen.append(modes(t))
        seen.append(modes(t))
    return seen


@story
def test_what_a_context_tells_of_itself(t):
    with t.no_grad():
        switch = t.set_grad_enabled(True)
        seen = [modes(t), switch.mode, switch.prev, repr(switch), str(switch)]
        plain = t.no_grad()
        with plain:
            seen.append(plain.prev)
    inference = t.inference_mode(False)
    kinds = [type(c.clone()).__name__ for c in (plain, t.enable_grad(), inference)]
    return seen, kinds, inference.mode, inference.clone().mode


@story
def test_set_grad_enabled_as_a_function(t):
    seen = [modes(t), t.set_grad_enabled(False) is None, modes(t)]
    copy = t.set_grad_enabled(True).clone()
    return seen, modes(t), copy.mode, copy.prev


@pytest.mark.parametrize("mode", [0, 1, None, "a", [], [True], len])
def test_set_grad_enabled_wants_a_bool(mode):
    agree(lambda t: (said(lambda: t.set_grad_enabled(mode), r"must be bool, not \w+"), modes(t)))


@story
def test_a_decorating_switch_leaves_the_mode_alone(t):
    @t.set_grad_enabled(False)
    def f():
        return modes(t)

    seen = [modes(t), f(), modes(t)]
    with t.no_grad():
        g = t.set_grad_enabled(True)(lambda: modes(t))
        seen += [modes(t), g(), modes(t)]
    return seen


@story
def test_async_tasks_share_the_thread(t):
    async def f(log):
        log.append(modes(t))
        with t.no_grad():
            await asyncio.sleep(0)
            log.append(modes(t))

    async def main():
        log = []
        await f(log)
        await f(log)
        return log

    return asyncio.run(main()), modes(t)


@story
def test_a_decorated_async_generator(t):
    @t.no_grad()
    async def f():
        yield modes(t)
        yield modes(t)

    async def main():
        return [v async for v in f()]

    return asyncio.run(main()), modes(t)


def in_thread(f):
    """The result of ``f()`` in another thread."""
    out = []
    thread = threading.Thread(target=lambda: out.append(attempt(f)))
    thread.start()
    thread.join()
    return out[0]


@story
def test_another_thread_starts_afresh(t):
    with t.inference_mode(), t.autograd.set_multithreading_enabled(False):
        return in_thread(lambda: (modes(t), t.autograd.is_multithreading_enabled(), (leaf(t) * 2).requires_grad))


@story
def test_another_thread_changes_only_itself(t):
    return in_thread(lambda: (t.set_grad_enabled(False) is None, modes(t))), modes(t)


# -- what is recorded ----------------------------------------------------------------------------------


@story
def test_what_requires_grad(t):
    with t.no_grad():
        x = t.ones(2, requires_grad=True)
        y = t.ones(2).requires_grad_()
        z = x + 1
        seen = [x.requires_grad, y.requires_grad, z.requires_grad, z.is_leaf, t.nn.Parameter(z).requires_grad]
        z.requires_grad_()
        x += 1
        view = x[:1]
        seen += [z.requires_grad, z.is_leaf, x.requires_grad, x.is_leaf, x._version, view.requires_grad, view.is_leaf]
        view.mul_(2)
    return seen, x, view.requires_grad, x._version


@story
def test_a_tensor_from_no_grad_is_a_constant(t):
    x = leaf(t)
    with t.no_grad():
        y = x * 2
    (x * y).sum().backward()
    return y, x.grad


@story
def test_enable_grad_within_no_grad_records(t):
    x = leaf(t)
    with t.no_grad():
        with t.enable_grad():
            y = x * 2
        z = y * 3
    y.sum().backward()
    return y.requires_grad, y.is_leaf, z.requires_grad, x.grad


@story
def test_in_place_without_recording(t):
    x = leaf(t)
    y = x * 2
    with t.no_grad():
        y.mul_(3)
        y[0] = 7.0
    y.sum().backward()
    return y, y.requires_grad, x.grad


@story
def test_out_without_recording(t):
    x, out = leaf(t), t.empty(3, dtype=t.float64)
    with t.no_grad():
        t.mul(x, 2, out=out)
        changed = t.mul(out, 2, out=x)
    why = "don't support automatic differentiation"
    refused = [said(lambda: t.mul(x, 2, out=out), why), said(lambda: t.mul(out, 2, out=x), why)]
    return out, x, changed.requires_grad, refused


@story
def test_backward_runs_in_no_grad(t):
    x = leaf(t)
    y = (x**3).sum()
    with t.no_grad():
        y.backward(retain_graph=True)
        (g,) = t.autograd.grad(y, x, create_graph=True)
    return x.grad, g.requires_grad, t.autograd.grad(g.sum(), x)


@story
def test_the_mode_within_backward(t):
    x, seen = leaf(t), []
    y = x * 2
    y.register_hook(lambda g: seen.append((modes(t), g.requires_grad, (g * x).requires_grad)))
    z = (y * y).sum()
    for outer in OUTER.values():
        with outer(t):
            z.backward(retain_graph=True)
            t.autograd.grad(z, x, create_graph=True)
        seen.append(modes(t))
    return seen


@story
def test_a_hook_may_record(t):
    x, log = leaf(t), []

    def hook(g):
        with t.enable_grad():
            a = g.detach().requires_grad_()
            log.append(t.autograd.grad((a * a).sum(), a))
        return g * 2

    x.register_hook(hook)
    (x * x).sum().backward()
    return x.grad, log


@story
def test_an_error_in_backward_restores_the_mode(t):
    x = leaf(t)
    y = x * 2

    def hook(g):
        raise ValueError("no")

    y.register_hook(hook)
    with t.no_grad():
        error = said(lambda: y.sum().backward())
    with t.enable_grad():
        z = y.sum()
        first, during = said(lambda: z.backward()), modes(t)
    return error, first, during, modes(t), x.grad


# -- switches that change nothing ----------------------------------------------------------------------


@story
def test_set_multithreading_enabled(t):
    ask, switch = t.autograd.is_multithreading_enabled, t.autograd.set_multithreading_enabled
    seen = [ask()]
    with switch(False) as entered:
        seen += [ask(), entered]
        with switch(True):
            seen.append(ask())
        seen.append(ask())
        x = leaf(t)
        (x * x).sum().backward()
    seen.append(ask())
    plain = switch(False)
    seen += [ask(), plain.mode, plain.prev]
    switch(True)
    decorated = switch(False)(lambda: ask())
    seen += [ask(), decorated(), ask()]
    switch(True)
    return seen, x.grad


@story
def test_force_original_view_tracking(t):
    ask, switch = t.autograd.is_view_replay_enabled, t.autograd.grad_mode._force_original_view_tracking
    seen = [ask()]
    with switch(True):
        seen.append(ask())
        x = leaf(t)
        y = x.clone()
        y[1:].mul_(2)
        y.sum().backward()
    plain = switch(True)
    seen += [ask(), plain.mode, plain.prev]
    switch(False)
    decorated = switch(True)(lambda: ask())
    return seen, ask(), decorated(), ask(), x.grad


NAMES = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode"]


@pytest.mark.parametrize("name", NAMES)
def test_one_class_under_every_name(name):
    agree(lambda t: getattr(t, name) is getattr(t.autograd, name) is getattr(t.autograd.grad_mode, name))
