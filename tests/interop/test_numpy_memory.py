"""Tensors and numpy arrays share memory: what either side writes, the other one reads, as in PyTorch."""

import copy
import gc
import io
import pickle
import random
import threading
import warnings
import weakref

import numpy as np
import pytest
import torch
from both import agree
from story_kit import said, story, warned

import torchlike
from torchlike._core.tensor.host_memory import HostMemory
from torchlike._core.tensor.storage import Storage


def plain(t):
    """Whether a tensor of ours has a storage that no array shares."""
    return type(t._storage) is Storage


@story
def test_a_tensor_and_its_array(t):
    x = t.ones(3)
    n = x.numpy()
    x.add_(1)
    first = n.tolist()
    np.add(n, 1, out=n)
    return first, x, x * 2, n.base is not None, n.flags.writeable


@story
def test_an_array_and_its_tensor(t):
    a = np.ones(3)
    x = t.from_numpy(a)
    np.add(a, 1, out=a)
    seen = x.tolist()
    x.mul_(3)
    return seen, a.tolist(), x, x.data_ptr() == a.ctypes.data, x._version


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_every_dtype(dtype):
    def f(t):
        a = np.array([[0, 1, 0], [1, 1, 0]], dtype)
        x = t.from_numpy(a)
        a[0, 0] = 1
        seen = x.clone()
        x[1] = 0
        n = x.clone().numpy()
        n[0] = 0
        return seen, a.tolist(), a.dtype.name, n.tolist(), x.dtype

    agree(f)


