"""Compiled functions against the same functions in eager code: running both, and comparing all that is seen."""

import numpy as np

import torchlike as torch
from torchlike._transforms.capture.compiled_function import CompiledFunction


def numbers(x):
    """All that is compared of a value."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone().numpy(), x.dtype, tuple(x.shape), x.stride(), x.requires_grad
    if isinstance(x, dict):
        return {k: numbers(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [numbers(v) for v in x]
    return x


def same(a, b, where="result"):
    if isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=where)
    elif isinstance(a, dict):
        assert list(a) == list(b), where  # also in their order
        for k in a:
            same(a[k], b[k], f"{where}[{k!r}]")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where}[{i}]")
    else:
        assert a == b, f"{where}: {a} and {b}"


def both(make, calls=4, programs=1):
    """``make()`` gives (function, arguments of call i, what to look at): run in eager and compiled, compare."""
    seen = []
    for compiled in (False, True):
        torch.manual_seed(0)
        function, arguments, look = make()
        run = torch.compile(function, fullgraph=True) if compiled else function
        trail = []
        for i in range(calls):
            out = run(*arguments(i))
            trail.append((numbers(out), numbers(look())))
        if compiled and programs is not None:
            count = run.count if isinstance(run, CompiledFunction) else run.forward.count
            assert count == programs, f"{count} programs"
        seen.append((trail, torch.rand(1).item()))
    same(*seen)


def data(i, *shape):
    return torch.from_numpy(np.random.RandomState(i).randn(*shape).astype(np.float32))


def state_of(model, optimizer=None):
    def look():
        seen = {k: v for k, v in model.state_dict().items()}
        seen |= {f"{n}.grad": p.grad for n, p in model.named_parameters()}
        if optimizer is not None:
            seen["optimizer"] = optimizer.state_dict()["state"]
        return seen

    return look


def sequence(make, fullgraph=True):
    """``make(compile)`` gives what is compared: once with the identity, once with torch.compile."""
    seen = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=fullgraph)):
        torch.manual_seed(0)
        seen.append(numbers(make(wrap)))
    same(*seen)


def trainer(model, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
