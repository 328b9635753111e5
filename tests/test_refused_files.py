"""What save and load refuse: what cannot be saved, damaged files, and files that try more than to be read."""

import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
import torch
from file_kit import Mine, changed, written

import torchlike as tl


def local():
    class Local(tl.nn.Module):
        pass

    return Local()


def with_lambda():
    m = tl.nn.Linear(1, 1)
    m.f = lambda x: x
    return m


def two_dtypes():
    x = tl.ones(2)
    return [x, x.view(tl.int32)]


UNSAVED = {
    "a lambda in a module": (with_lambda, (AttributeError, pickle.PicklingError), "Can't (pickle|get).*lambda"),
    "a class made in a function": (local, (AttributeError, pickle.PicklingError), "Can't (pickle|get) local object"),
    "a generator": (lambda: (x for x in []), TypeError, "cannot pickle 'generator' object"),
    "two dtypes": (two_dtypes, RuntimeError, "different types"),
    "a parametrized module": (
        lambda: tl.nn.utils.parametrizations.weight_norm(tl.nn.Linear(1, 1)),
        RuntimeError,
        "only supported through",
    ),
}


@pytest.mark.parametrize("name", UNSAVED)
def test_what_cannot_be_saved(name, tmp_path):
    make, error, message = UNSAVED[name]
    with pytest.raises(error, match=message):
        tl.save(make(), tmp_path / "x")
    assert os.listdir(tmp_path) == []


