"""Recorded execution gives what immediate execution gives, from one program per trace that comes back."""

import gc

import numpy as np
import pytest
from recorded_kit import WARM, agree, calls, compilations, computed

import torchlike as torch
from torchlike import nn
from torchlike._executor import recorded as executor
from torchlike._executor import trie
from torchlike._executor.pending import Pending

F = nn.functional


def trainer(model, optimizer, loss=F.mse_loss, shape=(4, 8), out=(4, 3)):
    """A function that trains a new model for some steps, and gives every loss and all that was learnt."""

    def run():
        net = model()
        opt = optimizer(net.parameters())
        losses = []
        for _ in range(WARM + 4):
            opt.zero_grad()
            value = loss(net(torch.randn(shape)), torch.randn(out))
            value.backward()
            opt.step()
            losses.append(value)
        return losses, list(net.state_dict().values()), [s for s in opt.state.values()]

    return run


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def normed():
    return nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.GELU(), nn.Linear(16, 3))


SGD, Adam = (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)), (lambda p: torch.optim.Adam(p, lr=0.01))


@pytest.mark.parametrize("model", [mlp, normed])
@pytest.mark.parametrize("optimizer", [SGD, Adam, lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True)])
def test_training(model, optimizer):
    agree(trainer(model, optimizer))


def test_a_convolution():
    def model():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))

    agree(trainer(model, SGD, shape=(2, 3, 8, 8), out=(2, 3)), atol=1e-5)


def test_clipping_and_schedules():
    def run():
        net, losses = mlp(), []
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
        for _ in range(WARM + 3):
            opt.zero_grad(set_to_none=False)
            loss = net(torch.randn(4, 8)).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            schedule.step()
            losses.append(loss)
        return losses

    agree(run)


def test_views_and_writes():
    def run():
        x = torch.zeros(6, 4)
        for i in range(WARM + 3):
            x[i % 6] += i
            x.t()[1].mul_(0.5)
            x[:, 2:].copy_(x[:, :2] + 1)
            row = x.view(-1)[3:9]
            row.add_(1)
        return x, row

    agree(run)


def test_gradients_of_gradients():
    def run():
        w, out = torch.ones(3, requires_grad=True), []
        for i in range(WARM + 3):
            (g,) = torch.autograd.grad((w**3 * i).sum(), w, create_graph=True)
            out.append(torch.autograd.grad((g * g).sum(), w)[0])
        return out

    agree(run)


def test_hooks():
    def run():
        w, seen = torch.ones(3, requires_grad=True), []
        for i in range(WARM + 3):
            y = w * i
            y.register_hook(lambda g: seen.append(g) or g * 2)
            y.sum().backward()
        return w.grad, seen

    agree(run)


def test_shapes_that_change():
    agree(lambda: [(torch.ones(n % 5 + 1) * n).cumsum(0) for n in range(40)])


def test_numbers_change_without_compilation(recorded):
    w = torch.ones(5)
    for i in range(WARM):
        (w * i + 1).tolist()
    with compilations() as seen:
        got = [(w * i + 1).tolist()[0] for i in range(20)]
    assert got == [i + 1.0 for i in range(20)] and not seen


def test_equal_numbers_are_separate_inputs(recorded):
    """Two arguments that happen to be one Python object may differ the next time."""
    w = torch.ones(2)
    for _ in range(WARM):
        assert (w * 2 + 2).tolist() == [4.0, 4.0]
    with compilations() as seen:
        assert (w * 3 + 5).tolist() == [8.0, 8.0]
    assert not seen


def test_random_numbers_are_inputs(recorded):
    drop, x = nn.Dropout(0.5), torch.ones(100)
    for _ in range(WARM):
        first = drop(x + 1) * 2
        assert calls() >= 3
        first.tolist()
    with compilations() as seen:
        assert len({tuple((drop(x + 1) * 2).tolist()) for _ in range(4)}) == 4
    assert not seen


# -- where a trace ends --------------------------------------------------------------------------------


def test_nothing_runs_until_a_number_is_needed(recorded):
    x = torch.ones(3)
    y = (x + 1) * 2
    assert calls() and not computed(y)
    assert y.shape == (3,) and y.dtype is torch.float32 and y.device.type == "cpu" and y.stride() == (1,)
    assert not computed(y)
    assert y.tolist() == [4.0, 4.0, 4.0]
    assert computed(y) and not calls()


READS = {
    "item": lambda y: y.sum().item(),
    "bool": lambda y: bool(y.sum() > 0),
    "print": str,
    "numpy": lambda y: y.numpy(),
    "asarray": np.asarray,
    "jax": lambda y: y.jax(),
    "nonzero": lambda y: y.nonzero(),
    "mask": lambda y: y[y > 0],
    "unique": lambda y: y.unique(),
    "int": lambda y: int(y.sum()),
    "format": lambda y: f"{y.sum():.2f}",
    "dlpack": lambda y: np.from_dlpack(y),
    "equal": lambda y: torch.equal(y, y + 1),
}


