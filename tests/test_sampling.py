"""Which tests `make test` leaves out: `make_sample.chosen` and the file that says it."""

import numpy as np
import pytest
import sampling
from make_sample import ALWAYS, QUICK, Kernels, Ran, chosen, kind


def ran(name, seconds, *features, failed=False):
    return Ran(name, seconds, np.array(features, np.int32), failed)


TESTS = [
    ran("t.py::a[1]", 3.0, 1, 2),
    ran("t.py::a[2]", 2.0, 1, 2),
    ran("t.py::a[3]", 4.0, 3),  # alone in running 3
    ran("t.py::a[4]", 4.0, 2, 1),  # what others run
    ran("t.py::a[5]", QUICK / 2, 1),  # the quickest of its function
    ran("t.py::a[6]", 4.0, failed=True),
    ran("t.py::b", 5.0, 1),
    ran("t.py::c[1]", 1.0, 4),
    ran("t.py::c[2]", 2.0, 4, 5),
    ran("t.py::c[3]", 2.5, 4, 5),
]


@pytest.mark.parametrize(
    "part, names",
    [
        (0.40, "a5 a6 b c1"),  # there is time for no other
        (0.53, "a2 a5 a6 b c1 c2"),  # what is new costs least in these
        (0.70, "a2 a3 a5 a6 b c1 c2"),  # everything once
        (1.00, "a1 a2 a3 a5 a6 b c1 c2 c3"),  # and twice, where there are two
    ],
)
def test_what_is_chosen(part, names, capsys):
    picked = {TESTS[i].name[6:].replace("[", "").rstrip("]") for i in chosen(TESTS, part)}
    assert picked == {*names.split()}
    assert f"{len(picked)} of {len(TESTS)} tests" in capsys.readouterr().out


def test_examples_all_run():
    assert not any(name.startswith(ALWAYS) for name in sampling._left())
    assert len(chosen([ran(f"{ALWAYS}f[1]", 9.0, 1), ran(f"{ALWAYS}f[2]", 1.0, 1)], 0.1)) == 2


def test_what_is_written_is_left_out_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "PLACE", tmp_path / "sample.txt")
    sampling._left.cache_clear()
    try:
        names = ["tests/a.py::f[x-1]", "tests/a.py::f[y]", "tests/a.py::g", "tests/b.py::C::f[x [1] :: y]"]
        sampling.write(names)
        assert all(map(sampling.left_out, names))
        others = ["tests/a.py::f[x-2]", "tests/a.py::f", "tests/b.py::g", "tests/c.py::f[x-1]"]
        assert not any(map(sampling.left_out, others))
    finally:
        sampling._left.cache_clear()


def test_nothing_is_left_out_where_nothing_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "PLACE", tmp_path / "none.txt")
    sampling._left.cache_clear()
    try:
        assert not sampling.left_out("tests/a.py::f[x-1]")
    finally:
        sampling._left.cache_clear()


def test_kernels_that_are_asked_for():
    asked = set()
    kernels = Kernels("sin", {(1,): "kernel"}, asked)
    assert kernels.get((1,)) == kernels[1,] == "kernel"
    assert kernels.get((2,)) is None
    assert asked == {("sin", (1,)), ("sin", (2,))}
    assert kind((True, None, 3, 2.5, ("mean", 1))) == ("True", "None", "int", "float", ("mean", "int"))
    assert kind((1,) * 9) == 9
