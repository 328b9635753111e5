"""A step overwrites parameters and state that nobody else holds, and no others."""

import threading

import numpy as np
import pytest
from both import agree

import torchlike as torch
from torchlike._executor import fused


@pytest.fixture(autouse=True, params=["alone", "beside another thread"])
def threads(request):
    """While another thread lives, whatever it does, what is overwritten is lent (``fused.Loan``)."""
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    if request.param != "alone":
        other.start()
    yield
    end.set()
    if other.ident:
        other.join()


def stepped(optimizer, **options):
    """(parameters, optimizer) after two steps, at which all state exists."""
    params = [torch.nn.Parameter(torch.ones(64, 64) * (i + 1)) for i in range(3)]
    for p in params:
        p.grad = torch.full((64, 64), 0.5)
    optimizer = optimizer(params, lr=0.1, **options)
    for _ in range(2):
        optimizer.step()
    return params, optimizer


def held(params, optimizer):
    """The arrays of parameters and state."""
    states = [s for p in params for s in optimizer.state[p].values() if isinstance(s, torch.Tensor) and s.ndim]
    return [t._storage.value for t in (*params, *states)]


CASES = pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Rprop"])


@CASES
@pytest.mark.parametrize("mode", ["immediate", "recorded"])
def test_memory_is_used_again(name, mode):
    with torch.set_execution("immediate"), torch.set_execution(mode):
        params, optimizer = stepped(getattr(torch.optim, name))
        before = [fused.settled(v).unsafe_buffer_pointer() for v in held(params, optimizer)]
        optimizer.step()
        assert [fused.settled(v).unsafe_buffer_pointer() for v in held(params, optimizer)] == before


HOLD = pytest.mark.parametrize("hold", [lambda p: p.jax(), lambda p: p.detach().numpy().copy(),
                                        lambda p: np.asarray(p.jax()), lambda p: p.detach().clone(),
                                        lambda p: [p.jax()]])  # fmt: skip


@HOLD
@pytest.mark.parametrize("mode", ["immediate", "recorded"])
def test_what_somebody_holds_stays(hold, mode):
    with torch.set_execution("immediate"), torch.set_execution(mode):
        params, optimizer = stepped(torch.optim.Adam)
        for p in params:
            before = p[0, 0].item()
            kept = hold(p)
            optimizer.step()
            kept = kept[0] if isinstance(kept, list) else kept
            assert float(kept[0, 0]) == before != p[0, 0].item()


def test_state_that_somebody_holds_stays():
    (p, *_), optimizer = stepped(torch.optim.Adam)
    average = optimizer.state[p]["exp_avg"]
    kept, before = average.jax(), average[0, 0].item()
    optimizer.step()
    assert float(kept[0, 0]) == before != average[0, 0].item()


def test_numbers_of_the_user_stay():
    numbers = np.ones((64, 64), np.float32)
    p = torch.from_numpy(numbers).requires_grad_()
    p.grad = torch.ones(64, 64)
    optimizer = torch.optim.SGD([p], lr=0.5)
    before = torch.from_numpy(numbers)
    optimizer.step()
    assert numbers[0, 0] in (1.0, 0.5) and before[0, 0].item() == numbers[0, 0] and p[0, 0].item() == 0.5


def test_a_saved_value_is_not_used_after_the_step():
    (p, *_), optimizer = stepped(torch.optim.SGD)
    loss = (p * p).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_that_share_an_array():
    p = torch.nn.Parameter(torch.ones(64, 64))
    q = torch.nn.Parameter(torch.empty(64, 64))
    q._storage.value = p._storage.value
    for t in (p, q):
        t.grad = torch.ones(64, 64)
    torch.optim.SGD([p], lr=0.5).step()
    assert q[0, 0].item() == 1 and p[0, 0].item() == 0.5


@pytest.mark.parametrize("at", [0, 1, 2, 3, 5, 8])
def test_an_interrupted_step_is_whole(at, monkeypatch):
    params, optimizer = stepped(torch.optim.Adam)
    expected = [p - 0.1 for p in params]  # Adam's step under a constant gradient is lr
    real, calls = torch.optim._group.write, []

    def write(t, value):
        calls.append(t)
        if len(calls) == at + 1:
            raise KeyboardInterrupt
        real(t, value)

    monkeypatch.setattr(torch.optim._group, "write", write)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    for p, e in zip(params, expected, strict=True):
        assert torch.allclose(p, e, atol=1e-4)
        assert optimizer.state[p]["step"].item() == 3


def rows(t, views):
    base = t.arange(8.0)
    return base, [v.requires_grad_() for v in views(base)]


SHARED = {
    "a tensor and its part": lambda b: (b, b.detach()[:4]),
    "a part and the whole": lambda b: (b.detach()[:4], b),
    "two that overlap": lambda b: (b.detach()[:6], b.detach()[4:]),
    "two apart": lambda b: (b.detach()[:4], b.detach()[4:]),
    "of other strides": lambda b: (b.detach().view(2, 4).t(), b.detach()[::2]),
}


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adafactor"])
@pytest.mark.parametrize("views", SHARED.values(), ids=list(SHARED))
def test_parameters_that_share_memory(name, views):
    def code(t):
        base, params = rows(t, views)
        optimizer = getattr(t.optim, name)(params, lr=0.1)
        for _ in range(3):
            for p in params:
                p.grad = t.ones_like(p)
            optimizer.step()
        return base.detach(), *[p.detach() for p in params]

    agree(code)


@pytest.mark.parametrize("views", SHARED.values(), ids=list(SHARED))
def test_gradients_that_share_memory(views):
    def code(t):
        grads = [g.detach() for g in rows(t, views)[1]]
        params = [t.zeros_like(g).requires_grad_() for g in grads]
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        norm = t.nn.utils.clip_grad_norm_(params, 1.0)
        t.nn.utils.clip_grads_with_norm_(params, 0.5, norm)
        t.nn.utils.clip_grad_value_(params, 0.1)
        return norm, *grads

    agree(code)
