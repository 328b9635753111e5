"""What tests of ``GradScaler`` begin with, in either library."""

import math

import numpy as np
from jax._src.array import ArrayImpl

INF, NAN = math.inf, math.nan


def scaler_of(t, scale=4.0, **options):
    return t.amp.GradScaler("cpu", init_scale=scale, **options)


def parameter(t, *numbers, dtype="float32"):
    return t.nn.Parameter(t.tensor(numbers or (1.0, 2.0), dtype=getattr(t, dtype)))


def network(t, inputs=3, outputs=2):
    """A small model of equal weights in both libraries, of few bits, so that sums of products are exact."""
    layers = [t.nn.Linear(inputs, 4), t.nn.Tanh(), t.nn.Linear(4, outputs)]
    model = t.nn.Sequential(*layers)
    with t.no_grad():
        for p in model.parameters():
            p.copy_(((t.arange(p.numel()) * 7 % 11 - 5) / 16).reshape(p.shape))
    return model


def batches(t, n=3, inputs=3, outputs=2):
    for i in range(n):
        x = ((t.arange(4 * inputs) * 5 + i) % 9 - 4) / 8
        y = ((t.arange(4 * outputs) * 3 + i) % 7 - 3) / 4
        yield x.reshape(4, inputs).clone(), y.reshape(4, outputs).clone()


def whole(scaler, *optimizers):
    """All that a scaler and optimizers hold."""
    return [scaler.state_dict(), *[o.state_dict()["state"] for o in optimizers]]


def with_gradients(t, *grads, dtype="float32", make=None, **options):
    scaler = scaler_of(t, **options)
    scaler.scale(t.ones(1))
    params = [parameter(t, *[1.0] * len(g), dtype=dtype) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = t.tensor(g, dtype=p.dtype)
    optimizer = (make or (lambda ps: t.optim.SGD(ps, lr=0.5)))(params)
    return scaler, optimizer, params


def counted_reads(monkeypatch):
    """A list that grows with each read of an array's numbers; eager kernels of little data are run by numpy, too."""
    found, value = [], ArrayImpl._value
    monkeypatch.setattr(ArrayImpl, "_value", property(lambda a: (found.append(a.shape), value.fget(a))[1]))
    for name in ("asarray", "array"):  # which read through a buffer on the CPU
        monkeypatch.setattr(np, name, _counting(getattr(np, name), found))
    return found


def counted_items(monkeypatch, t):
    """A list that grows with each number that ``Tensor.item`` reads, as ``bool`` and ``float`` do."""
    found = []
    for name in ("item", "__bool__", "__float__", "__int__"):
        read = getattr(t.Tensor, name)
        monkeypatch.setattr(t.Tensor, name, lambda x, read=read: (found.append(x.shape), read(x))[1])
    return found


def _counting(read, found):
    def counting(x, *args, **kwargs):
        if isinstance(x, ArrayImpl):
            found.append(x.shape)
        return read(x, *args, **kwargs)

    return counting
