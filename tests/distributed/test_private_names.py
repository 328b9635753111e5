"""Private names of PyTorch's distributed module that published programs use, in a group of one process."""

import importlib
import warnings
from datetime import timedelta

import pytest
from both import agree
from story_kit import said

import torchlike


def alone(t, call):
    """What a call gives in a group of one, and what it warns of."""
    d = t.distributed
    c10d = importlib.import_module(f"{t.__name__}.distributed.distributed_c10d")
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = said(lambda: call(t, c10d))
        return found, [(w.category.__name__, str(w.message)) for w in told]
    finally:
        d.destroy_process_group()


def into(t, name, d):
    out = t.zeros(4)
    return getattr(d, name)(out, t.arange(4.0)), out.tolist()


CALLS = {
    "gathered": lambda t, c: (into(t, "_all_gather_base", c), into(t, "_all_gather_base", t.distributed)),
    "reduced": lambda t, c: (into(t, "_reduce_scatter_base", c), into(t, "_reduce_scatter_base", t.distributed)),
    "timeout": lambda t, c: c._set_pg_timeout(timedelta(seconds=5), t.distributed.group.WORLD),
    "timeout of all": lambda t, c: c._set_pg_timeout(timedelta(seconds=5)),
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
