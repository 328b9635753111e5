"""``torch.distributed`` and ``DistributedDataParallel`` with one process, as PyTorch's. tests/distributed has more."""

import contextlib
import copy
import importlib
import itertools
import threading
import warnings
from datetime import timedelta

import pytest
import torch
from both import agree
from story_kit import said, story, warned

import torchlike
from torchlike.distributed import _stores
from torchlike.distributed.pipelining import _orders
from torchlike.nn.parallel import _reducer

ENVIRONMENT = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29917"}


@pytest.fixture(autouse=True)
def no_group_is_left(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    yield
    for t in (torch, torchlike):
        if t.distributed.is_initialized():
            t.distributed.destroy_process_group()


def start(t, backend="gloo", **options):
    """The group of one process; PyTorch's through a store in memory, which opens no socket."""
    store = torch.distributed.HashStore()
    t.distributed.init_process_group(backend, **{"store": store, "rank": 0, "world_size": 1} | options)


@contextlib.contextmanager
def started(t):
    start(t)
    try:
        yield t.distributed
    finally:
        t.distributed.destroy_process_group()


# -- groups ------------------------------------------------------------------------------------------------------------


@story
def test_names_of_older_programs(t):
    with started(t) as d, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = [t.ones(2), t.zeros(3)]
        rank = d.distributed_c10d._get_global_rank(d.group.WORLD, 0)
        return rank, d._broadcast_coalesced(d.group.WORLD, x, 10, 0), [y.tolist() for y in x], str(caught[0].message)


@story
def test_one_process(t):
    before = t.distributed.is_available(), t.distributed.is_initialized(), t.distributed.group.WORLD
    with started(t) as d:
        world = d.group.WORLD
        inside = (
            d.is_initialized(), d.get_rank(), d.get_world_size(), d.get_backend(), d.barrier(), world.rank(),
            world.size(), d.get_rank(world), d.get_process_group_ranks(None), d.GroupMember.WORLD is world,
            d.is_torchelastic_launched(),
        )  # fmt: skip
        twice = said(lambda: start(t), "trying to initialize the default process group twice!")
    return before, inside, twice, t.distributed.is_initialized(), t.distributed.GroupMember.WORLD


@story
def test_other_groups(t):
    with started(t) as d:
        other = d.new_group([0])
        found = d.get_rank(other), d.get_world_size(other), d.get_backend(other), d.barrier(other)
        wrong = said(lambda: d.new_group([1]), "Rank 1 is out of range. Valid ranks are 0 to 0 .world_size=1.")
        d.destroy_process_group(other)
        gone = said(lambda: d.get_rank("x"), "is not registered, please create group"), d.is_initialized()
    return found, wrong, gone


@story
def test_questions(t):
    absent = t.distributed.get_pg_count(), t.distributed.is_ucc_available(), t.distributed.is_xccl_available()
    with started(t) as d:
        d.new_group([0])
        kinds = [d.get_default_backend_for_device(k) for k in ("cpu", "cuda", t.device("cuda:1"))]
        hooks = [int(h) for h in d.BuiltinCommHookType.__members__.values()]
        count = d.get_pg_count(), d.get_backend_config(), isinstance(d.GradBucket, type)
        wrong = (
            said(lambda: d.get_default_backend_for_device("meta"), "Default backend not registered for device : meta"),
            said(lambda: d.split_group(split_ranks=[]), "split_ranks cannot be None or empty"),
            said(lambda: d.set_debug_level(3), "set_debug_level"),
            said(lambda: d.all_gather_coalesced([], [t.ones(1)]), " output"),
            said(lambda: d.all_gather_coalesced([[]], [t.ones(1)]), r"invalid output size: .expected length 1, got 0"),
            said(lambda: d.all_gather_coalesced(t.ones(1), [t.ones(1)]), "output_tensor_lists should be a list"),
        )
    return absent, kinds, hooks, count, wrong


def test_levels_and_splits(monkeypatch):
    """PyTorch splits groups of GPUs only."""
    d = torchlike.distributed
    monkeypatch.setattr(d.distributed_c10d._groups, "level", None)
    d.set_debug_level(d.DebugLevel.INFO)
    assert d.get_debug_level() == d.DebugLevel.INFO
    d.set_debug_level_from_env()
    assert d.get_debug_level() == d.DebugLevel.OFF
    with started(torchlike):
        assert d.get_world_size(d.split_group(split_ranks=[[0]])) == 1


def metas(t, url, *numbers):
    """Where processes meet: what the store keeps, and the numbers."""
    store, *found = next(t.distributed.rendezvous(url, *numbers))
    store.set("a", "b")
    return store.get("a"), found


def test_rendezvous(tmp_path):
    agree(lambda t: meeting(t, tmp_path / t.__name__))


SCHEMES = map("own{}".format, itertools.count())  # one for each library and run: PyTorch forgets none


def meeting(t, file):
    found = metas(t, "tcp://127.0.0.1:0?rank=0&world_size=1"), metas(t, f"file://{file}", 0, 1)
    name, urls = next(SCHEMES), []
    t.distributed.register_rendezvous_handler(
        name, lambda url, **_: urls.append(url[len(name) :]) or iter([(torch.distributed.HashStore(), 0, 1)])
    )
    own = metas(t, f"{name}://x")
    t.distributed.init_process_group("gloo", init_method=f"{name}://x?a=1", rank=0, world_size=1)
    t.distributed.destroy_process_group()
    rendezvous = t.distributed.rendezvous
    return found, own, urls, (
        said(lambda: rendezvous(f"{name}://x?rank=0", 0, 1), "has node-specific arguments"),
        said(lambda: next(rendezvous("tcp://127.0.0.1:0")), "tcp:// rendezvous: rank parameter missing"),
        said(lambda: next(rendezvous("nobody://x", 0, 1)), "No rendezvous handler for nobody://"),
        said(lambda: rendezvous(3), "`url` must be a string"),
        said(lambda: t.distributed.register_rendezvous_handler("env", print), "env:// already registered"),
    )  # fmt: skip


BEFORE = {
    "get_rank": lambda d: d.get_rank(),
    "get_world_size": lambda d: d.get_world_size(),
    "get_backend": lambda d: d.get_backend(),
    "barrier": lambda d: d.barrier(),
    "new_group": lambda d: d.new_group([0]),
    "all_reduce": lambda d: d.all_reduce(torch.ones(1) if d is torch.distributed else torchlike.ones(1)),
    "destroy": lambda d: d.destroy_process_group(),
}


@pytest.mark.parametrize("name", BEFORE)
def test_without_a_group(name):
    message = "Default process group has not been initialized|Process group cannot be None"
    agree(lambda t: said(lambda: BEFORE[name](t.distributed), message))


WRONG = {
    "no environment": ({"store": None, "rank": -1}, "environment variable RANK expected, but not set"),
    "a rank": ({"store": None, "world_size": -1}, "environment variable WORLD_SIZE expected, but not set"),
    "no address": ({"store": None}, "environment variable MASTER_ADDR expected, but not set"),
    "a store and a URL": ({"init_method": "env://"}, "Cannot specify both init_method and store."),
    "a store without a rank": ({"rank": -1}, "rank must be non-negative if using store"),
    "a store without a size": ({"world_size": -1}, "world_size must be positive if using store"),
    "a URL of another kind": ({"store": None, "init_method": "foo://x"}, "No rendezvous handler for foo://"),
    "no rank": ({"store": None, "init_method": "tcp://127.0.0.1:1", "rank": -1}, "rank parameter missing"),
    "no size": ({"store": None, "init_method": "tcp://127.0.0.1:1", "world_size": -1}, "world size parameter missing"),
    "a number": ({"backend": 3}, "Backend constructor parameter must be string-ish"),
    "a backend": ({"backend": "foo"}, "Unknown backend type foo"),
    "mpi": ({"backend": "mpi"}, "Distributed package doesn't have MPI built in"),
    "a timeout": ({"timeout": 3}, "Expected timeout argument to be of type datetime.timedelta, got 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_groups_that_are_refused(name):
    options, message = WRONG[name]
    agree(lambda t: (said(lambda: start(t, **options), message), t.distributed.is_initialized()))


@pytest.mark.skipif(torchlike.cuda.is_available(), reason="there is a GPU")
def test_nccl_needs_a_gpu():
    agree(lambda t: said(lambda: start(t, "nccl"), "Distributed package doesn't have NCCL built in"))


@pytest.mark.parametrize("url", [None, "env://", "tcp://127.0.0.1:29919?rank=0&world_size=1", "file:///nowhere/at/all"])
def test_ways_to_tell_that_there_is_one(url, monkeypatch):
    """Nothing is opened."""
    for name, value in ENVIRONMENT.items() if url in (None, "env://") else ():
        monkeypatch.setenv(name, value)
    given = {"rank": 0, "world_size": 1} if url and url.startswith("file") else {}
    torchlike.distributed.init_process_group(init_method=url, timeout=timedelta(seconds=1), **given)
    assert torchlike.distributed.get_world_size() == 1 and torchlike.distributed.get_backend() == "undefined"


@pytest.mark.parametrize("how", ["arguments", "environment", "no group"])
def test_more_processes_come_before_the_first_computation(how, monkeypatch):
    for name, value in (ENVIRONMENT | {"WORLD_SIZE": "2"}).items():
        monkeypatch.setenv(name, value)
    calls = {
        "arguments": lambda: torchlike.distributed.init_process_group(rank=1, world_size=2),
        "environment": lambda: torchlike.distributed.init_process_group("gloo"),
        "no group": lambda: torchlike.nn.parallel.DistributedDataParallel(torchlike.nn.Linear(1, 1)),
    }
    torchlike.ones(1).sum().item()
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")  # on CPUs they may come later
    kind, message = {
        "no group": (ValueError, "has not been initialized.*a launcher has started 2 processes"),
    }.get(how, (RuntimeError, "with 2 processes must come before the first tensor is computed"))
    with pytest.raises(kind, match=message):
        calls[how]()
    assert not torchlike.distributed.is_initialized()


def test_a_rank_that_is_none():
    with pytest.raises(ValueError, match="Rank 1 is out of range"):
        torchlike.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=1, world_size=1)


@pytest.mark.parametrize("kind", ["HashStore", "FileStore", "PrefixStore"])
def test_stores(kind, tmp_path):
    def run(t):
        d = t.distributed
        stores = {
            "HashStore": d.HashStore,
            "FileStore": lambda: d.FileStore(str(tmp_path / t.__name__), 1),
            "PrefixStore": lambda: d.PrefixStore("p", d.HashStore()),
        }
        store = stores[kind]()
        store.set("a", "text")
        store.set("b", b"\x00\xff")
        sums = store.add("n", 2), store.add("n", 3)
        gone = store.delete_key("a"), store.check(["a"])
        late = said(lambda: store.wait(["a", "b"], timedelta(milliseconds=50)), "").partition(":")[0]
        assert late in ("DistStoreError", "RuntimeError")  # the latter of PyTorch's files
        return sums, store.get("b"), store.get("n"), gone, store.check(["b", "n"])

    agree(run)


STORES = {
    "hash": lambda t, path: t.distributed.HashStore(),
    "prefix": lambda t, path: t.distributed.PrefixStore("p", t.distributed.HashStore()),
    "tcp": lambda t, path: t.distributed.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=20)),
}


