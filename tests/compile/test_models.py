"""Whole training steps of the benchmarks' models at small sizes: compiled, in eager code, and in PyTorch."""

import importlib.util
import pathlib

import numpy as np
import pytest
import torch as oracle

import torchlike

_PATH = pathlib.Path(__file__).parents[2] / "benchmarks" / "_programs.py"
_SPEC = importlib.util.spec_from_file_location("programs", _PATH)
programs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(programs)

MODELS = {
    "mlp": ({"sizes": (6, 5, 4)}, programs.pictures(3, 6, classes=4)),
    "cnn": ({"channels": (2, 3, 4), "side": 8}, programs.pictures(2, 2, 8, 8)),
    "gpt": ({"layers": 1, "width": 8, "heads": 2, "length": 5, "words": 7}, programs.sentences(2, 5, 7)),
    "resnet18": ({"widths": (3, 4), "blocks": 1}, programs.pictures(2, 3, 16, 16)),
}


def trained(lib, name, state, compiled=False, steps=3):
    """(losses, the state of the model) after some steps."""
    options, data = MODELS[name]
    model = getattr(programs, name)(lib, **options)
    step, arguments = programs.start(lib, model, *data, state)
    if compiled:
        step = lib.compile(step, fullgraph=True)
    losses = [step(*arguments).item() for _ in range(steps)]
    if compiled:
        assert step.count == 1
    return losses, {k: v.detach().numpy() for k, v in model.state_dict().items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_alike(name):
    oracle.manual_seed(0)
    model = getattr(programs, name)(oracle, **MODELS[name][0])
    state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    expected = trained(oracle, name, state)
    for compiled in (False, True):
        losses, found = trained(torchlike, name, state, compiled)
        np.testing.assert_allclose(losses, expected[0], rtol=1e-4)
        assert list(found) == list(expected[1])
        for k, v in found.items():
            np.testing.assert_allclose(v, expected[1][k], rtol=1e-3, atol=3e-4, err_msg=k)


def test_an_optimizer_step_of_many_parameters():
    seen = []
    for compiled in (False, True):
        step, arguments = programs.parameters_alone(torchlike, 20, (3, 4))
        step = torchlike.compile(step, fullgraph=True) if compiled else step
        seen.append([step(*arguments).detach().numpy().copy() for _ in range(3)])
    np.testing.assert_allclose(*seen, rtol=1e-5, atol=1e-6)
