"""save and load: round trips, files of torch.save, and files that try more than to be read."""

import collections
import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from agreement import plain

import torchlike as tl

DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "complex64",
    "complex128",
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
]


def written(obj, library=tl, **options):
    file = io.BytesIO()
    library.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj, **options):
    return tl.load(written(obj), **options)


def from_torch(obj, **options):
    """An object of torch's, saved by torch and loaded by torchlike."""
    return tl.load(written(obj, torch), **options)


NT = collections.namedtuple("NT", "a b")
PLAIN = {
    "numbers": [1, -1, 2**80, 0, 1.5, -0.0, 1e-320, True, False, None, 1j, complex("nan")],
    "not finite": [float("inf"), float("-inf")],
    "text": ["", "é\n\0", "\ud800", b"", b"a\xff", bytearray(b"ab")],
    "containers": [[], (), {}, set(), frozenset(), (1, [2, (3,)]), {"a": {1: 2}}, {1, "x"}, frozenset({2}), [[]]],
    "keys": {1.5: 2, (1, (2,)): 3, None: 4, True: 5, b"x": 6, "": 7},
    "order": OrderedDict([("b", 1), ("a", OrderedDict())]),
    "counter": collections.Counter("abca"),
    "ranges": [slice(1, None, -2), range(1, 9, 3), slice(None)],
    "tags": [["tuple", [1]], ["same", 0], {"tensor": ["tensor"]}],
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values(name):
    new = again(PLAIN[name])
    assert repr(new) == repr(PLAIN[name]) and type(new) is type(PLAIN[name])


def test_types_of_numbers():
    assert [type(x) for x in again([1, 1.0, True, 1j, None])] == [int, float, bool, complex, type(None)]
    assert np.isnan(again(float("nan")))


def test_names_of_torch():
    x = [tl.float32, tl.bfloat16, tl.device("cpu"), tl.device("cuda:1"), tl.Size([2, 3])]
    new = again(x)
    assert new == x and new[0] is tl.float32 and type(new[4]) is tl.Size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (0, 3)], ids=str)
def test_tensors(dtype, shape):
    x = tl.tensor(np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0).to(getattr(tl, dtype))
    new = again(x)
    assert plain(new.to(tl.complex128)) == plain(x.to(tl.complex128)) and new.dtype is x.dtype and new.shape == x.shape


def test_special_values():
    x = tl.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    assert again(x).numpy().tobytes() == x.numpy().tobytes()


def test_requires_grad_and_history():
    q = tl.ones(2, requires_grad=True)
    new = again([q, q * 2, q.detach()])
    assert [(t.requires_grad, t.is_leaf, t.grad) for t in new] == [(True, True, None)] * 2 + [(False, True, None)]


def test_parameters_and_buffers():
    p, frozen = tl.nn.Parameter(tl.ones(2)), tl.nn.Parameter(tl.tensor([1]), requires_grad=False)
    b = tl.nn.Buffer(tl.ones(1), persistent=False)
    new = again({"p": p, "f": frozen, "b": b})
    assert type(new["p"]) is tl.nn.Parameter and new["p"].requires_grad and not new["f"].requires_grad
    assert isinstance(new["b"], tl.nn.Buffer) and not new["b"].persistent


def test_identity_and_shared_storage():
    x, shared = tl.zeros(4), [1]
    view, same = x[1:3], x.detach()
    new = again({"x": x, "x2": x, "same": same, "view": view, "l": shared, "l2": shared})
    assert new["x"] is new["x2"] and new["l"] is new["l2"] and new["same"] is not new["x"]
    new["x"].add_(1)
    assert new["same"].tolist() == [1.0] * 4 and new["view"].tolist() == [0.0] * 2
    assert len(zipfile.ZipFile(written([x, same])).namelist()) == 2


def test_cycles():
    x = [1]
    x.append({"x": x})
    new = again(x)
    assert new[1]["x"] is new


def test_views_are_saved_by_their_values():
    x = tl.arange(6.0).reshape(2, 3)
    assert again([x.t(), x[:, ::2], x.expand(2, 2, 3)[1]])[0].tolist() == x.t().tolist()
    assert again(x[:, ::2]).tolist() == [[0.0, 2.0], [3.0, 5.0]]


def test_meta_tensors():
    new = again(tl.zeros(2, 3).to("meta"))
    assert new.is_meta and new.shape == (2, 3)


def test_numpy():
    new = again([np.float64(1.5), np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2], np.bool_(True), np.zeros((0, 2))])
    assert type(new[0]) is np.float64 and new[1].tolist() == [[0, 2], [3, 5]] and new[1].dtype == np.int16
    assert new[2] is np.True_ and new[3].shape == (0, 2)
    new[1][0, 0] = 7


