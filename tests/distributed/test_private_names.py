"""Private names of PyTorch's distributed module that published programs use, in a group of one process."""

import importlib
from datetime import timedelta

import pytest
from both import agree
from group_kit import alone
from story_kit import said

import torchlike


def into(t, name, d):
    out = t.zeros(4)
    return getattr(d, name)(out, t.arange(4.0)), out.tolist()


def through(t, c, value):
    data, size = c._object_to_tensor(value, t.device("cpu"), None)
    return data.dtype is t.uint8, data.numel() == size.item(), c._tensor_to_object(data, size, None)


def about(world, whole):
    backend, store = world.pg_map[whole]
    store.set("key", "value")
    return (
        world.default_pg is whole, backend, store.get("key"), list(world.pg_group_ranks.values()), world.group_count,
        list(world.pg_backend_config.values()), world.tags_to_pg["ptd:0"] == [whole], world.pg_to_tag[whole],
        world.pg_coalesce_state, world.comms, world.pg_names[whole] in repr(world.pg_names), len(world.pg_config_info),
    )  # fmt: skip


CALLS = {
    "gathered": lambda t, c: (into(t, "_all_gather_base", c), into(t, "_all_gather_base", t.distributed)),
    "reduced": lambda t, c: (into(t, "_reduce_scatter_base", c), into(t, "_reduce_scatter_base", t.distributed)),
    "timeout": lambda t, c: c._set_pg_timeout(timedelta(seconds=5), t.distributed.group.WORLD),
    "timeout of all": lambda t, c: c._set_pg_timeout(timedelta(seconds=5)),
    "object": lambda t, c: through(t, c, {"a": [1, 2.5]}),
    "one or many": lambda t, c: (list(c._as_iterable([1])), list(c._as_iterable(1))),
    "rank": lambda t, c: [c._canonicalize_group_rank(t.distributed.group.WORLD, *x) for x in ((0,), (None, 0, True))],
    "rank twice": lambda t, c: c._canonicalize_group_rank(t.distributed.group.WORLD, 0, 0),
    "no rank": lambda t, c: c._canonicalize_group_rank(t.distributed.group.WORLD),
    "world": lambda t, c: about(c._world, t.distributed.group.WORLD),
    "config": lambda t, c: [(x["pg_desc"], x["pg_size"], x["ranks"]) for x in c._get_all_pg_configs()],
    "facts": lambda t, c: (
        c._get_group_size(None),
        c._get_group_tag(t.distributed.group.WORLD),
        c._get_object_coll_device(),
        c._get_default_timeout("gloo"),
        c._find_pg_by_ranks_and_tag("x", [0]),
        c._find_pg_by_ranks_and_tag("", [0]) is t.distributed.group.WORLD,
        c._get_group_size_by_name(c._get_process_group_name(t.distributed.group.WORLD)),
    ),
    "timeout of what is no group": lambda t, c: c._set_pg_timeout(timedelta(seconds=5), "x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    agree(lambda t: alone(t, CALLS[name]))


def test_a_timeout_counts_from_then_on():
    def call(t, c):
        c._set_pg_timeout(timedelta(seconds=5))
        return c.found(None).seconds()

    assert alone(torchlike, call)[0] == 5
    with pytest.raises(TypeError, match="incompatible function arguments: timeout is a timedelta, not int"):
        torchlike.distributed.distributed_c10d._set_pg_timeout(5)


def test_schedules_have_one_base():
    def names(t):
        schedules = importlib.import_module(f"{t.__name__}.distributed.pipelining.schedules")
        kinds = [schedules.PipelineScheduleSingle, schedules.PipelineScheduleMulti]
        return [issubclass(kind, schedules._PipelineSchedule) for kind in kinds]

    agree(names)


KEYS = ["c10d.scatter_", "c10d.broadcast_", "c10d_functional.wait_tensor", "_c10d_functional._wrap_tensor_autograd"]


@pytest.mark.parametrize("name", KEYS)
def test_operators_that_tables_of_subclasses_name(name):
    def found(t):
        importlib.import_module(f"{t.__name__}.distributed._functional_collectives")
        space, operator = name.split(".")
        overload = getattr(getattr(t.ops, space), operator).default
        return str(overload), {overload: 1}[getattr(getattr(t.ops, space), operator).default]

    agree(found)


def test_collectives_do_not_go_through_the_dispatcher():
    with pytest.raises(NotImplementedError, match=r"torch\.ops\.c10d\.send: .*call the function of torch\.distributed"):
        torchlike.ops.c10d.send([torchlike.ones(1)])
    with pytest.raises(AttributeError, match="'c10d' object has no attribute 'sned'"):
        torchlike.ops.c10d.sned  # noqa: B018
    x = torchlike.ones(2, requires_grad=True)
    torchlike.ops._c10d_functional._wrap_tensor_autograd(x).sum().backward()
    assert x.grad.tolist() == [1, 1]


def applied(t):
    """A function that changes modules in place, and one for each way not to."""
    home = f"{t.__name__}.distributed._composable"
    composable, contracts = importlib.import_module(home), importlib.import_module(f"{home}.contract")
    state = importlib.import_module(f"{t.__name__}.distributed._composable_state")

    class Kept(state._State):
        pass

    @composable.contract(state_cls=Kept)
    def scaled(module, by=1):
        scaled.state(module).by = by

    @composable.contract()
    def renamed(module):
        module.extra = t.nn.Parameter(t.ones(1))
        return module

    @composable.contract()
    def buffered(module):
        module.register_buffer("extra", t.ones(1))
        return module

    @composable.contract()
    def nested(module):
        module.add_module("extra", t.nn.Tanh())
        return module

    model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh())
    asked = (
        lambda: scaled(model, by=3) is model, lambda: (type(scaled.state(model)).__name__, scaled.state(model).by),
        lambda: scaled.state(model[0]), lambda: scaled(model), lambda: renamed(t.nn.Linear(1, 1)),
        lambda: buffered(t.nn.Linear(1, 1)), lambda: nested(t.nn.Linear(1, 1)), lambda: scaled(3),
        lambda: [len(x) for x in [scaled([t.nn.Linear(1, 1), t.nn.Tanh()])]], lambda: list(model.state_dict()),
        lambda: (list(composable._get_registry(model)), composable._get_registry(model[0])),
        lambda: [type(m).__name__ for m in contracts._get_root_modules([model, model[0], t.nn.Tanh()])],
        lambda: state._get_module_state(model), lambda: state._insert_module_state(model, kept),
        lambda: state._get_module_state(model) is kept, lambda: state._insert_module_state(model, kept),
    )  # fmt: skip
    kept = state._State()
    return [said(f) for f in asked]


def test_functions_that_change_modules():
    agree(applied)


def test_checkpointed_in_place():
    def trained(t):
        checkpoint = importlib.import_module(f"{t.__name__}.distributed._composable").checkpoint
        seen, model = [], t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh())
        with t.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        checkpoint(model)
        model[0].register_forward_hook(lambda *args: seen.append(t.is_grad_enabled()))
        model(t.arange(2.0)[None]).sum().backward()
        again = said(lambda: checkpoint(model)), said(lambda: checkpoint(t.nn.Tanh(), use_reentrant=True))
        return len(seen), list(model.state_dict()), type(model).__name__, model[0].weight.grad, again

    agree(trained)


