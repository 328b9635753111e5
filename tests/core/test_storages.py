"""Storages on meta, tensors made of storages, copies that share them, and the constructors of old."""

import copy

import numpy as np
import pytest
from both import agree, agree_error

import torchlike

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")

META = {
    "of a tensor": lambda t: t.ones(2, 3, device="meta").storage(),
    "of bytes": lambda t: t.UntypedStorage(5, device="meta"),
    "of given bytes": lambda t: t.UntypedStorage([1, 2], device="meta"),
    "of elements": lambda t: t.TypedStorage([1, 2, 3], dtype=t.float64, device="meta"),
    "of a size": lambda t: t.TypedStorage(4, dtype=t.complex64, device="meta"),
    "a copy": lambda t: t.UntypedStorage(5, device="meta").clone(),
    "filled": lambda t: t.ones(3, device="meta").untyped_storage().fill_(1),
    "written": lambda t: t.ones(3, device="meta").untyped_storage().copy_(t.UntypedStorage(12)),
    "as another type": lambda t: t.ones(3, device="meta").storage().double(),
}


@pytest.mark.parametrize("make", META.values(), ids=META)
def test_storages_on_meta(make):
    def facts(t):
        s = make(t)
        s[0] = 1
        return s.size(), s.nbytes(), s.device.type, s.data_ptr(), repr(s)

    agree(facts)
    for read in (lambda s: s[0], lambda s: s[:1], lambda s: s.tolist()):
        agree_error(lambda t, read=read: read(make(t)), "Not available for 'meta' device type")
    agree_error(lambda t: make(t).cpu(), "Cannot copy out of meta tensor; no data!")
    agree_error(lambda t: make(t).share_memory_(), "only available on CPU")


def test_a_storage_on_meta_has_nothing_to_give():
    agree_error(lambda t: t.UntypedStorage(12).copy_(t.ones(3, device="meta").untyped_storage()), "no data")
    agree_error(lambda t: t.UntypedStorage(12, device="meta").to(device="cpu"), "no data")


def test_tensors_of_storages_share_their_memory():
    agree(lambda t: t.tensor(t.arange(3.0).storage()))
    agree(lambda t: t.tensor(t.arange(4.0).untyped_storage(), dtype=t.int32))
    agree(lambda t: t.tensor(t.arange(4.0).untyped_storage()))
    agree(lambda t: t.as_tensor(t.arange(4.0).untyped_storage(), dtype=t.float64))

    def shared(t):
        x = t.arange(3.0)
        t.tensor(x.storage()).add_(1)
        return x

    agree(shared)
    agree_error(lambda t: t.tensor(t.ones(2).storage(), dtype=t.int64), "Expected a Storage of type Long .* Float")


def test_deep_copies_share_what_the_originals_share():
    def shared(t, first):
        x = t.arange(4.0)
        made = [[x.storage()], x, x.view(2, 2), x.untyped_storage()]
        made = copy.deepcopy(made if first else made[::-1])
        made = made if first else made[::-1]
        made[1].add_(1)
        return x, made[0][0][0], made[2], made[3].data_ptr() == made[1].data_ptr()

    for first in (True, False):
        agree(lambda t, first=first: shared(t, first))


def test_names_of_the_classes_of_old():
    agree(lambda t: [t.storage._dtype_to_storage_type_map()[k] for k in (t.float32, t.bool, t.complex128)])
    agree(lambda t: t.storage._storage_type_to_dtype_map()["ShortStorage"])


def test_types_of_old():
    agree(lambda t: t.ones(2, dtype=t.int32).type(t.Tensor))
    agree_error(lambda t: type("Mine", (t.FloatTensor,), {}), "type 'torch.FloatTensor' is not an acceptable base type")


