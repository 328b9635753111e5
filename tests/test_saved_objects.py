"""Modules, optimizers and other objects: saved by either library, loaded by the other; pickles of their own."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from agreement import plain
from file_kit import written
from story_kit import story

import torchlike as tl
from torchlike._functions import generator


class Net(tl.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = tl.nn.Linear(2, 2)
        self.act = tl.tanh


def all_layers(T):
    return T.nn.Sequential(
        T.nn.Conv2d(1, 2, 3), T.nn.BatchNorm2d(2), T.nn.ReLU(), T.nn.Flatten(), T.nn.LSTM(3, 2, 2), T.nn.LazyLinear(3),
        T.nn.TransformerEncoderLayer(4, 2, 4, activation=T.nn.functional.gelu), T.nn.ChannelShuffle(2),
        T.nn.ParameterDict({"a": T.nn.Parameter(T.ones(2, 3).t())}), T.nn.Embedding(3, 2), T.nn.GroupNorm(1, 2),
    ).eval()  # fmt: skip


def optimizer(T):
    m = T.nn.Linear(2, 2)
    with T.no_grad():
        for p in m.parameters():
            p.fill_(0.5)
    o = T.optim.Adam(m.parameters(), lr=0.1)
    m(T.ones(1, 2)).sum().backward()
    o.step()
    return o


def drawn_from(T):
    """A generator that keeps the second number of a pair."""
    g = T.Generator().manual_seed(7)
    T.normal(0.0, 1.0, (3,), generator=g)
    return g


OBJECTS = {
    "layers": all_layers,
    "optimizer": optimizer,
    "scheduler": lambda T: T.optim.lr_scheduler.OneCycleLR(optimizer(T), 0.1, total_steps=5),
    "composed": lambda T: T.optim.lr_scheduler.ChainedScheduler([T.optim.lr_scheduler.StepLR(optimizer(T), 2)]),
    "cyclic": lambda T: T.optim.lr_scheduler.CyclicLR(
        optimizer(T), 0.1, 0.2, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "averaging": lambda T: T.optim.swa_utils.SWALR(optimizer(T), 0.1, 3, "linear"),
    "packed": lambda T: T.nn.utils.rnn.pack_sequence([T.ones(2), T.ones(1)]),
    "dtypes": lambda T: [T.ones(2, dtype=T.uint16), T.ones(2, dtype=T.float8_e4m3fn), T.ones(2).bfloat16()],
    "named result": lambda T: T.max(T.ones(2, 2), 0),
    "conjugate": lambda T: [T.tensor([1 + 2j]).conj(), T.tensor([1 + 2j]).conj().imag],
    "meta": lambda T: T.ones(2, 3, device="meta").t(),
    "parameter with a note": lambda T: noted(T.nn.Parameter(T.ones(2))),
    "buffer": lambda T: T.nn.Buffer(T.ones(1), persistent=False),
    "scaler": lambda T: T.amp.GradScaler("cpu", init_scale=4.0),
    "generator": drawn_from,
    "dataset": lambda T: T.utils.data.TensorDataset(T.ones(2, 2)),
}


def noted(t):
    t.note = 3
    return t


def described(x):
    """What can be compared of an object of either library."""
    if isinstance(x, (torch.nn.Module, tl.nn.Module)):
        lazy = {k for k, v in x.state_dict().items() if "Uninitialized" in type(v).__name__}
        return str(x), {k: k in lazy or plain(v) for k, v in x.state_dict().items()}, x.training
    if isinstance(x, (torch.Tensor, tl.Tensor)):
        values = None if x.is_meta else x.to(dtype=type_of(x)).tolist()
        return values, str(x.dtype), x.stride(), x.is_conj(), x.is_neg(), x.requires_grad, x.__dict__
    if isinstance(x, (list, tuple)):
        return type(x).__qualname__, [described(part) for part in x]
    if isinstance(x, (torch.Generator, tl.Generator)):
        return x.initial_seed(), str(x.device), x.get_state().tolist()
    return plain(x.state_dict()) if hasattr(x, "state_dict") else str(type(x)).split(".")[-1]


def type_of(x):
    library = torch if isinstance(x, torch.Tensor) else tl
    return library.complex128 if x.is_complex() else library.float64


@pytest.mark.parametrize("legacy", [False, True], ids=["archive", "legacy"])
@pytest.mark.parametrize("writer,reader", [(tl, tl), (tl, torch), (torch, tl)], ids=["own", "to torch", "from torch"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name, writer, reader, legacy):
    obj = OBJECTS[name](writer)
    if legacy and name == "dtypes" and reader is torch:  # PyTorch cannot read these dtypes of its own either
        for library in (torch, tl):
            with pytest.raises(AttributeError, match="UntypedStorage' has no attribute 'dtype'"):
                torch.load(written(OBJECTS[name](library), library, _use_new_zipfile_serialization=False))
        return
    if legacy and name == "generator":  # numbers follow the pickle there: PyTorch takes a state of whatever memory held
        if reader is tl:
            with pytest.raises(RuntimeError, match="mt19937"):
                tl.load(written(obj, writer, _use_new_zipfile_serialization=False), weights_only=False)
        return
    new = reader.load(written(obj, writer, _use_new_zipfile_serialization=not legacy), weights_only=False)
    assert described(new) == described(OBJECTS[name](writer) if name != "layers" else obj)
    assert type(new).__qualname__ == type(obj).__qualname__
    if type(obj).__module__.startswith(writer.__name__ + ".") and name != "named result":
        assert type(new).__module__.startswith(reader.__name__)


@pytest.mark.filterwarnings("ignore:Seems like `optimizer.step..` has been overridden:UserWarning")  # once loaded
@pytest.mark.parametrize("name", ["layers", "optimizer", "scheduler", "composed", "cyclic", "averaging"])
def test_what_was_loaded_works(name):
    """Also in the other library: a net computes, an optimizer steps."""
    for writer, reader in ((tl, tl), (tl, torch), (torch, tl)):
        new = reader.load(written(OBJECTS[name](writer), writer), weights_only=False)
        if name == "layers":
            assert new[5](reader.ones(2, 4)).shape == (2, 3) and type(new[5]) is reader.nn.Linear
            assert new[4](reader.ones(1, 3))[0].shape == (1, 2) and new[6](reader.ones(1, 2, 4)).shape == (1, 2, 4)
            continue
        steps = new if name == "optimizer" else new._schedulers[0].optimizer if name == "composed" else new.optimizer
        before = steps.param_groups[0]["params"][0].sum().item()
        steps.param_groups[0]["params"][0].grad = reader.ones(2, 2)
        steps.step()
        assert steps.param_groups[0]["params"][0].sum().item() < before
        if name in ("cyclic", "averaging"):
            own = OBJECTS[name](reader)
            own.optimizer.step()
            own.step(), new.step(), own.step(), new.step()
            assert new.get_last_lr() == own.get_last_lr()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols_and_picklers(protocol):
    other = type(pickle)("other")
    other.Pickler, other.Unpickler, other.dump = pickle.Pickler, pickle.Unpickler, pickle.dump
    m = Net()
    for module in (pickle, other):
        file = written(m, pickle_module=module, pickle_protocol=protocol)
        new = tl.load(file, weights_only=False)
        assert described(new) == described(m) and new.act is tl.tanh and type(new) is Net
        file.seek(0)
        assert described(tl.load(file, pickle_module=module)) == described(m)


def test_functions_and_constants_are_themselves_again():
    x = [tl.relu, tl.nn.functional.relu, tl.Tensor.relu, tl.strided, tl.channels_last, tl.special.i0e, tl.float16]
    assert tl.load(written(x), weights_only=False) == x and pickle.loads(pickle.dumps(x)) == x
    names = tl.load(written([torch.relu, torch.nn.functional.gelu, torch.strided], torch), weights_only=False)
    assert names == [tl.relu, tl.nn.functional.gelu, tl.strided]


@story
def test_plain_pickles_do_not_keep_sharing(t):
    x = t.arange(4.0)
    a, b = pickle.loads(pickle.dumps([x, x[1:].t()]))
    a.add_(1)
    return b, b.storage_offset(), a, b.untyped_storage().nbytes()


@story
def test_storages(t):
    x = t.arange(3.0)
    again = pickle.loads(pickle.dumps(t.storage.TypedStorage(wrap_storage=x.untyped_storage(), dtype=x.dtype)))
    twin = copy.deepcopy(x.untyped_storage())
    x.add_(1)
    return again.tolist(), again.nbytes(), twin.tolist(), copy.copy(x.untyped_storage()).tolist()


@story
def test_weak_hooks_of_modules_are_copied(t):
    m = t.nn.Linear(1, 1)
    seen = []
    m._register_load_state_dict_pre_hook(lambda module, *args: seen.append(module), with_module=True)
    twin = copy.deepcopy(m)
    twin.load_state_dict(m.state_dict())
    handle = m.register_forward_hook(print, with_kwargs=True, always_call=True)
    copied, other = copy.deepcopy([m, handle])
    other.remove()
    return seen[0] is twin, len(copied._forward_hooks), len(copied._forward_hooks_with_kwargs), len(m._forward_hooks)


def test_generators_pickle_and_copy():
    """As PyTorch's; files of before have another form, and PyTorch crashes on what is no state."""
    g = drawn_from(tl)
    assert g.__reduce__()[:2] == (tl.Generator, (tl.device("cpu"),))
    for new in (copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()):
        assert new is not g and described(new) == described(drawn_from(torch))
        assert tl.rand(2, generator=new).tolist() == torch.rand(2, generator=drawn_from(torch)).tolist()
    former = pickle.dumps(Former(g))
    assert described(pickle.loads(former)) == described(g)
    for wrong in (None, (1, None), [1, None, g.get_state()]):
        with pytest.raises(TypeError, match=r"state is \(seed, offset, state\)"):
            g.__setstate__(wrong)
    assert described(g) == described(drawn_from(torch))


