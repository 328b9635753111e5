"""DataLoader: what has no random order runs with torch and with torchlike."""

import pytest
from agreement import agree
from data_kit import data, kit, tensors
from story_kit import warned

import torchlike


# -- the loader ------------------------------------------------------------------------------------------
def listed(loader):
    return list(loader), len(loader)


LOADER = {
    "default": lambda T, L, k: listed(L(tensors(T))),
    "batches": lambda T, L, k: listed(L(tensors(T, 5), 2)),
    "drop": lambda T, L, k: listed(L(tensors(T, 5), 2, drop_last=True)),
    "single": lambda T, L, k: listed(L(tensors(T), None)),
    "list": lambda T, L, k: listed(L([1, 2, 3], 2)),
    "tensor": lambda T, L, k: listed(L(T.arange(5), 2)),
    "dict": lambda T, L, k: listed(L({0: 1, 1: 2}, 2)),
    "empty": lambda T, L, k: listed(L([])),
    "collate": lambda T, L, k: listed(L([1, 2, 3], 2, collate_fn=lambda b: b)),
    "collate single": lambda T, L, k: listed(L([1, 2, 3], None, collate_fn=lambda b: [b])),
    "sampler": lambda T, L, k: listed(L([1, 2, 3], 2, sampler=[2, 0, 1])),
    "sampler of tensors": lambda T, L, k: listed(L(tensors(T), 2, sampler=T.tensor([2, 0, 1]))),
    "batch_sampler": lambda T, L, k: listed(L(tensors(T), batch_sampler=[[0], [1, 2]])),
    "subset": lambda T, L, k: listed(L(data(T).Subset(data(T).Subset(tensors(T, 5), [4, 1, 0]), [2, 0]), 2)),
    "stack": lambda T, L, k: listed(L(data(T).StackDataset(a=tensors(T), b=[1, 2, 3]), 2)),
    "stream": lambda T, L, k: list(L(k.Stream(5), 2)),
    "stream drop": lambda T, L, k: list(L(k.Stream(5), 2, drop_last=True)),
    "stream single": lambda T, L, k: list(L(k.Stream(3), None)),
    "stream empty": lambda T, L, k: list(L(k.Stream(0), 2)),
    "stream len": lambda T, L, k: (
        [len(L(k.Sized(5), *a)) for a in ((2,), (None,), (5,))] + [len(L(k.Sized(5), 2, drop_last=True))]
    ),
    "stream without len": lambda T, L, k: len(L(k.Stream(5), 2)),
    "stream longer": lambda T, L, k: list(L(k.Wrong(4), None)),
    "shuffle": lambda T, L, k: sorted(int(v) for v in L(T.arange(9), shuffle=True)),
    "shuffle batches": lambda T, L, k: sorted(i for b in L(list(range(9)), 4, shuffle=True) for i in b.tolist()),
    "shuffle empty": lambda T, L, k: L([], shuffle=True),
    "many": lambda T, L, k: (list(L(k.Many(), 3)), k.Many.asked),
    "error": lambda T, L, k: list(L(k.Bad())),
    "no len": lambda T, L, k: list(L(k.Endless(), sampler=[1])),
    "len without len": lambda T, L, k: len(L(k.Endless(), sampler=iter([1]))),
    "pin memory device": lambda T, L, k: list(L([1, 2], pin_memory_device="cuda")),
    "sampler kinds": lambda T, L, k: [
        type(L([1]).sampler),
        type(L([1], shuffle=True).sampler),
        type(L(k.Stream(1)).sampler),
    ],
    "batch samplers": lambda T, L, k: [
        type(L([1]).batch_sampler),
        L([1], None).batch_sampler,
        L([1], batch_sampler=[[0]]).batch_size,
    ],
    "collate functions": lambda T, L, k: [L([1], b).collate_fn.__name__ for b in (1, None)],
    "iterators": lambda T, L, k: (lambda i: (len(i), iter(i) is i, next(i), list(i), next(i, "end")))(
        iter(L([1, 2, 3], 2))
    ),
    "twice": lambda T, L, k: (lambda d: (list(d), list(d)))(L([1, 2, 3], 2)),
    "two at once": lambda T, L, k: (lambda d: list(zip(d, d, strict=True)))(L([1, 2, 3], 2)),
    "context": lambda T, L, k: L([1]).multiprocessing_context,
    "names": lambda T, L, k: (L([1], 2).num_workers, L([1], 2).prefetch_factor, L([1], 2).in_order, L([1], 2).timeout),
    "worker info": lambda T, L, k: data(T).get_worker_info(),
    "own attribute": lambda T, L, k: (lambda d: (setattr(d, "mine", 3), d.mine))(L([1])),
}
OPTIONS = [
    {"shuffle": True, "sampler": [1]},
    {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_sampler": [[1]], "shuffle": True},
    {"batch_sampler": [[1]], "drop_last": True},
    {"batch_sampler": [[1]], "sampler": [1]},
    {"batch_size": None, "drop_last": True},
    {"num_workers": -1},
    {"timeout": -1},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": 1.5},
    {"prefetch_factor": 2},
    {"persistent_workers": True},
    {"multiprocessing_context": "fork"},
    {"num_workers": 1, "prefetch_factor": -1},
    {"num_workers": "a"},
    {"num_workers": 1, "multiprocessing_context": 3},
    {"num_workers": 1, "multiprocessing_context": "zz"},
    {"drop_last": 3},
]
STREAM_OPTIONS = [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}, {"shuffle": False}]


