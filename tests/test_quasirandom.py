"""torch.quasirandom: Sobol' sequences are PyTorch's, point by point."""

import pytest
import torch as pytorch

import torchlike


def engines(*args, **kwargs):
    return [(m, m.quasirandom.SobolEngine(*args, **kwargs)) for m in (torchlike, pytorch)]


def both(act, *args, **kwargs):
    """``act(engine)`` of both libraries: the same points, and the same state afterwards."""
    (ours, e), (theirs, f) = engines(*args, **kwargs)
    for a, b in zip(act(e), act(f), strict=True):
        assert (a.numpy() == b.numpy()).all() and str(a.dtype) == str(b.dtype)
    for name in ("quasi", "shift", "sobolstate", "_first_point"):
        assert (getattr(e, name).numpy() == getattr(f, name).numpy()).all(), name
    assert (e.num_generated, repr(e)) == (f.num_generated, repr(f))
    assert bool((ours.get_rng_state().numpy() == theirs.get_rng_state().numpy()).all())


ACTS = {
    "draws": lambda e: [e.draw(), e.draw(5), e.draw(2), e.draw(0), e.draw(70)],
    "float64": lambda e: [e.draw(9, dtype=__import__(type(e).__module__.split(".")[0]).float64)],
    "base 2": lambda e: [e.draw_base2(3), e.draw_base2(3)],
    "first": lambda e: [e.draw(1, dtype=__import__(type(e).__module__.split(".")[0]).float16)],
    "reset": lambda e: [e.draw(4), e.reset().draw(3)],
    "forward": lambda e: [e.fast_forward(5).draw(3), e.fast_forward(0).draw(1)],
}


@pytest.mark.parametrize("given", [(1,), (3,), (40, True, 7), (2, True)], ids=str)
@pytest.mark.parametrize("name", ACTS)
def test_points(name, given):
    for m in (torchlike, pytorch):
        m.manual_seed(11)
    both(ACTS[name], *given)


def test_all_dimensions():
    both(lambda e: [e.draw(3)], 21201)


def test_out():
    for m, e in engines(2, True, 3):
        out = m.empty(0)
        assert e.draw(3, out=out) is out and out.shape == (3, 2)


WRONG = {
    "no dimension": (lambda m: m.quasirandom.SobolEngine(0), ValueError, r"\[1, 21201\]"),
    "too many": (lambda m: m.quasirandom.SobolEngine(21202), ValueError, r"\[1, 21201\]"),
    "negative": (lambda m: m.quasirandom.SobolEngine(2).draw(-1), RuntimeError, "negative dimension -2"),
    "none at first": (lambda m: m.quasirandom.SobolEngine(2).draw(0), RuntimeError, "negative dimension -1"),
    "part of a point": (lambda m: m.quasirandom.SobolEngine(2).draw(1.5), TypeError, "must be int"),
    "integers": (
        lambda m: m.quasirandom.SobolEngine(2).draw(2, dtype=m.int64),
        NotImplementedError,
        "_sobol_engine_draw",
    ),
    "halves": (lambda m: m.quasirandom.SobolEngine(2).draw(2, dtype=m.float16), NotImplementedError, "for 'Half'"),
    "no power": (
        lambda m: [e := m.quasirandom.SobolEngine(2), e.draw(3), e.draw_base2(2)],
        ValueError,
        r"3 points have been previously generated, then: n=3\+2\*\*2=7",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    act, kind, words = WRONG[name]
    for m in (torchlike, pytorch):
        with pytest.raises(kind, match=words):
            act(m)
