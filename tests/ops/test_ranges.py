"""arange, linspace and their kin against PyTorch: numbers to the last bit, what cannot be counted or held."""

import copy
import pickle

import numpy as np
import pytest
import torch
from both import agree, agree_error
from story_kit import said, story, warned

import torchlike

REAL = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64")
ENDS = [(0.1, 77.7), (-3.3, 100.7), (10, 90), (100.5, -20.25), (7, 7)]


def _exactly(make, dtype, *numbers):
    ours, theirs = (make(t, *numbers, dtype=getattr(t, dtype)) for t in (torchlike, torch))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
def test_linspace_to_the_last_bit(dtype):
    for first, last in ENDS:
        for steps in (0, 1, 2, 9, 33, 100):
            first, last = (abs(x) if dtype == "uint8" else x for x in (first, last))
            turned = 1j if dtype.startswith("complex") else 0
            _exactly(lambda t, *a, **k: t.linspace(*a, **k), dtype, first - turned, last + 3 * turned, steps)


@pytest.mark.parametrize("dtype", REAL)
def test_arange_to_the_last_bit(dtype):
    for first, last in ENDS:
        for by in (1, 1.7, 0.3):
            if by >= 1 or not dtype.endswith("int64"):
                step = by if last >= first else -by
                _exactly(lambda t, *a, **k: t.arange(*a, **k), dtype, first, last, step)


@story
def test_ends_that_are_not_finite(t):
    inf = float("inf")
    ends = [(inf, 1), (float("nan"), 1), (1e308, -1e308), (0, 1.7e308)]
    return [t.linspace(*e, 5, dtype=t.float64) for e in ends], t.arange(0, 1.7e308, 5e307, dtype=t.float64)


@story
def test_integers_at_their_limits(t):
    def limits(dtype):
        return t.linspace(t.iinfo(dtype).min, t.iinfo(dtype).max & ~0xFFF, 15, dtype=dtype)

    wrapped = t.arange(-300, 300, 100, dtype=t.int8), t.linspace(-1, 3, 4, dtype=t.uint8)
    return limits(t.int32), limits(t.int64), wrapped, t.arange(3e10, 4e10, 1e9, dtype=t.int32)


REFUSED = [
    (lambda t: t.arange(1.175494351e-38, 3.402823466e38), "possible overflow"),
    (lambda t: t.arange(0, 10, 1e-19), "possible overflow"),
    (lambda t: t.arange(0, 3e18), r"Storage size calculation overflowed with sizes=\[3000000000000000000\]"),
    (lambda t: t.linspace(0, 1, 2**62), "Storage size calculation overflowed"),
    (lambda t: t.arange(0.1, 0.7, 0.1, dtype=t.int64), "step must be nonzero"),
    (lambda t: t.linspace(-128, 200, 5, dtype=t.int8), "cannot be converted to type int8_t without overflow"),
    (lambda t: t.linspace(-1.0, 3, 4, dtype=t.uint8), "cannot be converted to type uint8_t without overflow"),
    (lambda t: t.linspace(0, 1e39, 4), "cannot be converted to type float without overflow"),
    (lambda t: t.linspace(0, 1j, 5, out=t.ones(5)), "cannot be converted to type float without overflow"),
    (lambda t: t.logspace(0, 1j, 5, out=t.ones(5)), "cannot be converted to type float without overflow"),
    (lambda t: t.linspace(0, 1j, 5, dtype=t.float32), r"torch.linspace\(\): inferred dtype .* passed dtype Float"),
    (lambda t: t.logspace(0j, 1, 5, dtype=t.int64), r"torch.logspace\(\): inferred dtype .* passed dtype Long"),
    (lambda t: t.complex(t.ones(2).int(), t.ones(2)), "Expected both inputs to be Half, .* got Int and Float"),
    (lambda t: t.polar(t.ones(2), t.ones(2).double()), "type Float but got scalar type Double for second argument"),
    (lambda t: t.polar(t.ones(2), t.ones(2), out=t.ones(2)), "ComplexFloat but got scalar type Float for argument 'o"),
    (lambda t: t.complex(t.ones(2), t.ones(2), out=t.ones(2).int()), "but got scalar type Int for argument 'out'"),
    (lambda t: t.meshgrid(t.ones(1), t.ones(1, device="meta"), indexing="ij"), "to have the same device"),
    (lambda t: t.ones(2).new_zeros(2, dtype=t.int64, requires_grad=True), "Only Tensors of floating point and comp"),
    (lambda t: t.tensor([1, 2], requires_grad=True), "Only Tensors of floating point and complex dtype"),
    (lambda t: t.empty(2).uniform_(-3.4e38, 3.4e38), "uniform_ expects to-from <="),
    (lambda t: t.empty(2).uniform_(0, float("inf")), "to is out of bounds for"),
    (lambda t: t.empty(2, dtype=t.float16).uniform_(-70000, 0), "from is out of bounds for"),
    (lambda t: t.empty(2, dtype=t.float16).random_(0, 70000), "to - 1 is out of bounds for"),
    (lambda t: t.empty(2, dtype=t.float16).random_(-(2**62), 5), "from is out of bounds for"),
    (lambda t: t.randint(5, (2,), dtype=t.complex64), "integral, floating-point and boolean types"),
    (lambda t: t.tensor(Unindexed()), "could not determine the shape of object type 'Unindexed'"),
    (lambda t: t.tensor([2, np.array([1])]), ""),
    (lambda t: t.tensor([np.array(1), 2]), r"len\(\) of unsized object"),
]


