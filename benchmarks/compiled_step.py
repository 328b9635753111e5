"""Compiled training steps next to the same steps hand-written in JAX, PyTorch's, and our eager ones.

    python benchmarks/compiled_step.py [--only NAME] [--quick] [--without-torch]

The models are written once (``_programs.py``) and run on both libraries from the same numbers; the losses
of three steps must agree before anything is timed. Every ratio is over the hand-written step
in the same run. ``first step`` counts tracing and compilation, without XLA's cache; ``memory`` is XLA's
own account of temporaries and outputs of the program.
"""

import argparse
import time

import _handwritten as jax_steps
import _programs as programs
import jax
import numpy as np
from _timing import best_times, table

import torchlike

try:
    import torch
except ImportError:
    torch = None

PROGRAMS = {
    "MLP 784-512-512-10, batch 128": ("mlp", {}, programs.pictures(128, 784)),
    "CNN 3-32-64, batch 32 at 32x32": ("cnn", {}, programs.pictures(32, 3, 32, 32)),
    "GPT 2 x 128, batch 8 x 128": ("gpt", {}, programs.sentences(8, 128)),
    "ResNet-18, batch 8 at 64x64": ("resnet18", {}, programs.pictures(8, 3, 64, 64)),
    "MLP 64-64-64-10, batch 32": ("mlp", {"sizes": (64, 64, 64, 10)}, programs.pictures(32, 64)),
    "Adam alone, 150 x 64x64": ("parameters_alone", {}, ()),
}


def made(lib, name, options, data, state):
    """(step, arguments) of a program on ``lib``."""
    if name == "parameters_alone":
        return programs.parameters_alone(lib)
    return programs.start(lib, getattr(programs, name)(lib, **options), *data, state)


def cases(name, options, data, with_torch=True):
    """{case: (step, arguments)}, and a function that gives the hand-written step lowered."""
    state = None
    if name == "parameters_alone":
        *hand, lowered = jax_steps.parameters_alone()
    else:
        torchlike.manual_seed(0)
        model = getattr(programs, name)(torchlike, **options)
        state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
        *hand, lowered = jax_steps.start(getattr(jax_steps, name), state, *data)
    ours = made(torchlike, name, options, data, state)
    found = {"jax": tuple(hand), "compiled": (torchlike.compile(ours[0], fullgraph=True), ours[1])}
    found["eager"] = made(torchlike, name, options, data, state)
    if torch is not None and with_torch:
        found["torch"] = made(torch, name, options, data, state)
        step, arguments = made(torch, name, options, data, state)
        found["torch.compile"] = torch.compile(step), arguments
    return found, lowered


def numbers(x):
    """A result as a numpy array of its own."""
    return np.array(x.detach().numpy() if hasattr(x, "detach") else x)


def first_steps(found):
    """({case: seconds of the first call}, the cases that work); three losses of each must agree."""
    seconds, expected = {}, None
    for case, (step, arguments) in list(found.items()):
        begin = time.perf_counter()
        try:
            out = step(*arguments)
            seen = [numbers(out)]
        except Exception as error:
            if case != "torch.compile":
                raise
            print(f"torch.compile does not work here: {type(error).__name__}: {str(error).splitlines()[0]}")
            del found[case]
            continue
        seconds[case] = time.perf_counter() - begin
        seen += [numbers(step(*arguments)) for _ in range(2)]
        expected = seen if expected is None else expected
        np.testing.assert_allclose(seen, expected, rtol=2e-3, atol=2e-3, err_msg=case)
    return seconds


def timed(found):
    """{case: seconds per step}: each call waits for its result."""

    def run(step, arguments):
        def once():
            out = step(*arguments)
            out = getattr(getattr(out, "_storage", None), "value", out)
            if isinstance(out, jax.Array):
                out.block_until_ready()

        return once

    return {case: run(*pair) for case, pair in found.items()}


def bytes_of(lowered):
    """XLA's count of what a program needs: temporaries and outputs that are not donated inputs."""
    m = lowered.compile().memory_analysis()
    return m.temp_size_in_bytes + m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes


def memory(step, arguments, lowered):
    """(ours, hand-written) in MiB."""
    (program,) = [p for pairs in step.programs.values() for _, p in pairs]
    return bytes_of(program.lowered(list(arguments))) / 2**20, bytes_of(lowered()) / 2**20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--without-torch", action="store_true")
    options = parser.parse_args()
    speed, start, space = [], [], []
    for title, (name, settings, data) in PROGRAMS.items():
        if options.only.lower() not in title.lower():
            continue
        found, lowered = cases(name, settings, data, not options.without_torch)
        first = first_steps(found)
        t = best_times(timed(found), rounds=3 if options.quick else 8, seconds=0.1)
        absent = float("nan")
        order = ("compiled", "eager", "torch", "torch.compile")
        speed.append([title, t["jax"] * 1e3, *(t.get(c, absent) / t["jax"] for c in order)])
        start.append([title, first["jax"], *(first.get(c, absent) / first["jax"] for c in order)])
        ours, hand = memory(*found["compiled"], lowered)
        space.append([title, hand, ours, ours / hand])
        print(f"  {speed[-1][0]}: done", flush=True)
    table("a training step, over hand-written JAX", ["program", "JAX ms", *order], speed)
    table("the first step (cold), over hand-written JAX", ["program", "JAX s", *order], start)
    table("memory of the program", ["program", "JAX MiB", "compiled MiB", "ratio"], space)


if __name__ == "__main__":
    main()
