"""``nn.DataParallel`` on one CPU, as PyTorch's, and on eight (``eight_devices.py``, in a process of its own)."""

import collections
from pathlib import Path

import checks_kit
import eight_devices
import pytest
import torch
from both import agree
from story_kit import said, story

import torchlike

SCRIPT = Path(eight_devices.__file__)
Pair = collections.namedtuple("Pair", "first second")


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """What the script says of each check."""
    return checks_kit.told(SCRIPT)


@pytest.mark.parametrize("name", eight_devices.CHECKS)
def test_eight_devices(told, name):
    assert told.get(name, str(told)) == ""


# -- on one CPU: the module is called as it is ------------------------------------------------------------------------


def layer(t):
    return eight_devices.settled(t, t.nn.Linear(3, 2))


@story
def test_a_module_on_one_cpu(t):
    model, x = t.nn.DataParallel(layer(t), device_ids=[0, 1], dim=1), t.ones(4, 3)
    y = model(x)
    y.sum().backward()
    return repr(model), y, model.module.weight.grad, list(model.state_dict()), model.device_ids, hasattr(model, "dim")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_note_on_one_cpu(dtype):
    def run(t):
        model = t.nn.DataParallel(layer(t))
        with t.autocast("cpu", dtype=getattr(t, dtype)):
            y = model(t.ones(4, 3))
            loss = t.nn.functional.mse_loss(y, t.zeros(4, 2))
        loss.backward()
        return y, loss, model.module.weight.grad

    agree(run)


WRONG = {
    "no argument": (lambda t: t.nn.DataParallel(layer(t))(), "missing 1 required positional argument: 'input'"),
    "another option": (lambda t: t.nn.DataParallel(layer(t), wrong=1), "unexpected keyword argument 'wrong'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, message = WRONG[name]
    agree(lambda t: said(lambda: call(t), message))


@pytest.mark.parametrize("devices", [None, [0, 1], []])
def test_one_call_on_one_cpu_is_refused(devices):
    agree(lambda t: said(lambda: t.nn.parallel.data_parallel(layer(t), t.ones(4, 3), devices), "device type could not"))


# -- parts that need no device ----------------------------------------------------------------------------------------

VALUES = [1, (), (1, "a"), [1, 2], [], {}, {"a": 1}, Pair(1, 2), (1, [2, (3,)]), None, "text"]


@pytest.mark.parametrize("value", VALUES)
def test_objects_are_the_same_for_all(value):
    agree(lambda t: t.nn.parallel.scatter(value, places(t)))


def places(t):
    """Two devices: PyTorch's are not looked at where there is no tensor."""
    return [0, 1] if t is torch else ["cpu", "cpu"]


@pytest.mark.parametrize("given", [((1, 2), {"a": 3}), ((), {}), ((), {"a": 1}), ((1,), None)])
def test_arguments_for_each_device(given):
    agree(lambda t: t.nn.parallel.scatter_gather.scatter_kwargs(*given, places(t)))


GATHERED = {
    "None": (lambda t: [None, None], ""),
    "a number of keys": (
        lambda t: [{"a": None}, {"b": None, "c": None}],
        "All dicts must have the same number",
    ),
    "numbers": (lambda t: [1, 2], "'int' object is not iterable"),
    "dicts of None": (lambda t: [{"a": None}, {"a": None}], ""),
    "pairs of None": (lambda t: [Pair(None, None), Pair(None, None)], ""),
    "nothing": (lambda t: [], "list index out of range"),
}


@pytest.mark.parametrize("name", GATHERED)
def test_results_without_tensors(name):
    make, message = GATHERED[name]
    agree(lambda t: said(lambda: t.nn.parallel.gather(make(t), -1), message))


@pytest.mark.parametrize("given", [{"inputs": [1]}, {"kwargs_tup": [{}]}, {"devices": ["cpu"]}])
def test_sequences_of_other_lengths(given):
    def run(t):
        arguments = {"modules": [layer(t)] * 2, "inputs": [t.ones(1, 3)] * 2} | given
        return said(lambda: t.nn.parallel.parallel_apply(**arguments), "The number of modules 2 is not equal to .*")

    agree(run)


@story
def test_a_module_for_data_parallel(t):
    model = t.nn.Sequential(layer(t), t.nn.BatchNorm1d(2))
    replica = model._replicate_for_data_parallel()
    parts = replica._parameters, list(replica._modules), replica._buffers is model._buffers, replica._is_replica
    lazy = said(t.nn.LazyLinear(2)._replicate_for_data_parallel, "can't be used with `DataParallel`")
    return parts, replica.training, lazy, t.nn.parallel.scatter_gather.is_namedtuple(Pair(1, 2))


def test_tensors_on_one_cpu():
    """PyTorch refuses CPUs here; torchlike's may be several, or one that is named twice."""
    t = torchlike
    x, model = t.arange(6.0).reshape(2, 3), layer(t)
    first, second = t.nn.parallel.scatter({"x": x}, ["cpu", "cpu"])
    copies = t.nn.parallel.replicate(model, ["cpu", "cpu"])
    outputs = t.nn.parallel.parallel_apply(copies, [first["x"], (second["x"],)])
    assert t.allclose(t.nn.parallel.gather(outputs, "cpu"), model(x))
    with pytest.raises(RuntimeError, match="device 1 is not available: jax has 1 device.*device_count=N makes"):
        t.nn.parallel.scatter(x, [0, 1])
    with pytest.raises(NotImplementedError, match=r"comm.broadcast\(out=\) is not supported"):
        t.nn.parallel.comm.broadcast(x, ["cpu"], out=[x])
    with pytest.raises(ValueError, match="expects inputs of one shape"):
        t.nn.parallel.comm.reduce_add([x, x[:1]])
    with pytest.raises(ValueError, match="as many chunk_sizes as devices"):
        t.nn.parallel.comm.scatter(x, ["cpu"], [1, 1])