@pytest.mark.parametrize("name", LOADER)
def test_loader(name):
    agree(lambda T: LOADER[name](T, data(T).DataLoader, kit(T)))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_loader_options(options):
    agree(lambda T: list(data(T).DataLoader([1, 2, 3], **options)))


@pytest.mark.parametrize("options", STREAM_OPTIONS, ids=str)
def test_stream_options(options):
    agree(lambda T: list(data(T).DataLoader(kit(T).Stream(3), **options)))


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_frozen_attributes(name):
    agree(lambda T: setattr(data(T).DataLoader([1, 2]), name, 3))


def test_timeout_without_workers():
    agree(lambda T: list(data(T).DataLoader([1], timeout=5)), message=False)


def test_a_stream_longer_than_it_said():
    def code(T):
        loader = data(T).DataLoader(kit(T).Wrong(4), None)
        return len(loader), list(loader)

    agree(code)
    with pytest.warns(UserWarning, match="was reported to be 2.* samples have been fetched"):
        code(torchlike)


def order(seed, **options):
    generator = None if seed is None else torchlike.Generator().manual_seed(seed)
    loader = torchlike.utils.data.DataLoader(list(range(50)), 7, shuffle=True, generator=generator, **options)
    return [b.tolist() for b in loader], [b.tolist() for b in loader]


def test_the_seed_decides_the_order():
    first, second = order(3)
    assert first != second and order(3) == (first, second)
    torchlike.manual_seed(5)
    globally = order(None)
    torchlike.manual_seed(5)
    assert order(None) == globally


def test_a_batch_of_a_tensor_dataset_is_its_collated_samples():
    D = torchlike.utils.data
    x = torchlike.arange(24.0).reshape(4, 6)[:, ::2].requires_grad_()
    dataset = D.TensorDataset(x, torchlike.arange(4).to(torchlike.int8), torchlike.ones(4, 0))
    plain = [list(t) for t in D.DataLoader(dataset, 3, collate_fn=lambda samples: D.default_collate(samples))]
    direct = [list(t) for t in D.DataLoader(dataset, 3)]
    assert repr([[t.detach() for t in b] for b in plain]) == repr([[t.detach() for t in b] for b in direct])
    direct[0][0].sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 3 + [[0.0] * 3]
    with pytest.raises(IndexError):
        list(D.DataLoader(dataset, 2, sampler=[0, 9]))


def test_pinning_without_an_accelerator_warns():
    def f(T):
        loader = data(T).DataLoader([1, 2], pin_memory=True)
        return [warned(lambda: list(loader), "pin_memory") for _ in range(2)]

    agree(f)


def stream(t, n):
    class Stream(t.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    return Stream()


def fetched(t, dataset, batches, drop_last=False):
    """What a fetcher gives until it ends, and what it says of itself."""
    kind = t.utils.data.dataloader._DatasetKind
    own = kind.Iterable if isinstance(dataset, t.utils.data.IterableDataset) else kind.Map
    fetcher, found = kind.create_fetcher(own, dataset, batches, list if batches else str, drop_last), []
    try:
        for i in range(3):
            found.append((fetcher.fetch([2 * i, 2 * i + 1] if batches else i), getattr(fetcher, "ended", None)))
    except StopIteration:
        found.append("end")
    return found, fetcher.auto_collation, fetcher.drop_last


def derived(t):
    """A loader whose iterators count, as packages derive them from PyTorch's."""
    base = t.utils.data.dataloader._BaseDataLoaderIter
    kind = t.utils.data.dataloader._DatasetKind

    class Counting(base):
        def __init__(self, loader):
            super().__init__(loader)
            self.fetcher = kind.create_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
            )

        def _next_data(self):
            return self._next_index(), self.fetcher.fetch([0, 1])

    class Loader(t.utils.data.DataLoader):
        def _get_iterator(self):
            self.check_worker_number_rationality()
            return Counting(self)

    loader = Loader([5, 6, 7], batch_size=2, collate_fn=list)
    it = iter(loader)
    first, count = next(it), it._num_yielded
    it._reset(loader)
    said = it._shared_seed, it._pg, it._pin_memory, it._pin_memory_device, it._world_size, it._rank, it._profile_name
    return first, count, list(it), said


FOR_OTHERS = {
    "batches": lambda t: fetched(t, [1, 2, 3, 4, 5, 6], True)[0][0][0],
    "batches of a stream": lambda t: fetched(t, stream(t, 3), True),
    "without the last": lambda t: fetched(t, stream(t, 3), True, True),
    "samples of a stream": lambda t: fetched(t, stream(t, 2), False),
    "derived": derived,
    "messages": lambda t: [
        str(t.utils.data._utils.worker._IterableDatasetStopIteration(3)),
        str(t.utils.data._utils.worker._ResumeIteration()),
        t.utils.data._utils.worker.ManagerWatchdog().is_alive(),
        t.utils.data._utils.HAS_NUMPY,
        t.utils.data._utils.python_exit_status,
    ],
    "pinned": lambda t: t.utils.data._utils.pin_memory.pin_memory({"a": [1, "x", (b"y", None)]}),
}


@pytest.mark.parametrize("name", FOR_OTHERS)
def test_parts_that_other_loaders_are_made_of(name):
    agree(FOR_OTHERS[name])


def test_a_deprecated_vital_sign():
    with pytest.warns(UserWarning, match="'set_vital' is deprecated"):
        assert torchlike.set_vital("Dataloader", "enabled", "True") is None