@pytest.mark.parametrize("read", READS)
def test_reads(recorded, read):
    y = torch.ones(3) * 2
    assert not computed(y)
    READS[read](y)
    assert computed(y)


def test_an_optimizer_step_ends_a_trace(recorded):
    net = mlp()
    opt = SGD(net.parameters())
    net(torch.ones(2, 8)).sum().backward()
    assert calls()
    opt.step()
    assert not calls() and all(computed(p) for p in net.parameters())


def test_a_module_called_without_grad_ends_a_trace(recorded):
    net = mlp()
    with torch.no_grad():
        y = net(torch.ones(2, 8))
        assert not calls() and computed(y)
        y = net[0](torch.ones(2, 8)) + 1
        assert not computed(y)
    y = net(torch.ones(2, 8))
    assert calls()


def test_a_module_inside_of_another_ends_nothing(recorded):
    seen = []

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            y = self.inner(x)
            seen.append(calls())
            return y

    with torch.no_grad():
        Outer()(torch.ones(2, 8))
    assert seen[0] > 0 and not calls()


def test_a_limit_of_length(recorded):
    x = torch.ones(2)
    for _ in range(executor.LENGTH * 2 + 10):
        x = x + 1
        assert calls() < executor.LENGTH
    assert x[0].item() == executor.LENGTH * 2 + 11


# -- programs ------------------------------------------------------------------------------------------


def test_a_trace_that_comes_back_is_one_program(recorded):
    x = torch.ones(7)

    def step():
        return ((x + 1) * 2 - x).sum()

    step().item()  # this compiles the single kernels
    with compilations() as seen:
        results = [step().item() for _ in range(10)]
    assert len(seen) == 1 and len(set(results)) == 1
    with compilations() as seen:
        for _ in range(10):
            step().item()
    assert not seen


def test_what_is_still_referenced_is_the_output(recorded):
    """One trace with different values alive at its end: each has its program, up to a few."""
    x = torch.ones(3)
    for keep in range(8):
        for _ in range(WARM):
            a, b, c = x + 1, x * 2, x - 3
            kept = [v for i, v in enumerate((a, b, c)) if keep >> i & 1]
            del a, b, c
            executor.cut()
            expected = [v for i, v in enumerate((2.0, 2.0, -2.0)) if keep >> i & 1]
            assert [v[0].item() for v in kept] == expected


def test_a_loop_that_never_repeats_compiles_nothing(recorded):
    x = torch.ones(3)
    ops = [lambda t: t + 1, lambda t: t * 2, lambda t: t - x, lambda t: t.neg()]
    for f in ops:
        f(x).tolist()
    order = np.random.RandomState(0).randint(0, 4, 3000)
    with compilations() as seen:
        y = x
        for i, k in enumerate(order):
            y = ops[k](y)
            if i % 37 == 0:
                y = y.clamp(-1, 1) if i == 0 else y
                y.tolist()
    assert len(seen) <= 5  # clamp, once, and four operators that are called often


def test_the_trie_is_bounded(recorded, monkeypatch):
    monkeypatch.setattr(trie, "POINTS", 200)
    x = torch.ones(3)
    hot = lambda: (x + 1) * 2  # noqa: E731
    for _ in range(WARM):
        hot().tolist()
    for n in range(400):
        y = x
        for k in range(6):
            y = y + 1 if n >> k & 1 else y * 2
        y.tolist()
        assert trie.TRIE.size <= 200
    with compilations() as seen:
        hot().tolist()
    assert not seen  # what leads to a program is kept


def test_programs_are_bounded(recorded, monkeypatch):
    monkeypatch.setattr(trie, "PROGRAMS", 4)
    x = torch.ones(3)
    for n in range(10):
        for _ in range(WARM):
            y = x
            for _ in range(n + 2):
                y = y + 1
            assert y[0].item() == n + 3
    assert len(trie.TRIE.programs) <= 4


def test_inputs_kept_alive_are_bounded(recorded, monkeypatch):
    monkeypatch.setattr(executor, "HELD", 100_000)
    (torch.ones(1) + 1).item()  # the next trace is bounded so
    total = torch.zeros(())
    for _ in range(100):
        total = total + torch.from_numpy(np.ones(2000, np.float32)).sum()  # 8,000 bytes that only the trace holds
        assert calls() < 60
    assert total.item() == 200_000


def test_inputs_that_others_hold_do_not_count(recorded, monkeypatch):
    monkeypatch.setattr(executor, "HELD", 100_000)
    (torch.ones(1) + 1).item()  # the next trace is bounded so
    weights = [torch.from_numpy(np.ones(2000, np.float32)) for _ in range(100)]
    total = sum(w.sum() for w in weights)
    assert calls() == 200 and total.item() == 200_000


