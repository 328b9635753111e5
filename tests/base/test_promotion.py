"""Promotion against PyTorch's, over every pair of types and every pair of categories."""

from itertools import product

import pytest
import torch

from torchlike._base import dtypes as D
from torchlike._base import promotion as P

NAMES = sorted({str(getattr(torch, n)).removeprefix("torch.") for n in dir(torch)
                if isinstance(getattr(torch, n), torch.dtype)})  # fmt: skip
# What tensors can be made of; a few stand for the sub-byte integers, which all behave alike.
TENSORS = [n for n in NAMES if not n.startswith(("q", "bits", "float4", "int", "uint"))] + [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4",
]  # fmt: skip
NUMBERS = [True, 1, 1.0, 1j]
DEFAULTS = ["float16", "bfloat16", "float32", "float64"]


def outcome(call):
    try:
        return str(call())
    except (RuntimeError, TypeError) as error:
        return type(error).__name__


def differing(cases, ours, theirs):
    """The cases where the two disagree, with what each says."""
    seen = ((case, outcome(lambda case=case: ours(*case)), outcome(lambda case=case: theirs(*case)))
            for case in cases)  # fmt: skip
    return [(case, a, b) for case, a, b in seen if a != b]


@pytest.fixture
def default():
    def choose(name):
        D.set_default_dtype(D.ALIASES[name])
        torch.set_default_dtype(getattr(torch, name))

    yield choose
    choose("float32")


def their_operand(kind):
    name, category = kind
    if category == P.NUMBER:
        return name
    return torch.empty((2,) if category == P.TENSOR else (), dtype=getattr(torch, name))


def our_operand(kind):
    name, category = kind
    return (P.number_dtype(name), category) if category == P.NUMBER else (D.ALIASES[name], category)


def check_result_type(kinds):
    ours, theirs = [our_operand(k) for k in kinds], [their_operand(k) for k in kinds]
    pairs = differing(
        product(range(len(kinds)), repeat=2),
        lambda a, b: P.result_type([ours[a], ours[b]]),
        lambda a, b: torch.result_type(theirs[a], theirs[b]),
    )
    assert not [(kinds[a], kinds[b], *said) for (a, b), *said in pairs]


@pytest.mark.parametrize("name", ["promote_types", "can_cast"])
def test_all_pairs(name):
    ours, theirs = getattr(P, name), getattr(torch, name)
    assert not differing(
        product(NAMES, repeat=2),
        lambda a, b: ours(D.ALIASES[a], D.ALIASES[b]),
        lambda a, b: theirs(getattr(torch, a), getattr(torch, b)),
    )


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_result_type_of_all_types_and_categories():
    kinds = [(n, c) for n in TENSORS for c in (P.TENSOR, P.ZERO_DIM)]
    check_result_type(kinds + [(v, P.NUMBER) for v in NUMBERS])


@pytest.mark.parametrize("name", DEFAULTS)
def test_result_type_follows_the_default(name, default):
    default(name)
    some = ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "uint16"]
    check_result_type([(n, P.TENSOR) for n in some] + [(v, P.NUMBER) for v in NUMBERS])


SOME = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "complex64"]


def test_three_operands():
    for a, b, c in product(SOME, repeat=3):
        ours = P.result_type([(D.ALIASES[n], P.TENSOR) for n in (a, b, c)])
        theirs = torch.cat([torch.empty(1, dtype=getattr(torch, n)) for n in (a, b, c)]).dtype
        assert str(ours) == str(theirs), (a, b, c)


@pytest.mark.parametrize("operands, expected", [
    ([("int32", 0), ("float64", 1), ("complex64", 2)], "complex128"),
    ([("int32", 0), ("float64", 1), ("float32", 2)], "float64"),
    ([("bool", 0), ("uint8", 1), ("int64", 2)], "uint8"),
    ([("int64", 2), ("float16", 0), ("float64", 1)], "float16"),
    ([("float32", 2)], "float32"),
])  # fmt: skip
def test_categories_together(operands, expected):
    assert P.result_type((D.ALIASES[n], c) for n, c in operands) is D.ALIASES[expected]


def test_python_types_stand_for_dtypes():
    assert P.promote_types(float, int) is D.float64 and P.can_cast(int, float) and not P.can_cast(float, int)


@pytest.mark.parametrize("number", NUMBERS)
def test_number_dtype(number):
    assert str(P.number_dtype(number)) == str(torch.result_type(number, number))


@pytest.mark.parametrize("call, error, match", [
    (lambda: P.promote_types(1, int), TypeError, r"promote_types\(\): argument 'type1' must.* not int"),
    (lambda: P.promote_types(D.int8, "x"), TypeError, "argument 'type2' must be torch.dtype, not str"),
    (lambda: P.can_cast(D.int8, None), TypeError, r"can_cast\(\): argument 'to'"),
    (lambda: P.promote_types(D.uint16, D.int8), RuntimeError, r"torch.uint16 and torch.int8.*\.to\(dtype\)"),
    (lambda: P.promote_types(D.float8_e5m2, D.float32), RuntimeError, "torch.float8_e5m2 and torch.float32"),
    (lambda: P.promote_types(D.qint8, D.float32), RuntimeError, "torch.qint8 and torch.float32"),
    (lambda: P.result_type([]), RuntimeError, "at least one operand"),
])  # fmt: skip
def test_messages(call, error, match):
    with pytest.raises(error, match=match):
        call()