@pytest.mark.parametrize("kind", STORES)
def test_what_stores_do(kind, tmp_path):
    def run(t):
        store = STORES[kind](t, tmp_path / t.__name__)
        changed = [store.compare_set("c", *pair) for pair in (("", "x"), ("x", "y"), ("q", "z"))]
        never = store.compare_set("never", "old", "new"), store.check(["never"])
        store.append("ap", "x"), store.append("ap", b"y")
        store.multi_set(["m", "k"], ["1", b"2"])
        many = store.multi_get(["m", "k", "ap", "c"])
        store.barrier("all", 1, timedelta(seconds=5))
        store.delete_key("m")
        wrong = [said(lambda a=a: store.set(*a), "incompatible function arguments") for a in ((3, "x"), ("k", 3))]
        return changed, never, many, wrong, store.check([]), store.has_extended_api(), type(store.clone()).__name__

    agree(run)


def test_a_store_of_sockets():
    def run(t):
        d, short = t.distributed, timedelta(milliseconds=300)
        master = d.TCPStore("127.0.0.1", 0, 2, True, short, wait_for_workers=False)
        other = d.TCPStore("127.0.0.1", master.port, 2, False, short)
        other.set("a", "b")
        d.PrefixStore("p", other).set("k", b"\x00")
        found = master.get("a"), sorted(master.list_keys()), master.num_keys(), other.host, other.port == master.port
        late = said(lambda: other.get("q"), "keys: .*q"), said(lambda: master.wait(["q", "a"], short / 3), "keys: .*q")
        taken = said(lambda: d.TCPStore("127.0.0.1", master.port, 1, True), "server socket has failed to listen")
        nobody = said(lambda: d.TCPStore("127.0.0.1", 0, 2, True, short), "Timed out after .* waiting for clients. 1/2")
        far = said(lambda: d.TCPStore("127.0.0.1", 1, 2, False, short), "client socket has timed out after 300ms")
        return found, late, taken, nobody.replace("1 seconds", "0.3 seconds"), far

    agree(run)
    store = torchlike.distributed.TCPStore("127.0.0.1", 0, 1, True)
    store.set("t", "x")
    with pytest.raises(ValueError, match=r"TCPStore.add: ValueError: invalid literal for int\(\).*'x'"):
        store.add("t", 1)  # PyTorch's server ends the connection
    assert store.get("t") == b"x"


