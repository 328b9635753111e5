"""Writes docs/opaque.md, from the derivatives of all operators: ``python docs/make_opaque.py``."""

import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sample_kit import operators, sample

from torchlike._aten import backward
from torchlike._aten.jaxpr import missing
from torchlike._decl import derive, rules
from torchlike._decl.naming import named_trace

PAGE = Path(__file__).with_name("opaque.md")
HEAD = """\
# Derivatives that a dispatch mode sees as one call

Under a `TorchDispatchMode` a backward is the calls of aten that its formula is: the formula's own words, and for
the rest the primitives of jax that it consists of, one by one (`mul` is `aten.mul`, `select_n` is `aten.where`). So
gradients are the same with and without a mode. Of {known} operators that is so. The derivatives of the {count} below
have parts for which aten has no operator; a mode sees each as one call of `torch.ops.torchlike`, with the kernel that
runs without a mode too. Made by `python docs/make_opaque.py`, with jax {jax}.

| operator | what aten has no operator for |
|---|---|
"""


def plan_of(op):
    """The derivative of a call of ``op``, for all inputs that have one."""
    values, static = sample(op)
    avals = [jax.ShapeDtypeStruct(v.shape, v.dtype) if isinstance(v, np.ndarray) else derive.aval(v) for v in values]
    floats = [i for i, v in enumerate(values) if isinstance(v, np.ndarray) and rules.differentiable(avals[i].dtype)]
    wanted = tuple(floats[:1] if "batch_norm" in op.name else floats)
    plan = op.derivative(static, avals, wanted)
    if plan is not None:
        plan.op, plan.static, plan.avals = op, static, avals
    return plan


def reasons(op):
    """The primitives of the derivative that aten has no operator for; None where it raises or is none."""
    plan = plan_of(op)
    if plan is None or plan.refuses:
        return None
    if backward.named(plan) is not None:
        return set()
    return missing(named_trace(plan.source[0], *plan.source[1]).jaxpr)


def page():
    """The text of docs/opaque.md."""
    found = {op.full_name: reasons(op) for op in operators()}
    rows = [f"| `{name}` | {', '.join(sorted(why))} |" for name, why in sorted(found.items()) if why]
    known = sum(why is not None and not why for why in found.values())
    made_with = ".".join(jax.__version__.split(".")[:2])
    return HEAD.format(known=known, count=len(rows), jax=made_with) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.name)
