"""The Python of a program's call as straight code, written once for each program: what it reads, and what it leaves.

A loop over storages, arguments and results would cost more than a small program computes.
"""

from collections import Counter
from itertools import islice
from operator import itemgetter
from sys import getrefcount

import jax

from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import value_of, wrap
from torchlike._executor.pending import Array, Pending
from torchlike._executor.references import ONE, TWO
from torchlike._transforms.capture.outputs import Constant, New, OutputSpec, Same

_LEAF = jax.tree.structure(0)


class Unsettled(Exception):
    """Values that other threads have still to compute; nothing has been done."""


def ready(value):
    """The array of a value that need not be waited for."""
    if value.__class__ is not Pending:
        return value
    if value.array is None:
        raise Unsettled(value)
    return value.array


class Writer:
    """Collects lines of a function, and the objects that they name."""

    def __init__(self):
        self.lines, self.names, self._known, self._kept = [], {}, {}, []

    def name(self, x):
        """A global name for ``x``."""
        known = self._known.get(id(x))
        if known is None:
            known = self._known[id(x)] = f"x{len(self._known)}"
            self.names[known] = x
        return known

    def keep(self, x):
        """A global name for ``x``, which nobody else holds."""
        self._kept.append(x)
        return self.name(x)

    def add(self, *lines):
        self.lines += lines

    def function(self, title):
        """The function ``title`` with these lines as its body."""
        names = dict(self.names)
        exec(compile("\n    ".join([title, *self.lines]), "<torchlike program>", "exec"), names)  # noqa: S102
        return names["run"]


def straight(program, inference, shown):
    """``run(leaves, numbers)`` of a program: what a call reads, computes, writes and returns.

    ``shown``: whether other threads may look meanwhile, for whom there are tokens.
    """
    w = Writer()
    w.names.update(
        value_of=value_of, write=write, wrap=wrap, Array=Array, Maker=OutputSpec, UNTRACKED=UNTRACKED,
        getrefcount=getrefcount, early=program.early, tokens=program.tokens, recover=program.recover,
        unshare=program.unshare, redeem=program.redeem, history=program.history, failed=program.failed, ready=ready,
        ONE=ONE, TWO=TWO, islice=islice,
    )  # fmt: skip
    _gather(w, program)
    _compute(w, program, shown)
    _leave(w, program, shown)
    _give(w, program, inference)
    return w.function("def run(leaves, numbers):")


def holding(program, any_grad):
    """``run()``: whether tensors have the gradients that a program takes for granted; ``any_grad`` stands for each."""
    w, checks = Writer(), []
    bases = [h.tensor for h in program.with_grad if h.arg is None]
    for t in bases:
        checks.append(f"(g := {w.name(t)}._grad) is not None and g._view is None")
    known = {id(t) for t in bases}
    for holder, grad in program.demanded:
        if holder.arg is not None or (grad is any_grad and id(holder.tensor) in known):
            continue
        found = f"{w.name(holder.tensor)}._grad"
        checks.append(f"{found} is not None" if grad is any_grad else f"{found} is {w.name(grad)}")
    w.add(f"return {' and '.join(checks) or 'True'}")
    return w.function("def run():")


def uniting(program):
    """``run()``: whether storages that are one input hold one array."""
    w = Writer()
    w.add(f"return {' and '.join(f'{w.name(a)}.value is {w.name(b)}.value' for a, b in program.together) or 'True'}")
    return w.function("def run():")


def _gather(w, program):
    """The inputs, in their order."""
    values = [f"*[s.value for s in {w.name(program.fixed)}]"] if program.fixed else []
    values += [_array(f"leaves[{i}]._storage.value") if base else f"ready(value_of(leaves[{i}]))"
               for i, base in zip(program.arguments, program.base, strict=True)]  # fmt: skip
    values += [_array(f"{_tensor(w, h)}._grad._storage.value") for h in program.with_grad]
    w.add(f"values = [{', '.join([*values, '*numbers'])}]")


def _array(what):
    return f"(x if (x := {what}).__class__ is Array else ready(x))"


