"""Files and stores that a compiled function read or wrote have changed since; see test_stale."""

import os
import time

import numpy as np
import pytest
from guard_kit import x2
from stale_kit import Stories, never_stale

import torchlike as torch

STORIES = Stories()
story = STORIES.story
PLACE = []


@pytest.fixture(autouse=True)
def place(tmp_path):
    PLACE[:] = [str(tmp_path)]


def at(name):
    return os.path.join(PLACE[0], name)


def reads(wrap, write, read):
    """What ``read`` gives before and after ``write`` has written something else."""
    run, found = wrap(lambda x: x * read()), []
    for number in (2.0, 3.0, 3.0, 5.0):
        write(number)
        found.append(run(x2()))
    return found


def writes(wrap, write, names):
    """Which of the files named are there after each of some calls that write them."""

    def f(x):
        write(x)
        return x * 2

    run, found = wrap(f), []
    for _ in range(3):
        run(x2())
        found.append([os.path.exists(at(name)) for name in names])
        for name in names:
            if os.path.exists(at(name)):
                os.remove(at(name))
    return found


@story
def torch_load(wrap):
    path = at("a.pt")
    return reads(wrap, lambda v: torch.save(torch.full((2,), v), path), lambda: torch.load(path))


@story
def torch_load_of_a_number(wrap):
    path = at("a.pt")
    return reads(wrap, lambda v: torch.save({"k": v}, path), lambda: torch.load(path)["k"])


@story
def tensors_from_files(wrap):
    path = at("a.bin")
    return reads(wrap, lambda v: np.full(2, v, np.float32).tofile(path), lambda: torch.from_file(path, size=2))


@story
def storages_from_files(wrap):
    path = at("a.bin")
    read = lambda: float(torch.UntypedStorage.from_file(path, False, 8)[3])  # noqa: E731
    return reads(wrap, lambda v: np.full(2, v, np.float32).tofile(path), read)


@story
def text_that_numpy_reads(wrap):
    path = at("a.txt")

    def write(v):
        with open(path, "w") as file:
            file.write(f"{v} {v}")

    return reads(wrap, write, lambda: float(np.genfromtxt(path).sum()))


@story
def files_that_numpy_writes(wrap):
    def write(x):
        np.ones(2).tofile(at("a"))
        np.ones(2).dump(at("b"))
        np.savez_compressed(at("c.npz"), np.ones(2))
        np.savetxt(at("d"), np.ones(2))

    return writes(wrap, write, ["a", "b", "c.npz", "d"])


@story
def files_of_torch_save(wrap):
    return writes(wrap, lambda x: torch.save(x, at("a")), ["a"])


@story
def the_time_that_numpy_tells(wrap):
    base = int(time.time())
    run = wrap(lambda x: x * 0 + (int(np.datetime64("now", "s").astype("int64")) - base))
    first = float(run(x2())[0])
    time.sleep(1.01)
    return first >= 0, float(run(x2())[0]) > first


@story
def options_of_serialization(wrap):
    options = torch.serialization

    def f(x):
        named = len(str(options.get_default_load_endianness())) + len(options.get_safe_globals())
        return x * named + int(options.get_crc32_options())

    run, found = wrap(f), []
    try:
        for change in (
            lambda: None,
            lambda: options.set_crc32_options(False),
            lambda: options.set_default_load_endianness(options.LoadEndianness.BIG),
            lambda: options.add_safe_globals([Stories]),
        ):
            change()
            found.append(run(x2()))
    finally:
        options.set_crc32_options(True)
        options.set_default_load_endianness(None)
        options.clear_safe_globals()
    return [*found, run(x2())]


@story
def stores_of_processes(wrap):
    store = torch.distributed.HashStore()
    return reads(wrap, lambda v: store.set("k", str(v)), lambda: float(store.get("k")))


@pytest.mark.filterwarnings("ignore:torch.compile.*runs in eager from now on")
@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])
