"""The examples of PyTorch's note on mixed precision with ``GradScaler``: eager, recorded, and as one program."""

import numpy as np
import pytest
import torch
from scaler_kit import INF, batches, counted_items, counted_reads, network, scaler_of

import torchlike


class Run:
    """What an example needs, and what it leaves. ``step(x, y)`` or ``step(x, y, last)`` is one iteration of it."""

    def __init__(self, t, dtype=None, optimizer=None, **options):
        self.t, self.dtype = t, dtype and getattr(t, dtype)
        self.model = network(t)
        make = optimizer or (lambda t, p: t.optim.SGD(p, lr=0.125, momentum=0.5))
        self.optimizer = make(t, self.model.parameters())
        self.scaler = scaler_of(t, 1024.0, growth_interval=2, **options)

    def autocast(self):
        return self.t.autocast(device_type="cpu", dtype=self.dtype, enabled=self.dtype is not None)

    def loss(self, x, y):
        with self.autocast():
            return self.t.nn.functional.mse_loss(self.model(x), y)

    def left(self):
        """What training has left: numbers of the model, and what the scaler holds."""
        numbers = [x for p in self.model.parameters() for x in (p, p.grad) if x is not None]
        return np.concatenate([x.detach().double().flatten().numpy() for x in numbers]), self.scaler.state_dict()


def typical(run):
    def step(x, y):
        run.optimizer.zero_grad()
        loss = run.loss(x, y)
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        return loss

    return step


def clipping(run):
    def step(x, y):
        run.optimizer.zero_grad()
        run.scaler.scale(run.loss(x, y)).backward()
        run.scaler.unscale_(run.optimizer)
        run.t.nn.utils.clip_grad_norm_(run.model.parameters(), 0.25)
        run.scaler.step(run.optimizer)
        run.scaler.update()

    return step


def accumulation(run):
    def step(x, y, last):
        run.scaler.scale(run.loss(x, y) / 2).backward()
        if last:
            run.scaler.step(run.optimizer)
            run.scaler.update()
            run.optimizer.zero_grad()

    return step


def penalty(run):
    def step(x, y):
        run.optimizer.zero_grad()
        loss = run.loss(x, y)
        scaled = run.t.autograd.grad(run.scaler.scale(loss), list(run.model.parameters()), create_graph=True)
        inverse = 1.0 / run.scaler.get_scale()
        grads = [p * inverse for p in scaled]
        with run.autocast():
            norm = 0
            for grad in grads:
                norm += grad.pow(2).sum()
            loss = loss + norm.sqrt()
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)
        run.scaler.update()

    return step


def several(run):
    t, scaler = run.t, run.scaler
    models = run.model, network(t)
    optimizers = run.optimizer, t.optim.Adam(models[1].parameters(), lr=0.125)

    def step(x, y):
        for o in optimizers:
            o.zero_grad()
        with run.autocast():
            first, second = models[0](x), models[1](x)
            losses = t.nn.functional.mse_loss(2 * first + 3 * second, y), t.nn.functional.mse_loss(first - second, y)
        scaler.scale(losses[0]).backward(retain_graph=True)
        scaler.scale(losses[1]).backward()
        scaler.unscale_(optimizers[0])
        for o in optimizers:
            scaler.step(o)
        scaler.update()

    return step


def trained(t, example, dtype, compile=None, n=4):
    run = Run(t, dtype)
    step = example(run)
    step = step if compile is None else compile(step)
    for i, batch in enumerate(batches(t, n)):
        step(*batch, *[i % 2 == 1] * (example is accumulation))
    return (*run.left(), step)


def whole(f):
    return torchlike.compile(f, fullgraph=True)


EXAMPLES = [typical, clipping, accumulation, penalty, several]
TOLERANCE = {"rtol": 0.02, "atol": 0.004}  # some roundings of the lower precision


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_note(example, dtype):
    theirs, state, _ = trained(torch, example, dtype)
    ours, held, _ = trained(torchlike, example, dtype)
    assert held == state
    np.testing.assert_allclose(ours, theirs, **TOLERANCE)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_note_as_one_program(example, dtype):
    """That of the penalty reads the scale on the way, and accumulation takes one for each kind of iteration."""
    theirs, state, _ = trained(torch, example, dtype)
    ours, held, step = trained(torchlike, example, dtype, torchlike.compile if example is penalty else whole)
    assert held == state and (example in (penalty, accumulation) or step.count == 1)
    np.testing.assert_allclose(ours, theirs, **TOLERANCE)


# -- the device decides ------------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch):
    return counted_reads(monkeypatch)


OPTIMIZERS = {
    "SGD": lambda t, p: t.optim.SGD(p, lr=0.125),
    "momentum": lambda t, p: t.optim.SGD(p, lr=0.125, momentum=0.5, nesterov=True),
    "dampening": lambda t, p: t.optim.SGD(p, lr=0.125, momentum=0.5, dampening=0.25),
    "Adam": lambda t, p: t.optim.Adam(p, lr=0.125, amsgrad=True),
    "AdamW": lambda t, p: t.optim.AdamW(p, lr=0.125),
    "Adamax": lambda t, p: t.optim.Adamax(p, lr=0.125),
    "NAdam": lambda t, p: t.optim.NAdam(p, lr=0.125),
    "RAdam": lambda t, p: t.optim.RAdam(p, lr=0.125),
    "Adagrad": lambda t, p: t.optim.Adagrad(p, lr=0.125),
    "Adadelta": lambda t, p: t.optim.Adadelta(p),
    "Adafactor": lambda t, p: t.optim.Adafactor(p),
    "RMSprop": lambda t, p: t.optim.RMSprop(p, lr=0.125, momentum=0.5, centered=True),
    "Rprop": lambda t, p: t.optim.Rprop(p),
    "ASGD": lambda t, p: t.optim.ASGD(p, lr=0.125),
    "two groups": lambda t, p: t.optim.Adam([{"params": [q], "lr": 0.125 / (i + 1)} for i, q in enumerate(p)]),
}
LATE = (True, False, False, True, True, False, False)


