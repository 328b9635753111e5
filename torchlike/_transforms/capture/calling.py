"""The Python of a program's call as straight code, written once for each program: what it reads, and what it leaves.

A loop over storages, arguments and results would cost more than a small program computes.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, starmap
from operator import itemgetter
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import jax

from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike._executor.pending import Array, Pending
from torchlike._executor.references import ONE, SHARING, TWO
from torchlike._transforms.capture.given import join
from torchlike._transforms.capture.outputs import Computed, Constant, New, OutputSpec, Same
from torchlike._transforms.capture.packing import Packed

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage
    from torchlike._transforms.capture.capture import Trace
    from torchlike._transforms.capture.program import Program

_LEAF = jax.tree.structure(0)


class Unsettled(Exception):
    """Values that other threads have still to compute, or have just changed; nothing has been done."""


class Stale(Exception):
    """A program that ran ahead of its guards is not the one to run; nothing has been done."""


def ready(value: Any) -> Any:
    """The array of a value that need not be waited for."""
    if value.__class__ is not Pending:
        return value
    if value.array is None:
        raise Unsettled(value)
    return value.array


class Writer:
    """Collects lines of a function, and the objects that they name."""

    def __init__(self) -> None:
        self.lines, self.names, self._known, self._kept, self._indent = [], {}, {}, [], ""

    def name(self, x: object) -> str:
        """A global name for ``x``."""
        known = self._known.get(id(x))
        if known is None:
            known = self._known[id(x)] = f"x{len(self._known)}"
            self.names[known] = x
        return known

    def keep(self, x: object) -> str:
        """A global name for ``x``, which nobody else holds."""
        self._kept.append(x)
        return self.name(x)

    def add(self, *lines: str) -> None:
        self.lines += [self._indent + line for line in lines]

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Lines that are indented."""
        self._indent += "    "
        yield
        self._indent = self._indent[4:]

    def function(self, title: str) -> Callable[..., Any]:
        """The function ``title`` with these lines as its body."""
        names = dict(self.names)
        exec(compile("\n    ".join([title, *self.lines]), "<torchlike program>", "exec"), names)  # noqa: S102
        return names["run"]


def straight(program: Program, concurrent: bool) -> Callable[..., Any]:
    """``run(leaves, numbers)`` of a program: what a call reads, computes, writes and returns.

    ``concurrent``: whether other threads may look meanwhile, for whom there are tokens.
    """
    w = _writer(program, concurrent)
    _begin(w, program)
    _gather(w, program)
    w.add("kept = []")
    _claim(w, program.fixed[: program.lent] if concurrent else [])
    w.add("try:")
    with w.block():
        _compute(w, program, concurrent)
        _leave(w, program, concurrent)
        if program.direct is not None:
            written = sum([id(s) in program.owned for s, _, _ in program.writes])
            w.add(f"direct.epochs = now + {written} if quick and now == direct.last else None")
            w.add(f"direct.last = now + {written} if quick else None")
    w.add("except BaseException as error:", "    outs = recover(values, error, kept, leaves)")
    _give(w, program)
    return w.function("def run(leaves, numbers):")


def ahead(program: Program, hold: Callable[[], bool], concurrent: bool) -> Callable[..., Any]:
    """``run(leaves)``: a call whose guards are checked while the program computes; raises Stale if they do not hold,
    and Unsettled.

    See Note [Ahead] in :mod:`program`.
    """
    w, lent = _writer(program, concurrent), program.fixed[: program.lent] if concurrent else []
    w.names.update(
        Stale=Stale, hold=hold, holds=program.holds, united=program.united, numbers_now=program.numbers,
        examine=program.examine,
    )  # fmt: skip
    w.add("try:")
    with w.block():
        w.add("numbers = numbers_now()")
        _gather(w, program)
    w.add("except Unsettled:", "    raise")
    w.add("except Exception:", "    raise Stale from None")  # what is wrong the guards tell
    if lent and program.together:
        w.add("if not united():", "    raise Stale")  # the tokens are different ones
    w.add("kept = []")
    _claim(w, lent)
    w.add("try:")
    with w.block():
        w.add(*[f"{w.name(s)}.value = tokens[{i}]" for i, s in enumerate(lent)])
        w.add(f"[outs] = {_launch(program)}")
        w.add(f"if not (hold() and holds(leaves{', True' if lent else ''})):", "    raise Stale")
        if program.errors:
            w.add("if failed:", "    examine()")
        _begin(w, program)
        w.add("kept.append(outs)")
        if program.errors:
            w.add(f"failed.append(outs[{program.flags}])")
        _leave(w, program, concurrent)
    w.add("except BaseException as error:", "    outs = recover(values, error, kept, leaves, True)")
    _give(w, program)
    return w.function("def run(leaves):")


def _begin(w: Writer, program: Program) -> None:
    """What is read before anything changes."""
    if program.effects is not None:
        program.effects.begin(w)
    computed = {id(m): m for m in program.result if isinstance(m, Computed)}
    w.add(*[f"{_computed(w, m)} = {w.name(m.get)}()" for m in computed.values()])


