"""Arguments of compiled functions that are lazy conjugates or negatives, of which the same function is asked."""

import pytest
from stale_kit import never_stale

import torchlike

FUNCTIONS = {
    "is_conj": lambda x: x * (2 if x.is_conj() else 3),
    "is_neg": lambda x: x * (2 if x.is_neg() else 3),
    "of_a_view": lambda x: x * (2 if x[:1].is_conj() else 3),
    "of_its_conjugate": lambda x: x * (2 if x.conj().is_conj() else 3),
    "of_a_result": lambda x: x * (2 if (x * 2).is_conj() else 3),
    "detached": lambda x: x.detach().is_conj(),
    "resolved": lambda x: (x.resolve_conj() is x, x.resolve_neg() is x),
    "resolved_and_changed": lambda x: (x.resolve_conj().mul_(2), x.resolve_neg().mul_(3), x * 1),
    "returned": lambda x: [(t, t.is_conj(), t.is_neg()) for t in (x.resolve_conj(), x.resolve_neg())],
    "negative_of_the_imaginary_part": lambda x: x.imag.is_neg() if x.is_complex() else x.is_neg(),
    "real_part": lambda x: x.real * 2,
    "only_computed": lambda x: x * 2,
}
Z = [1 + 2j, 3 - 1j]
ARGUMENTS = [
    lambda t: t.tensor(Z),
    lambda t: t.tensor(Z)[:],
    lambda t: t.tensor(Z).conj(),
    lambda t: t.tensor([Z, Z]).mH,
    lambda t: t.tensor(Z).conj().imag,
    lambda t: t._neg_view(t.tensor(Z)),
    lambda t: t._neg_view(t.tensor(Z)).conj(),
    lambda t: t.tensor(Z)[:],
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_marks(name):
    def story(wrap):
        run = wrap(FUNCTIONS[name])
        return [run(make(torchlike)) for make in ARGUMENTS]

    never_stale(story)


def test_a_pair_of_numbers_refuses_a_conjugate():
    run = torchlike.compile(lambda x: torchlike.view_as_real(x) * 1)
    assert run(torchlike.tensor(Z)[:]).tolist() == [[1, 2], [3, -1]]
    with pytest.raises(RuntimeError, match="conj"):
        run(torchlike.tensor(Z).conj())


def test_what_imag_gives_is_negated():
    assert torchlike.compile(lambda x: x.imag)(torchlike.tensor(Z).conj()).is_neg()
