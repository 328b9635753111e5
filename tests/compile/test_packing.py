"""Steps whose parameters are one array between their calls: what others read, hold and write meanwhile is PyTorch's."""

import copy
import io
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import torchlike
from torchlike._executor import references
from torchlike._transforms.capture import packing, program

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
DATA = [(RNG.standard_normal((4, 8)).astype("f4"), RNG.integers(0, 3, 4)) for _ in range(24)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Threads of other tests may live still."""
    monkeypatch.setattr(packing, "_WARM", 0)
    for module in (packing, program):
        monkeypatch.setattr(module, "alone", lambda: threading.current_thread() is threading.main_thread())


class Training:
    """A small network that is trained, by one program where ``lib`` is torchlike; stories look at it between steps."""

    def __init__(self, lib):
        lib.manual_seed(0)
        nn, self.lib, self.seen, self.kept = lib.nn, lib, [], None
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.optimizer = lib.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.compiled = lib.compile(self.step, fullgraph=True) if lib is torchlike else self.step

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.lib.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    @property
    def weight(self):
        return self.model[0].weight

    def see(self, tensor):
        self.seen.append(float(tensor.detach().double().sum()))

    def after(self, story):
        """The losses of all steps, what the story has seen between them, and parameters and moments at the end."""
        for i, (x, y) in enumerate(DATA):
            self.see(self.compiled(self.lib.tensor(x), self.lib.tensor(y)))
            story(self, i)
        for tensor in [*self.model.parameters(), *[v for s in self.optimizer.state.values() for v in s.values()]]:
            self.see(tensor)
        return self.seen

    def packings(self):
        return [p.packing for pairs in self.compiled.programs.values() for _, p in pairs if p.packing is not None]


STORIES = {}


def story(function):
    STORIES[function.__name__] = function
    return function


@story
def nobody_looks(t, i):
    pass


@story
def one_reads(t, i):
    if i % 7 == 3:
        t.see(t.weight)


@story
def all_are_read_after_each(t, i):
    for p in t.model.parameters():
        t.see(p)


@story
def a_write_between(t, i):
    if i % 5 == 2:
        with t.lib.no_grad():
            t.model[2].weight.mul_(0.9)


@story
def a_gradient_of_old_numbers(t, i):
    if i == 3:
        t.kept = (t.weight.exp().sum(), t.weight)
    if i == 4:
        (grad,) = t.lib.autograd.grad(t.kept[0], t.model[0].weight)  # exp saves its result
        t.see(grad)


@story
def a_saved_input_that_changes(t, i):
    if i == 3:
        t.kept = (t.weight * t.weight).sum()
    if i == 4:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            t.kept.backward()


@story
def a_view_that_stays(t, i):
    if i == 4:
        t.kept = t.weight.detach()[2:5].t()
    if i > 4:
        t.see(t.kept)


@story
def a_write_through_a_view(t, i):
    if i == 4:
        t.kept = t.weight.detach().view(-1)[3:9]
    if i > 4 and i % 5 == 0:
        t.kept.add_(1)


@story
def memory_of_numpy(t, i):
    if i == 5:
        t.kept = t.weight.detach().numpy()
    if i > 5:
        t.seen.append(float(t.kept.sum()))
        t.kept[0, i % 8] = 0.5


@story
def copies(t, i):
    if i % 6 == 1:
        t.kept = [*(t.kept or []), copy.deepcopy(t.model)]
    if i == 20:
        for model in t.kept:
            t.see(model[0].weight)


@story
def a_state_that_comes_back(t, i):
    if i == 9:
        t.kept = copy.deepcopy((t.model.state_dict(), t.optimizer.state_dict()))
    if i == 15:
        t.model.load_state_dict(t.kept[0])
        t.optimizer.load_state_dict(t.kept[1])


@story
def a_file(t, i):
    if i % 10 == 3:
        file = io.BytesIO()
        t.lib.save(t.model.state_dict(), file)
        file.seek(0)
        t.model.load_state_dict(t.lib.load(file))


@story
def other_data(t, i):
    if i == 8:
        t.weight.data = t.lib.ones(16, 8) * 0.1


@story
def a_thread_reads(t, i):
    if i in (9, 10, 11):
        thread = threading.Thread(target=t.see, args=(t.weight,))
        thread.start()
        thread.join()


@story
def another_program_reads(t, i):
    if t.kept is None:
        t.kept = t.lib.compile(lambda x: t.model(x).detach()) if t.lib is torchlike else t.model
    if i % 4 == 0:
        t.see(t.kept(t.lib.ones(2, 8)))


@story
def a_finalizer_reads(t, i):
    class Last:
        def __del__(self):
            t.see(t.weight)

    if i == 4:
        t.kept = Last()
    if i == 6:
        t.kept = None


@story
def transforms_read(t, i):
    if i == 7:
        t.see(t.lib.func.vmap(t.model)(t.lib.ones(3, 2, 8)))
        t.see(t.lib.func.grad(lambda x: t.model(x).sum())(t.lib.ones(2, 8)))


@story
def recorded_execution_reads(t, i):
    if t.lib is torchlike and i == 5:
        t.lib.set_execution("recorded")
    if i % 3 == 0:
        t.see(t.weight * 2 + t.model[2].weight.sum())
    if t.lib is torchlike and i == 20:
        t.lib.set_execution("immediate")


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_lost(name):
    theirs, ours = (Training(lib).after(STORIES[name]) for lib in (torch, torchlike))
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)


def test_who_is_packed():
    t = Training(torchlike)
    t.after(nobody_looks)
    (found,) = t.packings()
    assert found.calls == len(DATA) and found.lost <= 1 and found.width == 8  # four parameters, and a moment of each


def test_who_is_asked_for_again_and_again_is_not_packed_any_more():
    t = Training(torchlike)
    t.after(all_are_read_after_each)
    (found,) = t.packings()
    assert found.lost == 5 and {type(p._storage.value) for p in t.model.parameters()} == {packing.Array}


def test_arrays_elsewhere_with_pieces_in_common_change_nothing():
    before = [*references.SHARING]
    references.SHARING[:] = [True]
    try:
        test_who_is_packed()
    finally:
        references.SHARING[:] = before


def test_who_is_called_seldom_is_not_packed(monkeypatch):
    monkeypatch.setattr(packing, "_WARM", 4)
    t = Training(torchlike)
    (x, y), seen = [torchlike.tensor(v) for v in DATA[0]], []
    for _ in range(6):
        t.compiled(x, y)
        seen.append(type(t.weight._storage.value) is packing.Array)
    assert seen == [True] * 4 + [False] * 2


def test_jax_reads_while_it_traces():
    t = Training(torchlike)
    t.after(nobody_looks)
    (found,) = t.packings()
    x, y = (torchlike.tensor(v) for v in DATA[0])
    t.compiled(x, y)
    twice = jax.jit(lambda x: jnp.asarray(t.weight.detach()) * x)(2.0)
    np.testing.assert_array_equal(twice, np.asarray(t.weight.detach()) * 2)
    assert t.compiled(x, y).isfinite()


def test_pieces_that_are_asked_for_while_the_program_runs():
    """By what Python calls by itself: they have the old numbers, and the storages get the new ones."""
    t, plain = Training(torchlike), Training(torchlike)
    plain.compiled = plain.step
    x, y = (torchlike.tensor(v) for v in DATA[0])
    for _ in range(3):
        t.compiled(x, y), plain.compiled(x, y)
    (found,) = t.packings()
    run, seen = found._run, []

    def reading(*values):
        outs = run(*values)
        seen.append(t.weight.detach().numpy().copy())
        return outs

    before = plain.weight.detach().numpy().copy()
    found._run = reading
    t.compiled(x, y), plain.compiled(x, y)
    found._run = run
    np.testing.assert_allclose(seen[0], before, rtol=1e-5, atol=1e-6)
    for a, b in zip(t.model.parameters(), plain.model.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
