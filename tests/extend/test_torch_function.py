"""``__torch_function__`` of types that are no tensors: the examples of PyTorch's note, order of dispatch, errors."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from agreement import agree
from both import agree_error

import torchlike


def scalar_tensor(t, fall_back=False):
    """The note's ScalarTensor: a multiple of the identity, with functions registered for it."""

    class ScalarTensor:
        handled: dict = {}

        def __init__(self, N, value):
            self._N, self._value = N, value

        def __repr__(self):
            return f"ScalarTensor(N={self._N}, value={self._value})"

        def tensor(self):
            return self._value * t.eye(self._N)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func not in cls.handled or not all(issubclass(k, (t.Tensor, ScalarTensor)) for k in types):
                if fall_back:
                    return func(*[a.tensor() if hasattr(a, "tensor") else a for a in args], **kwargs)
                return NotImplemented
            return cls.handled[func](*args, **kwargs)

    def implements(torch_function):
        def register(function):
            functools.update_wrapper(function, torch_function)
            ScalarTensor.handled[torch_function] = function
            return function

        return register

    @implements(t.mean)
    def mean(input):
        return float(input._value) / input._N

    def ensure_tensor(data):
        return data.tensor() if isinstance(data, ScalarTensor) else t.as_tensor(data)

    @implements(t.add)
    def add(input, other):
        try:
            if input._N == other._N:
                return ScalarTensor(input._N, input._value + other._value)
            raise ValueError("Shape mismatch!")
        except AttributeError:
            return t.add(ensure_tensor(input), ensure_tensor(other))

    return ScalarTensor


def metadata_tensor(t):
    """The note's MetadataTensor: a tensor with a dict, in a class that is no subclass."""

    class MetadataTensor:
        def __init__(self, data, metadata=None, **kwargs):
            self._t, self._metadata = t.as_tensor(data, **kwargs), metadata

        def __repr__(self):
            return f"Metadata:\n{self._metadata}\n\ndata:\n{self._t}"

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
            args = [getattr(a, "_t", a) for a in args]
            assert len(metadatas) > 0
            return MetadataTensor(func(*args, **(kwargs or {})), metadata=metadatas[0])

    return MetadataTensor


def told(t, name="Duck", base=object):
    """A class whose handler returns all that it was told."""

    def handler(cls, func, types, args=(), kwargs=None):
        given = [type(a).__name__ for a in args], None if kwargs is None else {k: str(v) for k, v in kwargs.items()}
        return t.overrides.resolve_name(func), [k.__name__ for k in types], *given

    return type(name, (base,), {"__torch_function__": classmethod(handler), "__repr__": lambda self: name})


def refusing(t, name="Refusing", base=object):
    return type(name, (base,), {"__torch_function__": classmethod(lambda *a, **k: NotImplemented)})


# -- the note ---------------------------------------------------------------------------------------

NOTE = {
    "mean": lambda t: repr(t.mean(scalar_tensor(t)(5, 2))),
    "add of two": lambda t: (lambda s: repr(t.add(s, s)))(scalar_tensor(t)(2, 2)),
    "add to a tensor": lambda t: repr(t.add(scalar_tensor(t)(2, 2), t.tensor([[1, 1], [1, 1]]))),
    "tensor plus it": lambda t: repr(t.add(t.tensor([[1, 1], [1, 1]]), scalar_tensor(t)(2, 2))),
    "its tensor": lambda t: repr(scalar_tensor(t)(5, 2).tensor()),
    "shape mismatch": lambda t: (lambda S: t.add(S(2, 2), S(3, 2)))(scalar_tensor(t)),
    "falling back to tensors": lambda t: (lambda s: repr(t.mul(s, s)))(scalar_tensor(t, True)(2, 2)),
    "metadata of add": lambda t: repr(
        t.add(t.tensor([[1, 2], [1, 2]]), metadata_tensor(t)([[1, 2], [3, 4]], {"o": 1}))
    ),
    "metadata of mul": lambda t: repr(
        t.mul(t.tensor([[1, 2], [1, 2]]), metadata_tensor(t)([[1, 2], [3, 4]], {"o": 1}))
    ),
    "metadata of a method": lambda t: repr(t.tensor([1, 2]).add(metadata_tensor(t)([1, 2], {"o": 1}))),
    "metadata of an operator": lambda t: repr(t.tensor([1, 2]) - metadata_tensor(t)([1, 2], {"o": 1})),
}


