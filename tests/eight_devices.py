"""Modules on eight CPUs, beside PyTorch's on one: a script, run by ``test_data_parallel`` with jax told to make eight.

Not collected itself: jax makes devices once a process.
"""

import collections
import threading
import warnings

import numpy as np
import pytest
import torch
from checks_kit import Checks

import torchlike

warnings.simplefilter("error")
CHECKS = check = Checks()
Pair = collections.namedtuple("Pair", "first second")


def host(x):
    return x.detach().float().cpu().numpy() if isinstance(x, torch.Tensor | torchlike.Tensor) else x


def close(ours, theirs, tolerance=1e-5):
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(host(ours), host(theirs), rtol=tolerance, atol=tolerance)


def numbers(t, *shape):
    n = int(np.prod(shape))
    return ((t.arange(n) * 7 % 11 - 5) / 8).reshape(*shape)


def settled(t, model):
    """A model whose parameters are the same numbers in both libraries."""
    with t.no_grad():
        for p in model.parameters():
            p.copy_(numbers(t, *p.shape))
    return model


def network(t):
    return settled(t, t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 2)))


def equal_gradients(ours, theirs, tolerance=1e-5):
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert p.grad.device == p.device and str(p.device) == "cpu"
        close(p.grad, q.grad, tolerance)


def place(x):
    return str(x.device).removeprefix("cpu").removeprefix(":") or "0"


def spread(t, model, **options):
    """The model over the devices; PyTorch's is called as it is."""
    return t.nn.DataParallel(model, **options)


@check
def devices_are_those_of_jax():
    model = spread(torchlike, network(torchlike))
    assert model.device_ids == list(range(8)) and model.output_device == 0 and model.dim == 0
    assert list(model.state_dict())[:1] == ["module.0.weight"] and model.src_device_obj == torchlike.device("cpu")


def trained(t, rows=16, **options):
    model = spread(t, network(t), **options)
    x = numbers(t, rows, 3).requires_grad_()
    y = model(x)
    (y * numbers(t, rows, 2)).sum().backward()
    return y, x.grad, model.module


@check
def gradients_reach_the_parameters():
    for rows in (16, 8, 5, 10, 1):  # some fill fewer devices
        (y, x, model), (theirs, grad, expected) = trained(torchlike, rows), trained(torch, rows)
        close(y, theirs)
        close(x, grad)
        equal_gradients(model, expected)


@check
def recorded_execution():
    torchlike.set_execution("recorded")
    try:
        gradients_reach_the_parameters()
        the_note_with_autocast_around()
    finally:
        torchlike.set_execution("immediate")


