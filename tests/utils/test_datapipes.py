"""Data pipes give what PyTorch's give."""

import functools
import importlib
import io
import pickle

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


def named(x, *, y):
    return x


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


def own(t, **members):
    return type("Own", (t.utils.data.IterDataPipe,), members)()


def counted(self):
    self.at = getattr(self, "at", 0) + 1
    if self.at > 3:
        raise StopIteration
    return self.at


def failing(self):
    yield 1
    raise RuntimeError("no more")


def attempt(f):
    try:
        return f()
    except Exception as error:
        return type(error).__name__, str(error)[:30]


def passes(pipe):
    one = iter(pipe)
    found = [next(one), pipe._number_of_samples_yielded]
    other = iter(pipe)
    return [*found, attempt(lambda: next(one)), next(other), attempt(lambda: next(one)), list(other)]


PASSES = {
    "generator": lambda t, d: passes(d.iter.IterableWrapper(range(3))),
    "chain": lambda t, d: passes(d.iter.IterableWrapper(range(3)).map(more).filter(large)),
    "shuffled": lambda t, d: (t.manual_seed(0), passes(d.iter.IterableWrapper(range(5)).shuffle(buffer_size=2)))[1],
    "itself": lambda t, d: passes(own(t, __iter__=lambda s: s, __next__=counted, reset=lambda s: vars(s).clear())),
    "of a list": lambda t, d: passes(own(t, __iter__=lambda s: iter([1, 2, 3]))),
    "at once": lambda t, d: (lambda p: attempt(lambda: list(zip(p, p, strict=False))))(
        d.iter.IterableWrapper(range(3))
    ),
    "failed": lambda t, d: (lambda p: [attempt(lambda: list(p)), p._number_of_samples_yielded])(
        own(t, __iter__=failing)
    ),
    "failed within": lambda t, d: attempt(lambda: list(own(t, __iter__=failing).map(more))),
    "of forks": lambda t, d: (lambda a, b: [next(a), next(b), attempt(lambda: list(a)), list(b)])(
        *map(iter, d.iter.IterableWrapper(range(3)).fork(2))
    ),
    "of a fork and its source": lambda t, d: (lambda p: (lambda a, b: [
        next(a), next(b), next(iter(p)), attempt(lambda: next(a))])(*map(iter, p.fork(2))))(
            d.iter.IterableWrapper(range(3))),
    "one fork": lambda t, d: (lambda p: p.fork(1) is p)(d.iter.IterableWrapper(range(3))),
    "copies": lambda t, d: [
        [x is y for x, y in zip(*d.iter.IterableWrapper([[1], [2]]).fork(2, copy=how), strict=True)]
        for how in (None, "shallow", "deep")
    ],
    "read ahead": lambda t, d: (lambda a, b: [attempt(lambda: [next(a) for _ in range(3)]), attempt(lambda: list(b))])(
        *map(iter, d.iter.IterableWrapper(range(9)).fork(2, buffer_size=2))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_one_pass_at_a_time(name):
    agree(lambda t: PASSES[name](t, t.utils.data.datapipes))


def test_a_new_pass_of_one_fork_tells_that_others_were_not_read():
    for m in BOTH:
        one, other = m.utils.data.datapipes.iter.IterableWrapper(range(5)).fork(2)
        late = iter(other)
        assert [next(iter(one)), next(late)] == [0, 0]
        with pytest.warns(UserWarning, match="Some child DataPipes are not exhausted"):
            assert list(one) == [0, 1, 2, 3, 4]
        with pytest.raises(RuntimeError, match="one of the ChildDataPipes of _Forker"):
            next(late)
        assert (list(other), list(one)) == ([0, 1, 2, 3, 4],) * 2


STEPS = {
    "map": (more,), "filter": (large,), "batch": (2,), "collate": (), "shuffle": (), "unbatch": (0,),
    "groupby": (more,), "sharding_filter": (), "zip": "pipe", "concat": "pipe", "mux": "pipe",
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_lengths_and_names(step):
    def code(t):
        known = t.utils.data.datapipes.iter.IterableWrapper([3, 4, 5])
        found = []
        for source in (known, own(t, __iter__=lambda s: iter([1, 2]))):
            given = (source,) if STEPS[step] == "pipe" else STEPS[step]
            made = getattr(known if STEPS[step] == "pipe" else source, step)(*given)
            try:
                found.append(len(made))
            except TypeError as error:
                found.append(str(error))
            found += [repr(made), type(made).__module__.partition(".")[2]]
        return found

    agree(code)


@pytest.mark.filterwarnings("ignore:Some child DataPipes")
def test_pipes_are_saved_within_a_pass():
    for m in BOTH:
        d = m.utils.data.datapipes
        wrapped = d.iter.IterableWrapper(range(4))
        forks = wrapped.fork(2)
        for pipe in (wrapped.map(more), wrapped.shuffle().set_shuffle(False), wrapped.batch(2), *forks,
                     wrapped.demux(2, classifier_fn=odd)[1]):  # fmt: skip
            next(iter(pipe))
            again = pickle.loads(pickle.dumps(pipe))
            assert list(again) == list(iter(again)) != []
        for pipe in (d.map.SequenceWrapper("ab").map(str.upper), d.map.SequenceWrapper("ab").batch(1)):
            assert pickle.loads(pickle.dumps(pipe))[1] == pipe[1]


def odd(x):
    return x % 2


def names(graph):
    return sorted((repr(pipe), names(inner)) for pipe, inner in graph.values())


class Method:
    def __init__(self, pipe):
        self.pipe = pipe

    def add(self, x):
        return x + 1


GRAPHS = {
    "chain": lambda d: d.iter.IterableWrapper([1]).map(more).batch(2),
    "forks": lambda d: (lambda a, b: a.map(more).mux(b))(*d.iter.IterableWrapper([1]).fork(2)),
    "within": lambda d: d.iter.IterableWrapper([1]).map(functools.partial(add, d.iter.IterableWrapper([[2]]).batch(1))),
    "method": lambda d: d.iter.IterableWrapper([1]).map(Method([{"a": d.map.SequenceWrapper([1])}]).add),
    "indices": lambda d: d.map.SequenceWrapper([1, 2]).zip(d.map.SequenceWrapper([3])).shuffle(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name):
    def code(t):
        module = importlib.import_module(f"{t.__name__}.utils.data.graph")
        pipe = GRAPHS[name](t.utils.data.datapipes)
        graph = module.traverse_dps(pipe)
        pipes = t.utils.data.graph_settings.get_all_graph_pipes(graph)
        return names(graph), len(pipes)

    agree(code)


def test_a_pass_is_taken_up_where_it_was_left():
    def code(t):
        snapshot = importlib.import_module(f"{t.__name__}.utils.data.datapipes.utils.snapshot")
        pipe = t.utils.data.datapipes.iter.IterableWrapper(range(9)).shuffle().set_shuffle(True)
        snapshot._simple_graph_snapshot_restoration(pipe, 3, t.Generator().manual_seed(1))
        return list(pipe), pipe._number_of_samples_yielded, attempt(
            lambda: snapshot._simple_graph_snapshot_restoration(pipe, 10)
        )[0]  # fmt: skip

    agree(code)


@pytest.mark.parametrize("step", ["map", "filter"])
def test_functions_that_cannot_be_saved(step):
    for m in BOTH:
        source = m.utils.data.datapipes.iter.IterableWrapper([1])
        with pytest.warns(UserWarning, match="Local function is not supported by pickle"):
            getattr(source, step)(lambda x: True)
        with pytest.raises(TypeError, match="callable function is expected"):
            getattr(source, step)(3)


def test_open_files_are_closed_with_their_wrapper():
    for m in BOTH:
        common = importlib.import_module(f"{m.__name__}.utils.data.datapipes.utils.common")
        file = io.StringIO("text")
        held = common.StreamWrapper(file)
        assert (held.read(2), repr(held), "getvalue" in dir(held)) == ("te", f"StreamWrapper<{file!r}>", True)
        del held
        assert file.closed


def test_indexed():
    for m in BOTH:
        pipe = m.utils.data.datapipes.map.SequenceWrapper([1, 2, 3]).map(more)
        assert (len(pipe), pipe[2]) == (3, 4)


def begun(self, source, k=2):
    self.source, self.k = source, k


def multiplied(self):
    return (x * self.k for x in self.source)


class OursTimes(torchlike.utils.data.IterDataPipe):
    __init__, __iter__ = begun, multiplied


class TheirsTimes(pytorch.utils.data.IterDataPipe):
    __init__, __iter__ = begun, multiplied


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
    "keywords": ("keyword-only", lambda t: wrap(t.utils.data.datapipes, 1).map(named)),
    "no pipe to follow": ("all inputs to be", lambda t: wrap(t.utils.data.datapipes, 1).concat([2])),
    "no pipe": ("at least one", lambda t: t.utils.data.datapipes.iter.Concater()),
    "no pipe beside": ("are required to be", lambda t: wrap(t.utils.data.datapipes, 1).zip([2])),
    "kind of copies": ("Unknown copy method", lambda t: wrap(t.utils.data.datapipes, 1).fork(2, copy="x")),
    "length of divided": ("", lambda t: len(wrap(t.utils.data.datapipes, 1).demux(2, classifier_fn=large)[0])),
    "no folder": ("No such file", lambda t: list(t.utils.data.datapipes.iter.FileLister("/nothing/here"))),
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
        both = [str(tmp_path), str(tmp_path / "b.txt")]
        lists = [pipes.FileLister(both), pipes.FileLister(str(tmp_path), "*.txt", recursive=True)]
        opened = pipes.FileLister(str(tmp_path), ["*.txt", "*.csv"]).open_files("b").read_from_stream(chunk=2)
        return [sorted(str(x).replace(str(tmp_path), "") for x in p) for p in (*lists, opened)]

    agree(read)


def test_wrappers_that_are_sent_to_other_processes():
    def sent(t):
        pipes = t.utils.data.datapipes
        around = pipes.datapipe._IterDataPipeSerializationWrapper(pipes.iter.IterableWrapper([1, 2]))
        places = pipes.datapipe._MapDataPipeSerializationWrapper(pipes.map.SequenceWrapper([3, 4]))
        again = [pickle.loads(pickle.dumps(p)) for p in (around, places)]
        passes = [list(p) for p in (around, again[0], again[0])]
        lengths = [len(p) for p in (around, places, *again)]
        return passes, lengths, again[1][1], isinstance(again[1], t.utils.data.Dataset)

    agree(sent)
    without = lambda t: len(t.utils.data.datapipes.datapipe._IterDataPipeSerializationWrapper(iter([])))  # noqa: E731
    agree_error(without, match="doesn't have valid length")
