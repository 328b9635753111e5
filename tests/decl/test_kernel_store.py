"""Kernels in the store: found without tracing, never wrong, whatever becomes of the file."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.lru_cache import LRUCache

import torchlike as torch
from torchlike import _setup
from torchlike._core.dispatch import dispatch
from torchlike._decl import settings
from torchlike._decl.op import REGISTRY
from torchlike._executor import compiling, identity, immediate, kernels, plans, store
from torchlike._executor.kernels import CALLS, LARGE, TINY, jit

EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "traced",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowered",
    "/jax/core/compile/backend_compile_duration": "compiled",
}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty store that kernels of the test use."""
    new = store.Store(tmp_path)
    monkeypatch.setattr(kernels, "STORE", new)
    monkeypatch.setattr(plans, "STORE", new)
    yield new
    new.close()


@pytest.fixture
def counted():
    """{event: how often}, of what jax does meanwhile in this thread."""
    seen, thread = dict.fromkeys(EVENTS.values(), 0), threading.get_ident()

    def listener(event, duration, **attributes):
        if event in EVENTS and threading.get_ident() == thread:
            seen[EVENTS[event]] += 1

    jax.monitoring.register_event_duration_secs_listener(listener)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listener)


def cube(x, y=2.0):
    """What numpy runs at first."""
    return x * x * y + 1


def curve(x, y=2.0):
    """What is compiled from the first call on."""
    return x * x * y + jnp.exp(x * 0) * jnp.exp(x * 0)  # a product of powers is left to XLA


def fresh(name="curve", function=curve, donated=()):
    """The kernel as a new process would make it."""
    return jit(lambda *args: function(*args), name and ("test", name), donated)


def nothing_of(counted):
    return all(n == 0 for n in counted.values())


ARGUMENTS = {
    "an array": lambda: (jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3),),
    "a number": lambda: (jnp.ones(3, jnp.float32), 3.0),
    "a weak array": lambda: (jnp.asarray(2.0), 3),
    "a complex number": lambda: (jnp.ones(2, jnp.complex64), 1j),
    "a boolean": lambda: (jnp.ones(2, jnp.int32), True),
    "numpy": lambda: (np.arange(3), np.float32(2)),
    "none of it finite": lambda: (jnp.asarray([np.nan, np.inf, -0.0]),),
    "bfloat16": lambda: (jnp.ones(4, jnp.bfloat16), 2.0),
    "empty": lambda: (jnp.zeros((0, 3)),),
}