# -- donation ------------------------------------------------------------------------------------------


def large_step():
    w = torch.ones(64, 64)

    def step():
        with torch.no_grad():
            w.mul_(0.5).add_(1)
        executor.cut()

    return w, step


def test_inputs_that_nobody_holds_are_overwritten(recorded):
    w, step = large_step()
    for _ in range(WARM):
        step()
    old = w._storage.value
    assert old.__class__ is Pending
    array = old.array
    pointer = array.unsafe_buffer_pointer()
    del old, array
    gc.collect()
    step()
    assert w._storage.value.array.unsafe_buffer_pointer() == pointer


def test_inputs_that_somebody_held_at_first_are_overwritten_later(recorded):
    w, step = large_step()
    for _ in range(WARM):
        held = w.jax()
        step()
    del held
    for _ in range(trie.AGAIN):
        step()
    (program,) = trie.TRIE.programs
    assert program.donated
    pointer = w._storage.value.array.unsafe_buffer_pointer()
    step()
    assert w._storage.value.array.unsafe_buffer_pointer() == pointer


@pytest.mark.parametrize("hold", [lambda w: w.jax(), lambda w: w.numpy().copy(), lambda w: np.asarray(w.jax()),
                                  lambda w: w.clone(), lambda w: (w * 1)])  # fmt: skip
def test_inputs_that_somebody_holds_are_not(recorded, hold):
    w, step = large_step()
    for i in range(WARM + 4):
        before = w[0, 0].item()
        held = hold(w)
        step()
        assert float(held[0, 0]) == before, i
    assert held is not None


def test_a_saved_value_is_not_overwritten(recorded):
    w = torch.ones(64, 64, requires_grad=True)
    for _ in range(WARM + 2):
        y = (w * w).sum()
        before, w = w, (w.detach() * 0.5 + 1).requires_grad_()
        executor.cut()
        y.backward()
        assert torch.equal(before.grad, before.detach() * 2)


def chain(length, x):
    y = x
    for i in range(length):
        y = y.sin() if i % 3 else y * 1.5 + x
    executor.cut()
    return y


@pytest.mark.parametrize("length", [120, 200])
def test_a_trace_that_keeps_everything_runs_in_pieces(recorded, length):
    x = torch.linspace(0.1, 0.9, 16).requires_grad_()
    with torch.set_execution("immediate"):
        expected = chain(length, x)
        (gradient,) = torch.autograd.grad(expected.sum(), x)
    for _ in range(WARM + 2):
        y = chain(length, x)
        torch.testing.assert_close(y, expected)
        (found,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(found, gradient)
    assert any(not program.whole and len(program.run.parts) > 4 for program in trie.TRIE.programs)


def test_pieces_that_do_the_same_are_compiled_once(recorded):
    x = torch.linspace(0.1, 0.9, 16).requires_grad_()

    def step():
        y = x
        for _ in range(200):
            y = y.sin()
        executor.cut()
        return y

    step()
    with compilations() as seen:
        for _ in range(WARM):
            step().sum().item()
    assert len(seen) <= 4  # the sum, and the first, a middle and the last piece


def test_a_row_with_many_inputs_runs_in_pieces(recorded):
    inputs = [torch.full((16,), 1 + i / 1000) for i in range(300)]
    with torch.set_execution("immediate"):
        expected = torch.stack(inputs).prod(0)

    def step():
        y = inputs[0]
        for x in inputs[1:]:
            y = y * x
        executor.cut()
        return y

    with compilations() as seen:
        for _ in range(WARM + 2):
            torch.testing.assert_close(step(), expected)
    assert any(not program.whole and len(program.run.parts) > 4 for program in trie.TRIE.programs)
    assert len(seen) < 12


def test_pieces_read_numbers_and_what_earlier_ones_made(recorded):
    x = torch.linspace(0.1, 0.9, 16).requires_grad_()

    def step(scale):
        first, kept, y = x * scale, [], x
        for i in range(90):
            y = (y + first) * 0.5 if i % 2 else y.mul(scale)
            kept += y.unbind()[:1] if i % 30 == 0 else []
        executor.cut()
        return [y, first, *kept]

    for i in range(WARM + 3):
        with torch.set_execution("immediate"):
            expected = step(1 + i / 10)
        for a, b in zip(step(1 + i / 10), expected, strict=True):
            torch.testing.assert_close(a, b)


def test_a_step_that_keeps_many_gradients_is_compiled(recorded):
    weights = [torch.full((4,), 0.5, requires_grad=True) for _ in range(100)]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step():
        x = torch.ones(4)
        for w in weights:
            x = x * w
        x.sum().backward()
        optimizer.step()

    for _ in range(WARM):
        step()
    assert trie.TRIE.programs and all(w.grad is not None for w in weights)
