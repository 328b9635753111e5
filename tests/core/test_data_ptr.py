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
