"""Kernels of single operators: found in the store, or compiled quickly at first, and well once they are worth it.

On CPU most of a program's first seconds go into making small kernels. One that this or another process has made
before is loaded without tracing anything. A new one is run by numpy where that gives the same (``numpy_programs.py``),
or compiled without LLVM's optimisation, until it has been called often enough, on enough data, to pay for more; both
counts are exact and do not ask what is in the store, so runs repeat.
Whole programs (``torch.compile``, recorded traces) are compiled by jax as it sees fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from torchlike._base.bits import demand_x64
from torchlike._base.deterministic import determinism
from torchlike._base.device import stays
from torchlike._executor import compiling, identity, numpy_programs
from torchlike._executor.compiling import host
from torchlike._executor.pending import Array, trace_state_clean
from torchlike._executor.rows import Rows
from torchlike._executor.spread import beside, on_several_devices
from torchlike._executor.store import STORE

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Identity, Indices

# Sums of the elements of arguments and results.
TINY = 1 << 8  # up to here a kernel takes no longer for being compiled quickly
LARGE = 1 << 18  # beyond, one call of a quickly compiled kernel costs as much as compiling it well
WORK = 1 << 19  # so many elements in all calls together do; both for each few arguments, which take longer to compile
FEW = 8
CALLS = 64  # as do so many calls: each costs some microseconds more meanwhile; a quarter, where XLA computes steps
COUNTED = 4096  # kinds of arguments of one kernel that are counted
TRACED = 64  # kernels that are traced for their shapes, as recorded execution asks, before they are compiled
TWINS = 16  # programs of one kernel that wait for calls with numbers of the other kind
KEPT = 6000  # kernels that a process keeps; Linux gives it 65,530 mappings of memory, and each takes some

LABOUR = 1 << 27  # convolutions of more products are compiled well at once: loops compiled quickly are 100 times slower

WELL, QUICKLY = compiling.WELL, compiling.QUICKLY
# XLA's emitters alone transpose by blocks, 8 to 30 times as fast; of functions over many arrays they make code that is
# up to twice as fast, in less time. See also _gains.
EMITTED: dict[str, Any] = {}
EXACTLY = WELL | {"xla_backend_optimization_level": 3}  # whatever XLA_FLAGS says
_LEVELS: dict[str, dict[str, Any]] = {
    "well": WELL, "many": EMITTED, "quickly": QUICKLY, "small": QUICKLY, "exactly": EXACTLY
}  # fmt: skip
_DIVIDING = {level: options | {"xla_disable_hlo_passes": "algsimp"} for level, options in _LEVELS.items()}
_NUMBERS = frozenset({float, int, bool, complex})
_ARRAYS = (np.ndarray, np.generic)
_TRACED: dict[Any, Any] = {}
_CACHE = compiling.cache(KEPT) if compiling.READY else None


def jit(
    function: Callable[..., Any],
    name: Identity = None,
    donated: Indices = (),
    closed: ClosedJaxpr | None = None,
    exact: bool = False,
    rows: Rows | None = None,
    many: bool = False,
) -> Any:
    """``function`` compiled for each structure, shapes and dtypes of its arguments; it overwrites those ``donated``.

    Args:
        name: what tells it from every other function, as :func:`identity.spell` understands it; or None.
        closed: the jaxpr that it is traced to for arguments of certain kinds, if that is known.
        exact: compile it in one way only, in which sums of products are rounded once: always the same bits.
        rows: which inputs have rows that it treats apart.
        many: it computes many operators, over many arrays.
    """
    if _CACHE is None:
        return jax.jit(function, donate_argnums=donated, keep_unused=stays())
    miss = Miss(function, name, donated, closed, exact, rows, many)
    new = compiling.pjit(function, miss, _CACHE, donated)
    if rows is not None:
        rows.of(new)
    new.__wrapped__, new.eval_shape, new.lower, new.trace = function, miss.eval_shape, miss.lower, miss.trace
    new.results = miss.results
    return new


class Call:
    """The arguments of a call: their leaves and structure, and what selects the code for them."""

    __slots__ = ("leaves", "tree", "kinds", "committed", "size", "numbers")

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.leaves, self.tree = _flat(args)
        self.committed, self.size, kinds = False, 0, []
        for v in self.leaves:
            if v.__class__ is Array:
                kinds.append(v.aval)
                self.committed |= v._committed
                self.size += math.prod(v.aval.shape)
            else:
                kinds.append(compiling.kind(v))
        self.kinds = tuple(kinds)
        self.numbers = any([a.weak_type for a in kinds])

    def spell(self) -> str:
        """The text of what selects the code."""
        kinds = ",".join([identity.spell_aval(a) for a in self.kinds])
        return f"{self.tree}|{kinds}|{self.committed}"


class _Counted:
    """The quickly compiled code of a kernel for some kinds of arguments, and how often it was called."""

    __slots__ = ("outs", "jitted", "calls")
    cost = 1

    def __init__(self, code: compiling.Code, kernel: Miss) -> None:
        codes: dict[bool, Any] = {}
        self.outs, self.calls = code.outs, 0

        def miss(*args: Any) -> tuple[Any, ...]:
            call = Call(args)  # its numbers are Python's or arrays
            found = codes.get(call.committed) if codes else code
            codes[call.committed] = found = found or kernel._code(call, "quickly", args)
            return kernel._run(found, call, args)

        self.jitted = compiling.pjit(lambda *args: kernel.function(*args), miss, _CACHE, kernel.donated)

    def run(self, _: Call, args: tuple[Any, ...]) -> Any:
        return self.jitted(*args)


class _ByNumpy:
    """A kernel's results from numpy, for some kinds of arguments, and how often they were asked for."""

    __slots__ = ("skeleton", "outs", "program", "calls", "cost")

    def __init__(self, skeleton: Any, outs: Sequence[Any], kept: tuple[Any, ...]) -> None:
        self.skeleton, self.outs, self.calls = skeleton, compiling.kinds(outs), 0
        self.program = numpy_programs.HostProgram(kept)
        self.cost = 4 if self.program.compiled else 1

    def run(self, call: Call, _: tuple[Any, ...]) -> Any:
        arrays = compiling.put(self.program(call.leaves), self.outs, call.committed)
        return arrays[0] if self.skeleton == 0 else jax.tree.unflatten(jax.tree.structure(self.skeleton), arrays)


