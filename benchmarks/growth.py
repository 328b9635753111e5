"""Growth: what an operator costs in chains of 10 to 10,000, and a layer in models of 1 to 64 layers.

    python benchmarks/growth.py [--only NAME ...] [--quick]

``recorded`` and ``immediate``: chains of eager operators, with a node recorded for each, forward alone and with the
backward; ``others``: the same in PyTorch, and as jitted calls of JAX whose results are kept, as a tape keeps them:
what the machine's memory takes from any of them. ``layers``: the compiled step of an MLP, 64 wide, batch 32: the first
call (tracing and compiling, no cache) and the steps after it. Linear means that ten times (or twice) as much takes ten
times (or twice) as long, at most; the ratio is the worst of these, over the chains (or the doublings) from 8 layers on,
where constants have faded.
"""

import time

import _handwritten as jax_steps
import _programs as programs
import jax
import numpy as np
from _cases import DEVICE, RECORDED, Case, torch, wait
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

LINEAR = 1.15  # of the linear growth; the rest is noise
CHAINS, LAYERS = (10, 100, 1000, 10_000), (1, 2, 4, 8, 16, 32, 64)
FORMS = {"forward": False, "forward and backward": True}


def chain(lib, length, backward, mode=None):
    """A case: ``length`` operators on 16 numbers; with ``backward``, back through them too."""
    x = lib.linspace(0.1, 0.9, 16, device=DEVICE).requires_grad_()
    seed = lib.ones(16, device=DEVICE)

    def step():
        y = x
        for _ in range(length):
            y = y.sin()
        if not backward:
            return y
        x.grad = None
        y.backward(seed)
        return x.grad

    return Case(step, (), mode)


def kept(sin, length):
    """A case: as many jitted calls, whose results are all kept until the last is there."""

    def step(x):
        results = [x]
        for _ in range(length):
            results.append(sin(results[-1]))
        return results[-1]

    return Case(step, (jax.numpy.linspace(0.1, 0.9, 16),))


def chains(title, form, make, target, quick):
    """The row of the cases ``make(length)`` of one form."""
    cases = {n: make(n) for n in (CHAINS[:2] if quick else CHAINS)}
    enter = {n: case.enter for n, case in cases.items()}
    t = best_times(cases, rounds=20, before=enter, calls=20, warm=4.0, quick=quick)
    return growth(title, form, "operator", 1e6, "us", t, target=target)


def operators(mode, quick):
    if mode == "recorded" and not RECORDED:
        return [Row("operators recorded", "chain", "", None, "us", None, LINEAR, "no recorded execution here")]
    return [
        chains(f"{mode} operators", form, lambda n: chain(torchlike, n, back, mode), LINEAR, quick)  # noqa: B023
        for form, back in FORMS.items()
    ]


def others(quick):
    rows = []
    if torch is not None:
        for form, back in FORMS.items():
            rows.append(chains("PyTorch's operators", form, lambda n: chain(torch, n, back), None, quick))  # noqa: B023
    sin = jax.jit(jax.numpy.sin)
    rows.append(chains("bare jitted calls, results kept", "forward", lambda n: kept(sin, n), None, quick))
    return rows


def growth(measure, title, what, scale, unit, t, start=0, target=LINEAR):
    """The row of {count: seconds}: the worst of its steps from ``start`` on, over linear growth."""
    each = {n: s / n * scale for n, s in t.items()}
    kept = [each[n] for n in sorted(each) if n >= start]
    worst = max(b / a for a, b in zip(kept, kept[1:], strict=False))
    note = f"{unit} for each {what}: " + ", ".join(f"{n}: {s:.3g}" for n, s in each.items())
    last = max(each)
    return Row(f"growth: {measure}", title, "linear growth", each[last], f"{unit} at {last}", worst, target, note)


def first_call(case):
    start = time.perf_counter()
    case()
    return time.perf_counter() - start


def deep(layers, width=64, batch=32):
    """{form: case} of an MLP of so many layers."""
    sizes, data = (width,) * layers + (10,), programs.pictures(batch, width)
    torchlike.manual_seed(0)
    model = programs.mlp(torchlike, sizes)
    state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    step, arguments = programs.start(torchlike, model, *data, state, device=DEVICE)
    *hand, _ = jax_steps.start(jax_steps.mlp, state, *data)
    return {"compiled": Case(torchlike.compile(step, fullgraph=True), arguments), "hand-written JAX": Case(*hand)}


def layers(quick):
    jax.config.update("jax_enable_compilation_cache", False)
    counts = LAYERS[:3] if quick else LAYERS
    first, cases = {}, {}
    try:
        wait(jax.numpy.ones(2) + 1)
        for n in counts:
            for form, case in deep(n).items():
                first.setdefault(form, {})[n] = first_call(case)
                cases[form, n] = case
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    t = best_times(cases, quick=quick)
    later = {form: {n: t[form, n] for n in counts} for form in first}
    start = 0 if quick else 8
    rows = [growth(f"first call, {form}", "layers of 64", "layer", 1e3, "ms", first[form], start) for form in first]
    rows += [growth(f"step, {form}", "layers of 64", "layer", 1e6, "us", later[form], start) for form in later]
    assert np.isfinite([row.ratio for row in rows]).all()
    return rows


def measure(name, quick=False):
    """The rows of chains of operators, or of models of many layers."""
    run = {"layers": layers, "others": others}.get(name)
    return operators(name, quick) if run is None else run(quick)


if __name__ == "__main__":
    command(__doc__, JOBS["growth"], measure)