def model(T):
    torch.manual_seed(0)
    inner = T.nn.ParameterDict({"w": T.arange(4.0).reshape(2, 2), "h": T.ones(2).half()})
    m = T.nn.Sequential(OrderedDict(inner=inner, empty=T.nn.Sequential()))
    m.register_buffer("count", T.tensor(3))
    m.tied = T.nn.ParameterList([inner["w"]])
    return m


def test_state_dict(tmp_path):
    m = model(tl)
    tl.save({"model": m.state_dict(), "epoch": 3}, tmp_path / "m.pt")
    loaded = tl.load(str(tmp_path / "m.pt"), weights_only=True)
    assert loaded["epoch"] == 3 and loaded["model"]._metadata == m.state_dict()._metadata
    fresh = model(tl)
    fresh.requires_grad_(False)
    for p in fresh.parameters():
        p.mul_(0)
    assert fresh.load_state_dict(loaded["model"]).missing_keys == []
    assert plain(fresh.state_dict()) == plain(m.state_dict())


def test_optimizer_state():
    class Plain(tl.optim.Optimizer):
        def step(self):
            pass

    o = Plain([tl.nn.Parameter(tl.ones(2))], {"lr": 0.1, "betas": (0.9, 0.999), "foreach": None})
    o.state[o.param_groups[0]["params"][0]] = {"step": tl.tensor(1.0), "exp_avg": tl.ones(2)}
    assert plain(again(o.state_dict())) == plain(o.state_dict())


# -- files of torch.save -----------------------------------------------------------------------------------
def nn_buffer(T):
    return T.nn.Buffer(T.ones(1), persistent=False)


def with_attribute(T):
    t = T.ones(2)
    t.note = 3
    return t


TORCH = {
    "state_dict": lambda T: model(T).state_dict(),
    "containers": lambda T: [1, 2**80, 1.5, None, True, "é", b"ab", (1, [2]), {"a": {1, 2}}, 1j, bytearray(b"ab")],
    "more containers": lambda T: [slice(1, 2), frozenset([1]), range(3), collections.Counter("ab"), OrderedDict(a=1)],
    "names": lambda T: [T.float32, T.bfloat16, T.device("cpu"), T.Size([1, 2])],
    "parameter": lambda T: [T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.tensor([1]), requires_grad=False)],
    "requires_grad": lambda T: [T.ones(2, requires_grad=True), T.ones(2)],
    "views": lambda T: [T.arange(6.0).reshape(2, 3).t(), T.arange(6)[1:5:2], T.arange(3).expand(2, 3), T.arange(4)[2]],
    "empty": lambda T: [T.ones(0), T.ones(0, 3), T.ones(2, 0).t()],
    "0-dim": lambda T: T.tensor(3),
    "channels last": lambda T: T.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=T.channels_last),
    "same storage, other shape": lambda T: (lambda x: [x, x.view(4), x.view(2, 2)])(T.arange(4)),
    "meta": lambda T: [T.ones(2, 3).to("meta").shape],
}


@pytest.mark.parametrize("name", TORCH)
def test_torch_files(name):
    assert plain(from_torch(TORCH[name](torch))) == plain(TORCH[name](tl))


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_files_of_every_dtype(dtype):
    x = torch.tensor([1.0, 0.0]).to(getattr(torch, dtype))
    new = from_torch({"x": x, "y": x.reshape(2, 1)})["y"]
    assert str(new.dtype) == f"torch.{dtype}" and new.to(tl.complex128).tolist() == [[1.0], [0.0]]


def test_torch_files_in_detail():
    x = torch.arange(4.0)
    new = from_torch([x, x.detach(), x[1:], x, torch.conj(torch.tensor([1j])), torch.ones(2, device="meta")])
    assert new[0] is new[3] and new[4].tolist() == [-1j] and new[5].is_meta
    new[0].add_(1)
    assert new[1].tolist() == [1.0, 2.0, 3.0, 4.0] and new[2].tolist() == [1.0, 2.0, 3.0]
    buffer, noted = from_torch([nn_buffer(torch), with_attribute(torch)])
    assert isinstance(buffer, tl.nn.Buffer) and not buffer.persistent and noted.note == 3
    p = torch.nn.Parameter(torch.ones(1))
    p.note = 4
    assert from_torch(p).note == 4 and from_torch(model(torch).state_dict())._metadata[""] == {"version": 1}


