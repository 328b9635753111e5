"""Datasets, samplers and collation: what has no random order runs with torch and with torchlike."""

import collections
import sys

import numpy as np
import pytest
import torch
from agreement import agree
from data_kit import data, kit, tensors

import torchlike

NT = collections.namedtuple("NT", "a b")


# -- datasets --------------------------------------------------------------------------------------------
DATASET = {
    "TensorDataset": lambda T, D, k: (
        len(tensors(T)),
        tensors(T)[0],
        tensors(T)[-1],
        tensors(T)[1:3],
        tensors(T).tensors,
    ),
    "TensorDataset list": lambda T, D, k: tensors(T)[[0, 2]],
    "TensorDataset sizes": lambda T, D, k: D.TensorDataset(T.zeros(3), T.zeros(2)),
    "Dataset": lambda T, D, k: D.Dataset()[0],
    "Dataset len": lambda T, D, k: len(D.Dataset()),
    "IterableDataset": lambda T, D, k: D.IterableDataset(),
    "generic": lambda T, D, k: isinstance(tensors(T), D.Dataset) and D.Dataset[int] is not None,
    "add": lambda T, D, k: (type(tensors(T) + tensors(T)), (tensors(T) + tensors(T))[4]),
    "Stack": lambda T, D, k: (lambda s: (len(s), s[0], s[-1], s.datasets[1]))(D.StackDataset(tensors(T), [1, 2, 3])),
    "Stack keywords": lambda T, D, k: (lambda s: (len(s), s[1], s.__getitems__([0, 2])))(
        D.StackDataset(a=tensors(T), b=[1, 2, 3])
    ),
    "Stack items": lambda T, D, k: D.StackDataset(tensors(T), [1, 2, 3]).__getitems__([0, 2]),
    "Stack of many": lambda T, D, k: D.StackDataset(k.Many(), [1, 2, 3, 4]).__getitems__([0, 2]),
    "Stack of short": lambda T, D, k: D.StackDataset(k.Short(), [1, 2, 3, 4]).__getitems__([0, 2]),
    "Stack sizes": lambda T, D, k: D.StackDataset(tensors(T), [1]),
    "Stack sizes by keyword": lambda T, D, k: D.StackDataset(a=tensors(T), b=[1]),
    "Stack none": lambda T, D, k: D.StackDataset(),
    "Stack both": lambda T, D, k: D.StackDataset(tensors(T), a=tensors(T)),
    "Stack beyond": lambda T, D, k: D.StackDataset([1, 2], [3, 4])[5],
    "Concat": lambda T, D, k: (lambda c: (len(c), c[0], c[3], c[-1], c[-5], c.cumulative_sizes))(
        D.ConcatDataset([tensors(T), [7, 8]])
    ),
    "Concat with empty": lambda T, D, k: (lambda c: (len(c), c[0], c[1], c[-1]))(
        D.ConcatDataset([[], [7], [], [8], []])
    ),
    "Concat below": lambda T, D, k: D.ConcatDataset([[1], [2]])[-3],
    "Concat none": lambda T, D, k: D.ConcatDataset([]),
    "Concat stream": lambda T, D, k: D.ConcatDataset([k.Stream(3)]),
    "Concat cumsum": lambda T, D, k: D.ConcatDataset.cumsum([[1], [1, 2]]),
    "Chain": lambda T, D, k: list(D.ChainDataset([k.Stream(2), k.Stream(3)])),
    "Chain add": lambda T, D, k: list(k.Stream(2) + k.Stream(1)),
    "Chain len": lambda T, D, k: (len(D.ChainDataset([k.Sized(2), k.Sized(3)])), len(D.ChainDataset([k.Stream(2)]))),
    "Chain of a list": lambda T, D, k: list(D.ChainDataset([[1]])),
    "Chain len of a list": lambda T, D, k: len(D.ChainDataset([[1]])),
    "Subset": lambda T, D, k: (lambda s: (len(s), s[0], s[-1], s[[0, 1]], s.indices))(D.Subset(tensors(T), [2, 0])),
    "Subset items": lambda T, D, k: (
        D.Subset(tensors(T), [2, 0]).__getitems__([0, 1]),
        D.Subset(k.Many(), [2, 0]).__getitems__([1]),
    ),
    "Subset beyond": lambda T, D, k: D.Subset(tensors(T), [2, 0])[5],
}


@pytest.mark.parametrize("name", DATASET)
def test_dataset(name):
    agree(lambda T: DATASET[name](T, data(T), kit(T)))


