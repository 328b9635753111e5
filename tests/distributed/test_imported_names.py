"""Modules of torch.distributed that programs for many machines import, in a group of one process."""

import argparse
import importlib
import os
import signal

import pytest
from both import agree
from group_kit import alone
from story_kit import said

import torchlike


def home(t, name):
    return importlib.import_module(f"{t.__name__}.distributed.{name}")


def of(name, call):
    """A call of the module ``name`` of torch.distributed, in a group of one."""
    return lambda t, c10d: call(home(t, name), t)


def parsed(m, t, *given):
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-restarts", action=m.env, type=int, default=3)
    parser.add_argument("--needed", action=m.env, required=True)
    parser.add_argument("--standalone", action=m.check_env)
    return sorted(vars(parser.parse_args(given)).items())


def with_variables(m, t):
    os.environ |= {"PET_MAX_RESTARTS": "7", "PET_NEEDED": "yes", "PET_STANDALONE": "1"}
    try:
        return parsed(m, t), parsed(m, t, "--max-restarts", "2")
    finally:
        for name in ("PET_MAX_RESTARTS", "PET_NEEDED", "PET_STANDALONE"):
            del os.environ[name]


def renamed(m, t):
    names = {"a.b": 1, "a.c": 2, "d": 3}
    m._replace_by_prefix(names, "a.", "x.y.")
    return sorted(names.items()), said(lambda: m._replace_by_prefix(names, "a", "a"))


def freed(m, t):
    home(t, "_functional_collectives")  # which PyTorch's look for
    x = t.ones(2, 3)
    before = m._data_ptr_allocated(x)
    m._free_storage(x)
    size = x.untyped_storage().size()
    m._alloc_storage(x, t.Size((2, 3)))
    return before, size, x.fill_(2.0)


def synced(m, t):
    model = t.nn.BatchNorm1d(2)
    m._sync_module_states(model, t.distributed.group.WORLD, 1 << 20, 0, (), True)
    m._verify_param_shape_across_processes(t.distributed.group.WORLD, list(model.parameters()))
    return model.weight.detach()


def roots(m, t):
    model = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.Tanh())
    other = t.nn.ReLU()
    return [type(x).__name__ for x in m._get_root_modules([model, model[0], other])]


def staged(m, t):
    x, options = t.ones(2), (False, False)  # the others need an accelerator in PyTorch
    later, now = (m.DefaultStager(m.StagingOptions(*options, beside, False)) for beside in (True, False))
    found = later.stage({"x": x, "n": [1]}), now.stage({"x": x}), m.BlockingAsyncStager().stage({"x": x})
    later.synchronize_staging()
    x.zero_()
    kept = found[0].result(), *found[1:]
    later.close()
    waits = [s.should_synchronize_after_execute for s in (later, m.BlockingAsyncStager())]
    return kept, waits, repr(m.StagingOptions())


def saved(m, t, tmp_path, how):
    d = home(t, "checkpoint")
    stagers = home(t, "checkpoint.staging")
    stager = stagers.DefaultStager(stagers.StagingOptions(False, False, how == "later", False))
    x, y = t.arange(4.0), {"x": t.zeros(4)}
    begun = d.async_save({"x": x}, checkpoint_id=tmp_path / f"{t.__name__}-{how}", async_stager=stager)
    x.zero_() if how == "now" else None
    if how == "later":
        begun.staging_completion.result()
        begun = begun.upload_completion
    begun.result()
    d.load(y, checkpoint_id=tmp_path / f"{t.__name__}-{how}")
    stager.close()
    return y["x"]


def parameters(m, t):
    options = {"a": "1", "b": "No", "c": "x", "d": 4, "e": True}
    given = m.RendezvousParameters("c10d", "host:1", "run", 1, 4, **options)
    asked = [said(lambda k=k, f=f: f(k)) for k in "abcdef" for f in (given.get_as_bool, given.get_as_int, given.get)]
    wrong = [("", 1, 1), ("c10d", 0, 1), ("c10d", 2, 1)]
    return asked, [said(lambda w=w: m.RendezvousParameters(w[0], "", "", *w[1:])) for w in wrong]


