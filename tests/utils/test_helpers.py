"""Helpers of torch.utils and of private modules that programs import, and modules that can only be imported."""

import copy
import gc
import importlib

import pytest
import torch
import torch.utils._pytree
import torch.utils.weak

import torchlike
from torchlike.utils.tensorboard import _hparams

LIBRARIES = [torch, torchlike]


def module(t, name):
    return importlib.import_module(f"{t.__name__}.{name}")


REFUSING = [
    "ao.quantization.quantize_fx.prepare_fx", "ao.quantization.AffineQuantizedObserverBase", "ao.nn.quantized.PReLU",
    "ao.quantization.fuse_conv_bn_jit", "distributed.fsdp.share_comm_ctx",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSING)
def test_importable_and_refused_when_used(name):
    place, _, last = name.rpartition(".")
    kind = getattr(module(torchlike, place), last)
    assert not isinstance(torchlike.ones(1), kind) and issubclass(type("Mine", (kind,), {}), kind)
    with pytest.raises(NotImplementedError, match=rf"torch\.{name}: "):
        kind()


def test_placements():
    def facts(t):
        tensor = module(t, "distributed.tensor")
        kinds = [tensor.Shard(1), tensor.Replicate(), tensor.Partial(), tensor.Partial("avg")]
        told = [(p.is_shard(), p.is_shard(0), p.is_replicate(), p.is_partial(), p.is_partial("avg")) for p in kinds]
        return told, tensor.Shard(1) == tensor.Shard(1), tensor.Shard(0) == tensor.Shard(1), len(set(kinds))

    assert facts(torchlike) == facts(torch)


def weak_dictionary(t):
    weak = module(t, "utils.weak")
    x, y = t.ones(2), t.ones(2)
    names = weak.WeakIdKeyDictionary({x: "x"})
    names[y] = "y"
    facts = [names[x], names[y], len(names), x in names, t.ones(2) in names, [v is x for v in names]]
    del names[y]
    del y
    facts += [len(names), weak.WeakIdRef(x) == weak.WeakIdRef(x), hash(weak.WeakIdRef(x)) == id(x)]
    ref = weak.TensorWeakRef(x)
    facts.append(ref() is x)
    del x
    gc.collect()
    return [*facts, len(names), ref() is None]


def test_weak_dictionaries():
    assert weak_dictionary(torchlike) == weak_dictionary(torch)
    with pytest.raises(AssertionError, match="expected torch.Tensor"):
        torchlike.utils.weak.TensorWeakRef(3)


PARSED = [
    (("cpu", "float32"), {"non_blocking": True}),
    (("float64",), {}),
    (("meta",), {}),
    ((), {"dtype": "float16"}),
    (("cpu", None, True), {}),
]


@pytest.mark.parametrize("given", PARSED, ids=str)
def test_how_to_reads_its_arguments(given):
    def parsed(t):
        args, kwargs = copy.deepcopy(given)
        named = {key: getattr(t, value) if key == "dtype" else value for key, value in kwargs.items()}
        plain = [getattr(t, a) if isinstance(a, str) and hasattr(t, a) and "float" in a else a for a in args]
        return repr(t._C._nn._parse_to(*plain, **named))

    assert parsed(torchlike) == parsed(torch)
    assert repr(torchlike._C._nn._parse_to(torchlike.ones(1))) == repr(torch._C._nn._parse_to(torch.ones(1)))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.parametrize("t", LIBRARIES)
