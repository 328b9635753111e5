"""A process of its own: build a model, take one training step, print when its loss is there. For startup.py.

    python benchmarks/_first_step.py {jax,jax-numpy,compiled,eager} {mlp,cnn,gpt,small}

Each side imports only what its user would.
"""

import sys
import time

import numpy as np

SIZES = {"mlp": (784, 512, 512, 10), "small": (64, 64, 64, 10)}


def linear(name, a, b, bias=True):
    return {f"{name}.weight": (b, a)} | ({f"{name}.bias": (b,)} if bias else {})


def shapes_of(name):
    """{parameter: shape}, as in PyTorch's models."""
    if name in SIZES:
        sizes = SIZES[name]
        layers = [linear(str(2 * i), *pair) for i, pair in enumerate(zip(sizes, sizes[1:], strict=False))]
        return {k: v for layer in layers for k, v in layer.items()}
    if name == "cnn":
        convs = {"0.weight": (32, 3, 3, 3), "0.bias": (32,), "3.weight": (64, 32, 3, 3), "3.bias": (64,)}
        return convs | linear("7", 4096, 10)
    found = {"words.weight": (256, 128), "places.weight": (128, 128)}
    for i in range(2):
        b = f"blocks.{i}."
        for norm in ("norm1", "norm2"):
            found |= {f"{b}{norm}.weight": (128,), f"{b}{norm}.bias": (128,)}
        for layer, wide, out in (("qkv", 128, 384), ("out", 128, 128), ("up", 128, 512), ("down", 512, 128)):
            found |= linear(b + layer, wide, out)
    return found | {"norm.weight": (128,), "norm.bias": (128,)} | linear("head", 128, 256, False)


def by_hand(form, name, program, data):
    import _handwritten as steps
    import jax

    shapes = shapes_of(name)
    bounds = {k: float(np.prod(shape[1:])) ** -0.5 for k, shape in shapes.items()}
    if form == "jax-numpy":
        rng = np.random.default_rng(0)
        made = {k: rng.uniform(-bounds[k], bounds[k], shape).astype(np.float32) for k, shape in shapes.items()}
    else:
        keys = dict(zip(shapes, jax.random.split(jax.random.key(0), len(shapes)), strict=True))
        made = {k: jax.random.uniform(keys[k], s, minval=-bounds[k], maxval=bounds[k]) for k, s in shapes.items()}
    state = {k: np.asarray(a) for k, a in made.items()}
    step, arguments, _ = steps.start(getattr(steps, program.model), state, *data)
    return step(*arguments).item()


def with_torchlike(form, program, options, data):
    import _programs as programs

    import torchlike

    torchlike.manual_seed(0)
    model = getattr(programs, program.model)(torchlike, **options)
    step, arguments = programs.start(torchlike, model, *data)
    step = torchlike.compile(step) if form == "compiled" else step
    return step(*arguments).item()


def main(form, name):
    from _programs import PROGRAMS

    program = PROGRAMS[name]
    options, data = program.sized(False)
    if form.startswith("jax"):
        loss = by_hand(form, name, program, data)
    else:
        loss = with_torchlike(form, program, options, data)
    assert 0 < loss < 20, loss
    print(repr(time.time()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
