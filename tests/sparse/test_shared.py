"""What sees a change of a sparse tensor in place: values, transposes, the tensor it was made of, as in PyTorch."""

import pytest
import torch
from sparse_kit import same

import torchlike

PLACES = {"csr": ([0, 2, 3], [0, 2, 1]), "csc": ([0, 1, 2, 3], [0, 1, 0])}


def made(t, kind, values):
    """A matrix [2, 3] of three entries."""
    if kind == "coo":
        return t.sparse_coo_tensor(t.tensor([[0, 0, 1], [0, 2, 1]]), values, (2, 3), is_coalesced=True)
    if kind == "bsr":
        return t.sparse_bsr_tensor(t.tensor([0, 2, 3]), t.tensor([0, 2, 1]), values.reshape(3, 1, 1), (2, 3))
    return getattr(t, f"sparse_{kind}_tensor")(*map(t.tensor, PLACES[kind]), values, (2, 3))


COMPRESSED = {
    "mul": lambda a: a.mul_(2),
    "add": lambda a: a.add_(a.clone()),
    "copy": lambda a: a.copy_(a * 3),
    "fill": lambda a: a.fill_(7),
    "transpose": lambda a: a.transpose(0, 1).mul_(2),
    "transposed twice": lambda a: a.t().t().neg_(),
    "detach": lambda a: a.detach().mul_(2),
    "data": lambda a: a.data.sin_(),
}
BOTH = {
    "neg": lambda a: a.neg_(),
    "sin": lambda a: a.sin_(),
    "relu": lambda a: a.relu_(),
    "values": lambda a: a.values().mul_(2),
    "negative detach": lambda a: a.detach().neg_(),
}
COORDINATES = {
    "div": lambda a: a.div_(2),
    "mul": lambda a: a.mul_(2),
    "add": lambda a: a.add_(a.clone()),
    "copy": lambda a: a.copy_(a * 3),
    "zero": lambda a: a.zero_(),
    "transpose": lambda a: a.t().neg_(),
    "values of transpose": lambda a: a.t()._values().mul_(2),
}
CASES = [
    *[("csr", change) for change in COMPRESSED.values()],
    *[(kind, change) for kind in ("csr", "coo") for change in BOTH.values()],
    *[("coo", change) for change in COORDINATES.values()],
    *[(kind, COMPRESSED[name]) for kind in ("csc", "bsr") for name in ("mul", "transpose")],
]


@pytest.mark.parametrize("kind, change", CASES, ids=[f"{kind}{i}" for i, (kind, _) in enumerate(CASES)])
def test_what_sees_a_change(kind, change):
    def f(t):
        given = t.tensor([1.0, 2.0, 3.0])
        a = made(t, kind, given)
        values, turned = a.values(), a.transpose(0, 1)
        change(a)
        return given, a.to_dense(), values.reshape(-1), turned.to_dense(), a._version, values._version, turned._version

    same(f)


SEEN = [
    ("csr", lambda a: a, lambda a: a.mul_(2)),
    ("csr", lambda a: a, lambda a: a.values().mul_(2)),
    ("csr", lambda a: a, lambda a: a.t().mul_(2)),
    ("csr", lambda a: a.t().t(), lambda a: a.neg_()),
    ("csr", lambda a: a, lambda a: a.detach().values().mul_(2)),
    ("coo", lambda a: a, lambda a: a.values().mul_(2)),
    ("coo", lambda a: a, lambda a: a.t().mul_(2)),
    ("coo", lambda a: a.t().t(), lambda a: a.mul_(2)),
]


@pytest.mark.parametrize("kind, kept, change", SEEN, ids=[f"{kind}{i}" for i, (kind, _, _) in enumerate(SEEN)])
def test_backward_sees_a_change_of_what_it_kept(kind, kept, change):
    for t in (torch, torchlike):
        a = made(t, kind, t.tensor([1.0, 2.0, 3.0]))
        y = kept(a) @ t.ones(3, 2, requires_grad=True)
        change(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize("kind", ["csr", "coo"])
@pytest.mark.parametrize("change", [lambda a: a.mul_(2), lambda a: a.neg_()], ids=["mul", "neg"])
def test_backward_sees_a_change_of_values_it_kept(kind, change):
    for t in (torch, torchlike):
        a = made(t, kind, t.tensor([1.0, 2.0, 3.0]))
        y = a.values() * t.ones(3, requires_grad=True)
        change(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
