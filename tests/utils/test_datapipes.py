"""Data pipes give what PyTorch's give."""

import pytest
import torch as pytorch

import torchlike

BOTH = [torchlike, pytorch]


def more(x):
    return x + 1


def large(x):
    return x > 1


PIPES = {
    "map": lambda d: d.iter.IterableWrapper([1, 2, 3]).map(more),
    "filter": lambda d: d.iter.IterableWrapper([1, 2, 3]).filter(large),
    "batch": lambda d: d.iter.IterableWrapper(range(5)).batch(2),
    "whole batches": lambda d: d.iter.IterableWrapper(range(5)).batch(2, drop_last=True),
    "concat": lambda d: d.iter.IterableWrapper([1]).concat(d.iter.IterableWrapper([2, 3])),
    "zip": lambda d: d.iter.IterableWrapper([1, 4]).zip(d.iter.IterableWrapper([2, 3, 5])),
    "chain": lambda d: d.iter.IterableWrapper(range(6)).map(str).batch(3).map("".join),
}


@pytest.mark.parametrize("name", PIPES)
def test_iterated(name):
    found = []
    for m in BOTH:
        pipe = PIPES[name](m.utils.data.datapipes)
        found.append(
            (
                [*pipe],
                [*pipe],
                repr(pipe).startswith(type(pipe).__name__),
                isinstance(pipe, m.utils.data.IterableDataset),
            )
        )
    assert found[0] == found[1]


def test_indexed():
    for m in BOTH:
        pipe = m.utils.data.datapipes.map.SequenceWrapper([1, 2, 3]).map(more)
        assert (len(pipe), pipe[2]) == (3, 4)


class OursTimes(torchlike.utils.data.IterDataPipe):
    def __init__(self, source, k=2):
        self.source, self.k = source, k

    def __iter__(self):
        return (x * self.k for x in self.source)


class TheirsTimes(pytorch.utils.data.IterDataPipe):
    __init__, __iter__ = OursTimes.__init__, OursTimes.__iter__


@pytest.mark.parametrize(("m", "times"), [(torchlike, OursTimes), (pytorch, TheirsTimes)], ids=["ours", "PyTorch's"])
def test_a_pipe_of_ones_own(m, times):
    data = m.utils.data
    try:
        assert data.functional_datapipe("times_of_test_datapipes")(times) is times
        source = data.datapipes.iter.IterableWrapper([1, 2, 3])
        assert [*source.times_of_test_datapipes(k=3)] == [3, 6, 9]
        batches = [b.tolist() for b in data.DataLoader(source.times_of_test_datapipes(), batch_size=2)]
        assert batches == [[2, 4], [6]]
        with pytest.raises(Exception, match="times_of_test_datapipes as it is already taken"):
            data.functional_datapipe("times_of_test_datapipes")(times)
        with pytest.raises(AttributeError, match="has no attribute 'nothing"):
            source.nothing  # noqa: B018
        assert data.functional_datapipe("other_of_test_datapipes")(int) is int
    finally:
        data.IterDataPipe.functions.pop("times_of_test_datapipes", None)


@pytest.mark.parametrize("name", ["_jit_set_profiling_mode", "_jit_set_profiling_executor"])
def test_switches_of_scripts_tell_what_was_set(name):
    for m in BOTH:
        switch = getattr(m._C, name)
        assert [switch(False), switch(False), switch(True), switch(True)] == [True, False, False, True]