def test_concat_names_the_index_beyond():
    agree(lambda T: data(T).ConcatDataset([[1], [2]])[2], message=False)
    with pytest.raises(IndexError, match="2 in a ConcatDataset of length 2"):
        torchlike.utils.data.ConcatDataset([[1], [2]])[2]


LENGTHS = [
    [1, 2],
    [2, 2],
    [0.5, 0.5],
    [0.3, 0.3],
    [0.1, 0.1, 0.8],
    [1.5],
    [1.5, -0.5],
    [-1, 4],
    [0, 3],
    [0.0, 1.0],
    [1.0],
    [3],
    [0.999, 0.001],
    [],
    [1 / 3, 1 / 3, 1 / 3],
]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_random_split_lengths(lengths):
    agree(lambda T: [len(part) for part in data(T).random_split(tensors(T), lengths)])
    agree(lambda T: [type(part) for part in data(T).random_split(range(10), [0.33, 0.33, 0.34])])


def split(seed):
    generator = None if seed is None else torchlike.Generator().manual_seed(seed)
    return [part.indices for part in torchlike.utils.data.random_split(range(100), [30, 70], generator)]


def test_random_split_is_a_permutation_that_the_seed_decides():
    assert sorted(sum(split(None), [])) == list(range(100))
    assert split(3) == split(3) != split(4)
    torchlike.manual_seed(1)
    first = split(None)
    torchlike.manual_seed(1)
    assert split(None) == first != split(None)


# -- samplers --------------------------------------------------------------------------------------------
SAMPLER = {
    "Sequential": lambda T, D: (list(D.SequentialSampler(range(4))), len(D.SequentialSampler(range(4)))),
    "Random": lambda T, D: (lambda s: (sorted(s), len(s), s.num_samples, s.replacement))(D.RandomSampler(range(4))),
    "Random more": lambda T, D: sorted(D.RandomSampler(range(4), num_samples=8)),
    "Random some": lambda T, D: (lambda s: (len(list(s)), len(set(s)), len(s)))(
        D.RandomSampler(range(9), num_samples=4)
    ),
    "Random uneven": lambda T, D: len(list(D.RandomSampler(range(4), num_samples=10))),
    "Random replacement": lambda T, D: len(list(D.RandomSampler(range(4), replacement=True, num_samples=70))),
    "Random types": lambda T, D: {type(i) for r in (True, False) for i in D.RandomSampler(range(4), replacement=r)},
    "Random replacement 3": lambda T, D: D.RandomSampler(range(4), replacement=3),
    "Random 0": lambda T, D: D.RandomSampler(range(4), num_samples=0),
    "Random -1": lambda T, D: D.RandomSampler(range(4), num_samples=-1),
    "Random 1.5": lambda T, D: D.RandomSampler(range(4), num_samples=1.5),
    "Random empty": lambda T, D: D.RandomSampler([]),
    "Subset": lambda T, D: (sorted(D.SubsetRandomSampler([5, 7])), len(D.SubsetRandomSampler([5, 7]))),
    "Subset empty": lambda T, D: list(D.SubsetRandomSampler([])),
    "Weighted": lambda T, D: (lambda s: (list(s), len(s), s.weights))(D.WeightedRandomSampler([0, 1.0, 0], 5)),
    "Weighted without": lambda T, D: sorted(D.WeightedRandomSampler([0.1, 0.9, 0.5], 3, replacement=False)),
    "Weighted tensor": lambda T, D: list(D.WeightedRandomSampler(T.tensor([0, 0, 2]), 3)),
    "Weighted 0": lambda T, D: D.WeightedRandomSampler([1], 0),
    "Weighted True": lambda T, D: D.WeightedRandomSampler([1], True),
    "Weighted 3": lambda T, D: D.WeightedRandomSampler([1], 2, replacement=3),
    "Weighted 2d": lambda T, D: D.WeightedRandomSampler([[1.0]], 2),
    "Weighted too many": lambda T, D: list(D.WeightedRandomSampler([1.0, 2.0], 3, replacement=False)),
    "Weighted negative": lambda T, D: list(D.WeightedRandomSampler([-1.0, 1], 2)),
    "Weighted zero": lambda T, D: list(D.WeightedRandomSampler([0.0, 0], 2)),
    "Weighted empty": lambda T, D: list(D.WeightedRandomSampler([], 2)),
    "Weighted inf": lambda T, D: list(D.WeightedRandomSampler([float("inf"), 1], 2)),
    "Weighted last zero": lambda T, D: list(D.WeightedRandomSampler([0.0, 1.0], 2, replacement=False)),
    "Batch": lambda T, D: (lambda s: (list(s), len(s)))(D.BatchSampler(D.SequentialSampler(range(7)), 3, False)),
    "Batch drop": lambda T, D: (lambda s: (list(s), len(s)))(D.BatchSampler(range(7), 3, True)),
    "Batch even": lambda T, D: (lambda s: (list(s), len(s)))(D.BatchSampler([3, 4, 5, 6], 2, False)),
    "Batch 0": lambda T, D: D.BatchSampler(range(3), 0, False),
    "Batch True": lambda T, D: D.BatchSampler(range(3), True, False),
    "Batch 1.5": lambda T, D: D.BatchSampler(range(3), 1.5, False),
    "Batch drop 3": lambda T, D: D.BatchSampler(range(3), 2, 3),
    "Sampler argument": lambda T, D: D.Sampler([1]),
    "Sampler len": lambda T, D: len(D.Sampler()),
    "Distributed": lambda T, D: [list(D.DistributedSampler(range(5), 2, r, shuffle=False)) for r in (0, 1)],
    "Distributed drop": lambda T, D: [
        list(D.DistributedSampler(range(5), 2, r, False, drop_last=True)) for r in (0, 1)
    ],
    "Distributed few": lambda T, D: list(D.DistributedSampler(range(1), num_replicas=4, rank=3, shuffle=False)),
    "Distributed none": lambda T, D: list(D.DistributedSampler([], num_replicas=4, rank=3, shuffle=False)),
    "Distributed sizes": lambda T, D: (lambda s: (len(s), s.total_size, s.num_samples))(
        D.DistributedSampler(range(5), 2, 0)
    ),
    "Distributed rank": lambda T, D: D.DistributedSampler(range(5), 2, 2),
}