class Former:
    """Pickled as generators were."""

    def __init__(self, g):
        self.g = g

    def __reduce__(self):
        return generator._rebuild, (self.g.device, self.g.get_state())


def _of_0_3(views, ending=b"\x02" + bytes(15)):
    """A file as PyTorch 0.3 wrote it: two parts of a storage of two floats, which follows the pickles."""
    parts = [
        b"(U\x07storageq\x00ctorch\nFloatStorage\nq\x01U\x01aU\x03cpuK\x02U" + bytes([len(key)]) + key
        + b"K" + bytes([first]) + b"K" + bytes([count]) + b"\x87tQ" for key, first, count in views
    ]  # fmt: skip
    head = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"type_sizes": {}, "little_endian": True})]
    return b"".join([*head, b"\x80\x02", *parts, b"\x86.", pickle.dumps(["a"], 2), ending])


def test_views_of_storages_in_files_of_old():
    numbers = (2).to_bytes(8, "little") + b"\x00\x00\x80\x3f\x00\x00\x00\x40"
    data = _of_0_3([(b"b", 0, 1), (b"c", 1, 1)], numbers)
    for t in (torch, tl):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = t.load(io.BytesIO(data), weights_only=False)
            assert (first[0], second[0], len(first), len(second)) == (1.0, 2.0, 1, 1)
    with pytest.raises(pickle.UnpicklingError, match="a view of a storage beyond its end"):
        tl.load(io.BytesIO(_of_0_3([(b"b", 0, 1), (b"c", 1, 9)], numbers)), weights_only=False)
