"""What files are made of: file objects that can do little, records of archives, and files of long ago."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from file_kit import written
from story_kit import said

import torchlike as tl

BOTH = pytest.mark.parametrize(("writer", "reader"), [(torch, tl), (tl, torch), (tl, tl)])
LEGACY = {"_use_new_zipfile_serialization": False}


class Little:
    """A file object that has these methods, and tells which of them are called."""

    def __init__(self, data=b"", names=("read", "readline", "seek", "tell", "write", "flush")):
        self.file, self.called = io.BytesIO(data), set()
        for name in names:
            setattr(self, name, self.told(name))

    def told(self, name):
        def method(*args):
            self.called.add(name)
            return getattr(self.file, name)(*args)

        return method


@pytest.mark.parametrize("options", [{}, LEGACY], ids=["archive", "legacy"])
def test_file_objects_that_can_do_little(options):
    x = {"a": tl.arange(20.0), "b": [tl.ones(2, 3).t()]}
    file = Little()
    tl.save(x, file, **options)
    assert file.called <= {"write", "flush"}
    for more in ((), ("readinto",)):
        source = Little(file.file.getvalue(), ("read", "readline", "seek", "tell", *more))
        assert tl.load(source)["a"].tolist() == x["a"].tolist()
        assert source.called >= set(more)
    assert torch.load(io.BytesIO(file.file.getvalue()))["b"][0].stride() == (1, 3)


def test_what_is_saved_is_in_the_file(tmp_path):
    """While the file object is still open, in the old format too."""
    for options in ({}, LEGACY):
        with open(tmp_path / "x", "wb") as file:
            tl.save([tl.ones(3)], file, **options)
            assert torch.load(tmp_path / "x")[0].tolist() == [1.0] * 3


@BOTH
def test_bytes_that_look_like_the_end_of_an_archive(writer, reader):
    file = written(writer.tensor([*b"PK\5\6", *bytes(100)], dtype=writer.uint8), writer, **LEGACY)
    assert zipfile.is_zipfile(file) and not reader.serialization._is_zipfile(io.BytesIO(file.getvalue()))
    assert reader.load(io.BytesIO(file.getvalue()))[:4].tolist() == list(b"PK\5\6")
    assert reader.serialization._is_zipfile(written([1], writer))


SPARSE = {
    "coordinates": lambda x: x.to_sparse(),
    "one dense dimension": lambda x: x.to_sparse(1),
    "rows": lambda x: x.to_sparse_csr(),
    "columns": lambda x: x.to_sparse_csc(),
    "blocks": lambda x: x.to_sparse_bsr((1, 3)),
}


@pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR) tensor support")
@BOTH
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_of_old_files(name, writer, reader):
    """Whose storages come after the tensors over them."""
    x = SPARSE[name](writer.tensor([[0, 1.0, 2], [3, 0, 4]]))
    for weights_only in (True, False):
        y = reader.load(written([x], writer, **LEGACY), weights_only=weights_only)[0]
        assert str(y.layout) == str(x.layout) and y.to_dense().tolist() == x.to_dense().tolist()


class Beyond:
    """Pickles as a sparse tensor with an index that its size does not have."""

    def __init__(self, t):
        self.t = t

    def __reduce__(self):
        t = self.t
        parts = t.tensor([[0, 3], [1, 1]]), t.ones(2), t.Size([3, 3])
        return t._utils._rebuild_sparse_tensor, (t.sparse_coo, parts)


def test_sparse_tensors_of_old_files_are_checked():
    def refused(t, options):
        with t.sparse.check_sparse_tensor_invariants():
            return said(lambda: t.load(written(Beyond(t), t, **options)), "size is inconsistent.*index 3")

    for options in ({}, LEGACY):
        assert refused(tl, options) == refused(torch, options)
        for weights_only in (True, False):
            with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
                tl.load(written(Beyond(tl), tl, **options), weights_only=weights_only)


@pytest.mark.filterwarnings("ignore:pickle_load_args only works")
def test_files_of_python_2():
    """Whose texts are bytes where the caller asks for them."""
    data = written(torch.ones(2), torch, **LEGACY).getvalue()
    for text in (b"storage", b"cpu", b"0"):
        data = data.replace(b"X" + len(text).to_bytes(4, "little") + text, b"U" + bytes([len(text)]) + text)
    data = data.replace(b"\x80\2ctorch._utils", b"\x80\2(U\2\xc3\xa9ctorch._utils").replace(b"Rq\6.", b"Rq\6t.")
    start = data.index(b"U\2\xc3\xa9")
    end = data.index(b".\x80\2", start)
    data = data[:end] + (b"" if data[end - 1 : end] == b"t" else b"t") + data[end:]
    for t in (torch, tl):
        for encoding, text in (("utf-8", "é"), ("bytes", "é".encode())):
            for weights_only in (True, False):
                got = t.load(io.BytesIO(data), encoding=encoding, weights_only=weights_only)
                assert got[0] == text and got[1].tolist() == [1.0, 1.0]


# -- records -------------------------------------------------------------------------------------------------
def test_the_reader_and_the_writer_of_records(tmp_path):
    def run(t, path):
        file = io.BytesIO() if path is None else str(path / f"{t.__name__}.x.pt")
        with t.serialization._open_zipfile_writer(file) as writer:
            writer.write_record("note", b"hello", 5)
            writer.write_record("c/d", t.arange(3).untyped_storage(), 24)
            writer.write_record("e", "text", 2)
            told = [said(lambda: writer.write_record("e", b"", 0), "Tried to serialize file twice: e")]
            told += [writer.archive_name() in ("archive", f"{t.__name__}.x"), sorted(writer.get_all_written_records())]
        return file, told

    def read(t, file):
        if path is None:
            file.seek(0)
        with t.serialization._open_zipfile_reader(file) as reader:
            names = reader.get_all_records()
            data = [(n, reader.get_record(n), reader.get_record_size(n)) for n in names if "id" not in n]
            offset, header = reader.get_record_offset("c/d"), reader.get_record_header_offset("c/d")
            whole = file.getvalue() if isinstance(file, io.BytesIO) else Path(file).read_bytes()
            again = whole[offset : offset + 24] == reader.get_record("c/d") and whole[header : header + 2] == b"PK"
            x = reader.get_storage_from_record("c/d", 3, t.int64)
            more = [reader.has_record("note"), reader.has_record("x"), len(reader.serialization_id()), again]
            more += [said(lambda: reader.get_record("x"), "failed locating file x: file not found"), x.shape]
            return names, data, [*map(str, more), x.untyped_storage().nbytes(), str(x.dtype)[-5:], offset % 64]

    for path in (None, tmp_path):
        files = [run(t, path) for t in (torch, tl)]
        assert files[0][1] == files[1][1]
        found = [read(t, file) for t in (torch, tl) for file, _ in files]
        assert all(f == found[0] for f in found[1:])


def test_what_records_refuse(tmp_path):
    def run(t):
        reader, writer = t._C.PyTorchFileReader, t._C.PyTorchFileWriter
        ended = writer(io.BytesIO())
        ended.write_end_of_file()
        return [
            said(lambda: reader(io.BytesIO(b"junk")), "failed reading zip archive: not a ZIP archive"),
            said(lambda: reader(str(tmp_path / "none")), "open file failed because of errno 2"),
            said(lambda: writer(str(tmp_path / "no" / "x")), "Parent directory .* does not exist."),
            type(said(lambda: ended.write_record("a", b"", 0), "$")),
            type(said(ended.write_end_of_file, "$")),
        ]

    assert run(tl) == run(torch)
    with pytest.raises(RuntimeError, match="record a of 1 bytes cannot have size 2"):
        tl._C.PyTorchFileWriter(io.BytesIO()).write_record("a", b"x", 2)
    with pytest.raises(NotImplementedError, match="storage_alignment is 64, not 4096"):
        tl._C.PyTorchFileWriter(io.BytesIO(), storage_alignment=4096)
    assert pickle.loads(pickle.dumps(tl._C.PyTorchFileReader)) is tl.PyTorchFileReader


def test_slices_of_storages():
    def run(t):
        s = t.arange(8, dtype=t.uint8).untyped_storage()
        return list(s[2:5]), said(lambda: s[0:6:2], "Trying to slice with a step of 2, but only a step of 1.*")

    assert run(tl) == run(torch)
