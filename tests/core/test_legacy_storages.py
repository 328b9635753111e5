"""The storage classes of old: quantized ones too, and what their constructors refuse."""

import pytest
from both import agree
from story_kit import said

QUANTIZED = ("QInt8Storage", "QInt32Storage", "QUInt8Storage", "QUInt4x2Storage", "QUInt2x4Storage")


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_elements_are_integers(name):
    def case(t):
        s = getattr(t, name)(4)
        s[:] = 0
        s[1], s[2:3] = 5, 7
        same = t.storage._dtype_to_storage_type_map()[s.dtype] == name
        return s.tolist(), str(s.dtype).split(".")[1], s.element_size(), s.nbytes(), same, s.clone()[1]

    agree(case)


REFUSED = {
    "a device": (lambda t: t.FloatStorage(device="cpu"), "'device' cannot be specified"),
    "a dtype": (lambda t: t.FloatStorage(dtype=t.float), "'dtype' cannot be specified"),
    "a word": (lambda t: t.FloatStorage(word=1), "got an unexpected keyword"),
    "two": (lambda t: t.FloatStorage(0, 0), "Too many positional arguments"),
    "a text": (lambda t: t.FloatStorage("text"), "invalid data type 'str'"),
    "a tensor": (lambda t: t.FloatStorage(t.tensor([])), "Argument type not recognized"),
    "both": (lambda t: t.FloatStorage(0, wrap_storage=t.FloatStorage().untyped()), "No positional arguments"),
    "typed": (lambda t: t.FloatStorage(wrap_storage=t.FloatStorage()), "must be UntypedStorage"),
    "no dtype": (lambda t: t.TypedStorage(wrap_storage=t.FloatStorage().untyped()), "'dtype' must be specified"),
    "no type": (lambda t: t.TypedStorage(wrap_storage=t.FloatStorage().untyped(), dtype=0), "must be torch.dtype"),
    "of none": (lambda t: t.storage._LegacyStorage(), "Only child classes of _LegacyStorage"),
    "too much": (lambda t: t.ByteStorage([300]), "without overflow"),
    "too little": (lambda t: t.CharStorage([-129]), "without overflow"),
    "too much later": (lambda t: t.ByteStorage([3]).fill_(300), "without overflow"),
    "a slice": (lambda t: t.FloatStorage([1])[0:1], "slices are only supported in UntypedStorage"),
    "a storage": (lambda t: t.FloatStorage([1]).fill_(t.FloatStorage([1])), "cannot set item"),
    "no device": (lambda t: t.TypedStorage(device="xla"), "Storage device not recognized"),
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(make, why):
    agree(lambda t: said(lambda: make(t), why))


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_numbers_that_wrap():
    agree(lambda t: (t.ByteStorage([-1]).tolist(), t.ByteStorage([1.5]).tolist(), t.HalfStorage([1e10]).tolist()))