@pytest.mark.parametrize("name", SAMPLER)
def test_sampler(name):
    agree(lambda T: SAMPLER[name](T, data(T)))


def test_sampler_errors_in_own_words():
    agree(lambda T: iter(data(T).Sampler()), message=False)
    agree(lambda T: list(data(T).RandomSampler([], num_samples=3)), message=False)
    agree(lambda T: list(data(T).WeightedRandomSampler([float("nan"), 1], 2)), message=False)
    agree(lambda T: data(T).DistributedSampler(range(5), rank=0), message=False)
    with pytest.raises(TypeError, match="'generator' must be torch.Generator, not int"):
        list(torchlike.utils.data.RandomSampler(range(3), generator=3))


def test_random_orders_are_uniform_enough():
    D = torchlike.utils.data
    generator = torchlike.Generator().manual_seed(0)
    draws = np.bincount(list(D.RandomSampler(range(4), True, 4000, generator)), minlength=4)
    weighted = np.bincount(list(D.WeightedRandomSampler([1, 0, 3], 4000, generator=generator)), minlength=3)
    firsts = [next(iter(D.RandomSampler(range(4), generator=generator))) for _ in range(400)]
    light = [next(iter(D.WeightedRandomSampler([1, 3], 1, False, generator))) for _ in range(400)]
    assert np.all(abs(draws - 1000) < 150) and weighted[1] == 0 and abs(weighted[2] - 3000) < 150
    assert np.all(abs(np.bincount(firsts, minlength=4) - 100) < 50) and abs(sum(light) - 300) < 50


def test_distributed_shuffles_agree_and_depend_on_the_epoch():
    samplers = [torchlike.utils.data.DistributedSampler(range(50), 2, r, seed=5) for r in (0, 1)]
    first = [list(s) for s in samplers]
    assert sorted(sum(first, [])) == list(range(50)) and first == [list(s) for s in samplers]
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != first[0]


# -- collation -------------------------------------------------------------------------------------------
class Words(list):
    """A list that cannot be made from an iterable."""

    def __init__(self):
        super().__init__()


def words(*items):
    w = Words()
    w.extend(items)
    return w