def _computed(w: Writer, m: Computed) -> str:
    return f"c{w.name(m.get)}"


def _launch(program: Program) -> str:
    """What gives the results of ``values``, in a list."""
    usual = "starmap(early, [values])"
    if program.direct is None:
        return usual
    return f"map(direct.collect, map(direct.execute, [values])) if direct.takes(values) else {usual}"


def _writer(program: Program, concurrent: bool) -> Writer:
    w, packing = Writer(), None if concurrent else program.packing
    w.names.update(
        value_of=value_of, write=write, wrap=wrap, Array=Array, Maker=OutputSpec, UNTRACKED=UNTRACKED,
        getrefcount=getrefcount, early=packing or program.early, direct=program.direct,
        tokens=program.tokens, recover=program.recover, unshare=program.unshare, redeem=program.redeem,
        history=program.history, failed=program.failed, ready=ready, ONE=ONE, TWO=TWO, SHARING=SHARING,
        islice=islice, starmap=starmap, Pending=Pending, Unsettled=Unsettled,
    )  # fmt: skip
    return w


def finishing(program: Program) -> Callable[..., Any]:
    """``run(outs, leaves)``: what an interrupted call still has to leave outside; it may have done so before."""
    w = Writer()
    w.names.update(write=write)
    _write(w, program.writes)
    _leave_others(w, program)
    w.add("return outs")
    return w.function("def run(outs, leaves):")


def holding(program: Program, any_grad: object) -> Callable[..., Any]:
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


def uniting(program: Program) -> Callable[..., Any]:
    """``run()``: whether storages that are one input hold one array."""
    w = Writer()
    w.add(f"return {' and '.join(f'{w.name(a)}.value is {w.name(b)}.value' for a, b in program.together) or 'True'}")
    return w.function("def run():")


def sharing(program: Program, trace: Trace) -> Callable[..., Any]:
    """``run(leaves)``: whether arguments share tensors and memory with others as in the trace."""
    w = Writer()
    leaves = trace.leaves[: len(trace.leaves) - len(trace.getters)]
    terms = trace.sharing.terms(leaves, w.keep)
    if program.arg_writes or program.grad_writes:
        given = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        read = {len(leaves) + k: f"{w.keep(g)}()" for k, g in enumerate(trace.getters)}  # not among the given ones yet
        holders = [read.get(h.arg) or _tensor(w, h) for h in program.with_grad]
        terms += [f"leaves[{i}]._storage is not {h}._grad._storage" for h in holders for i in given]
    w.add(f"return {' and '.join(terms) or 'True'}")
    return w.function("def run(leaves):")


def _gather(w: Writer, program: Program) -> None:
    """The inputs, in their order."""
    values = [f"*[s.value for s in {w.name(program.fixed)}]"] if program.fixed else []
    values += [_array(f"leaves[{i}]._storage.value") if base else f"ready(value_of(leaves[{i}]))"
               for i, base in zip(program.arguments, program.base, strict=True)]  # fmt: skip
    values += [_array(f"{_tensor(w, h)}._grad._storage.value") for h in program.with_grad]
    w.add(f"values = [{', '.join([*values, '*numbers'])}]")


def _array(what: str) -> str:
    return f"(x if (x := {what}).__class__ is Array else ready(x))"


def _tensor(w: Writer, holder: Same) -> str:
    return w.name(holder.tensor) if holder.arg is None else f"leaves[{holder.arg}]"


def _claim(w: Writer, lent: Sequence[Storage]) -> None:
    """See that nobody else computes or has changed what is lent next: no thread comes between, as nothing is called."""
    if lent:
        w.add("if Pending in map(type, values):", "    [*map(ready, values)]")
        changed = " or ".join([f"{w.name(s)}.value is not values[{i}]" for i, s in enumerate(lent)])
        w.add(f"if {changed}:", "    raise Unsettled")


def _compute(w: Writer, program: Program, concurrent: bool) -> None:
    """Run, with tokens in place of the arrays that are overwritten."""
    lent, limit = program.fixed[: program.lent], "ONE" if concurrent else "TWO"
    w.add(*[f"{w.name(s)}.value = tokens[{i}]" for i, s in enumerate(lent) if concurrent])
    if program.donated:
        w.add(f"if max(map(getrefcount, islice(values, {program.donated}))) > {limit} or SHARING:")
        w.add(f"    unshare(values, {limit})")
    usual = "starmap(early, [values])"
    if program.direct is not None:
        w.add(f"now = sum([s.epoch for s in {w.name(program.fixed)}])")
        w.add(f"quick = direct.takes(values, {len(program.fixed)} if now == direct.epochs else 0)")
        usual = f"map(direct.collect, map(direct.execute, [values])) if quick else {usual}"
    w.add(f"kept.extend({usual})", "[outs] = kept")  # one call: see Note [Donation]
    if program.errors:
        w.add(f"failed.append(outs[{program.flags}])")


