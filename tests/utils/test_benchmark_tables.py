"""``torch.utils.benchmark``: measurements of the same times, and tables of them, are PyTorch's, letter by letter."""

import pickle
import random
import re

import pytest
import torch as pytorch
import torch.utils.benchmark as theirs

import torchlike
import torchlike.utils.benchmark as ours

STATEMENTS = ("f(x)", "g(x)\nh(x)", "x + 1")
SETUPS = ("pass", "a = 1", "a = 1\nb = 2")
SECONDS = (1e-7, 3.3e-6, 1.27e-5, 4e-4, 0.02, 1.7)


def measurements(library, seed):
    """Random ones, with labels, environments and threads."""
    r = random.Random(seed)
    environments = r.choice([[None], ["E", "Env2"]])

    def measured():
        base, spread = r.choice(SECONDS), r.choice([0, 0.001, 0.01, 0.06, 0.3])
        times = [base * (1 + spread * r.random()) for _ in range(r.choice([1, 2, 3, 4, 5, 9]))]
        task = library.TaskSpec(
            r.choice(STATEMENTS), r.choice(SETUPS), "", r.choice([None, "L", "Long label"]),
            r.choice([None, "s", "[64, 64]"]), r.choice(["bmm", "mul/sum"]), r.choice(environments), r.choice([1, 1, 4])
        )  # fmt: skip
        return library.Measurement(r.choice([1, 10]), times, task)

    return [measured() for _ in range(r.randint(1, 8))]


def shown(library, seed):
    found = measurements(library, seed)
    table = library.Compare(found)
    r = random.Random(seed)
    if r.random() < 0.5:
        table.trim_significant_figures()
    if r.random() < 0.5:
        table.colorize(rowwise=r.random() < 0.5)
    if r.random() < 0.5:
        table.highlight_warnings()
    figures = [(m.significant_figures, m.has_warnings, m.meets_confidence(), m.title, m.as_row_name) for m in found]
    return str(table), figures, [re.sub("<.*>", "", repr(m)) for m in found]


@pytest.mark.parametrize("seed", range(40))
def test_tables_and_measurements(seed):
    for got, expected in zip(shown(ours, seed), shown(theirs, seed), strict=True):
        assert got == expected


@pytest.mark.parametrize("seed", range(5))
def test_statistics(seed):
    for a, b in zip(measurements(ours, seed), measurements(theirs, seed), strict=True):
        assert (a.median, a.mean, a.iqr) == pytest.approx((b.median, b.mean, b.iqr), rel=1e-6)
    merged = [library.Measurement.merge(measurements(library, seed)) for library in (ours, theirs)]
    assert [m.title for m in merged[0]] == [m.title for m in merged[1]]
    assert [m.times for m in merged[0]] == [m.times for m in merged[1]]


FIELDS = ({}, {"sub_label": "q"}, {"label": "L", "description": "D", "setup": "a\nb"})


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("stmt", STATEMENTS)
def test_texts_of_tasks(stmt, fields):
    a, b = (library.TaskSpec(**{"stmt": stmt, "setup": "pass", **fields}) for library in (ours, theirs))
    assert (a.title, a.setup_str(), a.summarize()) == (b.title, b.setup_str(), b.summarize())


def test_numbers_and_units():
    for x in (1e-8, 9.99e-7, 1e-6, 0.5, 3.0, 1e5):
        assert ours.select_unit(x) == theirs.select_unit(x)
        assert ours.unit_to_english(ours.select_unit(x)[0]) == theirs.unit_to_english(theirs.select_unit(x)[0])
        for digits in (1, 2, 4):
            assert ours.trim_sigfig(x * 1.2345, digits) == pytest.approx(theirs.trim_sigfig(x * 1.2345, digits), 1e-6)
    assert ours.ordered_unique([3, 1, 3, 2]) == theirs.ordered_unique([3, 1, 3, 2])


def test_timers():
    calls = []
    timer = ours.Timer("y = x + a\n", "a = 1", globals={"x": torchlike.ones(3)}, label="plus", sub_label="[3]", env="e")
    found = timer.adaptive_autorange(min_run_time=0.01, max_run_time=0.05, callback=lambda *a: calls.append(a))
    assert len(calls) == len(found.times) and {n for n, _ in calls} == {found.number_per_run}
    assert found.title == "plus: [3]" and found.env == "e" and found.setup == "a = 1"
    again = pickle.loads(pickle.dumps(found))
    assert again.times == found.times and again.task_spec == found.task_spec
    assert timer.timeit(3).number_per_run == 3


def test_threads_are_those_of_the_task():
    before = torchlike.get_num_threads()
    ours.Timer("seen.append(get())", globals={"seen": (seen := []), "get": torchlike.get_num_threads},
               num_threads=3).timeit(1)  # fmt: skip
    assert set(seen) == {3} and torchlike.get_num_threads() == before


WRONG = {
    "no text": (lambda b: b.Timer(lambda: 1), ValueError),
    "a language": (lambda b: b.Timer("x", language="rust"), ValueError),
    "global_setup": (lambda b: b.Timer("x", global_setup="q"), ValueError),
    "no Python": (lambda b: b.Timer("x +"), SyntaxError),
    "unknown names": (lambda b: b.Timer("x + 1").timeit(1), NameError),
    "threads": (lambda b: b.Timer("pass", num_threads=0).timeit(1), RuntimeError),
    "repeat": (lambda b: b.Timer("pass").repeat(2, 2), NotImplementedError),
    "autorange": (lambda b: b.Timer("pass").autorange(), NotImplementedError),
    "numbers compared": (lambda b: b.Compare([1, 2]), ValueError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, error = WRONG[name]
    for library in (theirs, ours):
        with pytest.raises(error):
            call(library)


def test_what_is_not_there():
    with pytest.raises(NotImplementedError, match="statements in C"):
        ours.Timer("x", language="c++")
    with pytest.raises(NotImplementedError, match="collect_callgrind.*use timeit"):
        ours.Timer("pass").collect_callgrind()
    with pytest.raises(ValueError, match="raw_times is empty"):
        _ = ours.Measurement(1, [], ours.TaskSpec("x", "pass")).median
    assert pytorch.utils.benchmark is theirs