def test_torch_optimizer_file():
    o = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    o.param_groups[0]["params"][0].grad = torch.ones(2)
    o.step()
    assert plain(from_torch(o.state_dict())) == plain(o.state_dict())


def test_torch_model_to_torchlike_model(tmp_path):
    m = model(torch)
    with torch.no_grad():
        m.inner["w"].mul_(3)
    torch.save(m.state_dict(), tmp_path / "m.pt")
    new = model(tl)
    new.load_state_dict(tl.load(tmp_path / "m.pt", map_location="cpu", weights_only=True))
    assert plain(new.state_dict()) == plain(m.state_dict())


def test_big_endian_file():
    source = zipfile.ZipFile(written(torch.tensor([1.0, 2.0]), torch))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            if name.endswith("data/0"):
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            archive.writestr(name, data)
    assert tl.load(target).tolist() == [1.0, 2.0]


# -- places ------------------------------------------------------------------------------------------------
def on(location):
    """A file whose tensor was saved on ``location``."""
    source = zipfile.ZipFile(written({"x": tl.ones(2)}))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name).replace(b'"cpu"', f'"{location}"'.encode()))
    target.seek(0)
    return target


PLACES = {
    "str": "cpu",
    "device": tl.device("cpu"),
    "dict": {"cuda:0": "cpu"},
    "function": lambda storage, location: storage,
    "function cpu": lambda storage, location: storage.cpu(),
    "function device": lambda storage, location: "cpu",
}


@pytest.mark.parametrize("name", PLACES)
def test_map_location(name):
    assert tl.load(on("cuda:0"), map_location=PLACES[name])["x"].device.type == "cpu"
    assert from_torch(torch.ones(2), map_location=PLACES[name]).device.type == "cpu"


def test_other_places():
    assert again(tl.ones(2), map_location="meta").is_meta and from_torch(torch.ones(2), map_location="meta").is_meta
    assert again(tl.ones(2), map_location=lambda storage, location: None).tolist() == [1.0, 1.0]
    seen = []
    again([tl.ones(2), tl.ones(3)], map_location=lambda storage, location: seen.append((location, str(storage.device))))
    assert seen == [("cpu", "cpu")] * 2
    with pytest.raises(RuntimeError, match=r"a tensor was saved on xpu:0: .*map_location='cpu'"):
        tl.load(on("xpu:0"))
    with pytest.raises(RuntimeError, match="foo"):
        again(tl.ones(2), map_location="foo")
    with pytest.raises(TypeError, match="map_location must be a device, a str, a dict or a function, not int"):
        again(tl.ones(2), map_location=3)


# -- what is refused -----------------------------------------------------------------------------------------
class Mine:
    def __init__(self, x=1):
        self.x = x

    def __eq__(self, other):
        return type(other) is Mine and other.x == self.x


