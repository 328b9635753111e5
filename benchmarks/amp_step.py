"""Training steps under autocast next to the same in JAX by hand, in PyTorch, and with a ``GradScaler``.

    python benchmarks/amp_step.py [--only NAME ...] [--quick]

The programs are those of ``compiled_step.py``, with products in bfloat16; by hand their parameters are cast, and what
follows from it is in bfloat16 too. Losses of three steps must agree before anything is timed. Where the processor
multiplies in bfloat16 PyTorch uses that, and XLA does not: the eager rows say so, and in float16, which neither has,
there is one more.
"""

import pathlib

import jax.numpy as jnp
from _cases import GPU, Forms, agree, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

HAND, SCALED, EAGER = 1.05, 1.05, 1.0  # the targets
LOW = "bfloat16"
BY_HAND = "hand-written JAX"


def hardware():
    """What the processor has for bfloat16, as PyTorch's kernels use it; None if nothing."""
    if GPU:
        return "the GPU"
    try:
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return None
    return next((flag for flag in ("amx_bf16", "avx512_bf16") if flag in flags), None)


def compiled(step):
    return torchlike.compile(step, fullgraph=True)


def lacking(forms, low):
    """Why PyTorch has no figures of a program in a dtype; empty if it has."""
    try:
        forms.of(torch, low=low).numbers()
    except RuntimeError:  # its LSTM on processors that do not multiply in bfloat16
        return "PyTorch has no kernel for it"
    return ""


def cases_of(forms):
    """The steps to be timed, and why PyTorch's is not among them."""
    cases = {
        BY_HAND: forms.by_hand(low=jnp.dtype(LOW))[0],
        "compiled": forms.of(torchlike, compiled, low=LOW),
        "compiled, scaled": forms.of(torchlike, compiled, low=LOW, scaled=True),
        "compiled, float32": forms.of(torchlike, compiled),
        "immediate": forms.of(torchlike, mode="immediate", low=LOW),
        "recorded": forms.of(torchlike, mode="recorded", low=LOW),
    }
    why = "no torch eager here" if torch is None else lacking(forms, LOW)
    if not why:
        cases["torch eager"] = forms.of(torch, low=LOW)
    return cases, why


def times_of(cases, quick):
    agree(cases, tolerance=0.05)
    return best_times(cases, quick=quick, before={case: it.enter for case, it in cases.items()})


def in_float16(forms, quick):
    """Seconds of eager steps in float16, and why there are none of PyTorch, where it has no kernel for them."""
    if why := lacking(forms, "float16"):
        return {}, why
    both = {"recorded": (torchlike, "recorded"), "torch eager": (torch, None)}
    return times_of({case: forms.of(lib, mode=mode, low="float16") for case, (lib, mode) in both.items()}, quick), ""


def measure(name, quick=False):
    """The rows of one program."""
    forms = Forms(name, quick)
    cases, why = cases_of(forms)
    t, title = times_of(cases, quick), forms.program.title

    def row(measure, case, base, target=None, note="", times=t):
        if base not in times:
            return Row(measure, title, base, None, "ms", None, target, note)
        return Row(measure, title, base, times[base] * 1e3, "ms", times[case] / times[base], target, note)

    fast = hardware()
    note = why or (f"PyTorch multiplies by {fast}, XLA does not" if fast and not GPU else "")
    rows = [
        row("amp, compiled", "compiled", BY_HAND, HAND),
        row("amp, compiled", "compiled", "compiled, float32"),
        row("amp, scaled", "compiled, scaled", "compiled", SCALED),
        row("amp, recorded", "recorded", "torch eager", None if note else EAGER, note),
        row("amp, immediate", "immediate", "torch eager", note=note),
    ]
    if torch is not None and not GPU:
        halves, why = in_float16(forms, quick)
        rows.append(row("float16, recorded", "recorded", "torch eager", EAGER, why, halves))
    return rows


if __name__ == "__main__":
    command(__doc__, JOBS["amp_step"], measure)
