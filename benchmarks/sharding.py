"""A compiled step over many devices next to the same step hand-written in JAX, with the same shardings.

    python benchmarks/sharding.py [--only NAME ...] [--quick]

``data``: parameters whole everywhere, the batch cut over eight devices; ``fully``: everything cut over eight;
``tensor``: a plan of two by four. Each has a row for its time, for the collectives of its program (counted, as XLA
compiled it) and for the largest share of parameters, gradients and optimizer state that one device holds, over an
eighth of all. ``compiling``: the processor time of the first call, less that of a later one, over 64 devices and over
eight. The devices are made of the CPU, and a GPT of ``_programs.py`` is trained from the same numbers by all.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import _handwritten as jax_steps
import _programs as programs
import jax
import numpy as np
from _cases import wait
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times
from jax.sharding import NamedSharding

import torchlike
from torchlike import sharding
from torchlike._executor import hlo

P = sharding.PartitionSpec
GPT = {"layers": 2, "width": 256, "heads": 8, "length": 32}
SMALL = {"layers": 1, "width": 128, "heads": 4, "length": 16}
HAND = "hand-written JAX"
TARGET, GROWTH = 1.05, 1.5
FEW = 16  # bytes: of labels that count, and of checks, which the step by hand does without
PLAN = {r"qkv|up|head": ("tp",), r"(out|down)\.weight": (None, "tp")}


def first_equal(name, t):
    """Cut the first dimension that all devices have an equal part of."""
    cut = [i for i, n in enumerate(t.shape) if n % jax.device_count() == 0]
    return (None,) * cut[0] + ("dp",) if cut else ()


def mesh_and_rules(layout):
    count = jax.device_count()
    if layout == "tensor":
        return sharding.make_mesh(dp=count // 4, tp=4), lambda name, t: rule_of(name)
    return sharding.make_mesh(dp=count), first_equal if layout == "fully" else lambda name, t: ()


def rule_of(name):
    return next((spec for pattern, spec in PLAN.items() if re.search(pattern, name)), ())


class Forms:
    """The two forms of one step, over all devices of this process."""

    def __init__(self, layout, quick):
        self.sizes = SMALL if quick else GPT
        self.mesh, self.rules = mesh_and_rules(layout)
        batch = 8 if quick else 64
        self.data = programs.sentences(batch, self.sizes["length"])
        torchlike.manual_seed(0)
        self.model = programs.gpt(torchlike, **self.sizes)
        self.state = {k: v.numpy().copy() for k, v in self.model.state_dict().items()}

    def ours(self):
        torchlike.distribute(self.model, self.mesh, self.rules)
        step, data = programs.start(torchlike, self.model, *self.data)
        found = (cell.cell_contents for cell in step.__closure__)
        self.optimizer = next(c for c in found if isinstance(c, torchlike.optim.Optimizer))
        compiled, data = torchlike.compile(step, fullgraph=True), [t.shard(self.mesh, "dp") for t in data]
        return (lambda: compiled(*data)), lambda: self.program_of(compiled).lowered(list(data))

    @staticmethod
    def program_of(compiled):
        (program,) = [p for pairs in compiled.programs.values() for _, p in pairs]
        return program

    def by_hand(self):
        def put(a, spec):
            return jax.device_put(a, NamedSharding(self.mesh, spec))

        def zeros(a):
            part = np.zeros(a.sharding.shard_shape(a.shape), a.dtype)
            return jax.make_array_from_callback(a.shape, a.sharding, lambda index: part)

        params = {k: put(a, P(*self.rules(k, a))) for k, a in self.state.items()}
        x, y = (put(a.astype(np.int32), P("dp")) for a in self.data)
        update = jax_steps.update_of(lambda p, b, x: jax_steps.gpt(p, b, x, self.sizes["heads"]))
        run, state = [], []

        def start():
            moments = [{k: zeros(a) for k, a in params.items()} for _ in range(2)]
            state[:] = [params, {}, *moments, put(np.float32(0), P())]
            layouts = jax.tree.map(lambda a: a.sharding, state), NamedSharding(self.mesh, P())
            run.append(jax.jit(update, donate_argnums=(0, 1, 2, 3, 4), out_shardings=layouts))

        def step():
            if not run:
                start()
            state[:], loss = run[0](*state, x, y)
            return loss

        return step, lambda: run[0].lower(*state, x, y)

    def largest_share(self):
        """What the device that has most holds of parameters, gradients and state, over its part if all had the same."""
        held, whole = dict.fromkeys(jax.devices(), 0), 0
        for p in self.model.parameters():
            for t in (p, p.grad, *(v for v in self.optimizer.state[p].values() if v.ndim)):
                whole += t.nbytes
                for piece in t.jax().addressable_shards:
                    held[piece.device] += piece.data.nbytes
        return max(held.values()) * len(held) / whole


def spent(step):
    begin = time.process_time()
    wait(step())
    return time.process_time() - begin


def collectives(lowered, mesh):
    """{kind: how many} of the compiled program; those of a few numbers for themselves, as kind "small"."""
    found = {}
    for one, times in hlo.collectives(lowered().compile().as_text(), dict(mesh.shape)).items():
        kind = one.kind if one.size > FEW else "small"
        found[kind] = found.get(kind, 0) + times
    return dict(sorted(found.items()))


def worker(layout, form, quick):
    """What one process measures: both forms of a layout, or, where a form is named, the first call of that."""
    jax.config.update("jax_enable_compilation_cache", False)
    forms = Forms(layout, quick)
    if form:
        step, _ = forms.ours() if form == "compiled" else forms.by_hand()
        first = spent(step)
        return {"seconds": first - min(spent(step) for _ in range(3))}
    both = {"compiled": forms.ours(), HAND: forms.by_hand()}
    ours, theirs = ([step().item() for _ in range(3)] for step, _ in both.values())
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    t = best_times({name: (lambda step=step: wait(step())) for name, (step, _) in both.items()}, quick=quick, rounds=10)
    found = {name: collectives(lowered, forms.mesh) for name, (_, lowered) in both.items()}
    return {"seconds": t, "collectives": found, "share": forms.largest_share()}


def run(layout, devices, quick, form=""):
    """What ``worker`` gives in a process with so many devices and nothing kept from before."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    with tempfile.TemporaryDirectory() as folder:
        surroundings = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "TORCHLIKE_CACHE": folder}
        call = [sys.executable, __file__, "worker", layout, form, "quick" * quick]
        out = subprocess.run(call, env=surroundings, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return json.loads(out.stdout.splitlines()[-1])


def steps(layout, quick):
    found = run(layout, 8, quick)
    t, counted = found["seconds"], found["collectives"]
    ours, theirs = (sum(n for kind, n in counted[name].items() if kind != "small") for name in ("compiled", HAND))
    note = ", ".join(f"{n} {kind}" for kind, n in counted["compiled"].items())
    return [
        Row("sharded step", layout, HAND, t[HAND] * 1e3, "ms", t["compiled"] / t[HAND], TARGET),
        Row("collectives", layout, HAND, theirs, "", ours / theirs, 1.0, note),
        Row("a device's part", layout, "an eighth", None, "", found["share"], 1.1 if layout == "fully" else None),
    ]


def compiling(quick):
    few, many = (4, 8) if quick else (8, 64)
    rows = []
    for layout in ("data", "fully"):
        for form in ("compiled", HAND):
            t = {n: run(layout, n, quick, form)["seconds"] for n in (few, many)}
            title, target = f"{layout}, {form}", GROWTH if form == "compiled" else None
            rows.append(Row("compiling", title, f"{few} devices", t[few], "s", t[many] / t[few], target))
    return rows


def measure(name, quick=False):
    """The rows of one layout over eight devices, or of compiling over eight and more."""
    return compiling(quick) if name == "compiling" else steps(name, quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        print(json.dumps(worker(sys.argv[2], sys.argv[3], bool(sys.argv[4]))))
    else:
        command(__doc__, JOBS["sharding"], measure)