def test_private_names(t):
    tree = module(t, "utils._pytree")
    assert tree._dict_flatten({"a": 1}) == ([1], ["a"]) and tree._get_node_type({}) is dict
    assert dict in tree.SUPPORTED_NODES and tree.tree_structure(3) == tree.LeafSpec()
    assert module(t, "utils.checkpoint").get_device_states(t.ones(1)) == ([], [])
    assert t._C._are_functorch_transforms_active() is False
    assert t.func.vmap(lambda x: x * t._C._are_functorch_transforms_active())(t.ones(2)).tolist() == [1, 1]
    assert isinstance(t.Tensor, t._C._TensorMeta) and module(t, "hub")._get_torch_home()
    assert t._utils._get_device_index("cuda:1") == 1 and t._utils._get_device_index(3) == 3
    assert t._utils._get_device_index("cpu", allow_cpu=True) == -1
    for refused in ("cpu", None, "cuda"):
        with pytest.raises(ValueError, match="Expected a"):
            t._utils._get_device_index(refused)
    assert not module(t, "_subclasses.fake_tensor").is_fake(t.ones(1))


@pytest.mark.parametrize("t", LIBRARIES)
def test_times_of_statements(t):
    timer = module(t, "utils.benchmark").Timer("x + 1", globals={"x": t.ones(3)}, label="plus", description="one")
    measured = timer.timeit(20)
    assert measured.number_per_run == 20 and len(measured.times) == 1 and measured.median > 0
    blocks = timer.blocked_autorange(min_run_time=0.01)
    assert len(blocks.times) >= 1 and blocks.mean > 0 and blocks.iqr >= 0
    assert "plus" in repr(blocks) and "Median" in repr(blocks) or "runs" in repr(blocks)


@pytest.mark.parametrize(
    "wrong", [([], {}, None), ({}, [], None), ({"a": 1}, {}, {"b": [1]}), ({"a": 1}, {}, {"a": ["x"]}), ({}, {}, [1])]
)
def test_settings_of_tensorboard_that_are_none(wrong):
    with pytest.raises(TypeError, match=r"should be (dictionary|a dictionary|a list of same type)"):
        _hparams.summaries(*wrong)


def test_tensorboard_asks_for_its_package(tmp_path):
    if importlib.util.find_spec("tensorboard") is not None:
        writer = torchlike.utils.tensorboard.SummaryWriter(tmp_path)
        with writer:
            writer.add_scalar("loss", torchlike.tensor(0.5), 1)
            writer.add_histogram("weights", torchlike.arange(9.0), 1)
            writer.add_text("note", "text", 1)
            writer.add_hparams({"lr": 0.1, "name": "adam", "none": None}, {"loss": torchlike.tensor(0.5)}, None, "a")
            with pytest.raises(NotImplementedError, match="SummaryWriter.add_image"):
                writer.add_image("x", None)
        assert [file for file in tmp_path.iterdir() if file.stat().st_size > 100]
        assert [file for file in (tmp_path / "a").iterdir() if file.stat().st_size > 400]
    else:
        with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
            torchlike.utils.tensorboard.SummaryWriter(tmp_path)


def test_the_environment_as_text():
    told = torchlike.utils.collect_env.get_pretty_env_info()
    assert told.startswith("PyTorch version: 2.13.0+torchlike") and "\njax version: " in told


class Told(Exception):
    message = "as given"

    def __init__(self, message):
        super().__init__(message)


class Two(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class Absent(KeyError):
    pass


def unreadable():
    return b"\xff".decode()


def raising(error):
    raise error


@pytest.mark.parametrize(
    "raises",
    [lambda: raising(ValueError("x")), lambda: {}["x"], lambda: raising(Told("x")), lambda: raising(Two(1, 2)),
     lambda: raising(Absent("x\ny")), unreadable],
    ids=["value", "key", "message", "two arguments", "a kind of key", "no message will do"],
)  # fmt: skip
def test_exceptions_on_their_way(raises):
    def run(t, **options):
        try:
            raises()
        except Exception:
            wrapper = module(t, "_utils").ExceptionWrapper(**options)
        try:
            copy.copy(wrapper).reraise()
        except Exception as error:
            return type(error), str(error).partition("line")[0], len(str(error).splitlines()), repr(error)[:40]

    for options in ({}, {"where": "in a worker"}):
        expected, got = run(torch, **options), run(torchlike, **options)
        assert got == expected and "Caught" in got[1]