class Unindexed:
    """A sequence by its looks."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        raise TypeError


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case):
    run, pattern = REFUSED[case]
    ours, theirs = (said(lambda t=t: run(t), pattern) for t in (torchlike, torch))
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_random_integers_that_a_dtype_cannot_tell_apart(dtype):
    def told(t):
        t.manual_seed(0)
        far = 2 ** {"float16": 15, "bfloat16": 60, "float32": 60, "float64": 62}[dtype]
        pattern = r"(from|to - 1) is out of bounds \[-\(2\^\d+\), 2\^\d+\]"
        return [warned(lambda a=a: t.empty(3, dtype=getattr(t, dtype)).random_(*a), pattern)
                for a in ((-far, 7), (0, far), (-far, far), (0, 200))]  # fmt: skip

    agree(told)


@story
def test_numbers_of_numpy_among_others(t):
    class Three:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return [1.0, 2.0, 3.0][i]

    mixed = [[7, np.array(5)], [np.array(9), 5.0]]
    return t.tensor([1, np.array(2)]), t.tensor(mixed), t.tensor([2, np.array(2 + 1j)]), t.tensor(Three())


MANY = (1,) * 65  # more dimensions than numpy's arrays have


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t.ones(MANY).sum(),
        lambda t: t.full(MANY, 2.0).reshape(-1),
        lambda t: (t.arange(1).reshape(MANY) + 1).mT.sin().flatten(),
        lambda t: t.stack([t.ones(MANY).expand(2, *MANY), t.zeros(2, *MANY)]).amax(()),
        lambda t: t.ones(MANY[1:], requires_grad=True).unsqueeze(0).exp().sum().backward(),
        lambda t: t.randn(MANY, generator=t.Generator().manual_seed(1)).flatten(),
        lambda t: t.empty(MANY).uniform_(generator=t.Generator().manual_seed(1)).flatten(),
        lambda t: repr(t.arange(2.0).reshape(*MANY, 2).tolist()),
        lambda t: t.zeros(2, *MANY, 0).tolist(),
        lambda t: repr(t.arange(3).reshape(*MANY, 3)),
        lambda t: t.arange(6).reshape(2, *MANY, 3).nonzero(),
        lambda t: t.where(t.arange(6).reshape(2, *MANY, 3) > 2),
        lambda t: t.unique(t.tensor([2, 1, 2]).reshape(*MANY, 3), return_inverse=True, return_counts=True)[::2],
        lambda t: t.unique(t.tensor([2, 1, 2]).reshape(*MANY, 3), return_inverse=True)[1].flatten(),
        lambda t: t.unique_consecutive(t.tensor([2, 1, 1]).reshape(*MANY, 3), return_counts=True),
        lambda t: t.arange(3.0).reshape(*MANY, 3).masked_select(t.tensor([True, False, True])),
        lambda t: t.ones(MANY).clone().copy_(t.full(MANY, 2.0)).flatten(),
        lambda t: pickle.loads(pickle.dumps(t.arange(6.0).reshape(2, *MANY, 3).mT)).flatten(),
        lambda t: copy.deepcopy(t.arange(2.0).reshape(*MANY, 2)).flatten(),
    ],
)
def test_more_dimensions_than_numpy_has(f):
    agree(f)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "argmin", "max", "mean", "std", "all", "flip", "squeeze"])
def test_reductions_of_more_dimensions(name):
    dims = {"flip": [(0,)], "squeeze": [(0, 1)]}.get(name, [0])
    agree_error(lambda t: getattr(t, name)(t.ones(MANY), *dims), "only tensors with up to 64 dims are supported")