def filled(t, count, size):
    return [t.full((size,), 9.0) for _ in range(count)]


def into_one(t, name, size, given):
    out = t.full((size,), 9.0)
    getattr(t.distributed, name)(out, given)
    return out


def into_many(t, name, size, given):
    out = filled(t, 4, size)
    getattr(t.distributed, name)(out, given)
    return out


def changed(t, name, *given):
    x = t.arange(3.0)
    getattr(t.distributed, name)(x, *given)
    return x


def objects(t):
    found = [None] * 4
    t.distributed.all_gather_object(found, {"a": 1})
    return found


def groups(t):
    d = t.distributed
    made = [d.new_group([0, 1]), d.new_group([2, 3])]
    return [(d.get_rank(g), d.get_world_size(g), d.get_process_group_ranks(g)) for g in made]


FAKES = {
    "facts": lambda t: (t.distributed.get_rank(), t.distributed.get_world_size(), t.distributed.get_backend()),
    "all_reduce": lambda t: changed(t, "all_reduce"),
    "broadcast": lambda t: changed(t, "broadcast", 0),
    "reduce": lambda t: changed(t, "reduce", 0),
    "scatter": lambda t: changed(t, "scatter", None, 0),
    "recv": lambda t: changed(t, "recv", 0),
    "send": lambda t: changed(t, "send", 0),
    "all_gather": lambda t: into_many(t, "all_gather", 2, t.arange(2.0)),
    "all_to_all": lambda t: into_many(t, "all_to_all", 1, [t.full((1,), float(i)) for i in range(4)]),
    "all_gather_into_tensor": lambda t: into_one(t, "all_gather_into_tensor", 8, t.arange(2.0)),
    "reduce_scatter_tensor": lambda t: into_one(t, "reduce_scatter_tensor", 2, t.arange(8.0)),
    "reduce_scatter": lambda t: into_one(t, "reduce_scatter", 2, [t.arange(2.0) + i for i in range(4)]),
    "all_to_all_single": lambda t: into_one(t, "all_to_all_single", 4, t.arange(4.0)),
    "barrier": lambda t: t.distributed.barrier(),
    "objects": objects,
    "groups": groups,
}


def test_processes_that_are_not_there():
    def run(t):
        fakes = importlib.import_module(f"{t.__name__}.testing._internal.distributed.fake_pg")
        t.distributed.init_process_group("fake", rank=1, world_size=4, store=fakes.FakeStore())
        try:
            kind = isinstance(t.distributed.group.WORLD, fakes.FakeProcessGroup)
            return kind if t is torchlike else True, {name: said(lambda f=f: f(t)) for name, f in FAKES.items()}
        finally:
            t.distributed.destroy_process_group()

    agree(run)
