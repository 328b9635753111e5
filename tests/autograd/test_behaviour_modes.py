"""Modes, threads and anomaly mode: scripts that do the same on both libraries."""

import asyncio
import threading
import warnings

from function_kit import told
from story_kit import story


@story
def test_inference_decor(t):

    @t.inference_mode()
    def f(x):
        return (x.is_inference(), t.is_inference_mode_enabled(), (x * 2).is_inference(), (x * 2).requires_grad)

    @t.inference_mode
    def g(x):
        return (x * 2).is_inference()

    @t.inference_mode(mode=False)
    def h(x):
        return (x * 2).is_inference()

    x = t.ones(2, requires_grad=True)
    return (f(x), g(x), h(x))


@story
def test_inference_inplace_normal(t):
    x = t.ones(2, requires_grad=True)
    y = x.clone()
    z = y * y
    with t.inference_mode():
        y.add_(1)
    return (y._version, told(lambda: z.sum().backward()), y.requires_grad)


@story
def test_inference_view_grad(t):
    x = t.ones(2, 2, requires_grad=True).clone()
    with t.inference_mode():
        v = x.view(-1)
    return (v.is_inference(), v.requires_grad, told(lambda: v.add_(1)), v.grad_fn)


@story
def test_inference_nested(t):
    r = []
    with t.inference_mode():
        r.append(t.is_grad_enabled())
        with t.enable_grad():
            r.append((t.is_grad_enabled(), (t.ones(2, requires_grad=True) * 2).requires_grad))
        with t.inference_mode(False):
            r.append(
                (t.is_grad_enabled(), t.is_inference_mode_enabled(), (t.ones(2, requires_grad=True) * 2).requires_grad)
            )
        with t.no_grad():
            r.append(t.is_inference_mode_enabled())
    return r


@story
def test_threads_backtrace(t):

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("something")

    x = t.ones(2, requires_grad=True)
    try:
        F.apply(x).sum().backward()
    except ValueError as e:
        import traceback

        s = "".join(traceback.format_exception(e))
        return "raise ValueError" in s


@story
def test_threads_gradmode(t):
    r = []

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            r.append(t.is_grad_enabled())
            return g

    x = t.ones(2, requires_grad=True)
    y = F.apply(x).sum()

    def th():
        with t.no_grad():
            y.backward(retain_graph=True)
            r.append(t.is_grad_enabled())
        t.autograd.grad(y, x, create_graph=True)
        r.append(t.is_grad_enabled())

    T = threading.Thread(target=th)
    T.start()
    T.join()
    return r


@story
def test_threads_middle(t):
    x = t.ones(5, 5, requires_grad=True)
    y = (x + 3) * (x + 4) * 0.5
    ts = [threading.Thread(target=lambda: (y * y).sum().backward(retain_graph=True)) for _ in range(4)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    return x.grad[0, 0]


@story
def test_threads_err_noretain(t):
    x = t.ones(5, 5, requires_grad=True)
    y = (x + 3) * (x + 4) * 0.5
    y = y.sum()
    y.backward()
    return told(lambda: y.backward())


@story
def test_a_coroutine(t):

    async def a():
        with t.no_grad():
            await asyncio.sleep(0)
            return t.is_grad_enabled()

    return (asyncio.run(a()), t.is_grad_enabled())


@story
def test_a_decorated_generator(t):

    @t.no_grad()
    def g():
        for _ in range(2):
            yield t.is_grad_enabled()

    r = []
    for v in g():
        r.append((v, t.is_grad_enabled()))
    return r


@story
def test_anomaly(t):
    a = t.autograd.detect_anomaly
    r = []
    x = t.ones(2, requires_grad=True)
    with a():
        y = (x - 1).sqrt() * 0
        r.append(told(lambda: y.sum().backward()))
    with a(check_nan=False):
        r.append(told(lambda: ((x - 1).sqrt() * 0).sum().backward()))
    with t.autograd.set_detect_anomaly(True):
        r.append((t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()))
    r.append(t.is_anomaly_enabled())
    return r


@story
def test_anomaly_nested(t):

    class S(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return D.apply(g) * x

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, g):
            return g * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = t.ones(2, requires_grad=True)
    with t.autograd.detect_anomaly():
        y = S.apply(x)
        (g,) = t.autograd.grad((y * y).sum(), x, create_graph=True)
        return told(lambda: g.sum().backward())


@story
def test_threads_hooks_grad(t):
    x = t.ones(3, requires_grad=True)
    r = []
    x.register_hook(lambda g: r.append(1))
    x.register_post_accumulate_grad_hook(lambda p: r.append(2))
    ts = [threading.Thread(target=lambda: (x * 2).sum().backward()) for _ in range(3)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    return (x.grad, sorted(r))


@story
def test_anomaly_hook(t):
    x = t.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * float("nan"))

    def f():
        with t.autograd.detect_anomaly():
            y.sum().backward()

    return (told(f), x.grad)


@story
def test_anomaly_metadata(t):
    with t.autograd.detect_anomaly():
        x = t.ones(2, requires_grad=True)
        y = x * 2
    m = y.grad_fn.metadata
    return (sorted(m), type(m.get("traceback_")).__name__)


@story
def test_anomaly_warning(t):
    x = t.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        try:
            with t.autograd.detect_anomaly():
                ((x - 1).sqrt() * 0).sum().backward()
        except RuntimeError:
            pass
    return [("Traceback of forward call" in str(i.message), "c4.py" in str(i.message)) for i in w]


@story
def test_grad_mode_repr(t):
    return (
        t.no_grad().__class__.__name__,
        isinstance(t.no_grad(), t.autograd.grad_mode.no_grad),
        t.set_grad_enabled(True).mode,
    )


@story
def test_version_after_ops(t):
    x = t.ones(2)
    x.add_(1)
    x.data.add_(1)
    x.detach().add_(1)
    x[0] = 3
    x.copy_(x)
    return (x._version, x.view(2)._version, x.data._version, x.clone()._version)