def test_a_store_that_lives_until_the_end(monkeypatch):
    store = torchlike.distributed.TCPStore("127.0.0.1", 0, 1, True)
    store.set("t", "x")
    with monkeypatch.context() as patched:
        patched.setattr(_stores.sys, "is_finalizing", lambda: True)
        store.__del__()  # modules that closing needs may be gone
    assert store.get("t") == b"x"


def test_threads_count_in_a_store_of_sockets():
    master = torchlike.distributed.TCPStore("127.0.0.1", 0, 1, True)
    stores = [master, master.clone(), master.clone()]
    threads = [threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(50)]) for s in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert master.get("n") == b"300"


# -- collectives -------------------------------------------------------------------------------------------------------


@story
def test_collectives(t):
    with started(t) as d:
        x, found, objects = t.tensor([1.0, 2.0]), [t.zeros(2)], [None]
        done = d.all_reduce(x), d.all_reduce(x, d.ReduceOp.MAX), d.broadcast(x, 0), d.reduce(x, 0)
        gathered = d.all_gather(found, x), d.all_gather_object(objects, {"a": 1}), d.broadcast_object_list([1], 0)
        work = d.all_reduce(x, async_op=True)
        return x, found, objects, done, gathered, work.wait(), work.is_completed(), d.barrier(async_op=True).wait()


