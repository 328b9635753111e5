"""Compiled training steps next to the same steps hand-written in JAX, and PyTorch's, compiled and not.

    python benchmarks/compiled_step.py [--only NAME ...] [--quick]

The models are written once (``_programs.py``) and run on both libraries from the same numbers; three steps of
all must agree before anything is timed. Each call waits for its result. Memory is XLA's own account of a
program: arguments, results and temporaries, less what shares a buffer because it is donated.
"""

import importlib.util
import shutil

from _cases import GPU, Forms, agree, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

JAX, TORCH = {"small": 1.2}, {"cnn": 1.5, "gpt": 1.0}  # the targets; 1.05 and 0.9 for the others
MEMORY = 1.05
HAND = "hand-written JAX"


def cases_of(forms, quick):
    """({case: it}, a function that lowers the hand-written step)."""
    hand, lowered = forms.by_hand()
    cases = {HAND: hand, "compiled": forms.of(torchlike, lambda step: torchlike.compile(step, fullgraph=True))}
    if torch is not None:
        cases["torch eager"] = forms.of(torch)
        if not quick:
            cases["torch.compile"] = forms.of(torch, torch.compile)
    return cases, lowered


def bytes_of(lowered):
    """XLA's count of what a program needs."""
    m = lowered.compile().memory_analysis()
    return m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes


def memory(case, lowered):
    """(bytes of the compiled, of the hand-written program, a note)."""
    (program,) = [p for pairs in case.step.programs.values() for _, p in pairs]
    note = "few small arrays are not overwritten" if program.small else ""
    return bytes_of(program.lowered(list(case.arguments))), bytes_of(lowered()), note


def no_compiler():
    """Why torch.compile cannot work here, or None."""
    if GPU:
        return None if importlib.util.find_spec("triton") else "triton is not installed"
    return None if shutil.which("g++") or shutil.which("clang++") else "there is no C++ compiler"


def over_torch(name, title, seconds, failed):
    """The row over the better of PyTorch's steps."""
    theirs = {case: t for case, t in seconds.items() if case.startswith("torch")}
    target = TORCH.get(name, 0.9)
    if not theirs:
        return Row("compiled step", title, "torch", None, "ms", None, target, "torch is not installed")
    best = min(theirs, key=theirs.get)
    others = [f"{case} {t * 1e3:.3g} ms" for case, t in theirs.items() if case != best]
    note = "; ".join([*others, *(f"{case}: {why}" for case, why in failed.items())])
    return Row("compiled step", title, best, theirs[best] * 1e3, "ms", seconds["compiled"] / theirs[best], target, note)


def measure(name, quick=False):
    """The rows of one program."""
    forms = Forms(name, quick)
    cases, lowered = cases_of(forms, quick)
    failed = {}
    if (why := no_compiler()) and cases.pop("torch.compile", None):
        failed["torch.compile"] = why
    failed |= agree(cases)
    enter = {case: it.enter for case, it in cases.items()}
    t = best_times(cases, quick=quick, before=enter)
    title = forms.program.title
    ours, hand, note = memory(cases["compiled"], lowered)
    return [
        Row("compiled step", title, HAND, t[HAND] * 1e3, "ms", t["compiled"] / t[HAND], JAX.get(name, 1.05)),
        over_torch(name, title, t, failed),
        Row("memory, compiled", title, HAND, hand / 2**20, "MiB", ours / hand, MEMORY, note),
    ]


if __name__ == "__main__":
    command(__doc__, JOBS["compiled_step"], measure)