def where(m, t):
    said_of = [said(lambda text=text: m.Std.from_str(text))[0] for text in ("0", "3", "0:1,1:2", "4", "0:x", "", "1,2")]
    result = m.RunProcsResult(failures={0: 1})
    mapped = m.to_map(m.Std.OUT, 2), m.to_map({1: m.Std.ALL}, 3)
    ended = m.SignalException("ended", signal.SIGTERM)
    package = home(t, "elastic.multiprocessing")
    return said_of, mapped, result.is_failed(), repr(m.RunProcsResult()), str(ended), ended.sigval, package.Std is m.Std


class Handler:
    name = "mine"

    def get_backend(self):
        return self.name


def registered(m, t):
    registry, other = m.RendezvousHandlerRegistry(), Handler()
    registry.register("mine", make := lambda params: other)
    registry.register("mine", make)
    given = m.RendezvousParameters("mine", "", "", 1, 1)
    first = registry.create_handler(given) is other
    other.name = "yours"
    wrong = m.RendezvousParameters("none", "", "", 1, 1)
    return first, [said(lambda p=p: registry.create_handler(p)) for p in (given, wrong)], said(
        lambda: registry.register("", make)
    )


def measured(m, t):
    seen = []

    class Kept(m.MetricHandler):
        def emit(self, data):
            seen.append((data.group_name, data.name, data.value if "duration" not in data.name else None))

    m.configure(Kept(), "mine")

    @m.prof(group="mine")
    def work(fails):
        return 1 // (not fails)

    found = work(False), said(lambda: work(True))
    m.put_metric("x", 3, "mine")
    m.put_metric("unseen", 3, "other")
    m.publish_metric("mine", "y", 4)
    return found, [(group, name.rpartition("work")[2], value) for group, name, value in seen]


def spoken(m, t):
    store = t.distributed.HashStore()
    m.barrier(store, 1, "barrier")
    with m.store_timeout(store, 5):
        inside = store.timeout.total_seconds()
    return m.synchronize(store, b"mine", 0, 1, "key", 9), inside, store.timeout.total_seconds()


def gone_round(m, t):
    cycling = m.CyclingIterator(4, lambda epoch: iter([epoch] * epoch), 1)
    return list(cycling), list(m.CyclingIterator(1, lambda epoch: iter([])))


def spec_of(m, t):
    tensor = home(t, "tensor")
    mesh = home(t, "device_mesh").init_device_mesh("cpu", (1, 1))
    cut = tensor.distribute_tensor(t.ones(4, 6), mesh, [tensor.Shard(1), tensor.Replicate()])._spec
    bare = m.DTensorSpec(mesh, (tensor.Partial(), tensor.Shard(0)))
    made = m.DTensorSpec.from_dim_map(mesh, [0, -1], [1], cut.tensor_meta)
    facts = [(s.shape, s.stride, s.ndim, s.num_shards, s.dim_map, s.num_shards_map, s.sums) for s in (cut, made)]
    return (
        facts, cut.tensor_meta, cut.placements, made.placements, cut.is_replicated(), cut.is_sharded(), bare.sums,
        said(lambda: bare.shape), said(lambda: m.DTensorSpec.from_dim_map(mesh, [0], [0]))[0], cut.mesh is mesh,
    )  # fmt: skip


def along(m, t):
    mesh, x, y = home(t, "device_mesh").init_device_mesh("cpu", (1,)), t.zeros(2), t.ones(2)
    m.mesh_scatter(x, [y + 1], mesh)
    m.mesh_broadcast(y, mesh, group_src=0)
    grid = t.arange(6.0).reshape(2, 3)
    return x, y, m.pad_tensor(grid, 0, 1), m.pad_tensor(grid, 1, 2), m.unpad_tensor(grid, 1, 1), m.pad_tensor(x, 0, 0)


