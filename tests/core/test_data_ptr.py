"""``data_ptr()``: an address whose bytes are those that PyTorch has at its own."""

import ctypes
import gc

import pytest
import torch

import torchlike

LIBRARIES = [torch, torchlike]


def read(t, nbytes=None):
    """The bytes from the address of a tensor to the end of its elements."""
    return ctypes.string_at(t.data_ptr(), t.nbytes if nbytes is None else nbytes)


VALUES = {
    "floats": lambda t: t.tensor([[1.0, -2.5], [3.0, 4.0]]),
    "a view": lambda t: t.arange(12.0).reshape(3, 4)[1],
    "half": lambda t: t.tensor([1.0, 2.0], dtype=t.bfloat16),
    "bool": lambda t: t.tensor([True, False, True]),
    "complex": lambda t: t.tensor([1 + 2j, 3j]),
    "ints": lambda t: t.arange(5),
    "bytes of floats": lambda t: t.tensor([1.0, 2.0]).view(t.uint8)[4:],
    "a number": lambda t: t.tensor(7.0, dtype=t.float64),
    "a parameter": lambda t: t.nn.Parameter(t.tensor([1.0, 2.0])),
    "after a change in place": lambda t: (lambda x: (x.data_ptr(), x.mul_(3), x)[2])(t.ones(3)),
    "after a change of a view": lambda t: (lambda x: (x.data_ptr(), x[1:].add_(1), x)[2])(t.ones(3)),
    "the storage of a transposed": lambda t: t.arange(6.0).reshape(2, 3).t(),
    "channels last": lambda t: t.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=t.channels_last),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_bytes_are_there(name):
    ours, theirs = VALUES[name](torchlike), VALUES[name](torch)
    assert read(ours) == read(theirs)
    whole = [ctypes.string_at(x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()) for x in (ours, theirs)]
    assert whole[0] == whole[1]


@pytest.mark.parametrize("t", LIBRARIES)
def test_it_stays_while_the_storage_lives(t):
    x = t.arange(1000.0)
    address, v = x.data_ptr(), x[10:]
    assert v.data_ptr() == address + 40 == x.untyped_storage().data_ptr() + 40
    x.add_(1)
    t.nn.functional.relu_(v)
    assert x.data_ptr() == address and ctypes.c_float.from_address(address).value == 1.0
    del x
    gc.collect()
    assert ctypes.c_float.from_address(v.data_ptr()).value == 11.0 and v.data_ptr() == address + 40
    assert t.ones(2).data_ptr() % 16 == 0


def test_an_empty_tensor_has_none():
    for t in LIBRARIES:
        assert t.empty(0).data_ptr() == 0 == t.empty(2, device="meta").data_ptr()


def put(x, number, at=0):
    """Write a float at an element of the memory of ``x``, as a library of C does."""
    ctypes.c_float.from_address(x.data_ptr() + 4 * at).value = number
    return x


def _beside_numpy(t):
    x = t.zeros(3)
    seen = x.numpy()
    put(x, 3.0)[1:].add_(1)
    return t.tensor(seen), x


def _moved(t):
    out, x = t.empty(4), t.arange(4.0)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), 16)
    return out, x


def _trained(t):
    t.manual_seed(0)
    layer = t.nn.Linear(3, 2)
    optimizer = t.optim.Adam(layer.parameters(), 0.1)
    for _ in range(3):
        put(layer.weight, 0.5, 1)
        layer(t.ones(1, 3)).sum().backward()
        put(layer.weight.grad, 2.0)
        optimizer.step()
    return tuple(layer.parameters())


WRITES = {
    "floats": lambda t: put(t.zeros(3), 5.0, 1),
    "a large one": lambda t: put(t.zeros(70_000), 5.0, 65_000).sum(),
    "through a view": lambda t: (lambda x: (put(x[2:], 2.0, 1), x))(t.zeros(5)),
    "transposed": lambda t: put(t.arange(6.0).reshape(2, 3).t(), 8.0, 1),
    "channels last": lambda t: put(t.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=t.channels_last), 8.0, 1),
    "before a change": lambda t: put(t.ones(3), 9.0).mul_(2),
    "between changes": lambda t: (lambda x: put(x.add_(1), 9.0).mul_(2))(put(t.zeros(3), 4.0, 1)),
    "twice": lambda t: (lambda x: (put(x, 1.0).clone(), put(x, 2.0).clone(), put(x, 3.0)))(t.zeros(3)),
    "a row of it": lambda t: (lambda x: (put(x, 1.0, 3)[1], x[:, 0]))(t.zeros(2, 3)),
    "a result": lambda t: put(t.ones(3).exp(), 1.0),
    "through the storage": lambda t: (lambda x: (put(x.untyped_storage(), 1.0), x)[1])(t.zeros(3)),
    "moved": _moved,
    "beside numpy": _beside_numpy,
    "trained": _trained,
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_there_is_the_value(name):
    ours, theirs = [WRITES[name](t) for t in (torchlike, torch)]
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (ours, theirs)], strict=True):
        torch.testing.assert_close(torch.tensor(a.tolist()), torch.tensor(b.tolist()))


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_storage_whose_address_was_asked_for_has_its_other_uses(t):
    x = t.zeros(3)
    x.data_ptr()
    assert x.untyped_storage().resizable() and x._version == 0
    x.resize_(5)
    x.data_ptr()
    assert x.untyped_storage().resize_(0).nbytes() == 0
    leaf = t.ones(2, requires_grad=True)
    loss = (leaf * leaf).sum()
    leaf.data_ptr()
    loss.backward()
    assert leaf.grad.tolist() == [2, 2]
