"""Ctrl-C between any two instructions of a compiled call: everything is as it was, or as the call leaves it."""

import signal
import sys
import threading

import pytest
from compile_kit import data, numbers, same

import torchlike as torch
from torchlike import nn
from torchlike._transforms.capture import packing
from torchlike._transforms.capture import program as programs


@pytest.fixture(params=["ahead of its guards", "overwriting"], autouse=True)
def way(request, monkeypatch):
    """How a small program runs: both ways are to be had."""
    if request.param == "overwriting":
        monkeypatch.setattr(programs, "_FEW", 0)


class Interrupt:
    """Raises KeyboardInterrupt before instruction number ``at`` of the code that is written for programs, or later."""

    def __init__(self, at, again=0, files=("<torchlike program>", "packing.py")):
        self.at, self.again, self.files, self.raised = at, again, files, 0

    def __call__(self, frame, event, argument):
        if not any(frame.f_code.co_filename.endswith(name) for name in self.files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.at -= 1
            if self.at <= 0 and self.raised <= self.again:
                self.raised += 1
                self.at = 3
                raise KeyboardInterrupt
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *exc):
        sys.settrace(self.before)


class Step:
    """A compiled training step of a small model, whose parameters, momenta and buffer it overwrites."""

    def __init__(self, compiled=True):
        torch.manual_seed(0)
        self.model, self.count = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)), torch.zeros(())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.run = torch.compile(self.step, fullgraph=True) if compiled else self.step

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).pow(2).sum()
        loss.backward()
        self.optimizer.step()
        self.count.add_(1)
        return loss.detach()

    def state(self):
        momenta = [s["momentum_buffer"] for s in self.optimizer.state.values()]
        return [*self.model.parameters(), self.count, *momenta]

    def restore(self, values):
        with torch.no_grad():
            [t.copy_(value) for t, value in zip(self.state(), values, strict=True)]


def after(calls, step):
    """The step after so many calls."""
    for i in range(calls):
        step.run(data(i, 4, 3))
    return step


def interrupted_everywhere(again=0, files=("<torchlike program>", "packing.py")):
    """(the state before a call, those after interruptions of it, one for each instruction)."""
    step, states = after(2, Step()), []
    [(_, program)] = [pair for found in step.run.programs.values() for pair in found]
    assert bool(program.donated) is not bool(program.hold)
    before = [t.detach().clone() for t in step.state()]
    while True:
        try:
            with Interrupt(len(states) + 1, again, files):
                step.run(data(2, 4, 3))
            return numbers(before), states
        except KeyboardInterrupt:
            states.append(numbers([t.detach() for t in step.state()]))
            step.restore(before)


def kinds(before, states):
    """How many states are the one before, and how many the one after the call; each is one of them."""
    expected, found = numbers([t.detach() for t in after(3, Step(compiled=False)).state()]), [0, 0]
    for state in states:
        for k, wanted in enumerate((before, expected)):
            try:
                same(state, wanted)
            except AssertionError:
                continue
            found[k] += 1
            break
        else:
            pytest.fail("a state that is neither the one before nor the one after")
    return found


@pytest.mark.parametrize("again", [0, 1, 3])
def test_between_any_two_instructions(again):
    untouched, finished = kinds(*interrupted_everywhere(again))
    assert untouched and finished


def test_call_after_call(monkeypatch):
    """Nobody looks at the numbers in between: a program that does not overwrite them has one array of them."""
    monkeypatch.setattr(packing, "_WARM", 0)
    monkeypatch.setattr(packing, "_LOST", 10**6)
    step, plain, at, finished = after(2, Step()), after(2, Step(compiled=False)), 0, False
    while not finished:
        at, version = at + 1, step.count._version
        try:
            with Interrupt(at):
                step.run(data(2, 4, 3))
            finished = True
        except KeyboardInterrupt:
            pass
        if step.count._version > version:  # by more than one where a write was done again
            plain.run(data(2, 4, 3))
        if at % 16 == 0 or finished:
            for found, wanted in zip(step.state(), plain.state(), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        step.run(data(3, 4, 3)), plain.run(data(3, 4, 3))
    assert at > 100


def test_while_other_threads_may_look():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        untouched, finished = kinds(*interrupted_everywhere(1, ("<torchlike program>", "capture/program.py")))
        assert untouched and finished
    finally:
        over.set()
        thread.join()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where a finalizer is interrupted
def test_signals_at_any_time():
    step, hits, armed = after(2, Step()), 0, []

    def handler(number, frame):
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    held = [t._storage.value for t in step.state()]
    step.run(data(0, 4, 3))  # copies them: jax does not bear to be interrupted when it compiles that
    del held
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for k in range(300):
            count = step.count.item()
            try:
                armed.append(k)
                signal.setitimer(signal.ITIMER_REAL, (1 + k) * 1e-6)
                step.run(data(k, 4, 3))
                armed.clear()
            except KeyboardInterrupt:
                hits += 1
            assert step.count.item() in (count, count + 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert hits and all(t.isfinite().all() for t in step.state())