def _leave(w: Writer, program: Program, concurrent: bool) -> None:
    """What the call changes outside."""
    if program.packing is not None and not concurrent:
        w.names.update(Packed=Packed, commit=program.packing.commit)
        w.add("if outs.__class__ is Packed:", "    commit(outs)")
    _write(w, program.writes)
    if program.lent and concurrent:
        w.add("if max(map(getrefcount, tokens)) > ONE:", "    redeem(outs)")
    _leave_others(w, program)


def _leave_others(w: Writer, program: Program) -> None:
    w.add(*[f"{w.name(storage)}.value = outs[{k}]" for storage, k in program.alive])
    w.add(*[f"{w.name(counter)}.version += {n}" for counter, n in program.bumps])
    w.add(*[f"write(leaves[{i}], outs[{k}])" for i, k in program.arg_writes])
    w.add(*[f"write({_tensor(w, h)}._grad, outs[{k}])" for h, k in program.grad_writes])


def _write(w: Writer, writes: Iterable[Any]) -> None:
    """Values and counts of writes; who interrupts it has it done again.

    A loop, because code that runs once in a call is slow: no cache holds it.
    """
    groups = {}
    for storage, k, n in writes:
        groups.setdefault(n, []).append((storage, k))
    for n, found in groups.items():
        storages, slots = ([x[i] for x in found] for i in (0, 1))
        w.add(f"for s, v in zip({w.keep(storages)}, {w.keep(_picker(slots))}(outs)):")
        w.add("    s.value = v", "    s.epoch += 1", *([f"    s.version += {n}"] if n else []))


def _picker(slots: Sequence[int]) -> Callable[..., Any]:
    """The function that gives the outputs of these slots."""
    return itemgetter(*slots) if len(slots) > 1 else itemgetter(slice(slots[0], slots[0] + 1))


def _give(w: Writer, program: Program) -> None:
    """New gradients, and the results."""
    given = [m for _, m in program.grads if m is not None] + program.result + program.kept
    made = list({id(m): m for m in given}.values())  # a tensor that is two results is one object
    slots = Counter([m.slot for m in made if isinstance(m, New)])
    simple = [isinstance(m, New) and m.view is m.strides is None and slots[m.slot] == 1
              and not m.retains and not m.carried and not m.leaf
              for m in made]  # fmt: skip
    known = [isinstance(m, Constant | Same | Computed) for m in made]
    if program.metas:
        w.add("node = history(outs, leaves)")
    if not all(a or b for a, b in zip(simple, known, strict=True)):
        w.add("make = Maker(outs, leaves, lambda root: (node, root)).make")
    expressions = {
        id(m): _made(w, m, k, s, program.inference) for k, (m, s) in enumerate(zip(made, simple, strict=True))
    }
    for k, (key, n) in enumerate(Counter(map(id, given)).items()):
        if n > 1 and expressions[key].startswith("make("):
            w.add(f"m{k} = {expressions[key]}")
            expressions[key] = f"m{k}"
    for holder, m in program.grads:
        w.add(f"{_tensor(w, holder)}._grad = {'None' if m is None else expressions[id(m)]}")
    results = [expressions[id(m)] for m in program.result]
    if program.effects is not None:
        results = _named(w, results)
        program.effects.write(w, _named(w, [expressions[id(m)] for m in program.kept], "k"), program.width)
    flat = jax.tree.structure((0,) * len(results))
    if program.out_tree == _LEAF:
        w.add(f"return {results[0]}")
    elif program.out_tree == flat:
        w.add(f"return ({', '.join(results)}{',' if results else ''})")
    else:
        w.names.update(unflatten=jax.tree.unflatten, out_tree=program.out_tree, join=join)
        made = f"unflatten(out_tree, [{', '.join(results)}])"
        w.add(f"return {made if program.out_joints is None else f'join({made}, {program.out_joints})'}")


def _named(w: Writer, expressions: Sequence[str], prefix: str = "r") -> list[str]:
    """Names for what is made before something else happens."""
    calls = {e: f"{prefix}{i}" for i, e in enumerate(expressions) if e.startswith("make(")}
    w.add(*[f"{name} = {e}" for e, name in calls.items()])
    return [calls.get(e, e) for e in expressions]


def _made(w: Writer, m: Any, k: int, simple: bool, inference: bool) -> str:
    """An expression for one tensor or other result."""
    if isinstance(m, Constant):
        return w.name(m.value)
    if isinstance(m, Same):
        return _tensor(w, m)
    if isinstance(m, Computed):
        return _computed(w, m)
    if not simple:
        return f"make({w.name(m)})"
    t = f"t{k}"
    w.add(f"{t} = wrap(outs[{m.slot}])")
    if inference:
        w.add(f"{t}._vc = UNTRACKED")
    if m.root is not None:
        w.add(f"{t}._rg, {t}._edge = True, (node, {m.root})")
    return t