def seeded(m, t):
    mesh = home(t, "device_mesh").init_device_mesh("cpu", (1,))
    t.manual_seed(1)
    first = t.rand(2)
    t.manual_seed(1)
    m.manual_seed(5, mesh)
    return m.is_rng_supported_mesh(mesh), bool((first == t.rand(2)).all())


def named(m, t):
    p, shared = t.nn.Parameter(t.ones(1)), t.nn.Linear(1, 1)
    before = m._is_fsdp_flattened(p)
    m._set_fsdp_flattened(p)
    twice = t.nn.Sequential(shared, shared)
    return (
        m.clean_tensor_name("_fsdp_wrapped_module.a._checkpoint_wrapped_module.b"), list(m.TrainingState),
        [str(s) for s in m.HandleTrainingState], before, m._is_fsdp_flattened(p), m._get_module_fsdp_state(shared),
        [name for name, _ in m._named_parameters_with_duplicates(twice)], list(m._get_param_to_fqns(twice).values()),
        m.FSDP_PREFIX, m.FSDP_WRAPPED_MODULE, m.FSDP_FLATTENED,
    )  # fmt: skip


def nested_state(t):
    return {"a": t.ones(2), "b": {"c": 1, "d": [t.zeros(1), {"e": 2}], "f": [1, 2], "t": (t.ones(1), 3)}, "h": []}


def traversed(m, t):
    found = [[], [], []]
    for told, more in zip(found, ((), (lambda x: True,), (lambda x: False,)), strict=True):
        m.traverse_state_dict(nested_state(t), lambda path, x, told=told: told.append((path, type(x).__name__)), *more)
    made, lines = {}, []
    m.set_element(made, ("x", 1, "y"), 5)
    m.print_tensor(("a", 0), t.ones(2), lines.append)
    m.print_tensor(("a",), 3, lines.append)
    asked = [m.get_element(made, *a) for a in ((("x", 1, "y"),), (("z",), 9), (("x", 5), 8), (("x", 0, "q"), 7))]
    return found, made, asked, lines


def brought(m, t):
    """State dicts that are brought together, copied, compared and made flat."""
    d, full = home(t, "tensor"), nested_state(t)
    cut = d.distribute_tensor(t.arange(4.0), d.init_device_mesh("cpu", (1,)), [d.Shard(0)])
    gathered, offloaded = m._gather_state_dict({"w": cut, **full}), m._offload_state_dict_to_cpu({"w": cut})
    made = m._create_cpu_state_dict(full)
    m._copy_state_dict(full, made)
    flat, seen = m._flatten_state_dict({"a": {"b": 1, "c": [1, 2]}, "e": {}}), []
    m._traverse_state_dict({"a": [1, {"x": 2}], "t": (3,)}, lambda path, x: seen.append((path, x)))
    return (
        gathered["w"], type(offloaded["w"]).__name__, offloaded["w"].to_local(), made, made["a"] is full["a"],
        m._check_state_dict_similarity(full, made), m._check_state_dict_similarity(full, {**made, "a": t.ones(3)}),
        said(lambda: m._copy_state_dict(full, {"a": t.ones(2)}))[0], said(lambda: m._gather_state_dict({"o": m}))[0],
        m._gather_state_dict(full, ranks_only=(1,)), flat, m._unflatten_state_dict(*flat), seen,
        m._create_cpu_state_dict(full, share_memory=True)["a"].is_shared(),
    )  # fmt: skip


