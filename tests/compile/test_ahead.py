"""Small programs run before it is known whether they are the ones to run: nothing is left of those that are not."""

import threading

import pytest
from compile_kit import data, numbers, same, sequence, trainer

import torchlike as torch
from torchlike import nn
from torchlike._transforms.capture import program as programs

STEADY = 4  # calls until a program runs ahead


class Switched(nn.Module):
    """A model with a number and a buffer that it writes."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(3, 3), nn.Linear(3, 2), 1.0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.second(torch.tanh(self.first(x) * self.scale))


def state(model, optimizer):
    return [model.state_dict(), [p.grad for p in model.parameters()], [p._version for p in model.parameters()],
            model.count._version, optimizer.state_dict()["state"]]  # fmt: skip


def program_of(run):
    """The program of the latest call."""
    return run.latest[2]


def scale(model, optimizer):
    model.scale = 2.5


def replace(model, optimizer):
    model.second.weight.data = torch.ones(2, 3)


def resize(model, optimizer):
    model.second = nn.Linear(3, 2, bias=False)


def forget(model, optimizer):
    optimizer.state.clear()


def rate(model, optimizer):
    optimizer.param_groups[0]["lr"] = 0.5


CHANGES = {f.__name__: f for f in (scale, replace, resize, forget, rate)}


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_steady_calls(name, threads):
    def train(wrap):
        model = Switched()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run, found = wrap(trainer(model, optimizer)), []
        for i in range(2 * STEADY):
            if i == STEADY:
                assert not hasattr(run, "programs") or program_of(run).hold
                CHANGES[name](model, optimizer)
            found += numbers([run(data(i, 4, 3)), state(model, optimizer)])
        return found

    over = threading.Event()
    other = threading.Thread(target=over.wait)
    if threads:
        other.start()
    try:
        sequence(train)
    finally:
        over.set()
        if threads:
            other.join()


def test_what_runs_for_nothing_again_and_again_waits_for_its_guards():
    model = Switched()
    run = torch.compile(lambda x: model(x), fullgraph=True)
    for i in range(STEADY):
        run(data(i, 2, 3))
    program = program_of(run)
    assert program.hold
    for i in range(10):
        model.scale = 1.0 if i % 2 else 2.0
        run(data(i, 2, 3))
    assert program.hold is None or program.wasted < 3
    assert model.count.item() == STEADY + 10


@pytest.mark.parametrize("threads", [False, True])
def test_an_error_of_the_call_before_changes_nothing(threads):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(fullgraph=True)
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    over = threading.Event()
    other = threading.Thread(target=over.wait)
    if threads:
        other.start()
    try:
        good, bad = torch.tensor([0, 1]), torch.tensor([0, 7])
        for i in range(STEADY):
            step(data(i, 2, 3), good)
        assert program_of(step).hold
        step(data(0, 2, 3), bad)
        before = numbers(list(model.parameters()))
        with pytest.raises(IndexError, match="found after a compiled program had run"):
            step(data(1, 2, 3), good)
        same(numbers(list(model.parameters())), before)
        step(data(1, 2, 3), good)
        assert (model.weight.detach().numpy() != before[0][0]).any()
    finally:
        over.set()
        if threads:
            other.join()


def test_random_numbers_are_drawn_once():
    def train(wrap):
        model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
        run, found = wrap(lambda x: model(x)), []
        for i in range(2 * STEADY):
            if i == STEADY:
                model.eval()
            found.append(numbers(run(data(i, 2, 3))))
        return [*found, numbers(torch.rand(2))]

    sequence(train)


def test_memory_is_overwritten_where_there_is_much_of_it():
    big, many = nn.Linear(512, 512), nn.Sequential(*[nn.Linear(2, 2) for _ in range(40)])
    for model, width in ((big, 512), (many, 2)):
        run = torch.compile(trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)), fullgraph=True)
        for i in range(STEADY):
            run(data(i, 2, width))
        assert program_of(run).donated and program_of(run).hold is None


@pytest.mark.parametrize("few", [0, 64])
def test_steps_of_several_functions_on_one_tensor_are_all_done(few, monkeypatch):
    monkeypatch.setattr(programs, "_FEW", few)
    total, one = torch.zeros(4), torch.ones(4)

    def make():
        @torch.compile(fullgraph=True)
        def add(x):
            total.add_(x)
            return total.sum()

        return add

    threads = [threading.Thread(target=lambda f: [f(one) for _ in range(300)], args=(make(),)) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert total.tolist() == [900.0] * 4