def seeing(t, seen, inside=None):
    """A model that tells how it is called."""

    class Seeing(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network(t)

        def forward(self, x):
            if inside is not None:
                with t.autocast("cpu", dtype=inside):
                    return self.told(x)
            return self.told(x)

        def told(self, x):
            y = self.layers(x)
            state = t.is_autocast_enabled("cpu"), str(t.get_autocast_dtype("cpu")), t.is_grad_enabled()
            seen.append((place(y), threading.current_thread().name, state, t.is_autocast_cache_enabled(), str(y.dtype)))
            return y

    return Seeing()


def of_the_note(t, dtype, how):
    """The example of the note, with autocast around the call or within ``forward``; the scaler around both."""
    low, seen = getattr(t, dtype), []
    model = spread(t, seeing(t, seen, low if how == "within" else None))
    optimizer, scaler = t.optim.SGD(model.parameters(), lr=0.1), t.amp.GradScaler("cpu", init_scale=256.0)
    for _ in range(3):
        optimizer.zero_grad()
        if how == "around":
            with t.autocast("cpu", dtype=low):
                y = model(numbers(t, 16, 3))
                loss = t.nn.functional.mse_loss(y, numbers(t, 16, 2))
        else:
            y = model(numbers(t, 16, 3))
            loss = t.nn.functional.mse_loss(y.float(), numbers(t, 16, 2))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return y, loss, model, seen


def compare_note(how):
    for dtype in ("bfloat16", "float16"):
        y, loss, model, seen = of_the_note(torchlike, dtype, how)
        theirs, expected, reference, told = of_the_note(torch, dtype, how)
        close(y, theirs, 0.02)
        close(loss, expected, 0.02)
        equal_gradients(model, reference, 0.02)
        for call in range(3):
            calls = seen[8 * call : 8 * call + 8]
            assert sorted(c[0] for c in calls) == list("01234567") and len({c[1] for c in calls}) == 8
            assert {c[2:] for c in calls} == {told[call][2:]}


@check
def the_note_with_autocast_around():
    compare_note("around")


@check
def the_note_with_autocast_within():
    compare_note("within")


@check
def threads_have_the_modes_of_the_caller():
    t, seen = torchlike, []
    model = spread(t, seeing(t, seen))
    with t.no_grad(), t.autocast("cpu", dtype=t.float16, cache_enabled=False):
        y = model(numbers(t, 8, 3))
    assert not y.requires_grad and y.dtype is t.float16
    assert {c[2:] for c in seen} == {((True, "torch.float16", False), False, "torch.float16")}
    seen.clear()
    assert model(numbers(t, 8, 3)).requires_grad
    assert {c[2:] for c in seen} == {((False, "torch.bfloat16", True), True, "torch.float32")}


@check
def weights_are_cast_once_in_each_thread():
    t, seen = torchlike, []

    class Twice(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(numbers(t, 3, 3))

        def forward(self, x):
            seen.append(type(self.weight).__name__)
            return (x @ self.weight) @ self.weight

    model = spread(t, Twice())
    with t.autocast("cpu"):
        y = model(numbers(t, 16, 3))
    y.sum().backward()
    assert seen == ["Tensor"] * 8 and y.dtype is t.bfloat16
    w = numbers(torch, 3, 3).requires_grad_()
    with torch.autocast("cpu"):
        expected = (numbers(torch, 16, 3) @ w) @ w
    expected.sum().backward()
    close(y, expected, 0.02)
    np.testing.assert_allclose(host(model.module.weight.grad), host(w.grad), rtol=0.02, atol=0.3)


@check
def buffers_of_the_first_device_are_kept():
    t = torchlike
    ours, theirs = spread(t, t.nn.BatchNorm1d(3)), torch.nn.BatchNorm1d(3)
    y = ours(numbers(t, 16, 3))
    expected = theirs(numbers(torch, 16, 3)[:2])
    close(y[:2], expected, 1e-4)
    close(ours.module.running_mean, theirs.running_mean)
    assert ours.module.num_batches_tracked.item() == 1


@check
def results_in_containers():
    t = torchlike

    class Many(t.nn.Module):
        def forward(self, x, k, *, pair=None):
            return {"sum": x.sum(), "all": [x * k, Pair(x, None)], "pair": (pair.first, pair.second)}

    x = numbers(t, 16, 3)
    model = spread(t, Many())
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        found = model(x, 3, pair=Pair(x, x + 1))
    assert found["sum"].shape == (8,) and t.equal(found["all"][0], x * 3) and type(found["all"][1]) is Pair
    assert t.equal(found["pair"][1], x + 1) and found["all"][1].second is None
    assert all(place(v) == "0" for v in (found["sum"], found["all"][0], *found["pair"]))


@check
def other_dimensions_and_devices():
    t = torchlike
    x = numbers(t, 3, 8)
    model = t.nn.Linear(3, 2).to("cpu:2")
    spreading = spread(t, lambda_module(t, lambda m, x: m(x.t()).t(), model), device_ids=[2, "cpu:5"], dim=1)
    spreading.output_device = 3
    y = spreading(x)
    assert place(y) == "3" and spreading.device_ids == [2, 5]
    np.testing.assert_allclose(host(y), host(model(x.t().to("cpu:2")).t()), rtol=1e-5)
    y.sum().backward()
    assert place(model.weight.grad) == "2" and spread(t, model, device_ids=[2], output_device=2)(x.t()).shape == (8, 2)


def lambda_module(t, function, *modules):
    class Made(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.modules_ = t.nn.ModuleList(modules)

        def forward(self, *args):
            return function(*self.modules_, *args)

    return Made()


@check
def recurrent_and_tied_layers():
    def run(t):
        words, lstm, head = t.nn.Embedding(5, 4), t.nn.LSTM(4, 4, 2, batch_first=True), t.nn.Linear(4, 5)
        head.weight = words.weight
        tied = lambda_module(t, lambda words, lstm, head, x: head(lstm(words(x))[0]), words, lstm, head)
        model = spread(t, settled(t, tied))
        y = model((t.arange(24) * 3 % 5).reshape(8, 3))
        (y * numbers(t, 8, 3, 5)).sum().backward()
        return y, model

    (y, ours), (expected, theirs) = run(torchlike), run(torch)
    close(y, expected)
    equal_gradients(ours, theirs)


@check
def second_derivatives():
    def run(t):
        model = spread(t, network(t))
        y = model(numbers(t, 8, 3)).sum()
        grads = t.autograd.grad(y, list(model.parameters()), create_graph=True)
        sum(g.pow(2).sum() for g in grads).backward()
        return model

    ours, theirs = run(torchlike), run(torch)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            close(p.grad, q.grad, 1e-4)


@check
def hooks_run_in_each_replica():
    t, seen = torchlike, []
    model = spread(t, network(t))
    model.module[0].register_forward_hook(lambda m, args, out: seen.append((place(out), m._is_replica)))
    model(numbers(t, 8, 3))
    assert sorted(seen) == [(str(i), True) for i in range(8)]


@check
def replicas():
    t = torchlike
    model = network(t)
    copies = t.nn.parallel.replicate(model, [0, "cpu:3"])
    assert [place(c[0].weight) for c in copies] == ["0", "3"] and not list(copies[1].parameters())
    assert copies[0][0].weight.grad_fn is not None and copies[0][0].weight._is_view()
    free = t.nn.parallel.replicate(model, [1], detach=True)[0]
    assert not free[0].weight.requires_grad and place(free[0].weight) == "1"
    with pytest.warns(UserWarning, match=r"zero_grad\(\) from a module created with nn.DataParallel\(\) has no effect"):
        copies[0].zero_grad()
    with pytest.raises(RuntimeError, match="can't be used with `DataParallel`"):
        spread(t, t.nn.LazyLinear(2))(numbers(t, 8, 3))


@check
def parameters_in_lists_and_parametrizations():
    def run(t):
        lists = lambda_module(t, lambda m, x: x @ m.items[0] @ m.items[1], t.nn.Module())
        lists.modules_[0].items = t.nn.ParameterList([t.nn.Parameter(numbers(t, 3, 3)) for _ in range(2)])
        normed = t.nn.utils.parametrizations.weight_norm(settled(t, t.nn.Linear(3, 2)))
        model = spread(t, t.nn.Sequential(lists, normed))
        y = model(numbers(t, 8, 3))
        y.sum().backward()
        return y, model

    (y, ours), (expected, theirs) = run(torchlike), run(torch)
    close(y, expected)
    equal_gradients(ours, theirs)


@check
def errors_of_replicas():
    t = torchlike

    class Picky(t.nn.Module):
        def forward(self, x):
            if place(x) == "3":
                raise KeyError("the fourth")
            return x

    with pytest.raises(KeyError, match="the fourth") as caught:
        spread(t, Picky())(numbers(t, 8, 3))
    assert "Caught KeyError in replica 3 on device 3." in caught.value.__notes__
    with pytest.raises(RuntimeError, match=r"two devices, cpu:1 and cpu:4! \(add\(\)"):
        spread(t, lambda_module(t, lambda x: x + t.ones(3, device="cpu:4")))(numbers(t, 8, 3))


WRONG = {
    "a device that is not there": (
        lambda t, m: spread(t, m, device_ids=[0, 8]),
        "device 8 is not available",
    ),
    "a text": (lambda t, m: spread(t, m, device_ids=["cpu:9"]), "device 'cpu:9' is not available"),
    "no GPU": (lambda t, m: spread(t, m, device_ids=["cuda:0"]), "device 'cuda:0' is not available"),
    "elsewhere": (
        lambda t, m: spread(t, m.to("cpu:1"))(numbers(t, 8, 3)),
        r"parameters and buffers on device cpu \(device_ids\[0\]\) but found one of them on device: cpu:1",
    ),
    "no dimension": (lambda t, m: spread(t, m)(t.tensor(1.0)), "chunk expects at least a 1-dimensional tensor"),
}


@check
def wrong_calls():
    t = torchlike
    for call, message in WRONG.values():
        with pytest.raises(RuntimeError, match=message):
            call(t, network(t))


@check
def compiled():
    t = torchlike
    model, x = spread(t, network(t)), numbers(t, 8, 3)
    expected = model(x)
    assert t.equal(t.compile(model)(x), expected)
    with pytest.raises(Exception, match="calls modules in threads"):
        t.compile(model, fullgraph=True)(x)
    inner = spread(t, t.nn.Sequential(t.compile(network(t))))
    np.testing.assert_allclose(host(inner(x)), host(expected), rtol=1e-5)
    with pytest.raises(NotImplementedError, match="nn.DataParallel under torch.vmap"):
        t.vmap(model)(x[None])


@check
def one_function():
    t, model = torchlike, network(torchlike)
    x = numbers(t, 8, 3)
    y = t.nn.parallel.data_parallel(model, x)
    close(y, network(torch)(numbers(torch, 8, 3)))
    assert place(t.nn.parallel.data_parallel(model, (x,), [0, 1], output_device=1)) == "1"
    assert t.nn.parallel.data_parallel(model, None, [0, 1], module_kwargs={"input": x}).shape == (8, 2)


@check
def tensors_move_between_devices():
    t = torchlike
    x = t.ones(2, device="cpu:3", requires_grad=True)
    assert [place(y) for y in (x.cpu(), x.to("cpu"), x.to(t.ones(1)), x.to("cpu:5"), x.to("cpu:3"))] == list("00053")
    assert x.to("cpu:3") is x
    ((x.cpu() * 3).sum() + (x.to("cpu:6") * 4).sum().to("cpu")).backward()
    assert place(x.grad) == "3" and x.grad.tolist() == [7.0, 7.0]
    pieces = t.nn.parallel.comm.scatter(t.arange(6), ["cpu:1", "cpu:2"], [4, 2])
    assert [place(p) for p in pieces] == ["1", "2"]
    assert t.nn.parallel.comm.gather(pieces, 0, -1).tolist() == list(range(6))
    assert place(t.nn.parallel.comm.reduce_add([p[:2] for p in pieces], 4)) == "4"
    assert [place(c) for c in t.nn.parallel.comm.broadcast(x)] == list("01234567")


if __name__ == "__main__":
    CHECKS.run()