@pytest.mark.parametrize("function", [cube, curve], ids=["cube", "curve"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_kernel_that_was_made_is_found_without_tracing(kept, counted, name, function):
    arguments = ARGUMENTS[name]()
    first = fresh("one", function)(*arguments)
    counted.update(dict.fromkeys(counted, 0))
    again = fresh("one", function)(*arguments)
    assert nothing_of(counted)
    expected = jax.jit(function)(*arguments)
    for out in (first, again):
        assert out.aval == expected.aval and out.sharding == expected.sharding
        np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=1e-6)


def test_numbers_are_runtime_values_of_a_found_kernel(kept):
    x = jnp.ones(3)
    fresh()(x, 2.0)
    again = fresh()
    assert [float(again(x, y)[0]) for y in (2.0, 3.0, -0.5)] == [3.0, 4.0, 0.5]
    assert again._cache_size() == 1


def test_results_of_any_structure_come_back(kept):
    def many(x, pair):
        return {"a": x + 1, "b": [pair[0], None]}, (pair[1],)

    arguments = jnp.ones(2), (jnp.zeros(1), jnp.ones((2, 2), jnp.int32))
    for _ in range(2):
        out = fresh("many", many)(*arguments)
        assert jax.tree.structure(out) == jax.tree.structure(many(*arguments))
        assert [a.dtype for a in jax.tree.leaves(out)] == [a.dtype for a in jax.tree.leaves(many(*arguments))]


def test_shapes_are_answered_from_the_store(kept, counted):
    fresh().eval_shape(jnp.ones((2, 3), jnp.float32), 2.0)
    counted.update(dict.fromkeys(counted, 0))
    found = fresh().eval_shape(jax.ShapeDtypeStruct((2, 3), np.float32), 2.0)
    assert (found.shape, found.dtype, found.weak_type) == ((2, 3), np.float32, False) and nothing_of(counted)


@pytest.mark.parametrize(
    "change", ["name", "shape", "dtype", "weak", "commitment", "x64", "default dtype", "setting", "source"]
)
def test_what_a_kernel_depends_on_is_in_its_key(kept, monkeypatch, change):
    x = jnp.ones(3, jnp.float32)
    call, other = kernels.Call((x,)), kernels.Call((x,))
    miss = kernels.Miss(cube, ("test", "cube"), ())
    key = miss._key("well", call)
    assert key == kernels.Miss(cube, ("test", "cube"), ())._key("well", other)
    if change == "name":
        miss = kernels.Miss(cube, ("test", "square"), ())
    elif change in ("shape", "dtype", "weak", "commitment"):
        value = {"shape": jnp.ones(4, jnp.float32), "dtype": jnp.ones(3, jnp.float16), "weak": 1.0,
                 "commitment": jax.device_put(x, jax.devices()[0])}[change]  # fmt: skip
        other = kernels.Call((value,))
    elif change == "x64":
        monkeypatch.setattr(compiling, "trace_context", lambda: (False,))
    elif change == "default dtype":
        torch.set_default_dtype(torch.float64)
    elif change == "setting":
        monkeypatch.setitem(settings.READ, "float32_matmul_precision", "high")
    else:
        monkeypatch.setattr(identity, "_fixed", lambda: "other")
    try:
        assert miss._key("well", other) != key
    finally:
        torch.set_default_dtype(torch.float32)


def test_versions_sources_flags_and_the_processor_are_in_the_key(monkeypatch):
    before = identity._fixed.__wrapped__()
    assert identity._fixed.__wrapped__() == before
    changes = [
        (jax, "__version__", "0"), (identity, "_sources", lambda: ""), (identity, "_processor", lambda: "another"),
        (os, "environ", os.environ | {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}),
    ]  # fmt: skip
    for change in changes:
        with monkeypatch.context() as undo:
            undo.setattr(*change)
            assert identity._fixed.__wrapped__() != before


def test_a_source_of_the_same_size_and_time_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "STORE", store.Store(tmp_path / "store"))
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    files = [tmp_path / "package" / "a.py", inner / "b.py"]
    for file in files:
        file.write_text("x = 1")
    seen = [identity._sources(str(tmp_path / "package"))]
    assert identity._sources(str(tmp_path / "package")) == seen[0]
    for file in files:
        times = file.stat()
        time.sleep(0.02)  # the clock of a file system ticks
        file.write_text("x = 2")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        seen.append(identity._sources(str(tmp_path / "package")))
    (tmp_path / "package" / "c.py").write_text("")
    seen.append(identity._sources(str(tmp_path / "package")))
    assert len(set(seen)) == 4
    identity.STORE.close()


def test_what_has_no_name_is_compiled_and_not_kept(kept):
    assert float(fresh(None)(jnp.ones(()))) == 3.0
    assert float(jit(cube, ("local", lambda: 0))(jnp.ones(()))) == 3.0
    assert kept.get("anything") is None and not list(rows(kept))


def rows(kept):
    kept.close()
    if not (kept.place / store.NAME).exists():
        return []
    with contextlib.closing(sqlite3.connect(kept.place / store.NAME)) as connection:
        return connection.execute("SELECT digest, body FROM kept").fetchall()


# -- whatever becomes of the file --------------------------------------------------------------------


def value():
    return float(fresh()(jnp.full((), 3.0)))


def damage_body(file):
    connection = sqlite3.connect(file)
    connection.execute("UPDATE kept SET body = substr(body, 1, 40) || x'00' || substr(body, 42)")
    connection.commit()
    connection.close()


def another_key(file):
    """The row of one kernel stands under the digest of another."""
    connection = sqlite3.connect(file)
    body = store._closed("another key", ("nothing", "that", "can", "be loaded"))
    connection.execute("UPDATE kept SET body = ?", (body,))
    connection.commit()
    connection.close()