COLLECTIVES = {
    "no tensor": (lambda t, d: d.all_reduce(3), "Expected parameter `tensor` of type torch.Tensor"),
    "a complex maximum": (
        lambda t, d: d.all_reduce(t.ones(2, dtype=t.complex64), op=d.ReduceOp.MAX), "on complex tensors",
    ),
    "another root": (lambda t, d: d.broadcast(t.ones(2), 1), "invalid root rank: 1"),
    "a root to reduce to": (lambda t, d: d.reduce(t.ones(2), 1), "invalid root rank: 1"),
    "too few": (lambda t, d: d.all_gather([], t.ones(2)), "invalid output tensor list .*expected length 1, got 0"),
    "too many": (lambda t, d: d.all_gather([t.ones(2)] * 2, t.ones(2)), "invalid output tensor list"),
    "a shape": (lambda t, d: d.all_gather([t.ones(3)], t.ones(2)), "invalid tensor size at index 0"),
    "a dtype": (lambda t, d: d.all_gather([t.ones(2).double()], t.ones(2)), "tensors with different dtypes"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_that_are_refused(name):
    call, message = COLLECTIVES[name]

    def run(t):
        with started(t) as d:
            return said(lambda: call(t, d), message).partition(":")[0]

    agree(run)
    with started(torchlike) as d, pytest.raises(Exception, match=message):
        call(torchlike, d)


@pytest.mark.parametrize("op, dtype", [("AVG", "int64"), ("AVG", "bool"), ("BOR", "float32"), ("BAND", "bfloat16")])
def test_operators_without_meaning(op, dtype):
    """PyTorch's gloo finds out in a thread of its own."""
    x = torchlike.ones(2, dtype=getattr(torchlike, dtype))
    with started(torchlike) as d, pytest.raises(RuntimeError, match=f"{op} needs .*, got torch.{dtype}"):
        d.all_reduce(x, getattr(d.ReduceOp, op))


def test_an_operator_in_words():
    with started(torchlike) as d, pytest.raises(TypeError, match="'op' must be torch.distributed.ReduceOp, not str"):
        d.all_reduce(torchlike.ones(2), op="sum")


@story
def test_samplers_know_the_processes(t):
    sampler = t.utils.data.DistributedSampler
    before = said(lambda: sampler(range(5)), "Default process group has not been initialized")
    with started(t):
        return before, list(sampler(range(5), shuffle=False)), sampler(range(3)).num_replicas


# -- DistributedDataParallel -------------------------------------------------------------------------------------------


def network(t):
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))
    with t.no_grad():
        for p in model.parameters():
            p.copy_(((t.arange(p.numel()) * 7 % 11 - 5) / 16).reshape(p.shape))
    return model


