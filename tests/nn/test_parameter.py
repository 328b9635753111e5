"""Parameter and Buffer: every case runs with torch and with torchlike."""

import copy
import pickle
from functools import cache
from types import SimpleNamespace

import pytest
from agreement import agree
from module_kit import value


# -- Parameter and Buffer --------------------------------------------------------------------------------
@cache
def classes(T):
    """Subclasses of a library's tensors."""
    plain = type("S", (T.Tensor,), {})

    class WithExtra(T.nn.Parameter):
        def __new__(cls, data, requires_grad=True, extra=3):
            new = super().__new__(cls, data, requires_grad)
            new.extra = extra
            return new

    return SimpleNamespace(plain=plain, WithExtra=WithExtra)


PARAMETER = {
    "no data": lambda T: T.nn.Parameter(),
    "None": lambda T: T.nn.Parameter(None),
    "keywords": lambda T: T.nn.Parameter(data=T.ones(2), requires_grad=False),
    "int without grad": lambda T: T.nn.Parameter(T.tensor([1]), requires_grad=False),
    "leaf of a computed tensor": lambda T: (
        [T.nn.Parameter(value(T, "computed"))]
        + [getattr(T.nn.Parameter(value(T, "computed")), f) for f in ("is_leaf", "grad_fn", "requires_grad")]
    ),
    "aliases": lambda T: (lambda t: (T.nn.Parameter(t).data_ptr() == t.data_ptr(), t.requires_grad))(T.ones(2)),
    "non-contiguous": lambda T: T.nn.Parameter(T.ones(2, 3).t()).stride(),
    "of a parameter": lambda T: (lambda p: (T.nn.Parameter(p) is p, T.nn.Parameter(p)))(T.nn.Parameter(T.ones(1))),
    "0-dim": lambda T: T.nn.Parameter(T.tensor(3.0)),
    "repr": lambda T: (repr(T.nn.Parameter(T.ones(2, 2))), str(T.nn.Parameter(T.tensor(1.0), False))),
    "repr half": lambda T: repr(T.nn.Parameter(T.ones(2).half())),
    "repr empty": lambda T: repr(T.nn.Parameter(T.ones(0, 3))),
    "classes": lambda T: (issubclass(T.nn.Parameter, T.Tensor), isinstance(T.nn.Parameter(), T.Tensor)),
    "not instances": lambda T: [
        isinstance(v, T.nn.Parameter) for v in (3, T.ones(1), T.ones(1, requires_grad=True), T.nn.Buffer())
    ],
    "results are tensors": lambda T: (
        lambda p: [type(v) for v in (p * 1, p.data, p.detach(), p.clone(), p[0], p.view(-1), -p)]
    )(T.nn.Parameter(T.ones(2))),
    "in-place keeps the class": lambda T: (
        lambda p: [type(v) for v in (p.data.add_(1), p.requires_grad_(False).mul_(2))]
    )(T.nn.Parameter(T.ones(2))),
    "hash": lambda T: (lambda p: (hash(p) == hash(p), {p: 1}[p]))(T.nn.Parameter(T.ones(2))),
    "deepcopy": lambda T: (lambda p: (copy.deepcopy(p), copy.deepcopy(p) is p))(T.nn.Parameter(T.ones(2))),
    "deepcopy memo": lambda T: (lambda p: (lambda two: two[0] is two[1])(copy.deepcopy([p, p])))(
        T.nn.Parameter(T.ones(2))
    ),
    "deepcopy no grad": lambda T: copy.deepcopy(T.nn.Parameter(T.ones(2), requires_grad=False)),
    "deepcopy strides": lambda T: copy.deepcopy(T.nn.Parameter(T.ones(2, 3).t())).stride(),
    "deepcopy drops attributes": lambda T: (
        lambda p: (setattr(p, "foo", 3), hasattr(copy.deepcopy(p), "foo"), copy.deepcopy(p).grad)
    )(T.nn.Parameter(T.ones(2))),
    "copy shares": lambda T: (lambda p: (copy.copy(p).data_ptr() == p.data_ptr(), copy.copy(p)))(
        T.nn.Parameter(T.ones(2))
    ),
    "pickle": lambda T: (
        lambda p: (setattr(p, "foo", 3), pickle.loads(pickle.dumps(p)), pickle.loads(pickle.dumps(p)).foo)
    )(T.nn.Parameter(T.ones(2))),
    "subclass": lambda T: (lambda p: (type(p), p.extra, type(copy.deepcopy(p)), copy.deepcopy(p).extra))(
        classes(T).WithExtra(T.ones(2), extra=7)
    ),
    "Buffer": lambda T: (T.nn.Buffer(T.ones(2)), type(T.nn.Buffer(T.ones(2))), T.nn.Buffer()),
    "Buffer instances": lambda T: [isinstance(v, T.nn.Buffer) for v in (T.nn.Buffer(), T.ones(1), 3, T.nn.Parameter())],
    "Buffer persistent": lambda T: (T.nn.Buffer(T.ones(1), persistent=False).persistent, T.nn.Buffer().persistent),
    "Buffer requires_grad": lambda T: T.nn.Buffer(T.ones(1, requires_grad=True)).requires_grad,
    "Buffer result": lambda T: isinstance(T.nn.Buffer(T.ones(1)) * 1, T.nn.Buffer),
}
PARAMETER_ERRORS = {
    "list": lambda T: T.nn.Parameter([1.0]),
    "float": lambda T: T.nn.Parameter(3.0),
    "int": lambda T: T.nn.Parameter(T.tensor([1])),
    "requires_grad int": lambda T: T.nn.Parameter(T.ones(1), requires_grad=3),
    "Buffer int": lambda T: T.nn.Buffer(3),
}


@pytest.mark.parametrize("name", PARAMETER)
def test_parameter(name):
    agree(PARAMETER[name])


@pytest.mark.parametrize("name", PARAMETER_ERRORS)
def test_parameter_errors(name):
    got = agree(PARAMETER_ERRORS[name], message=False)
    assert "must be" in got.error[1] or "Only Tensors of floating point" in got.error[1]


def test_parameter_of_a_subclass():
    def code(T):
        p = T.nn.Parameter(T.ones(2).as_subclass(classes(T).plain))
        m = T.nn.Module()
        m.p = p
        return type(p), isinstance(p, T.nn.Parameter), p.requires_grad, list(m._parameters)

    agree(code)