REFUSED = {
    "module": (lambda T: T.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    "object": (lambda T: [{"a": Mine()}], f"{Mine.__module__}.Mine"),
    "function": (lambda T: len, r"((__builtin__|builtins)\.)?len"),
    "torch's function": (lambda T: T.nn.functional.relu, "torch.nn.functional.relu"),
    "array": (lambda T: np.ones(2), r"numpy._core.multiarray._reconstruct"),
    "slice": (lambda T: slice(1), r"((__builtin__|builtins)\.)?slice"),
    "class": (lambda T: T.nn.Module, "torch.nn.modules.module.Module"),
    "optimizer": (lambda T: T.optim.SGD([T.ones(1)], lr=1.0), "torch.optim.sgd.SGD"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_weights_only_refuses(name):
    """By name, in either library's files, and by PyTorch in ours."""
    make, full = REFUSED[name]
    for writer in (tl, torch):
        for reader in (tl, torch):
            with pytest.raises(pickle.UnpicklingError, match=f"(?s)Weights only.*Unsupported .*{full}"):
                reader.load(written(make(writer), writer))
            unsafe = reader.serialization.get_unsafe_globals_in_checkpoint(written(make(writer), writer))
            assert any(re.fullmatch(full, entry) for entry in unsafe)
            assert not any("rebuild" in entry for entry in unsafe)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        tl.load(written(make(tl)), weights_only=True)


def test_refused_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        tl.load(tmp_path / "none")
    for end in (io.BytesIO(), io.BytesIO(b"x")):
        end.seek(0, 2)
        with pytest.raises(EOFError, match="Ran out of input"):
            tl.load(end)
    for weights_only in (True, False):
        with pytest.raises(pickle.UnpicklingError):
            tl.load(io.BytesIO(b"junk"), weights_only=weights_only)
    with pytest.raises(pickle.UnpicklingError, match="not plain pickles"):
        tl.load(io.BytesIO(pickle.dumps({"a": 1})))
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file"):
        tl.load(io.BytesIO(pickle.dumps({"a": 1})), weights_only=False)
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x", "y")
    other.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="a zip archive that torch.save did not write"):
        tl.load(other)
    with pytest.raises(AttributeError, match="'write' attribute"):
        tl.save(1, 3)
    with pytest.raises(AttributeError, match="'read' attribute"):
        tl.load(3)
    with pytest.raises(RuntimeError, match="Parent directory .*no does not exist"):
        tl.save(1, tmp_path / "no" / "x")
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        tl.load(written([1]), mmap=True)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        tl.load(written([1]), pickle_module=pickle, weights_only=True)
    tl.save([1], tmp_path / "old", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        tl.load(tmp_path / "old", mmap=True)
    tl.save([tl.ones(2)], tmp_path / "new.pt")
    assert tl.load(tmp_path / "new.pt", mmap=True)[0].tolist() == [1.0, 1.0]


def test_damaged_files():
    def cut(name, data):
        return data[:4] if name.endswith("data/0") else data

    with pytest.raises(pickle.UnpicklingError, match="reaches element 1 of a storage of 1"):
        tl.load(changed(written({"x": tl.ones(2)}), cut))
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        tl.load(io.BytesIO(written({"x": tl.ones(2)}).getvalue()[:-30]))
    old = written({"x": tl.ones(2)}, _use_new_zipfile_serialization=False).getvalue()
    with pytest.raises(pickle.UnpicklingError, match="the file is damaged"):
        tl.load(io.BytesIO(old[:-2]))


def test_places_that_are_not_there():
    old = written([tl.ones(2)], _use_new_zipfile_serialization=False).getvalue()
    for T in (torch, tl):
        with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA\s+device"):
            T.load(io.BytesIO(old.replace(b"X\3\0\0\0cpu", b"X\4\0\0\0cuda")))


def test_file_objects(tmp_path):
    class Stream:
        """A file that cannot seek."""

        def __init__(self, data):
            self.data = data

        def read(self, *n):
            return self.data

    for T in (torch, tl):
        with pytest.raises(AttributeError, match="only torch.load from a file that is seekable. Please pre-load"):
            T.load(Stream(written([1]).getvalue()))
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
    file.seek(0)
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
    "os.system": (pickle.dumps(Runs(os.system, "exit 1"), 2), "Unsupported global: GLOBAL posix.system"),
    "eval": (pickle.dumps(Runs(eval, "1+1"), 2), "Unsupported global: GLOBAL (__builtin__|builtins).eval"),
    "getattr": (pickle.dumps(Runs(getattr, 1, "real"), 2), "Unsupported global: GLOBAL (__builtin__|builtins).getattr"),
    "an attribute of what is known": (b"ccollections\nOrderedDict.fromkeys\n.", "Unsupported global"),
    "our own modules": (b"ctorchlike.serialization\nos\n.", "Unsupported global: GLOBAL torchlike.serialization.os"),
    "change of a function": (REBUILD + b"(N}X\x05\x00\x00\x00_callK\x01stb.", "tries to change"),
    "a class": (b"ctorch.nn.modules.linear\nLinear\n)\x81.", "Unsupported global: .*nn.modules.linear.Linear"),
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
    for weights_only in (True, None):
        with pytest.raises((pickle.UnpicklingError, TypeError), match=message):
            tl.load(with_pickle(program), weights_only=weights_only)


def test_the_storage_of_the_evil_files_is_good():
    assert tl.load(
        with_pickle(b"\x80\x02" + REBUILD + b"(" + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89NtR.")
    ).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("library", [torch, tl], ids=["torch", "torchlike"])
def test_safe_globals(library):
    def load():
        return tl.load(written({"m": Mine(5)}, library))

    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Mine\]\)"):
        load()
    with tl.serialization.safe_globals([Mine]):
        assert load()["m"] == Mine(5) and tl.serialization.get_safe_globals() == [Mine]
        assert tl.serialization.get_unsafe_globals_in_checkpoint(written(Mine(5), library)) == []
    assert tl.serialization.get_safe_globals() == []
    tl.serialization.add_safe_globals([(Mine, f"{Mine.__module__}.Mine")])
    assert load()["m"] == Mine(5)
    tl.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        load()


# -- settings ------------------------------------------------------------------------------------------------
def test_settings(monkeypatch):
    S = tl.serialization
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        tl.load(written(Mine()), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        tl.load(written([1]))
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    assert isinstance(tl.load(written(Mine())), Mine)
    with S.skip_data():
        file = written(tl.ones(2))
    assert tl.load(file).tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="set_default_load_endianness"):
        S.set_default_load_endianness("big")
    with pytest.raises(NotImplementedError, match="MAP_SHARED"):
        S.set_default_mmap_options(1)
    assert S.check_module_version_greater_or_equal(np, (1, 0)) and S.location_tag(tl.ones(1).untyped_storage()) == "cpu"
