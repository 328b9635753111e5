"""Ctrl-C wherever Python looks for one in an eager call: the modes are as before, and values are old or new."""

import dis
import functools
import os
import sys
import threading

import pytest

import torchlike as torch
from torchlike import nn
from torchlike._base.state import State, state

PACKAGE = os.path.dirname(torch.__file__) + os.sep


@functools.cache
def instructions(code):
    return {i.offset: i.opname for i in dis.get_instructions(code)}


@functools.cache
def ours(filename):
    return filename.startswith(PACKAGE) or filename.startswith("<torchlike")


class Interrupt:
    """Raises KeyboardInterrupt at check number ``at``: as a function begins, after a call into C, as a loop goes on."""

    def __init__(self, at):
        self.at, self.last, self.back, self.raised = at, {}, None, False

    def __call__(self, frame, event, argument):
        if event == "return":
            self.back = frame.f_back
            self.last.pop(frame, None)
        if not ours(frame.f_code.co_filename):
            return self
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines, self.last[frame] = True, False, "RESUME"
        elif event == "opcode":
            before, now = self.last.get(frame, ""), instructions(frame.f_code).get(frame.f_lasti, "")
            if now in ("RESUME", "COPY_FREE_VARS", "MAKE_CELL"):
                return self
            self.last[frame], back, self.back = now, self.back is frame, None
            if before in ("RESUME", "JUMP_BACKWARD") or (before.startswith("CALL") and not back):
                self.at -= 1
                if self.at == 0:
                    self.raised = True
                    raise KeyboardInterrupt
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *exc):
        sys.settrace(self.before)


def modes():
    """The flags of this thread that are not as in a new one."""
    return {k: v for k, v in state.copied().items() if k != "recorder" and v != getattr(State, k, None)}


def in_place():
    base = torch.zeros(3)
    part = base[1:]
    yield lambda: (part.add_(1), base.mul_(2))
    assert base[1:].tolist() == part.tolist() and part.tolist() in ([0, 0], [1, 1], [2, 2])


def writes_out():
    out = torch.zeros(3)
    yield lambda: torch.add(torch.ones(3), 1, out=out)
    assert out.tolist() in ([0] * 3, [2] * 3)


def backward():
    w = torch.ones(3, requires_grad=True)
    (w * w).sum().backward()
    yield lambda: (w * w * w).sum().backward()
    assert w.grad.tolist() in ([2] * 3, [5] * 3)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def hooks_and_a_custom_function():
    w = torch.ones(3, requires_grad=True)
    w.register_hook(lambda g: g * 2)
    yield lambda: Double.apply(w * 1).sum().backward()
    assert w.grad is None or w.grad.tolist() == [4] * 3


def gradients():
    w = torch.ones(3, requires_grad=True)
    yield lambda: torch.autograd.grad((w * w).sum(), w, create_graph=True)
    assert w.grad is None


def sgd():
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    model(torch.ones(2)).sum().backward()
    yield optimizer.step
    assert model.weight.tolist() in ([[0.5, 0.5]], [[0.25, 0.25]])


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "steps"),
    [(in_place, 5), (writes_out, 3), (backward, 1), (hooks_and_a_custom_function, 7), (gradients, 4), (sgd, 1)],
)
def test_modes_and_values_survive(make, steps):
    """At each check, or at one of several."""
    for _ in range(2):  # what is made at first use
        list(make())
    story = make()
    next(story)()
    before, at, raised = modes(), 1, True
    while raised:
        story, interrupt = make(), Interrupt(at)
        run = next(story)
        try:
            with interrupt:
                run()
        except KeyboardInterrupt:
            raised = True
        else:
            raised = interrupt.raised
        assert modes() == before, at
        with pytest.raises(StopIteration):
            next(story)
        at += steps
    assert at > 20


@pytest.mark.once
def test_a_step_beside_a_thread():
    """Others might read the parameters meanwhile, which hold tokens: none is left."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        test_modes_and_values_survive(sgd, 1)
    finally:
        done.set()
        thread.join()