@pytest.mark.parametrize("code", NOTE.values(), ids=list(NOTE))
def test_note(code):
    agree(code)


def test_note_function_without_override():
    agree_error(lambda t: t.mul(scalar_tensor(t)(2, 2), 3), r"'torch.mul'.*ScalarTensor")


def test_note_keyword_that_the_override_lacks():
    agree_error(
        lambda t: (lambda s: t.add(s, s, alpha=2))(scalar_tensor(t)(2, 2)), r"unexpected keyword argument 'alpha'"
    )


# -- what a handler is told --------------------------------------------------------------------------

TOLD = {
    "function": lambda t, d, x: t.add(x, d),
    "first": lambda t, d, x: t.add(d, x),
    "keyword": lambda t, d, x: t.add(input=d, other=x),
    "mixed": lambda t, d, x: t.add(d, other=x, alpha=2),
    "method": lambda t, d, x: x.add(d),
    "inplace method": lambda t, d, x: x.add_(d),
    "operator": lambda t, d, x: x + d,
    "reflected operator": lambda t, d, x: d + x,
    "reflected minus": lambda t, d, x: d - x,
    "inplace operator": lambda t, d, x: x.__iadd__(d),
    "power": lambda t, d, x: x**d,
    "floor": lambda t, d, x: x // d,
    "modulo": lambda t, d, x: x % d,
    "less": lambda t, d, x: x < d,
    "and": lambda t, d, x: x & d,
    "matmul": lambda t, d, x: x @ d,
    "index": lambda t, d, x: x[d],
    "index in a tuple": lambda t, d, x: x[0, d],
    "out": lambda t, d, x: t.add(x, x, out=d),
    "out in a tuple": lambda t, d, x: t.max(x, 0, out=(x, d)),
    "list": lambda t, d, x: t.cat([x, d]),
    "tuple": lambda t, d, x: t.cat((x, d), dim=0),
    "stack": lambda t, d, x: t.stack([d]),
    "int argument": lambda t, d, x: t.sum(x, dim=d),
    "int in a list": lambda t, d, x: t.sum(x, [d]),
    "number argument": lambda t, d, x: t.add(x, x, alpha=d),
    "factory": lambda t, d, x: t.full((2,), d),
    "factory's size": lambda t, d, x: t.zeros(d),
    "range": lambda t, d, x: t.arange(d),
    "where": lambda t, d, x: t.where(x > 0, 1, d),
    "einsum": lambda t, d, x: t.einsum("i,i", x, d),
    "einsum of a list": lambda t, d, x: t.einsum("i,i", [x, d]),
    "broadcast_tensors": lambda t, d, x: t.broadcast_tensors(x, d),
    "split": lambda t, d, x: t.split(d, 2),
    "norm": lambda t, d, x: t.norm(d),
    "relu": lambda t, d, x: t.nn.functional.relu(d),
    "dropout": lambda t, d, x: t.nn.functional.dropout(d, 0.3),
    "cross_entropy": lambda t, d, x: t.nn.functional.cross_entropy(d, x),
    "mse_loss": lambda t, d, x: t.nn.functional.mse_loss(x, d),
    "max_pool2d": lambda t, d, x: t.nn.functional.max_pool2d(d, 2),
    "conv2d": lambda t, d, x: t.nn.functional.conv2d(d, x, None, stride=2),
    "linear": lambda t, d, x: t.nn.functional.linear(d, x, bias=None),
    "attention": lambda t, d, x: t.nn.functional.scaled_dot_product_attention(d, x, x),
    "multi_head": lambda t, d, x: t.nn.functional.multi_head_attention_forward(
        d, x, x, 1, 1, x, x, None, None, False, 0.0, x, x
    )[:3],
    "module": lambda t, d, x: t.nn.Linear(2, 2)(d),
    "init": lambda t, d, x: t.nn.init.kaiming_uniform_(d),
    "init normal": lambda t, d, x: t.nn.init.normal_(d),
    "linalg": lambda t, d, x: t.linalg.inv(d),
    "special": lambda t, d, x: t.special.erf(d),
    "the class itself": lambda t, d, x: t.add(x, type(d)),
}


@pytest.mark.parametrize("code", TOLD.values(), ids=list(TOLD))
def test_told(code):
    """Function, types, arguments and keywords are PyTorch's."""
    agree(lambda t: code(t, told(t)(), t.ones(3)), warned=False)