def test_tensors_over_parts_of_files(tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(6, dtype=np.float32).tofile(path)

    def code(t):
        whole = t.UntypedStorage.from_file(path, False, 24)
        a, b = [t.asarray(part, dtype=t.uint8).view(t.float32).view(2, -1) for part in (whole[:8], whole[8:])]
        c = t.asarray(whole[8:][4:12], dtype=t.int32)
        a.mul_(2)
        return a, b, c, a.storage_offset(), b.untyped_storage().nbytes(), t.asarray(whole[3:3], dtype=t.float32)

    agree(code)


def test_files(tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(4, dtype=np.float32).tofile(path)
    agree(lambda t: t.from_file(path, size=4))
    agree(lambda t: t.from_file(path, False, 2, dtype=t.int64))
    agree(lambda t: t.from_file(path, size=2, requires_grad=True))
    agree(lambda t: t.FloatStorage.from_file(path, False, 3).tolist())
    agree(lambda t: t.UntypedStorage.from_file(path, False, 16).is_shared())
    agree_error(lambda t: t.from_file(path, size=40), "size <16> is smaller than the required mapping size <160>")
    agree_error(lambda t: t.from_file(path + "?", size=4), "unable to open file")


def test_shared_files(tmp_path):
    """Changes of a tensor reach the file, and those of one the other."""

    def code(t):
        path = str(tmp_path / t.__name__)
        a = t.from_file(path, True, 4)
        b = t.FloatTensor(t.FloatStorage.from_file(path, True, 4))
        a.copy_(t.arange(4.0))
        b.view(2, 2)[1].mul_(10)
        whole = t.UntypedStorage.from_file(path, True, 16)
        whole[3] = 64
        grown = t.from_file(path, True, 6, dtype=t.float32)
        name = t.from_file(path, False, 4).untyped_storage().filename
        facts = a.is_shared(), a.untyped_storage().filename == path, name
        return a, b, grown, np.fromfile(path, np.float32).tolist(), facts, t.from_file(path, True)

    agree(code)
    absent = str(tmp_path / "no" / "folder")
    agree_error(lambda t: t.from_file(absent, True, 4), "unable to open file .* in read-write mode")


def test_storages_of_gpus_read_no_buffers():
    agree_error(lambda t: t.cuda.ByteStorage.from_buffer(), "from_buffer: Not available for CUDA storage")


def test_hooks_that_are_set():
    def doubled(t):
        x = t.ones(2, requires_grad=True)
        x._backward_hooks = {0: lambda g: 2 * g}
        (x * 3).sum().backward()
        x._backward_hooks = None
        (x * 3).sum().backward()
        return x.grad, x._backward_hooks

    agree(doubled)
    with pytest.raises(NotImplementedError, match="no leaf cannot be set"):
        (torchlike.ones(1, requires_grad=True) * 2)._backward_hooks = {}


def test_deterministic_algorithms():
    def alert(t, only):
        before = t.are_deterministic_algorithms_enabled(), t.is_deterministic_algorithms_warn_only_enabled()
        try:
            t.use_deterministic_algorithms(True, warn_only=only)
            return t.nn.functional.max_unpool1d(t.ones(1, 1, 2), t.tensor([[[0, 2]]]), 2)
        finally:
            t.use_deterministic_algorithms(before[0], warn_only=before[1])

    agree_error(lambda t: alert(t, False), "max_unpooling2d_forward_out does not have a deterministic implementation")
    agree(lambda t: alert(t, True))
    agree_error(lambda t: t.use_deterministic_algorithms(1), "argument 'mode' .position 1. must be bool, not int")
    agree_error(lambda t: t.use_deterministic_algorithms(True, warn_only=1), "'warn_only' must be bool, not int")


def test_memory_formats_are_of_strided_tensors():
    agree_error(
        lambda t: t.empty_like(t.eye(2).to_sparse(), memory_format=t.preserve_format),
        "memory format option is only supported by strided tensors",
    )
    agree(lambda t: t.zeros_like(t.ones(1, 2, 2, 2).to(memory_format=t.channels_last)).stride())


def test_extremes_under_an_older_name():
    agree(lambda t: t._aminmax(t.tensor([[1.0, 3.0], [2.0, 0.0]])))
    agree(lambda t: t._aminmax(t.tensor([[1.0, 3.0], [2.0, 0.0]]), 0, True))
    agree(lambda t: t.nn.functional.interpolate(t.arange(6.0).view(1, 1, 6), scale_factor=4.0))
    agree(lambda t: t.nn.functional.interpolate(t.empty(10**8, 1, 10**8, device="meta"), scale_factor=2).shape)


def test_a_slice_is_memory_of_the_storage():
    def code(t):
        x = t.arange(6, dtype=t.uint8)
        s = x.untyped_storage()
        part, tail = s[1:4], s[-2:]
        part[0], kept = 9, [part.tolist(), x.tolist()]
        part.fill_(7)
        tail.copy_(s[:2])
        x.add_(1)
        deeper = part[1:]
        deeper[1] = 5
        kept += [x.tolist(), part.tolist(), tail.tolist(), part.nbytes(), s[3:1].nbytes(), part.clone().tolist()]
        return [*kept, part.data_ptr() - s.data_ptr(), part[:].tolist(), list(part), deeper.tolist()]

    agree(code)
    agree_error(lambda t: t.arange(4).untyped_storage()[1:3].resize_(9), "storage that is not resizable")
    part = torchlike.arange(4.0).untyped_storage()[4:12]
    with pytest.raises(NotImplementedError, match="over a slice of a storage"):
        torchlike.empty(0).set_(part)