def inputs(t):
    return ((t.arange(12) * 5 % 9 - 4) / 8).reshape(4, 3)


def wrap(t, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return t.nn.parallel.DistributedDataParallel(model, **options)


@story
def test_what_loggers_are_told(t):
    names = (
        "module_name", "rank", "world_size", "num_parameter_tensors", "total_parameter_size_bytes", "bucket_cap_bytes",
        "broadcast_buffers", "find_unused_parameters", "gradient_as_bucket_view", "is_multi_device_module",
        "has_sync_bn", "static_graph", "comm_hook", "backend_name", "can_set_static_graph",
    )  # fmt: skip
    with started(t):
        plain, other = wrap(t, network(t)), wrap(t, network(t)[2], find_unused_parameters=True, bucket_cap_mb=1)
        other._set_static_graph()

        def hook(state: object, bucket: t.distributed.GradBucket) -> t.futures.Future[t.Tensor]:
            raise AssertionError

        other.register_comm_hook(None, hook)
        return [[m._get_ddp_logging_data().get(name) for name in names] for m in (plain, other)], other.static_graph


@story
def test_a_model(t):
    with started(t):
        model = wrap(t, network(t))
        y = model(inputs(t))
        y.pow(2).sum().backward()
        told = repr(model), list(model.state_dict()), model.device_ids, model.output_device, model.device, model.dim
        flags = model.require_backward_grad_sync, model.require_forward_param_sync, model.broadcast_buffers
        wrong = said(lambda: model.weight, "has no attribute 'weight'")
        return (
            y,
            [round(float(p.grad.abs().sum()), 2) for p in model.parameters()],
            told,
            flags,
            wrong,
            model.module[1].num_batches_tracked,
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_note(dtype):
    """Autocast and the scaler, accumulation without agreement, and steps."""

    def run(t):
        with started(t):
            model = wrap(t, network(t), gradient_as_bucket_view=True)
            optimizer, scaler = t.optim.SGD(model.parameters(), lr=0.125), t.amp.GradScaler("cpu", init_scale=256.0)
            trail = []
            for i in range(4):
                with model.no_sync() if i % 2 == 0 else contextlib.nullcontext():
                    trail.append(model.require_backward_grad_sync)
                    with t.autocast("cpu", dtype=getattr(t, dtype)):
                        loss = t.nn.functional.mse_loss(model(inputs(t)), t.ones(4, 2))
                    scaler.scale(loss / 2).backward()
                if i % 2:
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            return trail, str(y_dtype(t, model, dtype)), [round(p.sum().item(), 1) for p in model.parameters()]

    agree(run)


def y_dtype(t, model, dtype):
    with t.autocast("cpu", dtype=getattr(t, dtype)), model.join():
        return model(inputs(t)).dtype


@story
def test_containers_copies_and_modes(t):
    class Named(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.Linear(3, 2)

        def forward(self, x, *, k=1):
            return {"y": self.layer(x).shape, "others": [x * k, None]}

    with started(t):
        model = wrap(t, Named(), find_unused_parameters=True)
        other = copy.deepcopy(model)
        other.load_state_dict(model.state_dict())
        model.eval()
        with t.no_grad():
            found = model(inputs(t), k=2)
        return found, other.module is model.module, other.training, model.module.training, other(inputs(t))


def lazy(t):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return t.nn.LazyLinear(2)


MODULES = {
    "nothing to train": (lambda t: wrap(t, network(t).requires_grad_(False)), "is not needed when a module doesn't"),
    "no parameters": (lambda t: wrap(t, t.nn.Sequential()), "is not needed when a module doesn't have any"),
    "a lazy one": (lambda t: wrap(t, lazy(t)), "Modules with uninitialized parameters can't be used with"),
    "a device": (lambda t: wrap(t, network(t), device_ids=[0]), "only work with single-device.*device_ids .0."),
    "two devices": (lambda t: wrap(t, network(t), device_ids=[0, 1]), "device_ids can only be None or contain a sing"),
    "another option": (lambda t: wrap(t, network(t), wrong=1), "unexpected keyword argument 'wrong'"),
    "a hook": (lambda t: wrap(t, network(t)).register_comm_hook(None, 3), "Communication hook must be callable."),
    "no group": (lambda t: said(lambda: wrap(t, network(t), process_group=3)).partition(":")[0], ""),
    "an output device": (lambda t: wrap(t, network(t), output_device=0).output_device, ""),
    "no devices": (lambda t: wrap(t, network(t), device_ids=[]).device_ids, ""),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_and_options(name):
    call, message = MODULES[name]

    def run(t):
        with started(t):
            return said(lambda: call(t), message)

    agree(run)


@pytest.mark.parametrize("options", [{"broadcast_buffers": False}, {"check_reduction": True},
                                     {"forward_sync_buffers": False}, {}])  # fmt: skip
def test_deprecated_options(options):
    def run(t):
        with started(t):
            told = warned(lambda: t.nn.parallel.DistributedDataParallel(network(t), **options), "deprecated")
            return told, wrap(t, network(t), **options).broadcast_buffers

    agree(run)


def test_a_reduction_that_fails_ends_with_its_backward(monkeypatch):
    def fails(*args):
        raise RuntimeError("the other one is gone")

    def done_with(bucket):
        future = torchlike.futures.Future()
        future.set_result(bucket.buffer())
        return future

    with started(torchlike):
        model = wrap(torchlike, network(torchlike), find_unused_parameters=True)
        model.register_comm_hook(None, lambda _, bucket: done_with(bucket))
        for _ in range(2):  # the second forward does not say that parameters got no gradient
            with monkeypatch.context() as patched:
                patched.setattr(_reducer, "all_reduce", fails)
                with pytest.raises(RuntimeError, match="the other one is gone"):
                    model(inputs(torchlike)).sum().backward()
        model(inputs(torchlike)).sum().backward()


@pytest.mark.parametrize("name", ["mixed_precision", "delay_all_reduce_named_params"])
def test_options_that_are_not_supported(name):
    with pytest.raises(NotImplementedError, match=rf"DistributedDataParallel\({name}=\) is not supported"):
        wrap(torchlike, network(torchlike), **{name: 1})


def test_a_process_needs_no_group():
    model = wrap(torchlike, network(torchlike))
    step = torchlike.compile(lambda x: model(x).sum(), fullgraph=True)
    step(inputs(torchlike)).backward()
    assert model.process_group is None and all(p.grad is not None for p in model.parameters())


# -- pipelines ---------------------------------------------------------------------------------------------------------


def pipe(t, name="ScheduleGPipe", stages=1, parts=2, loss="mse", model=None, **options):
    """(schedule, layers, x, y) of a pipeline in one process."""
    p = importlib.import_module(f"{t.__name__}.distributed.pipelining")
    layers = [t.nn.Linear(2, 2) for _ in range(stages)] if model is None else [model]
    with t.no_grad():
        for i, w in enumerate(w for layer in layers for w in layer.parameters()):
            w.copy_(t.arange(float(w.numel())).reshape(w.shape) / 4 - i / 8)
    own = [p.PipelineStage(layer, i, stages, t.device("cpu")) for i, layer in enumerate(layers)]
    f = t.nn.functional.mse_loss if loss == "mse" else loss
    schedule = getattr(p, name)(own if stages > 1 else own[0], parts, loss_fn=f, **options)
    return schedule, layers, t.arange(8.0).reshape(4, 2), t.ones(4, 2)


def rounded(xs):
    return [[round(v, 4) for v in x.detach().flatten().tolist()] for x in xs]


SCHEDULES = (
    "ScheduleGPipe Schedule1F1B ScheduleLoopedBFS ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble "
    "ScheduleZBVZeroBubble ScheduleDualPipeV"
).split()


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_of_one_process(name):
    def run(t):
        with started(t):
            schedule, layers, x, y = pipe(t, name, 1 if name in ("ScheduleGPipe", "Schedule1F1B") else 2)
            found = []
            for _ in range(2):
                losses = []
                out = schedule.step(x, target=y, losses=losses)
                grads = [p.grad for layer in layers for p in layer.parameters()]
                found.append((rounded([out, *losses, *grads]), out.requires_grad))
            last = rounded([schedule.eval(x, target=y)]) if len(layers) == 1 else "not in PyTorch"
            return found, last, schedule.step(x, target=y, return_outputs=False)

    agree(run)


def two_outputs(t):
    class Two(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = t.nn.Linear(2, 2)

        def forward(self, a, b=None, k=1):
            return self.inner(a) * k, a if b is None else b

    schedule, _, x, y = pipe(t, model=Two(), loss=lambda out, y: (out[0] - y).sum())
    return rounded(schedule.step(x, b=x * 2, k=3, target=y))


def stepped(t, *args, n=2, loss="mse", **kwargs):
    schedule, _, x, y = pipe(t, parts=n, loss=loss)
    return schedule.step(x, *args, **kwargs)


def without_gradients(t):
    with t.no_grad():
        return stepped(t, target=t.ones(4, 2))


PIPES = {
    "two outputs": two_outputs,
    "uneven": lambda t: rounded([pipe(t)[0].step(t.ones(3, 2), target=t.ones(3, 2))]),
    "no loss": lambda t: rounded([stepped(t, loss=None)]),
    "options of the loss": lambda t: rounded(
        [stepped(t, target=t.ones(4, 2), loss=lambda o, y, w=1: ((o - y) * w).sum(), loss_kwargs={"w": 2})]
    ),
    "no target": lambda t: said(lambda: stepped(t), "loss_fn and target required for last stage"),
    "no losses": lambda t: said(lambda: stepped(t, losses=[], loss=None), "Expecting 2 losses but got 0"),
    "few rows": lambda t: said(lambda: stepped(t, n=8, target=t.ones(4, 2)), "Tensor size 4 is smaller"),
    "without gradients": lambda t: said(lambda: without_gradients(t), "step.. requires gradients to be enabled"),
    "an index": lambda t: said(
        lambda: importlib.import_module(f"{t.__name__}.distributed.pipelining").PipelineStage(
            t.nn.Linear(1, 1), 1, 1, t.device("cpu")), "Stage index 1 is out of range of 1"),
    "names": lambda t: [
        importlib.import_module(f"{t.__name__}.distributed.pipelining.schedules").get_schedule_class(n).__name__
        for n in ("gpipe", "1F1B", "Interleaved1F1B")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PIPES)
def test_pipelines(name):
    def run(t):
        with started(t):
            return PIPES[name](t)

    agree(run)


@pytest.mark.parametrize(("ranks", "stages", "parts"), [(2, 4, 4), (2, 6, 5), (3, 6, 7), (4, 8, 8), (1, 3, 2)])
def test_interleaved_orders_end(ranks, stages, parts):
    """Each rank does everything once, and nobody waits for what comes later."""
    orders = [_orders.interleaved(rank, ranks, stages, parts) for rank in range(ranks)]
    done, places = set(), [0] * ranks
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        before = len(done)
        for rank, order in enumerate(orders):
            if places[rank] < len(order):
                action = order[places[rank]]
                forth = action.kind == "F"
                needs = action._replace(stage=action.stage + (-1 if forth else 1))
                if needs in done or not 0 <= needs.stage < stages:
                    done.add(action)
                    places[rank] += 1
        assert len(done) > before
    assert len(done) == 2 * stages * parts and all(len(order) == len(set(order)) for order in orders)
