"""Arguments of the wrong kind: the function and the argument are named, and dtypes that PyTorch refuses are refused."""

import numpy as np
import pytest
import torch

import torchlike

ONES = "a tensor of ones"
CALLS = [
    ("chunk", ("abc", 2)), ("reshape", ([1.0], (1,))), ("fliplr", (None,)), ("flipud", ()),
    ("fliplr", (np.ones((2, 2)),)), ("masked_select", (ONES, [True])), ("diagflat", (1.5,)), ("softmax", ("x", 0)),
    ("argwhere", (None,)), ("nonzero", ([1],)), ("unbind", ([1],)), ("real", (2.0,)), ("ravel", ([1.0],)),
    ("diag", (3,)), ("block_diag", (ONES, "abc")), ("broadcast_tensors", (ONES, None)),
    ("cartesian_prod", (ONES, [1.0])), ("combinations", (1,)), ("atleast_1d", (ONES, "x")),
    ("linalg.diagonal", (None,)), ("resolve_conj", ("x",)), ("unflatten", ("x", 0, (1, 1))),
    ("select_scatter", ("x", ONES, 0, 0)), ("slice_scatter", (None, ONES)), ("unsafe_chunk", ({}, 2)),
    ("nn.functional.softmin", ("a",)), ("nn.functional.poisson_nll_loss", (None, ONES)),
]  # fmt: skip


def error_of(library, name, arguments):
    function = library
    for part in name.split("."):
        function = getattr(function, part)
    with pytest.raises(Exception) as found:  # noqa: PT011
        function(*[library.ones(2) if x is ONES else x for x in arguments])
    return found


@pytest.mark.parametrize("name, arguments", CALLS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CALLS)])
def test_the_argument_is_named(name, arguments):
    theirs, ours = error_of(torch, name, arguments), error_of(torchlike, name, arguments)
    assert ours.type is theirs.type, (ours.value, theirs.value)
    if "must be Tensor" in str(theirs.value):
        assert str(theirs.value).partition("argument ")[2] in str(ours.value)


def test_sequences_of_tensors_are_named():
    with pytest.raises(TypeError, match=r"tensors\(\): expected Tensor as element 1 in argument 0, not NoneType"):
        torchlike.broadcast_tensors(torchlike.ones(2), None)


def test_an_attribute_that_is_missing_elsewhere_stays_an_attribute_error():
    class Broken(torchlike.Tensor):
        @property
        def ndim(self):
            return self.nothing

    with pytest.raises(AttributeError, match="nothing"):
        torchlike.fliplr(torchlike.ones(2, 2).as_subclass(Broken))


DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64")
REFUSED = {
    "max_unpool1d": lambda t, x: t.nn.functional.max_unpool1d(x.reshape(1, 1, 1), t.zeros(1, 1, 1, dtype=t.int64), 2),
    "max_unpool2d": lambda t, x: t.nn.functional.max_unpool2d(x.reshape(1, 1, 1, 1), t.zeros(1, 1, 1, 1).long(), 2),
    "max_unpool3d": lambda t, x: t.nn.functional.max_unpool3d(x.reshape([1] * 5), t.zeros([1] * 5).long(), 2),
    "bilinear": lambda t, x: t.nn.functional.bilinear(t.ones(2, 3), t.ones(2, 3), t.ones(1, 3, 3), x.reshape(1)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_that_are_refused(name, dtype):
    found = []
    for library in (torch, torchlike):
        try:
            found.append(str(REFUSED[name](library, library.ones(1).to(getattr(library, dtype))).dtype))
        except Exception as error:  # noqa: BLE001
            found.append(type(error).__name__)
    assert found[0] == found[1]
