"""Checkpointing: scripts that do the same on both libraries."""

import contextlib
import functools
import gc
import weakref

from function_kit import told
from story_kit import story


@story
def test_checkpoint_basic(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    for ur in (True, False):
        m = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.ReLU(), t.nn.Linear(3, 2))
        with t.no_grad():
            for p in m.parameters():
                p.copy_(t.arange(p.numel()).reshape(p.shape) * 0.1 - 0.3)
        x = t.ones(2, 3, requires_grad=True)
        C(m, x, use_reentrant=ur).sum().backward()
        r.append([p.grad.clone() for p in m.parameters()] + [x.grad])
    return r


@story
def test_checkpoint_kwargs(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    return (
        told(lambda: C(lambda a, *, k: a * k, x, k=2.0, use_reentrant=True)),
        told(lambda: C(lambda a, *, k: a * k, x, k=2.0, use_reentrant=False)),
        told(lambda: C(lambda a: a, x, use_reentrant=True, context_fn=lambda: (contextlib.nullcontext(),) * 2)),
        told(lambda: C(lambda a: a, x, use_reentrant=True, determinism_check="none")),
        told(lambda: C(lambda a: a, x, use_reentrant=True, debug=True)),
        told(lambda: C(lambda a: a, x, use_reentrant=False, determinism_check="foo")),
    )


@story
def test_checkpoint_inputs_nograd(t):
    C = t.utils.checkpoint.checkpoint
    w = t.ones(2, requires_grad=True)
    x = t.ones(2)
    r = []
    o = C(lambda a: a * w, x, use_reentrant=False)
    r.append(o.requires_grad)
    o.sum().backward()
    r.append(w.grad)
    o = C(lambda a: a * w, x, use_reentrant=True)
    r.append(o.requires_grad)
    return r


@story
def test_checkpoint_twice(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    o = C(lambda a: a.sin().exp(), x, use_reentrant=False)
    o.sum().backward(retain_graph=True)
    o.sum().backward()
    return (x.grad, told(lambda: o.sum().backward()))


@story
def test_checkpoint_graph_access(t):
    C = t.utils.checkpoint.checkpoint
    n = [0]

    def f(a):
        n[0] += 1
        return a.sin().exp()

    x = t.ones(2, requires_grad=True)
    o = C(f, x, use_reentrant=False)
    r = [o.grad_fn._saved_result]
    r.append(list(n))
    r.append(o.grad_fn._saved_result)
    r.append(list(n))
    o.sum().backward()
    r.append(list(n))
    return r


@story
def test_checkpoint_early(t):
    C = t.utils.checkpoint.checkpoint
    n = [0]
    x = t.ones(2, requires_grad=True)
    r = []

    def f(a):
        b = a.sin()
        b = b.exp()
        n[0] += 1
        return b + 1

    C(f, x, use_reentrant=False).sum().backward()
    r.append(n[0])
    n[0] = 0
    with t.utils.checkpoint.set_checkpoint_early_stop(False):
        o = C(f, x, use_reentrant=False)
    o.sum().backward()
    r.append(n[0])
    n[0] = 0
    C(f, x, use_reentrant=False, early_stop=False).sum().backward()
    r.append(n[0])
    return r


@story
def test_checkpoint_reentrant_backwards(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)

    def f(a):
        x = a.sin().cos()
        o = x.sin().sum()
        (g,) = t.autograd.grad(o, a, create_graph=True)
        return x * g

    a = t.tensor([1.0], requires_grad=True, dtype=t.float64)
    o = C(f, a)
    o.sum().backward()
    return a.grad


@story
def test_checkpoint_inner_backward(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)

    def f(a):
        x = a.sin().cos()
        o = x.sin().sum()
        o.backward(retain_graph=True)
        return x

    a = t.tensor([1.0], requires_grad=True, dtype=t.float64)
    o = C(f, a)
    r = [a.grad.clone()]
    told(lambda: o.sum().backward())
    r.append(a.grad)
    return r


@story
def test_checkpoint_rng(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    for ur in (True, False):
        for p in (True, False):
            t.manual_seed(0)
            x = t.ones(1000, requires_grad=True)
            o = C(lambda a: t.nn.functional.dropout(a, 0.5) * a, x, use_reentrant=ur, preserve_rng_state=p)
            t.rand(3)
            o.sum().backward()
            ok = bool(((o != 0) * 2 * 2.0 == x.grad).all())
            r.append(ok)
    return r


@story
def test_checkpoint_detached(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []
    for ur in (True, False):
        d = C(lambda a: a * 2, x.detach(), use_reentrant=ur)
        r.append(d.requires_grad)
        o = C(lambda a: (a * 2).detach(), x, use_reentrant=ur)
        r.append(o.requires_grad)
        r.append(told(lambda o=o: o.sum().backward()))
    return r


@story
def test_checkpoint_valid(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    y = C(lambda a: a.exp(), x, use_reentrant=True).sum()
    return (told(lambda: t.autograd.grad(y, x)), told(lambda: y.backward(inputs=[x])), (y.backward(), x.grad)[1])


@story
def test_checkpoint_custom_fn(t):

    class D(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (g * y, g * x)

    C = t.utils.checkpoint.checkpoint
    x = t.tensor([3.0], requires_grad=True)
    y = t.tensor([2.0], requires_grad=True)
    o = C(lambda a, b: D.apply(a, b).exp(), x, y, use_reentrant=False)
    o.sum().backward()
    return (x.grad, y.grad)


@story
def test_checkpoint_ctxfn(t):
    C = t.utils.checkpoint.checkpoint
    log = []

    @contextlib.contextmanager
    def cm(n):
        log.append("in " + n)
        yield
        log.append("out " + n)

    x = t.ones(2, requires_grad=True)
    o = C(lambda a: a.sin().exp(), x, use_reentrant=False, context_fn=lambda: (cm("f"), cm("r")))
    log.append("-")
    o.sum().backward()
    return log


@story
def test_checkpoint_memory(t):
    C = t.utils.checkpoint.checkpoint
    refs = []

    def f(a):
        b = a.sin()
        refs.append(weakref.ref(b))
        return b.exp()

    x = t.ones(2, requires_grad=True)
    o = C(f, x, use_reentrant=False)
    gc.collect()
    return (refs[0]() is None, o)


@story
def test_checkpoint_warn(t):
    x = t.ones(2, requires_grad=True)
    return (
        t.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=True),
        t.utils.checkpoint.checkpoint(lambda a: a * 2, t.ones(2), use_reentrant=True),
    )


@story
def test_checkpoint_two_backward_same(t):
    C = functools.partial(t.utils.checkpoint.checkpoint, use_reentrant=False)
    x = t.ones(2, requires_grad=True)
    y = C(lambda a: a.exp().sin(), x)
    z = C(lambda a: a.exp().sin(), y)
    (y + z).sum().backward()
    return x.grad


@story
def test_checkpoint_none_args(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    r = []
    for ur in (True, False):
        o = C(lambda a, b, c: (a * 2, None, c), x, None, "s", use_reentrant=ur)
        o[0].sum().backward()
        r.append((o[1], o[2], x.grad.clone()))
    return r


@story
def test_checkpoint_dict_out(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    o = C(lambda d: {"y": d["x"].exp().sin()}, {"x": x}, use_reentrant=False)
    o["y"].sum().backward()
    return x.grad


@story
def test_checkpoint_tuple_reentrant(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    y = t.ones(2, requires_grad=True)
    o = C(lambda a, b: (a * b, a + b), x, y, use_reentrant=True)
    (o[0] + o[1]).sum().backward()
    return (x.grad, y.grad, [q.grad_fn for q in o])


@story
def test_checkpoint_nograd_ctx(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    with t.no_grad():
        return [C(lambda a: a * 2, x, use_reentrant=u).requires_grad for u in (True, False)]


@story
def test_checkpoint_grad_mode_inside(t):
    C = t.utils.checkpoint.checkpoint
    r = []
    x = t.ones(2, requires_grad=True)
    for u in (True, False):
        C(lambda a: (r.append(t.is_grad_enabled()), a.exp())[1], x, use_reentrant=u).sum().backward()
    return r


@story
def test_checkpoint_inplace_inside(t):
    C = t.utils.checkpoint.checkpoint
    x = t.ones(2, requires_grad=True)
    C(lambda a: (a * 2).exp_().mul_(3), x, use_reentrant=False).sum().backward()
    return x.grad


@story
def test_checkpoint_param_used_in_out(t):
    C = t.utils.checkpoint.checkpoint
    w = t.ones(2, requires_grad=True)
    x = t.ones(2, requires_grad=True)
    o = C(lambda a: (a * w).exp(), x, use_reentrant=False)
    (o * w).sum().backward()
    return (w.grad, x.grad)


def _drawing(t):
    """Functions of a (3, 2, 6) tensor that draw random numbers, each as a module."""

    class First(t.nn.Module):
        def __init__(self, inner, times=1):
            super().__init__()
            self.inner, self.times = inner, times

        def forward(self, x):
            return self.inner(*[x] * self.times)[0]

    nn = t.nn
    recurrent = [
        First(kind(6, 6, num_layers=2, dropout=0.3, bidirectional=twice))
        for kind in (nn.LSTM, nn.GRU, nn.RNN)
        for twice in (False, True)
    ]
    attention = First(nn.MultiheadAttention(6, 2, dropout=0.3), 3)
    layer = nn.TransformerEncoderLayer(6, 2, 8)
    # PyTorch computes the gradient of RReLU from memory that nothing was written to
    return [*recurrent, attention, layer, nn.Dropout(), nn.Dropout1d(), nn.AlphaDropout()]


@story
def test_checkpoint_draws_again_what_it_drew(t):
    t.manual_seed(0)
    seen = []
    for module in _drawing(t):
        module.double()
        for step in range(3):
            x = t.linspace(-1, 1, 36, dtype=t.float64).reshape(3, 2, 6).requires_grad_()
            module.zero_grad()
            y = t.utils.checkpoint.checkpoint(module, x * (step + 1), use_reentrant=False)
            y.exp().sum().backward()
            seen += [y.detach(), x.grad]
    return seen


@story
def test_checkpoint_ends_with_statistics(t):
    """The second run moves the statistics of a normalization that is the last to save something."""
    found = []
    for reentrant in (True, False):
        for make in (
            lambda: t.nn.BatchNorm1d(3),
            lambda: t.nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        ):
            norm = make()
            x = (t.arange(24.0).reshape(2, 3, 4) / 7).requires_grad_()
            t.utils.checkpoint.checkpoint(norm, x, use_reentrant=reentrant).pow(3).sum().backward()
            found += [norm.running_mean, norm.running_var, norm.num_batches_tracked]
    return found
