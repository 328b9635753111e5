"""save and load: round trips, files of torch.save, and the places that tensors are read to."""

import collections
import io
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from agreement import plain
from both import agree
from file_kit import again, changed, from_torch, written

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
    assert new["same"].tolist() == [1.0] * 4 and new["view"].tolist() == [1.0] * 2
    assert sum("/data/" in name for name in zipfile.ZipFile(written([x, same, view])).namelist()) == 1


def test_cycles():
    x = [1]
    x.append({"x": x})
    new = again(x)
    assert new[1]["x"] is new


VIEWS = {
    "transposed": lambda x: x.t(),
    "a step": lambda x: x[:, ::2],
    "expanded": lambda x: x.expand(2, 2, 3)[1],
    "a row": lambda x: x[1],
    "reshaped": lambda x: x.view(3, 2),
    "flat": lambda x: x.view(-1),
    "a number": lambda x: x[1, 2],
    "empty": lambda x: x[2:],
    "windows": lambda x: x.view(-1).unfold(0, 2, 1),
}


@pytest.mark.parametrize("first", ["base", "view"])
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("legacy", [False, True])
def test_views_share_their_storage_with_the_base(name, first, legacy):
    """Both directions, both formats: a write through the one is seen by the other, strides and offsets are kept."""
    seen = []
    for writer, reader in ((tl, tl), (tl, torch), (torch, tl), (torch, torch)):
        x = writer.arange(6.0).reshape(2, 3)
        pair = [x, VIEWS[name](x)] if first == "base" else [VIEWS[name](x), x]
        file = written(pair, writer, _use_new_zipfile_serialization=not legacy)
        new = reader.load(file)
        base, view = new if first == "base" else new[::-1]
        base.mul_(10)
        places = view.stride(), view.storage_offset(), view._is_view(), base.stride()
        seen.append([base.tolist(), view.tolist(), *places])
    assert all(entry == seen[-1] for entry in seen)


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


def test_a_module_is_an_ordinary_module_again():
    """Its parameters are bases of their storages, so that they cost what others do."""
    new = again(tl.nn.Sequential(tl.nn.Conv2d(1, 2, 3), tl.nn.BatchNorm2d(2)).to(memory_format=tl.channels_last))
    assert [p._view is None or not p._view.steps for p in new.parameters()] == [True] * 4


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
    assert new[1].tolist() == [1.0, 2.0, 3.0, 4.0] and new[2].tolist() == [2.0, 3.0, 4.0] and new[4].is_conj()
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
    def swapped(name, data):
        if name.endswith("byteorder"):
            return b"big"
        return np.frombuffer(data, "<f4").astype(">f4").tobytes() if name.endswith("data/0") else data

    assert tl.load(changed(written(torch.tensor([1.0, 2.0]), torch), swapped)).tolist() == [1.0, 2.0]
    assert tl.load(changed(written(torch.tensor([1 + 2j]), torch), swapped)).tolist() == [1 + 2j]


# -- places ------------------------------------------------------------------------------------------------
def on(location):
    """A file whose tensor was saved on ``location``."""
    text = b"X" + len(location).to_bytes(4, "little") + location.encode()
    return changed(written({"x": tl.ones(2)}), lambda name, data: data.replace(b"X\3\0\0\0cpu", text))


PLACES = {
    "str": "cpu",
    "device": tl.device("cpu"),
    "dict": {"cuda:0": "cpu"},
    "function": lambda storage, location: storage,
    "function cpu": lambda storage, location: storage.cpu(),
}


@pytest.mark.parametrize("name", PLACES)
def test_map_location(name):
    assert tl.load(on("cuda:0"), map_location=PLACES[name])["x"].tolist() == [1.0, 1.0]
    assert from_torch(torch.ones(2), map_location=PLACES[name]).device.type == "cpu"


def test_other_places():
    assert again(tl.ones(2), map_location="meta").is_meta and from_torch(torch.ones(2), map_location="meta").is_meta
    assert again(tl.ones(2), map_location=lambda storage, location: None).tolist() == [1.0, 1.0]
    seen = []
    again([tl.ones(2), tl.ones(3)], map_location=lambda storage, location: seen.append((location, str(storage.device))))
    assert seen == [("cpu", "cpu")] * 2
    with pytest.raises(RuntimeError, match=r"deserialize object on xpu:0, which is not there.*map_location='cpu'"):
        tl.load(on("xpu:0"))
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location .*tagged with foo"):
        again(tl.ones(2), map_location="foo")
    with pytest.raises(TypeError, match="map_location must be a device, a str, a dict or a function, not int"):
        again(tl.ones(2), map_location=3)
    with pytest.raises(TypeError, match="map_location returned a str"):
        again(tl.ones(2), map_location=lambda storage, location: "cpu")


def test_places_of_ones_own():
    before = list(tl.serialization._packages)
    try:
        tl.serialization.register_package(
            5,
            lambda storage: "mine" if storage.nbytes() == 12 else None,
            lambda storage, location: storage.cpu() if location == "mine" else None,
        )
        file = written([tl.ones(3), tl.ones(2)])
        assert b"mine" in file.getvalue() and [x.tolist() for x in tl.load(file)] == [[1.0] * 3, [1.0] * 2]
    finally:
        tl.serialization._packages[:] = before


# -- settings ------------------------------------------------------------------------------------------------
def test_the_order_of_bytes_of_files_that_do_not_say():
    def turned(name, data):
        return None if name.endswith("byteorder") else data[::-1] if name.endswith("data/0") else data

    S = tl.serialization
    S.set_default_load_endianness(S.LoadEndianness.BIG)
    try:
        assert tl.load(changed(written(tl.tensor([1.0])), turned)).tolist() == [1.0]
        assert S.get_default_load_endianness() is S.LoadEndianness.BIG
    finally:
        S.set_default_load_endianness(None)


def test_storages_begin_at_multiples_of_64():
    file = written([tl.ones(n) for n in (1, 33, 5)])
    for info in zipfile.ZipFile(file).infolist():
        if "/data/" in info.filename:
            name, extra = (int.from_bytes(file.getvalue()[info.header_offset + at :][:2], "little") for at in (26, 28))
            assert (info.header_offset + 30 + name + extra) % 64 == 0


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_of_storages_that_were_loaded(zipped):
    def code(t):
        file, x = io.BytesIO(), t.arange(5.0)
        t.save([x, x.storage()], file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        y, storage = t.load(file, weights_only=False)
        t.tensor(storage).add_(1)
        return [t.tensor(s, dtype=t.float32) for s in (storage, storage.untyped(), y.untyped_storage())]

    agree(code)