def skipping(t, make, bad, compile=None):
    """(losses, scale, count) of each step, parameters and state after steps of which some are ``bad``."""
    run = Run(t, optimizer=make)
    step, trail = typical(run), []
    step = step if compile is None else compile(step)
    for (x, y), infinite in zip(batches(t, len(bad)), bad, strict=True):
        if infinite:
            x = x * INF
        step(x, y)
        trail.append((run.scaler.get_scale(), run.scaler._get_growth_tracker()))
    state = run.optimizer.state_dict()["state"].values()
    values = [v for s in state for _, v in sorted(s.items()) if isinstance(v, t.Tensor)]
    numbers = [x.detach().double().flatten().numpy() for x in (*run.model.parameters(), *values)]
    return trail, np.concatenate(numbers), step


@pytest.mark.once
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_skipped_steps_in_a_program(name):
    for bad in (LATE, LATE[1:]):
        trail, numbers, _ = skipping(torch, OPTIMIZERS[name], bad)
        found, ours, step = skipping(torchlike, OPTIMIZERS[name], bad, whole)
        assert found == trail and step.count == 1
        np.testing.assert_allclose(ours, numbers, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_skipped_steps_of_fused_optimizers(name):
    def make(t, p):
        return getattr(t.optim, name)(p, lr=0.125, fused=True)

    trail, numbers, _ = skipping(torch, make, LATE)
    for compile in (None, whole):
        found, ours, _ = skipping(torchlike, make, LATE, compile)
        assert found == trail
        np.testing.assert_allclose(ours, numbers, rtol=2e-4, atol=2e-5)


def test_a_program_reads_nothing(reads):
    run = Run(torchlike, "float16", OPTIMIZERS["Adam"])
    step = whole(typical(run))
    data = list(batches(torchlike, 6))
    for x, y in data[:2]:
        step(x, y)
    reads.clear()
    for x, y in data[2:]:
        step(x * INF, y)
    assert reads == [] and step.count == 1
    assert run.scaler.get_scale() == 2048.0 / 2**4 and reads


def test_eager_steps_read_one_number(monkeypatch):
    reads = counted_items(monkeypatch, torchlike)
    run = Run(torchlike, "float16", OPTIMIZERS["Adam"])
    step, read = typical(run), []
    for x, y in batches(torchlike, 4):
        reads.clear()
        step(x, y)
        read.append(len(reads))
    assert read == [1] * 4


def test_factors_and_rates_may_change_between_calls():
    def left(t, compile=lambda f: f):
        run = Run(t, optimizer=OPTIMIZERS["Adam"])
        step = compile(typical(run))
        for i, (x, y) in enumerate(batches(t, 8)):
            run.scaler.set_growth_factor(1.5 + i)
            run.optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            step(x, y)
        return run.left(), step

    ((theirs, state), _), ((ours, held), step) = left(torch), left(torchlike, whole)
    assert held == state and step.count <= 2
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_eager_and_compiled_steps_mixed():
    def left(t, compile=lambda f: f):
        run = Run(t, optimizer=OPTIMIZERS["dampening"])
        step = typical(run)
        compiled = compile(step)
        for i, (x, y) in enumerate(batches(t, 6)):
            (compiled if i % 3 else step)(x * (INF if i == 1 else 1.0), y)
        return run.left()

    (theirs, state), (ours, held) = left(torch), left(torchlike, whole)
    assert held == state
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_part_of_an_iteration_compiled():
    """The rest of it, in eager code, sees what the program has done."""
    run = Run(torchlike)

    @whole
    def backward(x, y):
        run.optimizer.zero_grad()
        run.scaler.scale(run.loss(x, y)).backward()
        run.scaler.unscale_(run.optimizer)

    for x, y in batches(torchlike, 3):
        backward(x, y)
        with pytest.raises(RuntimeError, match="unscale_\\(\\) has already been called"):
            run.scaler.unscale_(run.optimizer)
        run.scaler.step(run.optimizer)
        run.scaler.update()
    assert backward.count == 2  # the first eager step gives the optimizer its state
    expected, state, _ = trained(torch, typical, None, n=3)
    np.testing.assert_allclose(run.left()[0], expected, rtol=1e-4, atol=1e-5)
    assert run.left()[1] == state


class Own(torchlike.optim.Optimizer):
    """Gradient descent in a step that Python code makes."""

    def __init__(self, params):
        super().__init__(params, {})

    @torchlike.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=0.125)


def hooked(t, p):
    optimizer = t.optim.SGD(p, lr=0.125)
    optimizer.register_step_post_hook(lambda *args: None)
    return optimizer


@pytest.mark.parametrize("make", [lambda t, p: Own(p), hooked])
def test_steps_that_only_python_can_skip(make):
    """They are a program that ends there; a whole one is refused."""
    trail, numbers, _ = skipping(torch, OPTIMIZERS["SGD"], LATE)
    found, ours, _ = skipping(torchlike, make, LATE, torchlike.compile)
    assert found == trail
    np.testing.assert_allclose(ours, numbers, rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="reads the numbers|item"):
        skipping(torchlike, make, LATE, whole)
