"""`python -m torchlike plan SCRIPT --mesh 16x16`: what a script needs of devices that are not there.

Tensors are made on the meta device, which holds shapes and layouts, and jax is told to see as many CPUs as the mesh has
devices. A compiled function is then traced, partitioned and compiled by XLA as ever, but not run: its results are
shapes with the layouts that XLA chose.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding

from torchlike._base import device as devices
from torchlike._base.frames import user_frames
from torchlike._executor.hlo import Collective, collectives
from torchlike._executor.spread import Abstract, layout_of
from torchlike._transforms.capture.program import Program
from torchlike.compiler import _compile
from torchlike.compiler._function import Compiled
from torchlike.distributed import device_mesh
from torchlike.viz._graph import amount

# Code is made, but not run; memory and collectives are found before that.
_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_NUMBERS = "the numbers of a tensor"
_MEANS = """\
arguments: parameters, state and batch; overwritten: results that take the memory of arguments; temporary: what the
program needs meanwhile. Bytes of a collective: what one device holds of the tensor that is reduced, or has in the end
of what is brought together. Compiled for CPUs: another compiler may keep less at once, and merge collectives; bfloat16
and float16 are float32 there, so what the program needs meanwhile and sends of them may be half of it elsewhere."""


class Plan(NamedTuple):
    """What is known of one program.

    Attributes:
        name: of the function. call: which of its programs it is. lowered, compiled: seconds.
        axes: of the mesh. memory: XLA's numbers for one device. collectives: how often each runs.
    """

    name: str
    call: int
    lowered: float
    compiled: float
    axes: dict[str, int]
    memory: Any
    collectives: Counter[Collective]

    def peak(self) -> int:
        """The bytes of a device."""
        m = self.memory
        return m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes


PLANS: list[Plan] = []


class Rehearsed:
    """A program that is compiled for the layouts of its arguments, and not run."""

    def __init__(self, program: Any, name: str, number: int) -> None:
        self.program, self.name, self.number = program, name, number
        self._made: Any = None

    def lower(self, *values: Any) -> Any:
        """See jax.jit."""
        return self.program.lower(*map(_shape, values))

    def __call__(self, *values: Any) -> list[Any]:
        if self._made is None:
            start = time.perf_counter()
            _tell(f"{self.name}, program {self.number}: traced, now lowered")
            lowered = self.lower(*values)
            middle = time.perf_counter()
            _tell(f"{self.name}, program {self.number}: lowered in {middle - start:.0f} s, now compiled by XLA")
            compiled = lowered.compile(_QUICKLY)
            end = time.perf_counter()
            axes = _axes([*map(_shape, values)])
            found = collectives(compiled.as_text(), axes)
            seconds = middle - start, end - middle
            PLANS.append(Plan(self.name, self.number, *seconds, axes, compiled.memory_analysis(), found))
            kinds, layouts = jax.tree.leaves(lowered.out_info), jax.tree.leaves(compiled.output_shardings)
            self._made = [_laid(k, s) for k, s in zip(kinds, layouts, strict=True)]
        return [*self._made]


def _tell(text: str) -> None:
    """Say how far it is: the program of a large model takes minutes."""
    print(f"plan: {text}", file=sys.stderr, flush=True)


def _laid(kind: Any, sharding: Any) -> Any:
    spread = sharding.num_devices > 1
    return Abstract(kind.shape, kind.dtype, sharding=sharding if spread else None, weak_type=kind.weak_type)


def _shape(value: Any) -> Any:
    """What a program is compiled for in the place of a value; one that lies on one device may lie anywhere."""
    if not isinstance(value, jax.Array | Abstract):
        return value
    return Abstract(value.shape, value.dtype, sharding=layout_of(value), weak_type=getattr(value, "weak_type", False))


def _axes(values: Sequence[Any]) -> dict[str, int]:
    """The axes of the mesh that arguments lie over."""
    found = [v.sharding for v in values if isinstance(getattr(v, "sharding", None), NamedSharding)]
    return dict(max(found, key=lambda s: s.num_devices).mesh.shape) if found else {}


class PlannedProgram(Program):
    """A program of shapes."""

    naming: tuple[str, int] = ("", 0)
    computes = False

    def _jitted(self, program: Callable[..., Any], donated: int) -> Any:
        own = len(self.replaced) if not hasattr(self, "early") else 0  # the second half gives away nothing
        return Rehearsed(super()._jitted(program, own), *self.naming)

    def look_ahead(self, hold: Callable[[], bool]) -> None:
        """Nothing is gained by that."""

    def examine(self) -> None:
        """Nothing has run: there are no flags to read."""
        self.failed.clear()


class Planned(Compiled):
    """A compiled function whose arguments may be on meta."""

    def _interpreter(self, patient: bool) -> Any:
        found = super()._interpreter(patient)
        found.abstract = True
        return found

    def _traced(self, *given: Any) -> Any:
        before = devices.default_device()
        devices.set_default_device(None)  # what is made within is a part of the program
        try:
            return super()._traced(*given)
        finally:
            devices.set_default_device(before)

    def _program(self, trace: Any, interpreter: Any) -> Any:
        named = type("Named", (PlannedProgram,), {"naming": (self._described(), self.count + 1)})
        return named(trace)


def arguments_of(given: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(the options, the arguments of the script)."""
    parser = argparse.ArgumentParser(prog="python -m torchlike plan", description=__doc__.partition("\n")[0])
    parser.add_argument("script", help="it lays its model over a mesh of all devices, and compiles its step")
    parser.add_argument("--mesh", required=True, type=lengths, help="lengths of the mesh's axes, as in 16x16")
    return parser.parse_known_args(given)


