"""Data pipes give what PyTorch's give."""

import pytest
import torch as pytorch
from both import agree, agree_error

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
    "shuffled off": lambda d: d.iter.IterableWrapper(range(9)).shuffle().set_shuffle(False),
    "unbatched": lambda d: d.iter.IterableWrapper([[[1], [2, 3]], [[4]]]).unbatch(),
    "flat": lambda d: d.iter.IterableWrapper([[[1], [2, 3]], [4]]).unbatch(unbatch_level=-1),
    "in turn": lambda d: d.iter.IterableWrapper(range(3)).mux(d.iter.IterableWrapper(range(5, 9))),
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


SHUFFLED = {
    "all": lambda d, u: list(d.iter.IterableWrapper(range(9)).shuffle()),
    "some": lambda d, u: list(d.iter.IterableWrapper(range(9)).shuffle(buffer_size=3)),
    "seeded": lambda d, u: list(d.iter.IterableWrapper(range(9)).shuffle().set_seed(5)),
    "twice": lambda d, u: (lambda p: [list(p), list(p)])(d.iter.IterableWrapper(range(9)).shuffle()),
    "indices": lambda d, u: list(d.map.SequenceWrapper(range(9)).shuffle().set_seed(3)),
    "length": lambda d, u: len(d.iter.IterableWrapper(range(9)).shuffle()),
    "loaded": lambda d, u: [
        b.tolist() for b in u.DataLoader(d.iter.IterableWrapper(range(9)).shuffle(), 4, shuffle=True)
    ],
    "loaded twice": lambda d, u: (lambda p: [[int(x) for x in p], [int(x) for x in p]])(
        u.DataLoader(d.iter.IterableWrapper(range(9)).shuffle().map(more), batch_size=None)
    ),
    "in order": lambda d, u: [
        b.tolist() for b in u.DataLoader(d.iter.IterableWrapper(range(9)).shuffle(), 4, shuffle=False)
    ],
    "added": lambda d, u: [b.tolist() for b in u.DataLoader(d.iter.IterableWrapper(range(9)), 4, shuffle=True)],
    "collated": lambda d, u: [b.tolist() for b in d.iter.IterableWrapper(range(5)).batch(2).collate()],
    "forked": lambda d, u: [list(p) for p in d.iter.IterableWrapper(range(5)).fork(2)],
    "divided": lambda d, u: [list(p) for p in d.iter.IterableWrapper(range(5)).demux(2, classifier_fn=large)],
    "settings": lambda d, u: list(
        u.graph_settings.apply_shuffle_settings(d.iter.IterableWrapper("ab").shuffle(), False)
    ),
}


@pytest.mark.parametrize("name", SHUFFLED)
def test_orders(name):
    def code(t):
        t.manual_seed(3)
        return SHUFFLED[name](t.utils.data.datapipes, t.utils.data), int(t.randint(1000, ()))

    agree(code)


def test_forks_are_read_in_turn():
    def code(t):
        one, other = t.utils.data.datapipes.iter.IterableWrapper(range(5)).fork(2)
        reader = iter(one)
        return [next(reader), next(reader), list(other), list(reader), len(one)]

    agree(code)
    wrap = lambda t: t.utils.data.datapipes.iter.IterableWrapper(range(5))  # noqa: E731
    agree_error(lambda t: list(wrap(t).fork(2, buffer_size=2)[0]), "buffer overflow")
    agree_error(lambda t: wrap(t).fork(0), "larger than 0")
    agree_error(lambda t: list(wrap(t).demux(2, more)[0]), "should be between 0 and 1")
    agree_error(lambda t: wrap(t).shuffle(buffer_size=0), "larger than 0")
    agree_error(lambda t: list(wrap(t).unbatch()), "exceeds the depth")
    agree_error(lambda t: list(wrap(t).unbatch(-2)), "must be -1")


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