def told(m, t):
    event = m.Event("n", m.EventSource.AGENT, metadata={"a": 1, "b": None})
    again = m.Event.deserialize(str(event))
    m.construct_and_record_rdzv_event("run", "message", m.NodeState.INIT)
    lost = m.RdzvEvent("n", "run", "why", "host", 1, m.NodeState.FAILED)
    return (
        event.serialize(), again == event, again.source, m.record(event), list(m.NodeState), str(m.EventSource.WORKER),
        m.RdzvEvent.deserialize(str(lost)) == lost, str(lost), type(m.get_logging_handler("console")).__name__,
    )  # fmt: skip


def fails():
    raise KeyError("key")


CALLS = {
    "packed": of("utils", lambda m, t: (m._pack_kwargs(1, 2, a=3), m._unpack_kwargs((1, 2), ("b",)))),
    "packed wrongly": of("utils", lambda m, t: said(lambda: m._unpack_kwargs((1,), ("a", "b")))),
    "cast": of("utils", lambda m, t: m._cast_forward_inputs(t.float16, t.ones(1), t.ones(1).int(), a=[t.ones(1), "x"])),
    "not cast": of("utils", lambda m, t: m._cast_forward_inputs(None, t.ones(1), a=2)),
    "applied": of("utils", lambda m, t: m._apply_to_tensors(lambda x: x + 1, {"a": (t.ones(1), 2), "b": [t.ones(1)]})),
    "moved": of("utils", lambda m, t: m._to_kwargs((t.ones(1), 2), {"a": t.ones(1)}, t.device("cpu"), False)),
    "renamed": of("utils", renamed),
    "freed": of("utils", freed),
    "synced": of("utils", synced),
    "roots": of("utils", roots),
    "arguments": of("argparse_util", lambda m, t: parsed(m, t, "--needed", "x", "--standalone")),
    "arguments of the environment": of("argparse_util", with_variables),
    "made for all": of("collective_utils", lambda m, t: (
        m.broadcast(lambda: 3, pg=t.distributed.group.WORLD), m.broadcast(4),
        m.all_gather(lambda: 5, pg=t.distributed.group.WORLD), m.all_gather(6),
        said(lambda: m.broadcast(fails, pg=t.distributed.group.WORLD))[0], said(lambda: m.all_gather(fails))[0],
        said(lambda: m.broadcast(1, success=False)),
    )),
    "logged": of("c10d_logger", lambda m, t: (
        m._exception_logger(len)([1]), m._time_logger(len)([1]), said(lambda: m._exception_logger(fails)()),
    )),
    "staged": of("checkpoint.staging", staged),
    "nested": of("checkpoint._nested_dict", lambda m, t: (
        m.unflatten_state_dict(*m.flatten_state_dict({"a": {"b": 1, "c": [{"d": 2}, 3]}, "e": [4]}))
    )),
    "traversed": of("checkpoint._traverse", traversed),
    "state dicts": of("_state_dict_utils", brought),
    "events": of("elastic.events", told),
    "rotation": of("tensor.experimental._context_parallel", lambda m, t: (
        m.set_rotate_method("alltoall"), m._cp_options.rotate_method, m.set_rotate_method("allgather"),
        said(lambda: m.set_rotate_method("ring"))[0], m.context_parallel.__name__,
    )),
    "rendezvous": of("elastic.rendezvous", parameters),
    "registry": of("elastic.rendezvous", registered),
    "metrics": of("elastic.metrics", measured),
    "stores": of("elastic.utils.store", spoken),
    "cycling": of("elastic.utils.data", gone_round),
    "macros": of("elastic.utils", lambda m, t: (
        m.macros.substitute(["--r=${local_rank}", "${other}"], "3"),
        said(lambda: m.get_env_variable_or_raise("NO_SUCH")),
    )),
    "outputs": of("elastic.multiprocessing.api", where),
    "symmetric memory": of("_symmetric_memory", lambda m, t: (
        m.is_symm_mem_enabled_for_group(t.distributed.group.WORLD.group_name)
    )),
    "spec": of("tensor._dtensor_spec", spec_of),
    "along a mesh": of("tensor._collective_utils", along),
    "seeds": of("tensor._random", seeded),
    "names": of("fsdp._common_utils", named),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    agree(lambda t: alone(t, CALLS[name])[0])


@pytest.mark.parametrize("how", ["now", "later"])
def test_checkpoints_of_staged_states(how, tmp_path):
    agree(lambda t: alone(t, lambda t, c10d: saved(None, t, tmp_path, how))[0])


def test_parts_of_checkpoints():
    def found(t):
        metadata, utils = home(t, "checkpoint.metadata"), home(t, "checkpoint.utils")
        state = {"x": t.arange(3.0), "n": 4}
        asked = [metadata.MetadataIndex("x"), metadata.MetadataIndex("n"), metadata.MetadataIndex("y")]
        return [said(lambda i=i: utils.find_state_dict_object(state, i)) for i in asked]

    agree(found)


def test_boxes_of_checkpoints():
    def found(t):
        m, chunk = home(t, "checkpoint.metadata"), lambda *place: m.ChunkStorageMetadata(*map(t.Size, place))
        saved = m.TensorStorageMetadata(
            m.TensorProperties(t.float32), t.Size((4,)), [chunk((0,), (3,)), chunk((3,), (1,))]
        )
        boxes = home(t, "checkpoint.planner_helpers").create_read_items_for_chunk_list("x", saved, [chunk((2,), (2,))])
        return [(b.dest_offsets, b.storage_offsets, b.lengths, b.storage_index.fqn) for b in boxes]

    agree(found)


def test_a_rendezvous_of_the_launcher_is_refused():
    rendezvous = home(torchlike, "elastic.rendezvous")
    given = rendezvous.RendezvousParameters("c10d", "localhost:1", "run", 1, 1)
    with pytest.raises(NotImplementedError, match="'c10d' is the launcher's own.*elastic_launch"):
        home(torchlike, "elastic.rendezvous.registry").get_rendezvous_handler(given)


@pytest.mark.parametrize("module, name, way_out", [
    ("elastic.agent.server.api", "WorkerSpec", "torch.distributed.run"),
    ("elastic.agent.server.local_elastic_agent", "LocalElasticAgent", "torch.distributed.launcher"),
    ("elastic.timer", "expires", "timeout of init_process_group"),
    ("algorithms._comm_hooks.default_hooks", "allreduce_hook", "reduce p.grad by hand"),
    ("checkpoint.optimizer", "load_sharded_optimizer_state_dict", "set_optimizer_state_dict"),
    ("checkpoint.quantized_hf_storage", "QuantizedHuggingFaceStorageReader", "HuggingFaceStorageReader"),
    ("fsdp._flat_param", "FlatParameter", "the module's own parameters"),
    ("fsdp._runtime_utils", "_lazy_init", "XLA schedules"),
    ("elastic.multiprocessing", "start_processes", "elastic_launch"),
    ("elastic.multiprocessing.api", "DefaultLogsSpecs", "elastic_launch"),
    ("checkpoint._experimental", "make_async_checkpointer", "async_save"),
    ("_symmetric_memory", "rendezvous", "collectives of torch.distributed"),
    ("tensor._ops", "pointwise_strategy", "local_map"),
])  # fmt: skip
def test_what_is_refused_by_name(module, name, way_out):
    made = getattr(home(torchlike, module), name)
    assert not isinstance(torchlike.nn.Parameter(torchlike.ones(1)), made)
    with pytest.raises(NotImplementedError, match=f"{module}.{name}: (not supported|there is no).*{way_out}"):
        made()


def test_ports():
    utils = home(torchlike, "elastic.utils.distributed")
    assert 0 < utils.get_free_port() < 1 << 16
    store = utils.create_c10d_store(True, "localhost")
    store.set("key", "value")
    assert store.get("key") == b"value"
    with pytest.raises(ValueError, match="server_port must be specified when world_size > 1"):
        utils.create_c10d_store(True, "localhost", world_size=2)