def _tensor(w, holder):
    return w.name(holder.tensor) if holder.arg is None else f"leaves[{holder.arg}]"


def _compute(w, program, shown):
    """Run, with tokens in place of the arrays that are overwritten."""
    lent, limit = program.fixed[: program.donated], "ONE" if shown else "TWO"
    w.add(*[f"{w.name(s)}.value = tokens[{i}]" for i, s in enumerate(lent) if shown])
    w.add("try:")
    if lent:
        w.add(f"    if max(map(getrefcount, islice(values, {len(lent)}))) > {limit}:")
        w.add(f"        unshare(values, {limit})")
    w.add("    outs = early(*values)")
    w.add("except BaseException as error:", "    outs = recover(values, error)")
    if program.errors:
        w.add(f"failed.append(outs[{program.flags}])")


def _leave(w, program, shown):
    """What the call changes outside."""
    _write(w, program.writes)
    if program.donated and shown:
        w.add("if max(map(getrefcount, tokens)) > ONE:", "    redeem(outs)")
    w.add(*[f"{w.name(storage)}.value = outs[{k}]" for storage, k in program.alive])
    w.add(*[f"{w.name(counter)}.version += {n}" for counter, n in program.bumps])
    w.add(*[f"write(leaves[{i}], outs[{k}])" for i, k in program.arg_writes])
    w.add(*[f"write({_tensor(w, h)}._grad, outs[{k}])" for h, k in program.grad_writes])


def _write(w, writes):
    """Values, and counts of writes; a loop, because code that runs once in a call is slow: no cache holds it."""
    groups = {}
    for storage, k, n in writes:
        groups.setdefault(n, []).append((storage, k))
    for n, found in groups.items():
        storages, slots = ([x[i] for x in found] for i in (0, 1))
        w.add(f"for s, v in zip({w.keep(storages)}, {w.keep(_picker(slots))}(outs)):", "    s.value = v")
        w.add("    s.epoch += 1", *([f"    s.version += {n}"] if n else []))


def _picker(slots):
    """The function that gives the outputs of these slots."""
    return itemgetter(*slots) if len(slots) > 1 else itemgetter(slice(slots[0], slots[0] + 1))


def _give(w, program, inference):
    """New gradients, and the results."""
    made = [m for _, m in program.grads if m is not None] + program.result
    slots = Counter([m.slot for m in made if isinstance(m, New)])
    simple = [isinstance(m, New) and m.view is m.strides is None and slots[m.slot] == 1 and not m.retains
              for m in made]  # fmt: skip
    known = [isinstance(m, Constant | Same) for m in made]
    if program.metas:
        w.add("node = history(outs, leaves)")
    if not all(a or b for a, b in zip(simple, known, strict=True)):
        w.add("make = Maker(outs, leaves, lambda root: (node, root)).make")
    expressions = iter([_made(w, m, k, s, inference) for k, (m, s) in enumerate(zip(made, simple, strict=True))])
    for holder, m in program.grads:
        w.add(f"{_tensor(w, holder)}._grad = {'None' if m is None else next(expressions)}")
    results = list(expressions)
    flat = jax.tree.structure((0,) * len(results))
    if program.out_tree == _LEAF:
        w.add(f"return {results[0]}")
    elif program.out_tree == flat:
        w.add(f"return ({', '.join(results)}{',' if results else ''})")
    else:
        w.names.update(unflatten=jax.tree.unflatten, out_tree=program.out_tree)
        w.add(f"return unflatten(out_tree, [{', '.join(results)}])")


def _made(w, m, k, simple, inference):
    """An expression for one tensor or other result."""
    if isinstance(m, Constant):
        return w.name(m.value)
    if isinstance(m, Same):
        return _tensor(w, m)
    if not simple:
        return f"make({w.name(m)})"
    t = f"t{k}"
    w.add(f"{t} = wrap(outs[{m.slot}])")
    if inference:
        w.add(f"{t}._vc = UNTRACKED")
    if m.root is not None:
        w.add(f"{t}._rg, {t}._edge = True, (node, {m.root})")
    return t