ORDER = {
    "left to right": lambda t, A, B, C: t.addmm(A(), C(), A()),
    "subclass first": lambda t, A, B, C: t.add(A(), B()),
    "subclass already first": lambda t, A, B, C: t.add(B(), A()),
    "one of a type": lambda t, A, B, C: t.add(A(), A()),
    "subclass before its base only": lambda t, A, B, C: t.addmm(C(), A(), B()),
    "in a list": lambda t, A, B, C: t.cat([C(), A(), B()]),
    "python function": lambda t, A, B, C: t.nn.functional.mse_loss(A(), B()),
    "tensors beside": lambda t, A, B, C: t.nn.functional.mse_loss(t.ones(1), A()),
}


@pytest.mark.parametrize("code", ORDER.values(), ids=list(ORDER))
def test_order(code):
    def run(t):
        A = told(t, "A")
        return code(t, A, told(t, "B", A), told(t, "C"))

    agree(run)


def test_each_is_asked_until_one_answers():
    def run(t):
        asked = []

        def handler(answer):
            def handle(cls, func, types, args=(), kwargs=None):
                asked.append(cls.__name__)
                return answer

            return classmethod(handle)

        A = type("A", (), {"__torch_function__": handler(NotImplemented)})
        B = type("B", (), {"__torch_function__": handler(7)})
        C = type("C", (A,), {"__torch_function__": handler(NotImplemented)})
        return t.addmm(A(), C(), B()), asked

    agree(run)


def test_kinds_of_handlers():
    """A method of the instance and a static method are called as they are bound."""

    def run(t):
        class Instance:
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return "instance", self.x

        class Static:
            @staticmethod
            def __torch_function__(func, types, args=(), kwargs=None):
                return "static", len(args)

        one = Instance()
        one.x = 3
        return t.add(t.ones(1), one), t.add(t.ones(1), Static())

    agree(run)


# -- errors -----------------------------------------------------------------------------------------

ERRORS = {
    "function": (lambda t, N: t.add(N(), t.ones(1)), r"'torch.add'.*Refusing"),
    "method": (lambda t, N: t.ones(1).add(N()), r"'torch.Tensor.add'.*Refusing"),
    "two": (lambda t, N: t.add(N(), refusing(t, "Other")()), r"'torch.add'.*Refusing.*Other"),
    "functional": (
        lambda t, N: t.nn.functional.relu(N()),
        r"no implementation found for 'torch.nn.functional.relu' on types that implement __torch_function__.*Refusing",
    ),
    "with a tensor": (
        lambda t, N: t.nn.functional.mse_loss(t.ones(1), N()),
        r"\[<class '.*Tensor'>, <class .*Refusing",
    ),
    "operator": (lambda t, N: t.ones(1) + N(), r"unsupported operand type\(s\) for \+: 'Tensor' and 'Refusing'"),
    "reflected": (lambda t, N: N() - t.ones(1), r"unsupported operand type\(s\) for -: 'Refusing' and 'Tensor'"),
    "less": (lambda t, N: t.ones(1) < N(), r"'<' not supported between instances of 'Tensor' and 'Refusing'"),
    "index": (lambda t, N: t.ones(1)[N()], r"'torch.Tensor.__getitem__'"),
    "missing argument": (lambda t, N: t.add(told(t)()), r"add\(\)"),
    "unknown keyword": (lambda t, N: t.add(told(t)(), t.ones(1), foo=1), r"add\(\).*'foo'"),
    "too many": (lambda t, N: t.nn.functional.relu(told(t)(), 1, 2, 3), r"relu\(\) takes from 1 to 2"),
    "disabled": (
        lambda t, N: t.add(t.ones(1), type("Off", (), {"__torch_function__": t._C._disabled_torch_function_impl})()),
        r"add\(\).*'other' \(position 2\) must be Tensor, not .*Off",
    ),
    "off": (lambda t, N: _off(t, lambda: t.add(t.ones(1), told(t)())), r"add\(\).*must be Tensor, not .*Duck"),
}


def _off(t, f):
    with t._C.DisableTorchFunctionSubclass():
        return f()


@pytest.mark.parametrize(("code", "match"), ERRORS.values(), ids=list(ERRORS))
def test_errors(code, match):
    agree_error(lambda t: code(t, refusing(t)), match)


def test_equality_falls_back_to_identity():
    agree(lambda t: (t.ones(1) == refusing(t)(), t.ones(1) != refusing(t)()))