DAMAGE = {
    "a body": damage_body, "another key": another_key, "cut short": lambda f: os.truncate(f, f.stat().st_size // 2),
    "foreign": lambda f: f.write_bytes(b"not a database at all" * 100), "emptied": lambda f: os.truncate(f, 0),
    "another table": lambda f: sqlite3.connect(f).execute("DROP TABLE kept").connection.close(),
    "a folder": lambda f: (f.unlink(), f.mkdir()),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_store_is_no_error_and_no_wrong_kernel(kept, name):
    assert value() == 19.0
    kept.close()
    for side in ("-wal", "-shm"):
        (kept.place / (store.NAME + side)).unlink(missing_ok=True)
    DAMAGE[name](kept.place / store.NAME)
    assert value() == 19.0
    kept.close()
    assert value() == 19.0


def test_a_folder_that_cannot_be_written_is_read(kept, counted):
    value()
    kept.close()
    (kept.place / store.NAME).chmod(0o444)
    kept.place.chmod(0o555)
    try:
        counted.update(dict.fromkeys(counted, 0))
        assert value() == 19.0 and nothing_of(counted)
    finally:
        kept.place.chmod(0o755)


def test_no_folder_and_no_permission_are_no_error(monkeypatch, tmp_path):
    for place in (None, tmp_path / "file" / "below", "/proc/nowhere"):
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(kernels, "STORE", store.Store(place))
        assert value() == 19.0


def test_threads_share_a_store(kept):
    found = []

    def work(i):
        x = jnp.full((i % 4 + 1,), 2.0)
        found.append(float(fresh(f"cube {i % 3}", lambda x: x * x + i % 3)(x)[0]) - i % 3)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [4.0] * 16


SCRIPT = """
import torchlike as torch
x = torch.arange(12.0).reshape(3, 4).requires_grad_()
for i in range(3):
    (x.softmax(1) * x.tanh()).sum().backward()
print(round(float(x.grad.sum()), 4))
"""


def test_processes_share_a_store(tmp_path):
    env = os.environ | {"TORCHLIKE_CACHE": str(tmp_path), "TORCHLIKE_EXECUTION": "immediate"}
    started = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = [p.communicate()[0] for p in started]
    found.append(subprocess.run([sys.executable, "-c", SCRIPT], env=env, stdout=subprocess.PIPE, text=True).stdout)
    assert len(set(found)) == 1 and float(found[0]) and (tmp_path / store.NAME).exists()


def test_the_older_half_goes_when_there_is_too_much(kept, monkeypatch):
    monkeypatch.setattr(store, "BYTES", 1 << 16)
    monkeypatch.setattr(store, "LOOK", 8)
    for i in range(64):
        kept.put(str(i), os.urandom(4096))
    assert kept.get("63") is not None and kept.get("0") is None and len(rows(kept)) < 40


# -- levels ------------------------------------------------------------------------------------------


@pytest.fixture
def levels(monkeypatch):
    """The levels that kernels are compiled at, as they are."""
    seen, compiled = [], compiling.compiled

    def watched(found, donated, options):
        seen.append({id(kernels.QUICKLY): "quickly", id(kernels.EMITTED): "emitted"}.get(id(options), "well"))
        return compiled(found, donated, options)

    monkeypatch.setattr(compiling, "compiled", watched)
    return seen


@pytest.mark.parametrize("shape, calls, expected", [
    ((2,), 3 * CALLS, ["quickly"]), ((TINY,), CALLS - 1, ["quickly"]), ((TINY,), CALLS, ["quickly", "well"]),
    ((LARGE // 4,), 7, ["quickly"]), ((LARGE // 4,), 8, ["quickly", "well"]), ((LARGE + 1,), 2, ["well"]),
])  # fmt: skip
def test_a_kernel_is_compiled_well_once_it_is_worth_it(levels, shape, calls, expected):
    kernel, x = fresh(None), jnp.linspace(0, 1, int(np.prod(shape)), dtype=jnp.float32)
    results = [kernel(x) for _ in range(calls)]
    assert levels == expected
    np.testing.assert_allclose(results[0], results[-1], rtol=1e-6)


@pytest.mark.parametrize("function, expected", [
    (lambda x: x.T, "emitted"), (lambda x: x[:3].transpose(1, 0), "emitted"),
    (lambda x: (x.T + 1).astype(int), "emitted"), (lambda x: x.T * 2, "well"), (lambda x: x[1:], "well"),
    (lambda x: x.reshape(256, 2, -1).transpose(1, 0, 2), "well"),
])  # fmt: skip
def test_what_only_turns_data_is_compiled_by_the_emitters(levels, function, expected):
    x = jnp.arange(LARGE + 512, dtype=jnp.float32).reshape(512, -1)
    np.testing.assert_array_equal(fresh(None, function)(x), function(np.asarray(x)))
    assert levels == [expected]


@pytest.mark.parametrize("size, expected", [(4 * TINY, ["quickly", "emitted"]), (LARGE, ["emitted"])])
def test_steps_of_many_parameters_are_compiled_by_the_emitters(kept, levels, size, expected):
    p = torch.nn.Parameter(torch.ones(size))
    p.grad = torch.ones(size)
    optimizer = torch.optim.Rprop([p])
    for _ in range(CALLS):
        optimizer.step()
    assert levels[-len(expected) :] == expected


@pytest.mark.parametrize("function, expected", [
    (jax.nn.softmax, "emitted"), (jax.jit(jax.nn.log_softmax), "emitted"), (lambda x: x.at[0].add(x[1]), "emitted"),
    (lambda x: x.max(1), "well"), (jnp.exp, "well"),
])  # fmt: skip
def test_softmax_and_sums_by_index_are_compiled_by_the_emitters(levels, function, expected):
    x = jnp.linspace(-1, 1, LARGE + 512, dtype=jnp.float32).reshape(512, -1)
    np.testing.assert_allclose(fresh(None, function)(x), function(x), rtol=1e-6)
    assert levels == [expected]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("length, expected", [(4096, [0]), (32768, ["none"])])
def test_what_convolves_much_is_compiled_well_at_once(nested, length, expected):
    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1,), "SAME")

    f = jax.jit(convolve) if nested else convolve
    found = jax.make_jaxpr(f)(jnp.ones((1, 8, length)), jnp.ones((8, 8, 128)))
    options = kernels.options_for("quickly", found)
    assert [options.get("xla_backend_optimization_level", "none")] == expected


def test_a_found_kernel_changes_its_level_at_the_same_call(kept, levels):
    x = jnp.linspace(0, 1, 1000, dtype=jnp.float32)
    found = []
    for _ in range(2):
        kernel = fresh()
        found.append([np.asarray(kernel(x)).tobytes() for _ in range(CALLS + 1)])
    assert found[0] == found[1] and levels == ["quickly", "well"]


def test_arguments_are_given_up_at_every_level(kept):
    kernel = fresh("update", lambda xs: [x * 2 for x in xs], (0,))
    xs = [jnp.ones(500)]
    for i in range(CALLS + 2):
        before = xs[0]
        xs = kernel(xs)
        assert before.is_deleted(), i
    assert float(xs[0][0]) == 2.0 ** (CALLS + 2)


# -- where jax's own way is taken --------------------------------------------------------------------


def test_tracers(kept):
    kernel, x = fresh(), jnp.asarray([1.0, 2.0])
    assert jax.jit(kernel)(x).tolist() == [3.0, 9.0] and jax.vmap(kernel)(x).tolist() == [3.0, 9.0]
    assert jax.grad(lambda x: kernel(x).sum())(x).tolist() == [4.0, 8.0]
    assert "mul" in str(jax.make_jaxpr(lambda y: kernel(x) + y)(x)) and kernel(x).tolist() == [3.0, 9.0]


def test_jax_without_jit_and_with_its_debugging(kept):
    kernel = fresh("log", jnp.log)
    with jax.disable_jit():
        assert float(kernel(jnp.ones(()))) == 0.0
    jax.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            fresh("log", jnp.log)(jnp.full((), -1.0))
    finally:
        jax.config.update("jax_debug_nans", False)


def test_several_devices(tmp_path):
    script = """
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import torchlike as torch
from torchlike._executor.kernels import jit
kernel = jit(lambda x: x * 2 + 1, ("test", "two devices"))
devices = jax.devices()
x = jnp.arange(4.0)
assert kernel(x).devices() == {devices[0]}
assert kernel(jax.device_put(x, devices[1])).devices() == {devices[1]}
with jax.default_device(devices[1]):
    assert kernel(jnp.arange(4.0)).devices() == {devices[1]}
split = jax.device_put(x, NamedSharding(Mesh(devices, "i"), P("i")))
assert kernel(split).sharding == split.sharding and kernel(split).tolist() == [1, 3, 5, 7]
try:
    jit(jnp.add, ("test", "add"))(jax.device_put(x, devices[1]), jax.device_put(x, devices[0]))
except ValueError as error:
    assert "incompatible devices" in str(error)
print("done")
"""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "TORCHLIKE_CACHE": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True).stdout == "done\n"


# -- operators ---------------------------------------------------------------------------------------


def forget():
    for kernel in settings.kernels():
        kernel.reset()
    immediate._copies.clear()  # of zeros and ones, of which the first are made by numpy


CALLED = {
    "forward": lambda x: x.softmax(0), "view": lambda x: x[1:, :2] * 1, "in place": lambda x: x.clone().exp_(),
    "assigned": lambda x: x.clone().index_fill_(0, torch.tensor([0]), 2.0),
    "solved": lambda x: torch.linalg.solve(x, x), "sorted": lambda x: x.sort()[0],
    "summed": lambda x: x.sum(dtype=torch.float64), "several": lambda x: torch.linalg.qr(x)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_operators_and_their_derivatives_are_found(kept, counted, name):
    def run():
        forget()
        x = (torch.arange(16.0).reshape(4, 4).sin() + torch.eye(4)).requires_grad_()
        out = CALLED[name](x)
        out.sum().backward()
        return out.detach().numpy().tolist(), x.grad.numpy().tolist()

    with torch.set_execution("immediate"):
        first = run()
        counted.update(dict.fromkeys(counted, 0))
        assert run() == first
    assert nothing_of(counted)


def test_second_derivatives_are_found(kept, counted):
    def run():
        forget()
        x = torch.arange(4.0).requires_grad_()
        (g,) = torch.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0].numpy().tolist()

    with torch.set_execution("immediate"):
        first = run()
        counted.update(dict.fromkeys(counted, 0))
        assert run() == first
    assert nothing_of(counted)


TRANSFORMED = {
    "mapped": lambda x: torch.vmap(lambda a: a.softmax(0) * 2)(x),
    "mapped in another place": lambda x: torch.vmap(lambda a: a.cumsum(0), 1, 1)(x),
    "mapped twice": lambda x: torch.vmap(torch.vmap(torch.sin))(x),
    "a view": lambda x: torch.vmap(lambda a: a[1:3].exp())(x),
    "drawn": lambda x: torch.vmap(lambda a: torch.bernoulli(a.sigmoid()) * a, randomness="different")(x),
    "a tangent": lambda x: torch.func.jvp(lambda a: a.tanh() @ a, (x.detach(),), (x.detach(),))[1] * x,
    "a tangent of mapped": lambda x: torch.func.jvp(torch.vmap(torch.cos), (x.detach(),), (x.detach(),))[1] * x,
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_mapped_operators_and_tangents_are_found(kept, counted, name):
    def run():
        forget()
        torch.manual_seed(0)
        x = (torch.arange(16.0).reshape(4, 4).sin() + torch.eye(4)).requires_grad_()
        out = TRANSFORMED[name](x)
        out.sum().backward()
        return out.detach().numpy().tolist(), x.grad.numpy().tolist()

    with torch.set_execution("immediate"):
        first = run()
        counted.update(dict.fromkeys(counted, 0))
        assert run() == first
    assert nothing_of(counted)


def test_one_mapped_operator_is_not_taken_for_another(kept):
    x = torch.arange(9.0).reshape(3, 3).sin()
    for dims in ((0, 0), (1, 0), (0, 1), (1, 1)):
        forget()
        expected = jnp.asarray(np.cumsum(x.numpy(), 1 - dims[0]))
        expected = expected if dims[0] == dims[1] else expected.T
        np.testing.assert_allclose(torch.vmap(lambda a: a.cumsum(0), *dims)(x).numpy(), expected, rtol=1e-6)


def test_what_a_kernel_refuses_is_refused_again(kept):
    for _ in range(2):
        forget()
        with pytest.raises(RuntimeError, match="must match"):
            torch.ones(2, 3) + torch.ones(4)


def test_an_operator_of_others_is_not_kept():
    exp = REGISTRY["exp"]
    assert exp.identity() == ("op", "exp") and exp.inplace.identity() == ("inplace", ("op", "exp"))
    other = torch.library.custom_op(
        "kernelstore::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    assert other(torch.ones(2)).tolist() == [2.0, 2.0]


# -- bounds ------------------------------------------------------------------------------------------


def test_kernels_used_longest_ago_are_dropped(monkeypatch):
    monkeypatch.setattr(kernels, "_CACHE", compiling.cache(4))
    kernel = fresh(None)
    used = jnp.ones(2)
    for n in range(3, 40):
        assert kernel(jnp.ones(n)).shape == (n,) and float(kernel(used)[0]) == 3.0
    assert kernel._cache_size() <= 4


def test_a_kernel_in_use_stays_while_others_are_counted(monkeypatch, levels):
    monkeypatch.setattr(kernels, "COUNTED", 8)
    kernel, used = fresh(None), jnp.ones(1000)
    for n in range(40):
        assert kernel(jnp.ones(1001 + n)).shape == (1001 + n,) and float(kernel(used)[0]) == 3.0
    assert levels == ["quickly"] * 41


def test_plans_made_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(dispatch, "PLANS", 8)
    for n in range(1, 30):
        x = torch.ones(n, requires_grad=True)
        x.tanh().sum().backward()
        assert x.grad.shape == (n,)
    assert len(REGISTRY["tanh"].plans) <= 8


def test_zeros_and_ones_are_the_same_however_they_are_made():
    for make, number in ((immediate.zeros, 0), (immediate.ones, 1)):
        found = [make((2, 3), np.dtype(np.float32)) for _ in range(immediate.COPIES + 2)]
        assert all(a.tolist() == [[number] * 3] * 2 and not a.weak_type and not a._committed for a in found)
        assert len({a.aval for a in found}) == len({a.sharding for a in found}) == 1
        assert jax.make_jaxpr(lambda make=make: make((2,), np.dtype(np.int32)))().out_avals[0].shape == (2,)


# -- jax's own entries, of whole programs ----------------------------------------------------------------
@pytest.fixture
def entries(tmp_path):
    """What jax opens for torchlike's folder."""
    return _setup._whole_entries(lambda path: (LRUCache(path, max_size=-1), path), str(tmp_path))(str(tmp_path))[0]


def test_entries_are_read_whole_or_not_at_all(entries):
    value, seen = bytes(50_000_000), []
    writer = threading.Thread(target=lambda: entries.put("program", value))
    writer.start()
    while not (seen and seen[-1]):
        seen.append(len(entries.get("program") or b""))
    writer.join()
    assert set(seen) <= {0, len(value)}


def test_a_damaged_entry_is_replaced_and_nothing_else_is_left(entries, tmp_path):
    entries.put("program", b"a part")
    entries.put("program", b"the whole")
    assert entries.get("program") == b"the whole"
    assert [file.is_file() for file in tmp_path.iterdir()] == [True]


def test_folders_and_limits_of_the_user_are_left_to_jax(tmp_path):
    limited, own = LRUCache(str(tmp_path), max_size=1000), LRUCache(str(tmp_path), max_size=-1)
    assert "put" not in vars(_setup._whole_entries(lambda path: (limited, path), "f")("f")[0])
    assert "put" not in vars(_setup._whole_entries(lambda path: (own, path), "f")("g")[0])
    assert _setup._whole_entries(lambda path: None, "f")("f") is None


def test_jax_opens_its_entries_that_way(tmp_path):
    program = "import torchlike, jax; from jax._src import compilation_cache as c; jax.jit(lambda x: x + 1)(1.0); "
    program += "print('put' in vars(c._cache))"
    environment = {**os.environ, "TORCHLIKE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_what_is_traced_for_shapes_is_not_traced_again(monkeypatch):
    monkeypatch.setattr(kernels, "STORE", store.Store(None))
    traced = []

    def function(x):
        traced.append(x.shape)
        return jnp.dot(x, x), x[1:].astype(np.int32)

    kernel = jit(function, ("a test of shapes",))
    x = jnp.arange(3, dtype=np.float32)

    def shapes(n):
        found = kernel.eval_shape(jax.ShapeDtypeStruct((n,), np.float32))
        assert [(s.shape, s.dtype) for s in found] == [((), np.float32), ((n - 1,), np.int32)]

    shapes(3)
    assert [v.tolist() for v in kernel(x)] == [5.0, [1, 2]] and traced == [(3,)]  # compiled from it
    shapes(3)
    assert traced == [(3,)]  # known from the call
    shapes(4)
    assert kernel(jnp.ones(5, np.float32))[0].item() == 5 and traced == [(3,), (4,), (5,)]
    shapes(6)
    with jax.default_matmul_precision("float32"):
        assert kernel(jnp.ones(6, np.float32))[0].item() == 6 and traced[-2:] == [(6,)] * 2  # another setting


def test_few_kernels_wait_for_being_compiled(monkeypatch):
    monkeypatch.setattr(kernels, "TRACED", 3)
    monkeypatch.setattr(kernels, "STORE", store.Store(None))
    for i in range(5):
        jit(lambda x: x + 1, ("a test of waiting", i)).eval_shape(jax.ShapeDtypeStruct((2,), np.float32))
    assert len(kernels._TRACED) <= 3