class Miss:
    """What a kernel does where it has no code: (results, what to call from now on, whether to ask again)."""

    __slots__ = ("function", "name", "donated", "closed", "exact", "rows", "many", "calls", "twins", "_plain", "_text",
                 "_last")  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        name: Identity,
        donated: Indices,
        closed: ClosedJaxpr | None = None,
        exact: bool = False,
        rows: Rows | None = None,
        many: bool = False,
    ) -> None:
        self.rows, self.many = rows, many
        self.function, self.name, self.donated, self.closed, self.exact = function, name, donated, closed, exact
        self.calls: dict = {}
        self.twins: dict = {}  # code for calls with Python numbers or with arrays of them, until it serves both
        self._plain: Any = None
        self._text: str | None = None
        self._last: tuple[Any, ...] | None = None

    @property
    def plain(self) -> Any:
        """The function jitted by jax: for tracers, several devices, accelerators."""
        if self._plain is None:
            self._plain = jax.jit(self.function, donate_argnums=self.donated, keep_unused=stays())
        return self._plain

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        demand_x64(jax.config.jax_enable_x64)
        if kwargs or not trace_state_clean() or not _simple(args):
            _refuse_abstract(args)
            return self._by_jax(args, kwargs)
        call = Call(args)
        parts = 1 + len(call.leaves) // FEW
        if call.numbers and (twin := self.twins.get((call.tree, call.kinds, call.committed))) is not None:
            return self._first(twin, call, args)
        if self.exact:
            return self._first(self._code(call, "exactly", args), call, args)
        key = call.tree, call.kinds
        if call.size > LARGE * parts or determinism.enabled:
            self.calls.pop(key, None)
            return self._first(self._code(call, "well", args), call, args)
        counted = self.calls.pop(key, None)  # the one used last stands last
        if counted is None:
            counted = self.rows and self.rows.padded(call, args)
            counted = counted or self._begun(call, args)
            if counted is not None:
                self._last = call.kinds, counted.skeleton, counted.outs, call.tree, compiling.trace_context()
            if counted is None or counted.__class__ is compiling.Code:
                if counted is None or _tiny(call, counted.outs):
                    return self._first(counted, call, args)
                counted = _Counted(counted, self)
            if len(self.calls) >= COUNTED:
                for old in list(self.calls)[: COUNTED // 4]:
                    self.calls.pop(old, None)
        counted.calls += 1
        if counted.calls > 1 and counted.calls >= min(CALLS // counted.cost, WORK * parts // max(call.size, 1)):
            level = "small" if _tiny(call, counted.outs) else "well"
            return self._first(self._code(call, level, args), call, args)
        try:
            results = counted.run(call, args)
        except numpy_programs.Subnormal:
            return self._first(self._code(call, "well", args), call, args)
        self.calls[key] = counted
        return results, None, True

    def _first(self, code: Any, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """(results, what to call from now on, False) of the first call of some code."""
        if code is not None and call.numbers:
            twin = call.tree, call.kinds, call.committed
            if self.twins.pop(twin, None) is not code:
                if len(self.twins) >= TWINS:
                    self.twins.clear()
                self.twins[twin] = code
        return self._run(code, call, args)

    def _run(self, code: Any, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """As :meth:`_first`, for code that waits for no other calls."""
        if code is None:
            return self._by_jax(args, {})
        return *compiling.call(code, call.leaves, call.committed), False

    def _by_jax(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """As :meth:`_first`; what is whole on one of the devices that other arguments are spread over goes to all."""
        try:
            return self.plain._cache_miss(*args, **kwargs)
        except ValueError as error:
            if not (stays() and on_several_devices(error)):
                raise
            leaves, tree = jax.tree.flatten((args, kwargs))
            new = beside(leaves)
            if new is leaves:
                raise
            args, kwargs = jax.tree.unflatten(tree, new)
            return self.plain(*args, **kwargs), None, True

    def _code(self, call: Call, level: str, args: tuple[Any, ...]) -> compiling.Code | None:
        """The code for a call, from the store or compiled; None if only jax's own way can run it."""
        if self.many and level == "well":
            level = "many"
        key = self._key(level, call)
        kept = None if key is None else STORE.get(key)
        if kept is not None:
            return compiling.unpacked(kept)
        program = self._program(call, args)
        found = compiling.compiled(program, self.donated, options_for(level, program.jaxpr))
        if found is None:
            return None
        code, portable = found
        if key is not None and portable:
            STORE.put(key, compiling.packed(code))
        return code

    def _begun(self, call: Call, args: tuple[Any, ...]) -> Any:
        """What runs the first calls: code, a program of numpy calls, or None if only jax's own way can."""
        key = self._key("quickly", call)
        kept = None if key is None else STORE.get(key)
        if kept is not None:
            return compiling.unpacked(kept) if len(kept) == len(compiling.Code._fields) else _ByNumpy(*kept)
        found = self._program(call, args)
        program = None if self.donated or found.jaxpr.effects else numpy_programs.written(found.jaxpr)
        if program is None:
            options = options_for("quickly", found.jaxpr)
            code, portable = compiling.compiled(found, self.donated, options) or (None, False)
            made, kept = code, portable and compiling.packed(code)
        else:
            kept = compiling.skeleton(found), compiling.facts(found.jaxpr.out_avals), program
            made = _ByNumpy(*kept)
            portable = compiling.plain(kept[0])
        if key is not None and portable:
            STORE.put(key, kept)
        return made

    def _program(self, call: Call, args: tuple[Any, ...]) -> Any:
        """What the function is traced to."""
        closed = self.closed
        if closed is not None and _alike(closed.in_avals, call.kinds):
            return compiling.Known(closed)
        seen = _TRACED.pop((self, call.tree, compiling.trace_context()), None)
        if seen is not None and _alike(seen[0], call.kinds):
            return seen[1]
        return compiling.traced(self.function, args, self.donated)

    def _keep(self, call: Call, program: Any) -> None:
        """Keep what was traced for shapes alone until it is compiled."""
        _TRACED[self, call.tree, compiling.trace_context()] = call.kinds, program
        for old in list(_TRACED)[: max(len(_TRACED) - TRACED, 0)]:
            _TRACED.pop(old, None)

    def _key(self, level: str, call: Call) -> str | None:
        """The text that the store knows some code by; None if it cannot be kept."""
        if self.name is None or STORE.place is None:
            return None
        try:
            if self._text is None:
                self._text = identity.spell((self.name, self.donated))
            return "|".join([level, identity.environment(compiling.trace_context()), self._text, call.spell()])
        except identity.Nameless:
            self.name = None
            return None

    def results(self, kinds: Sequence[Any]) -> Any:
        """Shapes and dtypes of the results for arguments of these kinds, if such were the last ones made for."""
        last, present = self._last, [a for a in kinds if a is not None]
        if last is None or len(last[0]) != len(present) or not _alike(last[0], present):
            return None
        tree = jax.tree.structure(last[1])
        return jax.tree.unflatten(tree, [compiling.struct(a) for a in last[2]])

    # -- what jax's jitted functions have --------------------------------------------------------
    def eval_shape(self, *args: Any) -> Any:
        """Shapes and dtypes of the results; see jax.eval_shape."""
        if not trace_state_clean() or host() is None or self.name is None:
            return self.plain.eval_shape(*args)
        call, last = Call(args), self._last
        if last is not None and self.rows is None and last[3:] == (call.tree, compiling.trace_context()):
            if (known := self.results(call.kinds)) is not None:
                return known
        key = self._key("shapes", call)
        kept = None if key is None else STORE.get(key)
        if kept is None:
            program = compiling.traced(self.function, args, self.donated)
            self._keep(call, program)
            found = program.out_info
            leaves, tree = jax.tree.flatten(found)
            skeleton = jax.tree.unflatten(tree, range(len(leaves)))
            if key is not None and compiling.plain(skeleton):
                STORE.put(key, (skeleton, compiling.facts(leaves)))
            return found
        skeleton, outs = kept
        shapes = [compiling.struct(a) for a in compiling.kinds(outs)]
        return jax.tree.unflatten(jax.tree.structure(skeleton), shapes)

    def lower(self, *args: Any) -> Any:
        """See jax.jit."""
        return self.plain.lower(*args)

    def trace(self, *args: Any) -> Any:
        """See jax.jit."""
        return self.plain.trace(*args)


_MOVES = frozenset({"transpose", "reshape", "broadcast_in_dim", "squeeze", "slice", "dynamic_slice", "rev", "copy",
                    "copy_p", "concatenate", "pad", "convert_element_type", "select_n", "lt", "add"})  # fmt: skip


def options_for(level: str, closed: ClosedJaxpr) -> dict[str, Any]:
    """How XLA compiles a kernel. Its simplifier multiplies by inverses, which rounds twice: quotients do without it."""
    if level == "quickly" and _products(closed) > LABOUR:
        level = "well"
    if level == "well" and (_turns(closed) or _gains(closed)):
        return EMITTED
    return (_DIVIDING if numpy_programs.only_divides(closed.jaxpr) else _LEVELS)[level]


def _products(jaxpr: Any) -> int:
    """How many products its convolutions add up: some of them XLA computes by loops of its own, not by a library."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "conv_general_dilated":
            weight = equation.invars[1].aval
            outputs = weight.shape[equation.params["dimension_numbers"].rhs_spec[0]]
            total += math.prod(equation.outvars[0].aval.shape) * (math.prod(weight.shape) // max(outputs, 1))
        total += sum(map(_products, _inner(equation)))
    return total


def _gains(jaxpr: Any) -> bool:
    """Whether XLA's emitters make better code of it: 1.2 to 1.9 times as fast, measured for a million elements."""
    names = _primitives(jaxpr)
    return "scatter-add" in names or {"exp", "reduce_max"} <= names


def _primitives(jaxpr: Any) -> set[str]:
    """The names of what it computes, in functions that it calls too."""
    names = {equation.primitive.name for equation in jaxpr.eqns}
    return names.union(*[_primitives(inner) for equation in jaxpr.eqns for inner in _inner(equation)])


def _inner(equation: Any) -> list[Any]:
    """The bodies of the functions that an equation calls."""
    given = [x for p in equation.params.values() for x in (p if isinstance(p, tuple | list) else (p,))]
    return [inner for x in given if hasattr(inner := getattr(x, "jaxpr", x), "eqns")]


def _turns(jaxpr: Any) -> bool:
    """Whether it moves data, the last axis too, and computes at most where that goes: all compilers give the same."""
    turns = False
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "transpose":
            turns = turns or equation.params["permutation"][-1] != len(equation.params["permutation"]) - 1
        elif name not in _MOVES:
            return False
    return turns


def _tiny(call: Call, outs: Sequence[Any]) -> bool:
    """Whether quickly compiled code of a call is as good as any."""
    return call.size + sum([a.size for a in outs]) <= TINY


def _alike(kinds: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether these are kinds of the same arrays."""
    facts = [[(a.shape, a.dtype, a.weak_type) for a in found] for found in (kinds, others)]
    return facts[0] == facts[1]


_FLAT = frozenset({Array, *_NUMBERS})
_TREES: dict[int, Any] = {}


def _flat(args: tuple[Any, ...]) -> tuple[Sequence[Any], Any]:
    """The leaves of arguments and their structure."""
    if _FLAT.issuperset([v.__class__ for v in args]):
        tree = _TREES.get(len(args))
        if tree is None:
            tree = _TREES[len(args)] = jax.tree.structure(args)
        return args, tree
    return jax.tree.flatten(args)


def _refuse_abstract(args: tuple[Any, ...]) -> None:
    """Raise TypeError for what has no numbers; newer versions of jax would compile code for it before they do."""
    if any(v.__class__ is jax.ShapeDtypeStruct for v in jax.tree.leaves(args)):
        raise TypeError("a kernel was called with a value on the meta device")


def _simple(args: tuple[Any, ...]) -> bool:
    """Whether arguments are numbers and arrays of this process's one CPU device, so that code is made here."""
    device = host()
    if device is None:
        return False
    for v in _flat(args)[0]:
        cls = v.__class__
        if cls is Array:
            where = v.sharding
            if where.__class__ is not compiling.SingleDeviceSharding or where._device is not device:
                return False
            if not isinstance(v.dtype, np.dtype):
                return False
        elif cls not in _NUMBERS and not isinstance(v, _ARRAYS):
            return False
    return compiling.usual()