COLLATE = {
    "ints": lambda T: [1, 2],
    "floats": lambda T: [1.0, 2.0],
    "bools": lambda T: [True, False],
    "mixed": lambda T: [1, 2.0],
    "complex": lambda T: [1j, 2j],
    "str": lambda T: ["a", "b"],
    "bytes": lambda T: [b"a", b"b"],
    "tensors": lambda T: [T.zeros(2), T.ones(2)],
    "tensors with grad": lambda T: [T.zeros(2, requires_grad=True), T.ones(2)],
    "0-dim tensors": lambda T: [T.tensor(1), T.tensor(2)],
    "half tensors": lambda T: [T.ones(2).half(), T.zeros(2).half()],
    "bfloat16 tensors": lambda T: [T.ones(2).bfloat16()],
    "bool tensors": lambda T: [T.tensor([True]), T.tensor([False])],
    "empty tensors": lambda T: [T.zeros(0, 3), T.zeros(0, 3)],
    "non-contiguous": lambda T: [T.arange(6).reshape(2, 3).t(), T.arange(6).reshape(3, 2)],
    "parameters": lambda T: [T.nn.Parameter(T.zeros(2)), T.nn.Parameter(T.ones(2))],
    "unequal tensors": lambda T: [T.zeros(2), T.zeros(3)],
    "arrays": lambda T: [np.array([1, 2]), np.array([3, 4])],
    "0-dim arrays": lambda T: [np.array(3.0), np.array(4.0)],
    "arrays of text": lambda T: [np.array(["a"])],
    "arrays of objects": lambda T: [np.array([None])],
    "float32": lambda T: [np.float32(1), np.float32(2)],
    "int64": lambda T: [np.int64(1), np.int64(2)],
    "bool_": lambda T: [np.bool_(True)],
    "tuples": lambda T: [(1, 2.0), (3, 4.0)],
    "lists": lambda T: [[1, 2], [3, 4]],
    "dicts": lambda T: [{"a": 1, "b": [2]}, {"a": 3, "b": [4]}],
    "dict key missing": lambda T: [{"a": 1}, {"b": 1}],
    "dict key more": lambda T: [{"a": 1}, {"a": 1, "b": 2}],
    "named tuples": lambda T: [NT(1, 2), NT(3, 4)],
    "OrderedDict": lambda T: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "defaultdict": lambda T: [collections.defaultdict(int, a=1)],
    "Counter": lambda T: [collections.Counter(a=1)],
    "deque": lambda T: [collections.deque([1, 2]), collections.deque([3, 4])],
    "range": lambda T: [range(2), range(2)],
    "unequal tuples": lambda T: [(1,), (1, 2)],
    "unequal lists": lambda T: [[1], [1, 2]],
    "empty lists": lambda T: [[], []],
    "empty tuples": lambda T: [()],
    "nested": lambda T: [{"x": (T.zeros(1), [1, "a"])}, {"x": (T.ones(1), [2, "b"])}],
    "own list": lambda T: [words(1, 2), words(3, 4)],
    "None": lambda T: [None, None],
    "sets": lambda T: [{1, 2}],
    "nothing": lambda T: [],
    "array and numbers": lambda T: {"a": np.array([1]), "b": (1, "x"), "c": NT(np.zeros(1), 2)},
    "one number": lambda T: np.float32(2.5),
    "text": lambda T: "abc",
    "text array": lambda T: np.array(["a"]),
    "a tensor": lambda T: T.ones(2),
}


@pytest.mark.parametrize("name", [n for n, make in COLLATE.items() if isinstance(make(torch), list)])
def test_collate(name):
    agree(lambda T: data(T).default_collate(COLLATE[name](T)))


@pytest.mark.parametrize("name", COLLATE)
def test_convert(name):
    agree(lambda T: data(T).default_convert(COLLATE[name](T)))


def test_collate_of_what_it_cannot():
    agree(lambda T: data(T).default_collate([object()]), message=False)
    agree(lambda T: data(T).default_collate([T.tensor(1), 2]), message=False)
    with pytest.raises(
        TypeError, match="batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'obj"
    ):
        torchlike.utils.data.default_collate([object()])


def test_collate_with_functions_of_ones_own():
    def code(T):
        C = sys.modules[f"{T.__name__}.utils.data._utils.collate"]
        own = {str: lambda batch, *, collate_fn_map=None: "+".join(batch), **C.default_collate_fn_map}
        return C.collate([("a", 1), ("b", 2)], collate_fn_map=own), C.collate([[1.0], [2.0]], collate_fn_map=own)

    agree(code)


def test_collated_tensors_keep_their_history():
    x = torchlike.ones(2, requires_grad=True)
    torchlike.utils.data.default_collate([x * 2, x * 3]).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