def lengths(text: str) -> tuple[int, ...]:
    """The lengths of a mesh's axes: (16, 16) for ``16x16``."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no mesh; expected lengths of axes, as in 16x16")
    return tuple(int(n) for n in text.split("x"))


def prepare(mesh: Sequence[int]) -> None:
    """Let this process see the devices, make tensors without numbers, and compile without running."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", math.prod(mesh))
    if len(jax.devices()) != math.prod(mesh):
        raise RuntimeError(f"plan: jax sees {len(jax.devices())} devices already, and {math.prod(mesh)} are wanted")
    device_mesh._PLATFORMS.update(dict.fromkeys(device_mesh._PLATFORMS, "cpu"))
    _compile.KIND[:] = [Planned]
    devices.set_default_device("meta")


def main(given: Sequence[str], run: Callable[[str, list[str]], None]) -> int:
    """Run a script by ``run(script, arguments)`` up to where it needs numbers, and print the plan of its programs."""
    options, rest = arguments_of(given)
    prepare(options.mesh)
    try:
        run(options.script, rest)
    except (RuntimeError, NotImplementedError) as error:
        if not PLANS or "meta" not in str(error):
            raise
        where = "".join([f"{f.filename}:{f.lineno}: {f.line}" for f in user_frames(error)[-1:]])
        print(f"The script ran up to the line that needs {_NUMBERS}: {where}\n")
    title = "x".join(map(str, options.mesh))
    if not PLANS:
        print(f"plan: {options.script} called no compiled function; give its step to torch.compile", file=sys.stderr)
        return 1
    print(f"{options.script} on {math.prod(options.mesh)} devices ({title})")
    for plan in _latest(PLANS):
        print("\n" + described(plan))
    print("\n" + _MEANS)
    return 0


def _latest(plans: Sequence[Plan]) -> list[Plan]:
    """The last program of each function: the first has no gradients and no state of an optimizer yet."""
    return [*{plan.name: plan for plan in plans}.values()]


def described(plan: Plan) -> str:
    """A plan in words."""
    m = plan.memory
    lines = [
        f"{plan.name}, program {plan.call}: lowered in {plan.lowered:.1f} s, compiled in {plan.compiled:.1f} s",
        f"  a device holds       {amount(plan.peak()):>10}",
        f"    arguments          {amount(m.argument_size_in_bytes):>10}",
        f"    results            {amount(m.output_size_in_bytes):>10}",
        f"    overwritten        {'-' + amount(m.alias_size_in_bytes):>10}",
        f"    temporary          {amount(m.temp_size_in_bytes):>10}",
    ]
    table: dict[tuple[str, str], list[int]] = {}
    for one, times in plan.collectives.items():
        row = table.setdefault((one.kind, one.over), [0, 0])
        row[0], row[1] = row[0] + times, row[1] + times * one.size
    lines.append("  collectives            times      bytes  over" if table else "  no collectives")
    for (kind, over), (times, size) in sorted(table.items(), key=lambda item: -item[1][1]):
        lines.append(f"    {kind:<19}{times:>7}{amount(size):>11}  {over}")
    return "\n".join(lines)


def command(given: Sequence[str]) -> int:
    """`python -m torchlike plan`."""
    program = importlib.import_module("torchlike.__main__")

    def run(script: str, rest: list[str]) -> None:
        program.run(lambda: program.prepare_script(script), rest)

    return main(given, run)