REFUSED = {
    "module": (lambda: tl.nn.Sequential(), "Sequential: save its state_dict"),
    "object": (lambda: [{"a": Mine()}], "Mine. It saves tensors, Parameters"),
    "function": (lambda: len, "builtin_function_or_method"),
    "named tuple": (lambda: NT(1, 2), "NT: convert it to a tuple"),
    "text array": (lambda: np.array(["a"]), "numpy.ndarray"),
    "subclass of dict": (lambda: type("D", (dict,), {})(), "D. It saves"),
    "subclass of int": (lambda: type("I", (int,), {})(3), "I. It saves"),
    "class": (lambda: tl.nn.Module, "builtins.type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_objects(name, tmp_path):
    make, message = REFUSED[name]
    with pytest.raises(pickle.PicklingError, match=message):
        tl.save(make(), tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_refused_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        tl.load(tmp_path / "none")
    with pytest.raises(EOFError, match="empty"):
        tl.load(io.BytesIO())
    with pytest.raises(pickle.UnpicklingError, match="not one that torchlike.save or torch.save wrote"):
        tl.load(io.BytesIO(b"junk"))
    with pytest.raises(NotImplementedError, match=r"before PyTorch 1\.6"):
        tl.load(written([1], torch, _use_new_zipfile_serialization=False))
    with pytest.raises(NotImplementedError, match="plain pickles"):
        tl.load(io.BytesIO(pickle.dumps({"a": 1})))
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(pickle.UnpicklingError, match="a zip archive that neither"):
        tl.load(other)
    with pytest.raises(AttributeError, match="'write' attribute"):
        tl.save(1, 3)
    with pytest.raises(AttributeError, match="'read' attribute"):
        tl.load(3)
    with pytest.raises(RuntimeError, match="Parent directory .*no does not exist"):
        tl.save(1, tmp_path / "no" / "x")
    with pytest.raises(NotImplementedError, match="pickle_module"):
        tl.save(1, io.BytesIO(), pickle_module=json)


def damaged(change):
    source = zipfile.ZipFile(written({"x": tl.ones(2)}))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, change(name, source.read(name)))
    return target


def test_damaged_files():
    with pytest.raises(pickle.UnpicklingError, match="data/0 has 1 elements, and its shape is"):
        tl.load(damaged(lambda name, data: data[:4] if name == "data/0" else data))
    with pytest.raises(pickle.UnpicklingError, match="'wire', which this torchlike does not know"):
        tl.load(damaged(lambda name, data: data.replace(b'"tensor"', b'"wire"')))
    with pytest.raises(pickle.UnpicklingError, match="the file has version 9"):
        tl.load(damaged(lambda name, data: data.replace(b'"version": 1', b'"version": 9')))


def test_file_objects(tmp_path):
    class Stream:
        """A file that cannot seek."""

        def __init__(self, data):
            self.data = data

        def read(self):
            return self.data

    assert tl.load(Stream(written([1]).getvalue())) == [1]
    with open(tmp_path / "x", "wb") as file:
        tl.save({"a": tl.ones(1)}, file)
    with open(tmp_path / "x", "rb") as file:
        assert tl.load(file)["a"].tolist() == [1.0]


# -- files that try more than to be read ---------------------------------------------------------------------
def with_pickle(program):
    """A file as torch.save writes it, with this pickle in it and one storage of two floats."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/data/0", np.ones(2, np.float32).tobytes())
    return file


class Runs:
    """What it pickles to calls a function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
EVIL = {
    "os.system": (pickle.dumps(Runs(os.system, "exit 1"), 2), "Unsupported global: posix.system"),
    "eval": (pickle.dumps(Runs(eval, "1+1"), 2), "Unsupported global: builtins.eval"),
    "getattr": (pickle.dumps(Runs(getattr, 1, "real"), 2), "Unsupported global: builtins.getattr"),
    "an attribute of what is known": (b"ccollections\nOrderedDict.fromkeys\n.", "Unsupported global"),
    "our own modules": (b"ctorchlike.serialization\nos\n.", "Unsupported global: torchlike.serialization.os"),
    "change of a function": (REBUILD + b"(N}X\x05\x00\x00\x00_callK\x01stb.", "tries to change"),
    "a class": (b"ctorch.nn.modules.linear\nLinear\n)\x81.", "Unsupported global: torch.nn.modules.linear.Linear"),
    "a tensor beyond its storage": (
        b"\x80\x02" + REBUILD + b"(" + STORAGE + b"K\x00K\x03\x85K\x01\x85\x89NtR.",
        "reaches element 2",
    ),
    "a tensor before its storage": (
        b"\x80\x02" + REBUILD + b"(" + STORAGE + b"J\xff\xff\xff\xffK\x01\x85K\x01\x85\x89NtR.",
        "damaged",
    ),
    "a negative stride": (
        b"\x80\x02" + REBUILD + b"(" + STORAGE + b"K\x01K\x02\x85J\xff\xff\xff\xff\x85\x89NtR.",
        "damaged",
    ),
    "no storage": (b"\x80\x02" + REBUILD + b"(K\x01K\x00)))\x89tR.", "missing|needs a storage"),
    "unknown reference": (b"\x80\x02K\x01Q.", "unknown reference 1"),
    "much memory": (b"c__builtin__\nbytearray\n(J\xff\xff\xff\x7ftR.", "of what is no bytes"),
    "a tensor of no storage": (b"ctorch\nTensor\n)R.", "without a storage"),
}


@pytest.mark.parametrize("name", EVIL)
def test_evil_files(name):
    program, message = EVIL[name]
    for weights_only in (True, False):
        with pytest.raises((pickle.UnpicklingError, TypeError), match=message):
            tl.load(with_pickle(program), weights_only=weights_only)


def test_the_storage_of_the_evil_files_is_good():
    assert tl.load(
        with_pickle(b"\x80\x02" + REBUILD + b"(" + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89NtR.")
    ).tolist() == [1.0, 1.0]


def test_safe_globals():
    file = written({"m": Mine(5)}, torch)
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals"):
        tl.load(file)
    with tl.serialization.safe_globals([Mine]):
        assert tl.load(file)["m"] == Mine(5) and tl.serialization.get_safe_globals() == [Mine]
    assert tl.serialization.get_safe_globals() == []
    tl.serialization.add_safe_globals([(Mine, f"{Mine.__module__}.Mine")])
    assert tl.load(file)["m"] == Mine(5)
    tl.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        tl.load(file)
