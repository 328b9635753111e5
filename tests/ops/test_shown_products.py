"""einsum, and kin, of one operand: what sums nothing shows the operand, and writes to it."""

import pytest
from both import agree

CUBES = ["iii->i", "...ii->...i", "ijj->ji", "iji->ij", "iji->ji", "iij->ij", "ijk->kji", "i...i->...i", "ijk"]


@pytest.mark.parametrize("equation", CUBES)
def test_views(equation):
    def run(t):
        x = t.arange(8.0).view(2, 2, 2).clone()
        shown = t.einsum(equation, x)
        found = shown.tolist(), shown.stride(), shown._base is x
        shown.mul_(2)
        return found, x, x._version

    agree(run)


@pytest.mark.parametrize("equation", ["iij->j", "iii->", "ijk->ik"])
def test_sums_are_new(equation):
    def run(t):
        x = t.ones(2, 2, 2)
        shown = t.einsum(equation, x)
        shown.zero_()
        return shown, x

    agree(run)


def diagonals_of_batches(t):
    x = t.zeros(2, 3, 3)
    t.einsum("bii->bi", x)[:] = 5
    t.einsum(x, [0, 1, 1], [0, 1])[0].add_(t.arange(3.0))
    return x


def pairs_of_diagonals(t):
    x = t.zeros(2, 3, 2, 3)
    t.einsum("ijij->ji", x).copy_(t.arange(6.0).view(3, 2))
    return x, t.einsum("iijj->ji", t.zeros(2, 2, 3, 3)).shape


def with_history(t):
    x = t.ones(3, 3, requires_grad=True)
    y = x * 1
    t.einsum("ii->i", y).mul_(3)
    (y**2).sum().backward()
    return x.grad


def mapped(t):
    return t.func.vmap(lambda x: t.einsum("ii->i", x))(t.arange(18.0).view(2, 3, 3))


def one_matrix_in_a_chain(t):
    x = t.ones(2, 2)
    t.chain_matmul(x).zero_()
    return x


def broadcast(t):
    x, row = t.ones(2, 3, requires_grad=True), t.ones(1, 3)
    first, second = t.broadcast_tensors(x, row)
    return first is x, second is row, t.broadcast_tensors(x)[0] is x


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.parametrize("run", [diagonals_of_batches, pairs_of_diagonals, with_history, mapped, one_matrix_in_a_chain,
                                 broadcast])  # fmt: skip
def test_as_pytorch(run):
    agree(run)
