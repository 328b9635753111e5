"""The 60 most used operators, forward and backward, small and large, next to PyTorch and to jitted JAX.

    python benchmarks/operators.py [--only GROUP ...] [--quick]

Immediate execution. At large sizes an operator is compared with the better of the two. At small ones a call is what
costs (eager_overhead.py): it is compared with JAX's one jitted call, PyTorch's is given beside it, and there is no
target. Every operator beyond 1.5 is named.
"""

import functools
import statistics

import jax
import numpy as np
from _cases import DEVICE, Case, torch, wait
from _jobs import JOBS
from _operators import GROUPS
from _rows import Row, command
from _timing import best_times

import torchlike

SLOW = 1.5  # over the better of the two


def numbers(shapes):
    """An array for each shape: positive float32 numbers, or integers below a bound."""
    rng, found = np.random.default_rng(0), []
    for shape in shapes:
        indices = len(shape) == 2 and isinstance(shape[0], tuple)
        found.append(rng.integers(0, shape[1], shape[0]) if indices else rng.random(shape, np.float32) + 0.1)
    return found


def in_library(lib, operator, arrays, grads):
    """The call in PyTorch's words: the result, and the gradients of the first ``grads`` arguments."""
    tensors = [lib.from_numpy(x.copy()) for x in arrays]
    tensors = [t.to(DEVICE) for t in tensors] if DEVICE else tensors
    leaves = [t.requires_grad_() for t in tensors[:grads]]
    if not grads:
        return lambda: [operator.ours(lib, *tensors)]
    seed = operator.ours(lib, *tensors).detach().clone()

    def run():
        out = operator.ours(lib, *tensors)
        return [out, *lib.autograd.grad(out, leaves, seed)]

    return run


def by_hand(operator, arrays, grads):
    """The same as one jitted program of JAX."""
    arrays = [jax.numpy.asarray(x) for x in arrays]
    if not grads:
        f = jax.jit(operator.by_hand)
        return lambda: [f(*arrays)]
    seed = operator.by_hand(*arrays)

    @jax.jit
    def both(seed, *arrays):
        first = lambda *xs: operator.by_hand(*xs, *arrays[grads:])  # noqa: E731
        out, back = jax.vjp(first, *arrays[:grads])
        return [out, *back(seed)]

    return lambda: both(seed, *arrays)


def finished(f):
    out = f()
    for x in out:
        wait(x)
    return out


def times(name, operator, shapes, grads, quick):
    """{library: seconds}, once the results are the same."""
    arrays = numbers(shapes)
    cases = {"jax": by_hand(operator, arrays, grads), "ours": in_library(torchlike, operator, arrays, grads)}
    if torch is not None:
        cases["torch"] = in_library(torch, operator, arrays, grads)
    expected = [np.asarray(x) for x in cases["jax"]()]
    for library, f in cases.items():
        for got, wanted in zip(f(), expected, strict=True):
            got = got if library == "jax" else got.detach().cpu()
            np.testing.assert_allclose(np.asarray(got), wanted, 1e-3, 1e-3, err_msg=f"{name} of {library}")
    cases = {library: functools.partial(finished, f) for library, f in cases.items()}
    if quick:
        return best_times(cases, rounds=1, seconds=0, warm=0)
    return best_times(cases, rounds=8, seconds=0.003, calls=80, warm=0.06)


def row(title, group, found, large):
    """The worst ratio of a group, and who is beyond the limit."""
    ratios = {}
    for name, t in found.items():
        base = min(t["jax"], t.get("torch", t["jax"])) if large else t["jax"]
        ratios[name] = (t["ours"] / base, base)
    worst = max(ratios, key=lambda name: ratios[name][0])
    slow = sorted((name for name in ratios if round(ratios[name][0], 2) > SLOW), key=lambda n: -ratios[n][0])
    note = f"median {statistics.median(r for r, _ in ratios.values()):.2f}; worst: {worst}"
    if slow:
        note += f"; beyond {SLOW}: " + ", ".join(f"{n} {ratios[n][0]:.2f}" for n in slow)
    if not large and all("torch" in t for t in found.values()):
        note += f"; torch {statistics.median(t['torch'] / t['jax'] for t in found.values()):.2f}"
    ratio, base = ratios[worst]
    program, against = f"{group}, {len(found)} operators", "the better of torch, JAX" if large else "jitted JAX"
    return Row(title, program, against, base * 1e6, "us", ratio, SLOW if large else None, note)


def measure(name, quick=False):
    """The rows of one group of operators."""
    Case(None, (), "immediate").enter()
    rows = []
    for size in ("small",) if quick else ("small", "large"):
        for title in ("forward", "forward and backward"):
            found = {
                each: times(each, operator, getattr(operator, size), operator.grads if "back" in title else 0, quick)
                for each, operator in list(GROUPS[name].items())[: 4 if quick else None]
                if title == "forward" or operator.grads
            }
            rows.append(row(f"operators, {size}, {title}", name, found, size == "large"))
    return rows


if __name__ == "__main__":
    command(__doc__, JOBS["operators"], measure)
