"""Eager training steps, recorded and immediate, next to PyTorch's and to one jitted function of JAX.

    python benchmarks/eager_step.py [--only NAME ...] [--quick]

Nothing is decorated. Immediate execution launches each operator; recorded execution fuses what comes back.
Each call waits for its loss and for every parameter: operators that run one by one may end in any order.
"""

from _cases import RECORDED, Forms, agree, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

BOUND_BY_OVERHEAD = ("small", "adam")  # the other programs' steps take as long as those of the 512-wide MLP, or longer
HAND = "hand-written JAX"


def cases_of(forms):
    cases = {HAND: forms.by_hand()[0], "immediate": forms.of(torchlike, mode="immediate")}
    if RECORDED:
        cases["recorded"] = forms.of(torchlike, mode="recorded")
    if torch is not None:
        cases["torch eager"] = forms.of(torch)
    return cases


def measure(name, quick=False):
    """The rows of one program."""
    forms = Forms(name, quick)
    cases = cases_of(forms)
    agree(cases)
    enter = {case: it.enter for case, it in cases.items()}
    t = best_times(cases, quick=quick, before=enter)

    def row(case, base, target=None):
        ratio = t[case] / t[base] if case in t and base in t else None
        why = "" if ratio is not None else f"no {base if case in t else case} here"
        ms = t[base] * 1e3 if base in t else None
        return Row(f"{case} step", forms.program.title, base, ms, "ms", ratio, target, why)

    return [
        row("recorded", HAND, 2.0 if name in BOUND_BY_OVERHEAD else 1.1),
        row("recorded", "torch eager", 1.0),
        row("recorded", "immediate", 1.0),
        row("immediate", "torch eager"),
    ]


if __name__ == "__main__":
    command(__doc__, JOBS["eager_step"], measure)
