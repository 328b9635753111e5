"""What tests of ``GradScaler`` begin with, in either library."""

import math

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