ARRAYS = {
    "columns first": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "every second": lambda: np.arange(8.0)[::2],
    "a column": lambda: np.arange(12.0).reshape(3, 4)[:, 1],
    "a block": lambda: np.arange(24.0).reshape(4, 6)[1:3, 2:5],
    "permuted": lambda: np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "one number": lambda: np.array(2.0),
    "one element": lambda: np.zeros((1, 1)),
    "overlapping": lambda: np.lib.stride_tricks.as_strided(np.arange(4.0), (3, 2), (8, 8)),
    "not aligned": lambda: np.frombuffer(bytearray(17), np.float64, 2, 1),
    "a matrix": lambda: np.arange(4.0).reshape(2, 2).view(type("Own", (np.ndarray,), {})),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_geometry(name):
    def f(t):
        a = ARRAYS[name]()
        x = t.from_numpy(a)
        a.flat[0] = 7
        seen = x.clone()
        x.add_(1) if name != "overlapping" else x[0].add_(1)
        a.flat[-1:] = 9
        again = x.numpy()
        sizes = x.stride(), x.storage_offset(), x.untyped_storage().nbytes(), x._is_view(), again.strides
        return seen, a.tolist(), x, sizes, np.shares_memory(again, a)

    agree(f)


@story
def test_nothing_to_share(t):
    x = t.from_numpy(np.zeros((0, 3)))
    return x, x.numpy().shape, t.ones(2, 0).numpy().shape, x.add_(1), x.data_ptr()


VIEWS = {
    "a row": lambda x: x[1],
    "a column": lambda x: x[:, 1],
    "a slice": lambda x: x[1:, ::2],
    "transposed": lambda x: x.t(),
    "a diagonal": lambda x: x.diagonal(),
    "expanded": lambda x: x[0, 0].expand(3),
    "of other numbers": lambda x: x.view(dtype=x.to(dtype=x.dtype).dtype),
    "flat": lambda x: x.view(-1),
    "strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
    "nothing beyond the end": lambda x: x[len(x) :, 1:],
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
    "no dimensions": lambda x: x[2, 2],
}


@pytest.mark.parametrize("rows", [3, 12000])
@pytest.mark.parametrize("name", VIEWS)
def test_views(name, rows):
    def f(t):
        x = t.arange(rows * 3.0).reshape(rows, 3)
        view = VIEWS[name](x)
        n = view.numpy()
        n[...] = -1
        seen = x[:4].clone(), view.sum()
        x.add_(1)
        x[0] = 5
        if name != "expanded":
            view[...] = 8
        return seen, n.reshape(-1)[:9].tolist(), n.strides, x[:4], x.sum(), view.reshape(-1)[:9]

    agree(f)


@story
def test_complex_parts(t):
    x = t.zeros(3, dtype=t.complex64)
    real, imag = x.real.numpy(), x.imag.numpy()
    real[0], imag[1] = 1, 2
    pairs = t.view_as_real(x).numpy()
    pairs[2] = 5
    refused = said(lambda: x.conj().numpy()), said(lambda: x.conj().imag.numpy())
    forced = x.conj().numpy(force=True)
    forced[:] = 9
    return x, x.conj(), x.conj().conj().numpy().tolist(), refused


@story
def test_bytes_seen_otherwise(t):
    x = t.zeros(4, dtype=t.int32)
    n = x.view(t.int16).numpy()
    n[1] = 1
    y = x.view(t.float32)
    whole = x.numpy()
    whole[2] = 1 << 30
    return x, y, n.tolist()


@story
def test_two_arrays_of_one_tensor(t):
    x = t.zeros(100, 200)
    a, b = x[3].numpy(), x[3:5, :7].numpy()
    a[0], b[1, 1] = 1, 2
    c = x.numpy()
    c[3, 1] = 4
    x[4] += 1
    return x.sum(), a[:3].tolist(), b.tolist(), c.sum(), np.shares_memory(a, c), x[2:6, :3]


@story
def test_what_keeps_what(t):
    a = np.arange(3.0)
    x = t.from_numpy(a)
    del a
    first = x.clone()
    n = x.numpy()
    del x
    n[0] = 4
    y = t.from_numpy(n)
    del n
    y.add_(1)
    return first, y


@story
def test_nan_and_minus_zero(t):
    a = np.array([0.0, np.nan])
    x = t.from_numpy(a)
    first = x.tolist()[0], x.isnan()
    a[0] = -0.0
    a[1] = 2
    return first[1], t.signbit(x), x


@story
def test_gradients(t):
    a = np.ones(3)
    x = t.from_numpy(a).requires_grad_()
    refused = said(lambda: x.numpy(), "Can't call numpy")
    n = x.detach().numpy()
    n[0] = 5
    y = (x * x).sum()
    y.backward()
    g = x.grad.numpy()
    g[1] = 7
    with t.no_grad():
        x -= 0.5 * x.grad
    (x * 3).sum().backward()
    return refused, y, x.grad, x, a.tolist(), n.tolist(), g.tolist()


@story
def test_what_is_saved_follows_the_array(t):
    w = t.ones(2, dtype=t.float64, requires_grad=True)
    a = np.array([1.0, 2.0])
    y = (w * t.from_numpy(a)).sum()
    a[0] = 10
    y.backward()
    return y, w.grad


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_steps_of_optimizers(name, foreach):
    def f(t):
        p = t.nn.Parameter(t.ones(4))
        seen = p.detach().numpy()
        optimizer = getattr(t.optim, name)([p], lr=0.25, foreach=foreach)
        rows = []
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
            rows.append(seen.round(4).tolist())
            seen[0] = 2
        return rows, (p.detach() * 1).round(decimals=4)

    agree(f)


@story
def test_arrays_as_arguments(t):
    a = np.arange(4, dtype=np.float32)
    shared = [t.as_tensor(a), t.asarray(a), t.asarray(a, copy=False), t.from_dlpack(a), t.Tensor(a)]
    shared.append(t.frombuffer(a, dtype=t.float32))
    copies = [t.tensor(a), t.asarray(a, copy=True), t.as_tensor(a, dtype=t.float64), t.zeros(1).new_tensor(a)]
    a[0] = 9
    return shared, copies, [x.data_ptr() == a.ctypes.data for x in shared + copies]


@story
def test_tensors_as_arguments(t):
    x = t.zeros(4)
    capsule = t.utils.dlpack.to_dlpack(x)
    shared = [np.asarray(x), x.__array__(), np.from_dlpack(x), t.from_dlpack(x), t.utils.dlpack.from_dlpack(capsule)]
    copies = [np.array(x), np.asarray(x, dtype=np.float64), x.clone().numpy()]
    for i, s in enumerate(shared[:4]):
        s[i] = i + 1
    return x, [np.asarray(s).tolist() for s in shared], [c.tolist() for c in copies]


def test_another_library():
    theirs = torch.zeros(3)
    ours = torchlike.from_dlpack(theirs)
    theirs[0], ours[1] = 1, 2
    back = torch.from_dlpack(ours)
    back[2] = 3
    assert theirs.tolist() == ours.tolist() == back.tolist() == [1, 2, 3]


@story
def test_buffers(t):
    b = bytearray(8)
    x = t.frombuffer(b, dtype=t.int32)
    y = t.asarray(b, dtype=t.uint8)
    z = t.frombuffer(memoryview(b), dtype=t.int16, offset=2, count=2)
    x[0] = 258
    b[7] = 1
    return x, y, z, bytes(b)


REFUSED = {
    "negative strides": (lambda t: t.from_numpy(np.arange(3)[::-1]), "stride.* negative"),
    "fields": (lambda t: t.from_numpy(np.zeros(2, [("a", "i1"), ("b", "<i4")])["b"]), "strides not a multiple"),
    "byte order": (lambda t: t.from_numpy(np.zeros(2, ">f4")), ""),
    "text": (lambda t: t.from_numpy(np.array(["a"])), "can't convert np.ndarray"),
    "dates": (lambda t: t.from_numpy(np.zeros(2, "M8[s]")), "can't convert np.ndarray"),
    "objects": (lambda t: t.from_numpy(np.zeros(2, object)), "can't convert np.ndarray"),
    "a list": (lambda t: t.from_numpy([1]), "expected np.ndarray"),
    "bfloat16": (lambda t: t.zeros(2, dtype=t.bfloat16).numpy(), "unsupported ScalarType"),
    "meta": (lambda t: t.zeros(2, device="meta").numpy(), "can't convert meta"),
    "sparse": (lambda t: t.eye(2).to_sparse().numpy(), "can't convert"),
    "no copy of a list": (lambda t: t.asarray([1], copy=False), "can't alias"),
    "no copy of a number": (lambda t: t.asarray(np.float32(1), copy=False), "can't alias"),
    "no copy of another dtype": (lambda t: t.asarray(np.zeros(2), dtype=t.float32, copy=False), "can't alias"),
    "resized": (lambda t: (x := t.zeros(2), n := x.numpy(), x.resize_(5), n), "not resizable"),
    "freed": (lambda t: (x := t.zeros(2), n := x.numpy(), x.untyped_storage().resize_(0), n), "not resizable"),
    "lent with history": (lambda t: t.ones(2, requires_grad=True).__dlpack__(), "require gradient"),
    "lent conjugate": (lambda t: t.ones(2, dtype=t.complex64).conj().__dlpack__(), "conjugate bit"),
    "a stream": (lambda t: t.ones(2).__dlpack__(stream="a"), "stream must be"),
    "a stream of the CPU": (lambda t: t.ones(2).__dlpack__(stream=2), "stream should be None on cpu"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, pattern = REFUSED[name]
    agree(lambda t: said(lambda: call(t), pattern))


def test_read_only_arrays():
    a = np.zeros(3)
    fixed = a.view()
    fixed.flags.writeable = False
    torchlike.set_warn_always(True)
    try:
        assert any("non-writable" in w for w in warned(lambda: torchlike.from_numpy(fixed), "non-writable"))
        read = warned(lambda: torchlike.frombuffer(b"abcd", dtype=torchlike.uint8), "not writable")
        assert any("not writable" in w for w in read)
    finally:
        torchlike.set_warn_always(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torchlike.from_numpy(fixed)
    a[0] = 1
    assert x.tolist() == [1, 0, 0] and not x.numpy().flags.writeable
    x[1] = 5  # PyTorch would write to what shall not be written to; here the tensor parts from it
    a[2] = 7
    assert x.tolist() == [1, 5, 0] and a.tolist() == [1, 0, 7]


@story
def test_copies_are_apart(t):
    a = np.arange(4.0)
    x = t.from_numpy(a)
    file = io.BytesIO()
    t.save(x, file)
    file.seek(0)
    copies = [x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), t.load(file), x + 0, x.flip(0)]
    a[:] = 0
    return copies, x


@story
def test_storages(t):
    a = np.arange(4.0)
    x = t.from_numpy(a)
    s = x.untyped_storage()
    a[0] = 5
    y = t.zeros(0, dtype=t.float64).set_(s)
    y[1] = 6
    s[16:24].fill_(0)
    return s.nbytes(), s.tolist()[:8], y, a.tolist(), s.data_ptr() == a.ctypes.data


@story
def test_indexing_large_memory(t):
    a = np.arange(60000.0).reshape(20000, 3)
    x = t.from_numpy(a)
    i, mask = t.tensor([5, -1, 19999]), t.zeros(20000, dtype=t.bool)
    mask[7] = True
    a[5] = 1
    out = [x[i], x[i, 1], x[:9, i.remainder(3)], x[[2, 3]], x[mask], x[i[:, None], t.tensor([0, 2])]]
    rows, columns = i.abs(), i[:1] % 3
    out += [x[i].stride(), x.t()[:, i].stride(), x.t()[1, i], x.index_select(-1, columns)[:9]]
    out += [x.index_select(0, rows), x.t().index_select(1, rows), x.t().index_select(1, rows).stride()]
    out.append(said(lambda: x.index_select(0, i), "out of range"))
    x[i] = 2
    x[3:5] = 8
    x[6] = t.tensor([1.0, 2.0, 3.0])
    outside = said(lambda: x[t.tensor([20000])], "out of (range|bounds)")
    return out, a[[0, 3, 4, 5, 6, -1]].tolist(), x[:8], x.sum(), outside


def test_letting_go():
    x = torchlike.zeros(3)
    n = x.numpy()
    assert not plain(x)
    n[0] = 1
    del n
    assert x.tolist() == [1, 0, 0] and plain(x)
    a = np.zeros(3)
    y = torchlike.from_numpy(a)
    part = a[1:]
    del a
    assert y.tolist() == [0, 0, 0] and not plain(y)
    part[0] = 4
    del part
    y.add_(1)
    assert y.tolist() == [1, 5, 1] and plain(y)
    seen = y.data_ptr()
    z = y.numpy()
    assert z.ctypes.data == seen == y.data_ptr()
    del z
    assert y.tolist() == [1, 5, 1] and y.data_ptr() == seen


def test_memory_is_freed():
    a = np.zeros(3)
    watch, x = weakref.ref(a), torchlike.from_numpy(a)
    del a
    assert watch() is not None
    x.tolist()
    gc.collect()
    assert watch() is None


def test_one_row_is_little_work():
    x = torchlike.zeros(20000, 30)
    n = x[7].numpy()
    n[0] = 3
    memory = x._storage.host
    assert isinstance(memory, HostMemory) and memory.spans == [(7 * 120, 8 * 120)]
    assert x[7, 0].item() == 3 and x[8].sum().item() == 0 and x.sum().item() == 3
    del n
    x[7].tolist()
    assert plain(x)


def test_threads():
    x = torchlike.zeros(1000)
    stop, wrong = threading.Event(), []

    def lend():
        while not stop.is_set():
            n = x[:10].numpy()
            if n[0] > n[9]:
                wrong.append(n.tolist())
            del n

    def read():
        while not stop.is_set():
            x.sum().item()

    others = [threading.Thread(target=f) for f in (lend, read, lend)]
    for thread in others:
        thread.start()
    for _ in range(100):
        x.add_(1)
    stop.set()
    for thread in others:
        thread.join()
    assert not wrong and x.tolist() == [100.0] * 1000


# -- many steps from either side ---------------------------------------------------------------------


def begun(t, r):
    """A tensor, and the array it was made of if there is one."""
    n = r.choice([12, 40, 5000, 40000])
    data = (np.arange(n) % 100).astype(r.choice(["float32", "float64", "int64", "complex64"]))
    if r.random() < 0.5:
        x = t.tensor(data)
        return (x.view(4, -1).t().contiguous().t() if r.random() < 0.4 else x), []
    table = data.reshape(4, -1)
    a = r.choice([data, np.asfortranarray(table), data[::2], table[:, 1:]])
    return t.from_numpy(a), [a]


def seen(x):
    return x.tolist() if x.numel() < 100 else x.sum().item()


def some_view(x, r):
    kind = r.randrange(5) if x.dim() and x.shape[0] else 4
    i = r.randrange(x.shape[0]) if kind < 2 else 0
    flipped = x.t if x.dim() == 2 else x.detach
    return [lambda: x[i], lambda: x[i : i + 3], flipped, lambda: x[..., :1], x.detach][kind]()


def many_steps(t, seed, add):
    r = random.Random(seed)
    x, arrays = begun(t, r)
    tensors, out = [x], []
    for _ in range(25):
        x = r.choice(tensors)
        kind = r.randrange(8)
        if kind == 0:
            tensors = [*tensors[-4:], some_view(x, r)]
        elif kind == 1:
            arrays.append(x.numpy())
        elif kind == 2 and arrays:
            arrays.pop(r.randrange(len(arrays)))
        elif kind == 3 and arrays:
            a = r.choice(arrays)
            a[np.unravel_index(r.randrange(a.size), a.shape)] = r.randrange(9)
        elif kind == 4 and arrays:
            r.choice(arrays)[...] = r.randrange(9)
        elif kind == 5:
            add(x, r.randrange(3))
        elif kind == 6 and x.dim():
            x[r.randrange(x.shape[0])] = r.randrange(9)
        else:
            out.append(seen(x))
    arrays = [(a.strides, complex(a.sum())) for a in arrays]
    return out, [seen(x) for x in tensors], [x._version for x in tensors], arrays


@pytest.mark.parametrize("seed", range(12))
def test_many_steps(seed):
    assert many_steps(torchlike, seed, lambda x, k: x.add_(k)) == many_steps(torch, seed, lambda x, k: x.add_(k))


def test_many_steps_of_compiled_functions():
    compiled = torchlike.compile(lambda x, k: x.add_(k))
    for seed in range(20, 24):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = many_steps(torchlike, seed, compiled)
        assert ours == many_steps(torch, seed, lambda x, k: x.add_(k))


@story
def test_compiled_functions_read_and_write(t):
    x, buffer = t.zeros(3), t.ones(3)
    n, b = x.numpy(), buffer.numpy()

    def step(y):
        buffer.add_(y)
        return buffer * 2

    f = t.compile(step) if t is torchlike else step
    rows = []
    for k in range(4):
        n[0] = k
        b[2] = 0
        rows += [f(x).tolist(), b.tolist()]
    return rows


@story
def test_numpy_within_compiled_functions(t):
    def step(x):
        n = x.numpy()
        n[0] = 7
        return x + 1

    f = t.compile(step) if t is torchlike else step
    x = t.zeros(3)
    return f(x), x, f(x * 2), x


def test_capsules_of_what_requires_grad():
    def f(t):
        y = t.ones(3, requires_grad=True) * 2
        z = t.utils.dlpack.from_dlpack(t.utils.dlpack.to_dlpack(y))
        z.add_(1)
        return (
            z,
            z.data_ptr() == y.data_ptr(),
            y,
            t.utils.dlpack.from_dlpack(t.to_dlpack(t.ones(2, requires_grad=True))),
        )

    agree(f)
