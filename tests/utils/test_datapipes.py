"""Data pipes give what PyTorch's give."""

import importlib

import pytest
import torch as pytorch
from both import agree, agree_error

import torchlike

BOTH = [torchlike, pytorch]


def more(x):
    return x + 1


def large(x):
    return x > 1


def add(x, y):
    return x + y


def both_large(x, y):
    return x + y > 3


def first(name):
    return name[0]


def wrap(d, *items):
    return d.iter.IterableWrapper(items)


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
    "groups": lambda d: d.iter.IterableWrapper(["a1", "b1", "a2", "c1", "d1", "a3"]).groupby(first),
    "groups of two": lambda d: d.iter.IterableWrapper(["a1", "b1", "a2", "b2"]).groupby(first, group_size=2),
    "groups with keys": lambda d: d.iter.IterableWrapper(["a1", "b1", "a2"]).groupby(first, keep_key=True),
    "few wait": lambda d: d.iter.IterableWrapper(["a1", "b1", "a2", "c1", "d1", "a3"]).groupby(first, buffer_size=3),
    "small groups left out": lambda d: d.iter.IterableWrapper(["a1", "b1", "a2", "c1", "d1", "a3", "b2"]).groupby(
        first, buffer_size=3, group_size=3, guaranteed_group_size=2, drop_remaining=True
    ),
    "a column": lambda d: wrap(d, (1, 2), (3, 4)).map(more, input_col=1),
    "a column of lists": lambda d: wrap(d, [1, 2], [3, 4]).map(more, 0, -1),
    "a column of dicts": lambda d: wrap(d, {"a": 1}).map(more, "a"),
    "another column": lambda d: wrap(d, {"a": 1}).map(more, input_col="a", output_col="b"),
    "columns": lambda d: wrap(d, (1, 2, 3)).map(add, input_col=[2, 0]),
    "columns to one": lambda d: wrap(d, (1, 2, 3)).map(add, [0, 1], [2]),
    "added": lambda d: wrap(d, (1, 2)).map(more, (0,), -1),
    "filtered by a column": lambda d: wrap(d, {"a": 1}, {"a": 3}).filter(large, input_col="a"),
    "filtered by columns": lambda d: wrap(d, (1, 2), (3, 4)).filter(both_large, [0, 1]),
    "no shard": lambda d: d.iter.IterableWrapper(range(5)).sharding_filter(),
    "sampled": lambda d: d.iter.Sampler(d.iter.IterableWrapper(range(4))),
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


def parts(t, *groups, only=None):
    pipe = t.utils.data.datapipes.iter.IterableWrapper(range(14)).sharding_filter(only).map(more)
    for count, number, group in groups:
        t.utils.data.graph_settings.apply_sharding(pipe, count, number, group)
    return list(pipe), len(pipe)


SHARDS = {
    "of three": lambda t, p: parts(t, (3, 2, None)),
    "replaced": lambda t, p: parts(t, (2, 1, None), (3, 0, None)),
    "of processes and workers": lambda t, p: parts(t, (3, 2, p.MULTIPROCESSING), (2, 1, p.DISTRIBUTED)),
    "another group": lambda t, p: parts(t, (3, 1, p.MULTIPROCESSING), only=p.DISTRIBUTED),
    "workers": lambda t, p: [
        b.tolist()
        for b in t.utils.data.DataLoader(
            t.utils.data.datapipes.iter.IterableWrapper(range(9)).sharding_filter().map(more), 2, num_workers=2
        )
    ],
}


@pytest.mark.parametrize("name", SHARDS)
def test_shards(name):
    module = "utils.data.datapipes.iter.sharding"
    agree(lambda t: SHARDS[name](t, importlib.import_module(f"{t.__name__}.{module}").SHARDING_PRIORITIES))


def wrapped(t, *items):
    return t.utils.data.datapipes.map.SequenceWrapper(items)


INDEXED = {
    "concat": lambda t: (lambda p: [p[0], p[2], len(p)])(wrapped(t, 1, 2).concat(wrapped(t, 3))),
    "zip": lambda t: (lambda p: [p[0], p[1], len(p)])(wrapped(t, 1, 2, 3).zip(wrapped(t, 4, 5))),
    "batch": lambda t: (lambda p: [p[0], p[1], len(p)])(wrapped(t, 1, 2, 3).batch(2)),
    "whole batches": lambda t: len(wrapped(t, 1, 2, 3).batch(2, drop_last=True)),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indexed_pipes(name):
    agree(INDEXED[name])


REFUSED = {
    "column without source": ("must be None when", lambda t: wrap(t.utils.data.datapipes, 1).map(more, output_col=1)),
    "two results": ("single-element list", lambda t: wrap(t.utils.data.datapipes, 1).map(more, 0, [0, 1])),
    "few columns": ("takes 2 positional", lambda t: wrap(t.utils.data.datapipes, 1).map(add, 0)),
    "many columns": ("takes 1 parameters", lambda t: wrap(t.utils.data.datapipes, 1).map(more, [0, 1])),
    "no bool": ("Boolean output is required", lambda t: list(wrap(t.utils.data.datapipes, 1).filter(more))),
    "twice": ("Sharding twice", lambda t: t.utils.data.graph_settings.apply_sharding(
        t.utils.data.datapipes.iter.IterableWrapper("ab").sharding_filter().sharding_filter(), 2, 0)),
    "no such part": ("should be smaller than", lambda t: t.utils.data.datapipes.iter.IterableWrapper(
        "ab").sharding_filter().apply_sharding(2, 2)),
    "group size": ("group_size must be > 0", lambda t: t.utils.data.datapipes.iter.IterableWrapper("ab").groupby(
        first, group_size=0)),
    "least": ("must be set", lambda t: t.utils.data.datapipes.iter.IterableWrapper("ab").groupby(
        first, guaranteed_group_size=2)),
    "groups": ("Failed to group", lambda t: list(t.utils.data.datapipes.iter.IterableWrapper("abc").groupby(
        first, group_size=2, buffer_size=2))),
    "concat": ("Index 2 is out of range", lambda t: wrapped(t, 1).concat(wrapped(t, 3))[2]),
    "batch": ("Index 1 is out of bound", lambda t: wrapped(t, 1).batch(2)[1]),
    "mode": ("Invalid mode w", lambda t: t.utils.data.datapipes.iter.FileOpener(["a"], mode="w")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    match, call = REFUSED[name]
    agree_error(call, match=match)


def test_files(tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in (("b.txt", "line\n"), ("a.csv", "1"), ("in/c.txt", "")):
        (tmp_path / name).write_text(text)

    def read(t):
        pipes = t.utils.data.datapipes.iter
        lists = [pipes.FileLister(str(tmp_path)), pipes.FileLister(str(tmp_path), "*.txt", recursive=True)]
        opened = pipes.FileLister(str(tmp_path), ["*.txt", "*.csv"]).open_files("b").read_from_stream(chunk=2)
        return [sorted(str(x).replace(str(tmp_path), "") for x in p) for p in (*lists, opened)]

    agree(read)
