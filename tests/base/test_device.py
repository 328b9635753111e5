"""Devices against PyTorch's: parsing, identity, the default, and the way to jax."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest
import torch

from torchlike._base import device as V

jax.config.update("jax_enable_x64", True)

HAS_ACCELERATOR = torch.accelerator.is_available() or jax.default_backend() != "cpu"
GOOD = [
    ("cpu",), ("cpu:0",), ("cpu:3",), ("cuda",), ("cuda:1",), ("cuda", 1), ("cuda", None), ("cpu", 0),
    ("cuda:127",), ("xla",), ("xla:3",), ("meta",), ("meta:0",), ("mps",), ("hpu:2",), ("privateuseone",),
    ("ipu",), ("xpu",), ("mkldnn",), ("opengl",), ("opencl",), ("ideep",), ("hip",), ("ve",), ("fpga",),
    ("maia",), ("lazy",), ("vulkan",), ("mtia",), (b"cpu",),
]  # fmt: skip
BAD = [
    ("cuda:1", 1), ("cuda:-1",), ("cuda", -1), ("cuda:01",), ("cuda:00",), ("cuda:",), ("cuda:a",),
    ("cuda: 1",), (" cuda",), ("CUDA",), ("foo",), ("",), ("foo:1",), ("cuda:1:2",), ("gpu",),
    ("cuda:" + "9" * 20,), (-1,), (None,), (), (1.0,), (True,),
    ("cuda", "1"), ("cuda", True), ("cuda", 1.0), ("cuda:\u0661",),
]  # fmt: skip


@pytest.fixture(autouse=True)
def clean():
    yield
    V.set_default_device(None)


def refusal(call):
    with pytest.raises((RuntimeError, TypeError)) as info:
        call()
    return info.type


@pytest.mark.filterwarnings("ignore:'mkldnn' is no longer used")
@pytest.mark.parametrize("args", GOOD, ids=str)
def test_parse(args):
    ours, theirs = V.device(*args), torch.device(*args)
    assert (ours.type, ours.index) == (theirs.type, theirs.index)
    assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))
    assert V.device(ours) == ours and V.device(str(ours)) == ours


@pytest.mark.parametrize("args", BAD, ids=str)
def test_refuses(args):
    assert refusal(lambda: V.device(*args)) is refusal(lambda: torch.device(*args))


@pytest.mark.parametrize("args, match", [
    (("foo",), "Expected one of cpu, cuda.*tpu device type at start of device string: foo"),
    (("cuda:a",), "Invalid device string: 'cuda:a'.*such as"),
    (("",), "must not be empty"),
    (("cuda", -2), "must not be negative, got -2"),
    (("cuda:1", 2), "must not include an index.*cuda:1"),
    (("cuda:" + "9" * 20,), "Could not parse device index '9999"),
    (("cuda", "1"), r"argument 'index' \(position 2\) must be int, not str"),
    ((1.5,), "must be torch.device, str or int, not float"),
    ((), "device"),
])  # fmt: skip
def test_messages(args, match):
    with pytest.raises((RuntimeError, TypeError), match=match):
        V.device(*args)


def test_keywords():
    assert V.device(type="cuda", index=2) == V.device("cuda:2")
    assert V.device(device="cuda") == V.device("cuda")
    for bad in ({"index": 1}, {"type": "cpu", "device": "cpu"}, {"device": "cpu", "index": 1}):
        assert refusal(lambda bad=bad: V.device(**bad)) is TypeError


@pytest.mark.skipif(HAS_ACCELERATOR, reason="an accelerator is present")
def test_bare_index_needs_an_accelerator():
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        V.device(0)


@pytest.mark.parametrize("a, b", [("cpu", "cpu"), ("cpu", "cpu:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"),
                                  ("cpu", "meta"), ("cuda:1", "cuda:2")])  # fmt: skip
def test_equality(a, b):
    assert (V.device(a) == V.device(b)) is (torch.device(a) == torch.device(b))
    assert (V.device(a) != V.device(b)) is (torch.device(a) != torch.device(b))
    assert len({V.device(a), V.device(b)}) == len({torch.device(a), torch.device(b)})
    assert V.device(a) != a


def test_xla_and_tpu_are_the_same_devices():
    assert V.device("xla:1") == V.device("tpu:1") != V.device("tpu:2")
    assert hash(V.device("xla")) == hash(V.device("tpu")) and repr(V.device("tpu")) == "device(type='tpu')"


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "cuda:1", "tpu", "xla", "meta"])
def test_copies(name):
    d = V.device(name)
    for same in (pickle.loads(pickle.dumps(d)), copy.copy(d), copy.deepcopy(d)):
        assert same == d and repr(same) == repr(d)


@pytest.mark.parametrize("attribute, match", [("type", "not writable"), ("foo", "no attribute 'foo'")])
def test_immutable(attribute, match):
    with pytest.raises(AttributeError, match=match):
        setattr(V.device("cpu"), attribute, "x")
    with pytest.raises(AttributeError):
        delattr(V.device("cpu"), attribute)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (V.device,), {})
    with pytest.raises(TypeError, match="not supported"):
        _ = V.device("cpu") < V.device("cuda")


def default_trail(device, default, set_default):
    """What the default device is at the points of a run through nested blocks."""
    seen = [default()]
    set_default("cpu:0")
    seen.append(default())
    with device("meta") as entered:
        seen += [entered, default()]
        with device("cpu"):
            seen.append(default())
        with entered:
            seen.append(default())
        seen.append(default())
    seen.append(default())
    set_default(None)
    return [str(d) for d in [*seen, default()]]


def test_default_device_by_keyword():
    V.set_default_device(device="meta")
    assert V.default_device().type == "meta"
    V.set_default_device(device=None)


def test_default_device_nests():
    ours = default_trail(V.device, V.default_device, V.set_default_device)
    assert ours == default_trail(torch.device, torch.get_default_device, torch.set_default_device)


def test_default_device_set_in_a_block_lasts_until_its_end():
    with V.device("meta"):
        V.set_default_device("cpu:0")
        assert V.default_device() == V.device("cpu:0")
    assert V.default_device() == V.device("cpu")


def test_default_device_is_restored_after_an_error():
    with pytest.raises(KeyError), V.device("meta"):
        raise KeyError
    assert V.default_device() == V.device("cpu")


@pytest.mark.parametrize("bad, error", [("foo", RuntimeError), (1.5, TypeError), ("cuda:", RuntimeError)])
def test_a_refused_default_changes_nothing(bad, error):
    V.set_default_device("meta")
    with pytest.raises(error):
        V.set_default_device(bad)
    assert V.default_device() == V.device("meta")


def test_default_device_belongs_to_a_thread():
    seen = []
    V.set_default_device("meta")
    with V.device("cuda"):
        thread = threading.Thread(target=lambda: seen.append(V.default_device()))
        thread.start()
        thread.join()
    assert seen == [V.device("cpu")]


def test_as_device():
    assert V.as_device(None) == V.default_device() and V.as_device("cuda:1") == V.device("cuda:1")
    assert V.as_device(V.device("meta")) is V.device("meta")


@pytest.mark.parametrize("bad", [1.5, True, object(), b"cpu", ["cpu"]])
def test_as_device_refuses(bad):
    kind = type(bad).__name__
    with pytest.raises(TypeError, match=rf"zeros\(\): argument 'device' must be torch.device, not {kind}"):
        V.as_device(bad, "zeros")


def test_jax_cpu():
    cpu = jax.devices("cpu")[0]
    assert all(V.jax_device(V.device(n)) is cpu for n in ("cpu", "cpu:0", "cpu:99"))
    assert V.from_jax(cpu) is V.device("cpu")


def test_of_array():
    array = jax.device_put(jnp.ones(3), jax.devices("cpu")[0])
    assert V.of_array(array) is V.device("cpu") and V.of_array(array[:0]) is V.device("cpu")


def test_of_a_tracer():
    seen = []
    with V.device("meta"):
        jax.make_jaxpr(lambda x: seen.append(V.of_array(x)) or x)(jnp.ones(3))
    assert seen == [V.device("meta")]


@pytest.mark.parametrize("name, match", [
    ("meta", "'meta' holds no values"),
    ("mps", r"'mps' is not available: jax has the platforms .*cpu \(\d+\).*torchlike runs on"),
    ("hpu:1", "'hpu:1' is not available"),
    ("cuda:4096", "'cuda:4096' is not available: jax has.*(jax\\[cuda|highest index)"),
    ("tpu:4096", "'tpu:4096' is not available: jax has.*(jax\\[tpu|highest index)"),
    ("xla:4096", "'xla:4096' is not available"),
])  # fmt: skip
def test_absent(name, match):
    with pytest.raises(RuntimeError, match=match):
        V.jax_device(V.device(name))


@pytest.mark.skipif(not HAS_ACCELERATOR, reason="jax has no accelerator here")
def test_accelerator():
    found = jax.devices()[0]
    d = V.from_jax(found)
    assert d.index == 0 and V.jax_device(d) is found and V.device(0) == d
    assert V.of_array(jax.device_put(jnp.ones(2), found)) == d


MANY_CPUS = """
import jax
from torchlike._base import device as V
assert not jax._src.xla_bridge.backends_are_initialized()
V.device("cuda:1"), V.default_device()
assert not jax._src.xla_bridge.backends_are_initialized()
cpus = jax.devices("cpu")
assert [str(V.from_jax(d)) for d in cpus] == ["cpu", "cpu:1", "cpu:2"]
assert all(V.jax_device(V.from_jax(d)) is d for d in cpus) and V.jax_device(V.device("cpu:7")) is cpus[0]
assert str(V.of_array(jax.device_put(1.0, cpus[2]))) == "cpu:2"
mesh = jax.sharding.Mesh(cpus[1:], "x")
spread = jax.device_put(jax.numpy.ones(4), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
assert str(V.of_array(spread)) == "cpu:1"
"""


def test_several_cpus_and_no_backend_at_import():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    path = os.pathsep.join([os.environ["PYTHONPATH"], *filter(None, sys.path)])
    env = {**os.environ, **flags, "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", MANY_CPUS], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