def test_a_refused_call_changes_nothing():
    x = torchlike.ones(2)
    with pytest.raises(TypeError, match="Refusing"):
        x.add_(refusing(torchlike)())
    assert x.tolist() == [1, 1] and x._version == 0


def test_error_names_the_way_out():
    with pytest.raises(TypeError, match=r"func\(\*args, \*\*kwargs\)"):
        torchlike.add(refusing(torchlike)(), 1)


# -- data functions and functions of one's own --------------------------------------------------------


@pytest.mark.parametrize("name", ["tensor", "as_tensor", "asarray"])
def test_functions_of_data_do_not_ask(name):
    for t in (torch, torchlike):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            getattr(t, name)(told(t)())


def own(t):
    def mine(a, b=1):
        if t.overrides.has_torch_function((a,)):
            return t.overrides.handle_torch_function(mine, (a,), a, b=b)
        return 5

    return mine


def wrapped(t):
    return t.overrides.wrap_torch_function(lambda a, b=None: (a, b))(lambda a, b=None: "original")


OWN = {
    "handled": lambda t, d, x: own(t)(d)[1:],
    "not handled": lambda t, d, x: own(t)(x),
    "wrapped": lambda t, d, x: wrapped(t)(d)[1:],
    "wrapped, by the second": lambda t, d, x: wrapped(t)(x, d)[1:],
    "wrapped, by keyword": lambda t, d, x: wrapped(t)(b=d, a=x)[1:],
    "wrapped, nobody": lambda t, d, x: wrapped(t)(x),
    "has": lambda t, d, x: [t.overrides.has_torch_function(a) for a in [(d,), [d], (x,), (), (x, d), (3,)]],
    "has unary": lambda t, d, x: [t.overrides.has_torch_function_unary(a) for a in (d, x, 3)],
    "has variadic": lambda t, d, x: [t.overrides.has_torch_function_variadic(*a) for a in ((d, x), (x,), (3, x), ())],
    "has, switched off": lambda t, d, x: _off(t, lambda: t.overrides.has_torch_function((d,))),
}


@pytest.mark.parametrize("code", OWN.values(), ids=list(OWN))
def test_own_functions(code):
    agree(lambda t: code(t, told(t)(), t.ones(2)))


def test_own_function_refused():
    agree_error(lambda t: own(t)(refusing(t)()), r"no implementation found for '.*mine'.*Refusing")


def test_has_torch_function_wants_a_sequence():
    agree_error(lambda t: t.overrides.has_torch_function(3), "expected a sequence")


# -- what is no tensor ---------------------------------------------------------------------------------------


class Bare:
    """Neither a tensor nor a type with a ``__torch_function__``."""


X = {t: t.ones(2, 3) for t in (torch, torchlike)}
NO_TENSORS = {
    "one overload": lambda t: t.relu(Bare()),
    "the only overload of one argument": lambda t: t.mean(Bare()),
    "of two arguments": lambda t: t.div(X[t], Bare()),
    "by keyword": lambda t: t.mean(input=Bare()),
    "None": lambda t: t.mean(None),
    "a number": lambda t: t.sum(3),
    "several results": lambda t: t.max(Bare()),
    "a second operand": lambda t: t.matmul(X[t], Bare()),
    "a view": lambda t: t.transpose(Bare(), 0, 1),
    "one of a library": lambda t: t.exp(np.ones(2)),
}


@pytest.mark.parametrize("code", NO_TENSORS.values(), ids=list(NO_TENSORS))
def test_the_argument_that_is_no_tensor(code):
    """Where one overload takes as many arguments, the error names the one that is wrong."""

    def message(t):
        with pytest.raises(TypeError) as error:
            code(t)
        return str(error.value).partition(";")[0]

    agree(message)


def test_no_overload_of_several():
    agree_error(lambda t: t.mean(X[t], "a"), r"mean\(\) received an invalid combination of arguments.*\(Tensor, str\)")


WARNING = {
    "a property": lambda t, y: y.grad,
    "a method": lambda t, y: y.detach().resize(2, 1),
    "out=": lambda t, y: t.add(t.ones(3), 1, out=t.ones(2)),
    "an index": lambda t, y: t.ones(3)[t.ones(3, dtype=t.uint8)],
}


@pytest.mark.parametrize("code", WARNING.values(), ids=list(WARNING))
def test_warnings_are_at_the_users_line(code):
    def place(t):
        y = t.ones(2, requires_grad=True) * 2
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            code(t, y)
        return [Path(w.filename).name for w in given]

    agree(place)
