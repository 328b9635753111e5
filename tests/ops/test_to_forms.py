"""The forms of ``to``, of tensors and modules, and Python's types where a dtype is asked for."""

import numpy as np
import pytest
from both import agree, agree_error

import torchlike

FORMS = {
    "float": ((float,), {}),
    "int": ((int,), {}),
    "bool": ((bool,), {}),
    "complex": ((complex,), {}),
    "dtype": ((), {"dtype": float}),
    "device, type": (("cpu", float), {}),
    "type, flags": ((int, True, True), {}),
    "a number's dtype": ((True,), {}),
    "a float's dtype": ((1.5,), {}),
    "nothing": ((), {}),
    "None": ((None, None, True), {}),
    "flags": ((), {"non_blocking": True, "copy": True}),
}
REFUSED = {
    "twice": ((float,), {"dtype": int}),
    "device last": ((float, "cpu"), {}),
    "device named": ((float,), {"device": "cpu"}),
    "None last": ((float, None), {}),
    "int for bool": ((float, 1), {}),
    "no dtype": (("cpu", True), {}),
    "None for bool": ((float,), {"non_blocking": None}),
    "str": ((), {"device": "cpu", "dtype": "float"}),
    "list": (([1],), {}),
    "type": ((str,), {}),
    "device of a type": ((), {"device": int}),
    "unknown": ((), {"foo": 1}),
    "other": ((), {"other": 1}),
}
OTHERS = {
    "tensor": lambda t, x: x.to(tensor=t.ones(1).long()),
    "flags": lambda t, x: x.to(t.ones(1).long(), True, True),
    "dtype": lambda t, x: x.to(t.ones(1).long(), dtype=t.int8),
    "three flags": lambda t, x: x.to(t.ones(1).long(), True, True, True),
    "five": lambda t, x: x.to("cpu", t.float64, True, True, True),
    "format": lambda t, x: x.to(memory_format=1),
}


def of_tensor(args, kwargs):
    return lambda t: t.ones(2).to(*args, **kwargs)


def of_module(args, kwargs):
    return lambda t: {str(p.dtype) for p in t.nn.Linear(2, 2).to(*args, **kwargs).parameters()}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    args, kwargs = FORMS[form]
    agree(of_tensor(args, kwargs))
    if "flags" not in form:
        agree(lambda t: str(t._C._nn._parse_to(*args, **kwargs)))


@pytest.mark.parametrize("form", REFUSED)
def test_refused(form):
    for made in of_tensor, of_module:
        agree_error(made(*REFUSED[form]), r"to\(\) received an invalid combination of arguments - got \(")


@pytest.mark.parametrize("form", ["float", "complex", "dtype", "device, type", "nothing", "None"])
def test_modules(form):
    agree(of_module(*FORMS[form]))


@pytest.mark.parametrize("form", ["int", "bool", "a number's dtype"])
def test_modules_of_floats_alone(form):
    agree_error(of_module(*FORMS[form]), "only accepts floating point or complex dtypes")


def test_copies_of_modules():
    agree_error(lambda t: t.nn.Linear(1, 1).to(t.float64, True, True), "to.. does not accept copy argument")
    agree_error(lambda t: t._C._nn._parse_to(t.float64, copy=True), "to.. does not accept copy argument")


def test_forms_of_tensors():
    for name in ("tensor", "flags"):
        agree(lambda t, name=name: OTHERS[name](t, t.ones(2)))
    for name in ("dtype", "three flags"):
        agree_error(lambda t, name=name: OTHERS[name](t, t.ones(2)), "invalid combination of arguments")
    agree_error(lambda t: OTHERS["five"](t, t.ones(2)), "takes from 0 to 4 positional arguments but 5 were given")
    agree_error(lambda t: OTHERS["format"](t, t.ones(2)), "memory_format")


def test_gradients():
    def run(t):
        x = t.ones(2, requires_grad=True)
        x.to(float).sum().backward()
        return x.grad, x.to(float).requires_grad

    agree(run)


@pytest.mark.parametrize("kind", [float, int, bool, complex])
def test_views(kind):
    agree(lambda t: t.ones(4).view(kind))
    agree(lambda t: t.ones(4).view(dtype=kind))


def test_other_places_of_types():
    agree_error(lambda t: t.ones(2).view(str), "view")
    agree_error(lambda t: t.ones(2).type(float), "invalid type: 'float'")
    agree_error(lambda t: t.zeros(1, device=int), "argument 'device' must be torch.device, not type")
    agree_error(lambda t: t.device(int), "device")
    agree_error(lambda t: t.set_autocast_dtype("cpu", str), "argument 'dtype'.* must be torch.dtype, not type")


def test_packed_sequences():
    agree(lambda t: t.nn.utils.rnn.pack_sequence([t.ones(2), t.ones(1)]).to(float).data)


def test_sizes_of_numpy_ints():
    two = np.int64(2)
    agree(lambda t: [t.Tensor(two).shape, t.Tensor(two, 3).shape, t.FloatTensor(two).shape, t.ones(1).new(two).shape])
    agree(lambda t: [type(n) for n in t.Tensor(two, two).shape])
    for wrong in ((2, 2.0), (2, "a"), (True, True), ([2], [3]), (np.float32(2),)):
        agree_error(lambda t, wrong=wrong: t.Tensor(*wrong), r"new\(\)")


def test_kernels_of_one_length():
    agree(lambda t: [str(t.nn.Conv2d(1, 1, (2,))), str(t.nn.ConvTranspose3d(1, 1, (2,)))])


def test_the_device_of_a_tensor():
    """``device=`` beside a tensor was ignored in silence."""
    with pytest.raises(TypeError, match="invalid combination"):
        torchlike.ones(1).to(torchlike.ones(1), device="meta")
