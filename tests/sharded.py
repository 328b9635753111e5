"""Tensors and modules over eight CPUs: a script, run by ``test_sharding`` with jax told to make eight."""

import collections
import copy
import gc
import warnings

import jax
import jax.numpy as jnp
import lowering_kit  # noqa: F401 (lowering takes less time)
import numpy as np
import pytest
import small_gpt
from checks_kit import Checks

import torchlike as torch
from torchlike import sharding, viz
from torchlike._base import device as devices
from torchlike._command import plan
from torchlike._executor import hlo
from torchlike._transforms.capture.program import Program
from torchlike.optim import _group
from torchlike.sharding import PartitionSpec as P

warnings.simplefilter("error")
CHECKS = check = Checks()


def lines():
    return sharding.make_mesh(dp=8)


def grid():
    return sharding.make_mesh({"dp": 2, "tp": 4})


def numbers(*shape):
    return torch.arange(float(np.prod(shape))).reshape(*shape) / 8


def spec(t):
    return sharding.spec_of(t)


def both(f):
    """Run ``f`` in both kinds of execution."""
    for execution in ("immediate", "recorded"):
        torch.set_execution(execution)
        f()
    torch.set_execution("immediate")


@check
def operators_keep_the_layout():
    def run():
        whole = numbers(8, 16)
        x, w = whole.shard(lines(), "dp"), torch.ones(16, 4)
        for f in (
            lambda x: x + 1, lambda x: x * x, torch.relu, lambda x: x.softmax(-1), lambda x: x @ w, lambda x: x[:, 2:5],
            lambda x: x.view(8, 4, 4), lambda x: torch.where(x > 3, x, 0), torch.zeros_like, torch.ones_like,
            lambda x: torch.full_like(x, 2), torch.clone, lambda x: x.double(), copy.deepcopy,
            lambda x: x.new_zeros(8, 16),
        ):  # fmt: skip
            assert spec(f(x))[0] == "dp", f
            np.testing.assert_allclose(f(x).numpy(), f(whole).numpy(), rtol=1e-5)
        for f in (torch.rand_like, torch.randn_like, torch.empty_like):
            assert spec(f(x)) == P("dp")
        assert x.sum().item() == whole.sum().item() and repr(x) == repr(whole) and x.tolist() == whole.tolist()
        assert spec(x.t()) == P(None, "dp")

    both(run)


@check
def changes_in_place_keep_the_layout():
    def run():
        for change in (
            lambda y: y.add_(1), lambda y: y.copy_(torch.ones(8, 8)), lambda y: y.fill_(3), torch.Tensor.zero_,
            lambda y: y.__setitem__(0, 5), lambda y: y.view(64).mul_(2), lambda y: y[2:4].copy_(torch.zeros(2, 8)),
            lambda y: y.__setitem__((slice(None), 1), torch.arange(8.0)), lambda y: y.t().add_(torch.arange(8.0)),
        ):  # fmt: skip
            here, y = numbers(8, 8), numbers(8, 8).shard(lines(), "dp")
            version = y._version
            change(y), change(here)
            assert spec(y) == P("dp") and y._version > version
            assert y.tolist() == here.tolist()
        y = numbers(8, 8).shard(lines(), "dp")
        y.normal_(), y.uniform_()
        assert spec(y) == P("dp")

    both(run)


@check
def gradients_lie_like_their_leaves():
    def run():
        x, w = numbers(16, 8).shard(lines(), "dp"), numbers(8, 8)
        ws = w.shard(lines(), (None, "dp")).requires_grad_()
        w.requires_grad_()
        for _ in range(2):
            (x @ ws).square().sum().backward()
            (numbers(16, 8) @ w).square().sum().backward()
            assert spec(ws.grad) == P(None, "dp")
        np.testing.assert_allclose(ws.grad.numpy(), w.grad.numpy(), rtol=1e-5)

    both(run)


@check
def shard_carries_gradients_back():
    x = numbers(8, 4).requires_grad_()
    y = x.shard(lines(), "dp")
    assert type(y.grad_fn).__name__ == "_LaidBackward" and spec(y) == P("dp")
    (g,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    g.sum().backward()
    assert spec(x.grad) is None
    np.testing.assert_allclose(x.grad.numpy(), 6 * numbers(8, 4).numpy(), rtol=1e-6)
    z = sharding.replicate(y, lines())
    assert spec(z) == P()


@check
def what_a_tensor_was_laid_out_from_stays():
    """An optimizer's step overwrites parameters; a piece of one may be the tensor that it was made of."""

    def run():
        for compiled in (False, True):
            for spec in (None, "dp"):
                source = numbers(8) + 1
                p = torch.nn.Parameter(source.shard(lines(), spec))
                optimizer = torch.optim.AdamW([p], 0.1)

                def step(p=p, optimizer=optimizer):
                    optimizer.zero_grad()
                    (p * p).sum().backward()
                    optimizer.step()

                step, kept = torch.compile(step) if compiled else step, []
                for _ in range(3):
                    step()
                    kept.append(p.detach().shard(grid(), None))
                assert source.tolist() == (numbers(8) + 1).tolist()
                assert len({tuple(k.tolist()) for k in kept}) == 3 and kept[-1].tolist() == p.tolist()

    both(run)


@check
def a_mesh_of_two_axes():
    x = numbers(8, 8).shard(grid(), ("dp", "tp"))
    assert [s.data.shape for s in x.jax().addressable_shards] == [(4, 2)] * 8
    assert spec(x.shard(grid(), (("dp", "tp"),))) == P(("dp", "tp"))
    assert (x @ x).tolist() == (numbers(8, 8) @ numbers(8, 8)).tolist()
    with pytest.raises(ValueError, match=r"dimension 0 of the shape \[6, 8\] cannot be cut into 4 equal parts"):
        numbers(6, 8).shard(grid(), "tp")
    with pytest.raises(RuntimeError, match="on the same device"):
        x + torch.ones(8, 8, device="cpu:3")


@check
def a_model_by_rules():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16))
    parameters = [*model.parameters()]
    with pytest.raises(ValueError, match="1.weight: dimension 0"):
        torch.distribute(torch.nn.ModuleList([model, torch.nn.Linear(2, 3)]), grid(), {r"1\.weight": "tp"})
    assert all(spec(p) is None for p in parameters)
    assert torch.distribute(model, grid(), [(r"0\.weight", ("tp", "dp")), ("weight|bias", "tp")]) is model
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    assert [spec(p) for p in parameters] == [P("tp", "dp"), P("tp"), P("tp"), P("tp")]
    assert spec(model[1].running_mean) == P()
    model(numbers(4, 8).shard(grid(), "dp")).sum().backward()
    assert [spec(p.grad) for p in parameters] == [spec(p) for p in parameters]
    state = {k: v.numpy() for k, v in model.state_dict().items()}
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in state.items()})
    assert spec(model[0].weight) == P("tp", "dp")


def split_first(name, t):
    return "dp" if t.shape[0] % 8 == 0 else None


TENSOR_PARALLEL = {
    "(qkv|up).weight": ("tp",), "(qkv|up).bias": "tp", "(out|down).weight": (None, "tp"), "head|tokens": "tp"
}  # fmt: skip


@check
def losses_are_those_of_one_device():
    def specs(model, optimizer):
        for p in model.parameters():
            yield [spec(p), spec(p.grad), *[spec(v) for v in optimizer.state[p].values() if v.ndim]]

    expected = [small_gpt.trained(torch, layers=layers)[0] for layers in (0, 1)]
    for mesh, rules, layers in ((lines(), split_first, 1), (grid(), TENSOR_PARALLEL, 1), (lines(), split_first, 0)):
        losses, model, optimizer = small_gpt.trained(
            torch,
            lambda model, mesh=mesh, rules=rules: torch.distribute(model, mesh, rules),
            lambda x, mesh=mesh: x.shard(mesh, "dp"),
            compiled=layers > 0,  # blocks run eagerly in ``meshed``
            layers=layers,
        )
        np.testing.assert_allclose(losses, expected[layers], rtol=2e-6)
        assert all(len({*found}) == 1 for found in specs(model, optimizer))


@check
def each_device_holds_its_part():
    _, model, optimizer = small_gpt.trained(
        torch,
        lambda m: torch.distribute(m, lines(), split_first),
        lambda x: x.shard(lines(), "dp"),
        True,
        steps=1,
        layers=1,
    )
    held = dict.fromkeys(jax.devices(), 0)
    whole = 0
    for p in model.parameters():
        for t in (p, p.grad, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]):
            whole += t.nbytes
            for piece in t.jax().addressable_shards:
                held[piece.device] += piece.data.nbytes
    assert max(held.values()) <= 1.1 * whole / 8, (held, whole)


def collectives(lowered):
    """How many collectives of each kind the program of XLA has."""
    return by_kind(hlo.collectives(lowered.compile().as_text(), {"dp": 8}))


def by_kind(found):
    kinds = collections.Counter()
    for one, times in found.items():
        kinds[one.kind] += times
    return kinds


def program_of(step, *leaves):
    """What a compiled function runs, lowered for these arguments."""
    programs = [p for p in gc.get_objects() if isinstance(p, Program) and p.again and p.fixed]
    (program,) = [p for p in programs if any(s is step.weight._storage for s in p.fixed)]
    values = [s.value for s in program.fixed] + [leaves[i].jax() for i in program.arguments]
    grads = [h.tensor.grad.jax() for h in program.with_grad]
    return program.early.lower(*values, *grads, *program.numbers())


def layers(mesh):
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 16))
    return torch.distribute(model, mesh, lambda name, t: "dp")


@check
def a_compiled_step_has_the_collectives_of_jax():
    mesh, x = lines(), numbers(32, 16).shard(lines(), "dp")
    model = layers(mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def forward(p, x):
        h = jnp.tanh(jnp.matmul(x, p[0].T, precision="highest") + p[1])
        return jnp.square(jnp.matmul(h, p[2].T, precision="highest") + p[3] - x).mean()

    def by_hand(p, x):
        loss, g = jax.value_and_grad(forward)(p, x)
        return loss, [w - 0.1 * d for w, d in zip(p, g, strict=True)], g

    parameters = [p.detach().jax() for p in model.parameters()]
    layouts = [p.sharding for p in parameters]
    whole = jax.sharding.NamedSharding(mesh, P())
    written = jax.jit(by_hand, out_shardings=(whole, layouts, layouts)).lower(parameters, x.jax())
    step(x), step(x)
    step.weight = model[0].weight
    ours = collectives(program_of(step, x))
    assert ours == collectives(written) and sum(ours.values()) > 3, (ours, collectives(written))


@check
def a_plan_has_the_memory_and_collectives_of_the_program():
    def stepped(compile, make):
        model = layers(lines())
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        f, x = compile(step), make(32, 16).shard(lines(), "dp")
        f(x), f(x)
        f.weight = model[0].weight
        return f, x, model

    program = program_of(*stepped(torch.compile, torch.ones)[:2])
    devices.set_default_device("meta")
    try:
        f, _, model = stepped(plan.Planned, torch.empty)
    finally:
        devices.set_default_device(None)
    assert model[0].weight.is_meta and model[0].weight.grad.is_meta and f.eager is None
    found = plan._latest(plan.PLANS)[-1]
    assert by_kind(found.collectives) == collectives(program) and {c.over for c in found.collectives} == {"dp"}
    own = program.compile().memory_analysis()
    assert abs(found.memory.argument_size_in_bytes / own.argument_size_in_bytes - 1) < 0.02
    assert found.axes == {"dp": 8} and found.peak() > found.memory.temp_size_in_bytes
    plan.PLANS.clear()


@check
def a_picture_of_the_pieces():
    model = torch.distribute(torch.nn.Linear(8, 4), grid(), {"weight": ("dp", "tp")})
    picture = viz.sharding(model)
    weight, bias = picture.tensors
    assert [(p.begins, p.ends, p.devices) for p in weight.pieces][:2] == [
        ((0, 0), (2, 2), (0,)),
        ((0, 2), (2, 4), (1,)),
    ]
    assert [p.devices for p in bias.pieces] == [tuple(range(8))] and weight.spec == ("dp", "tp")
    assert picture.held == dict.fromkeys(range(8), 4 * 4 + 4 * 4) and "over 8 devices, 32 B each" in repr(picture)
    drawn = picture.svg
    assert drawn.count("<rect") == 1 + 8 + 1 and ">0-7</text>" in drawn and "weight[2:4, 6:8] on 7" in drawn
    three = viz.sharding({"x": torch.ones(2, 4, 8).shard(grid(), ("dp", None, "tp"))})
    assert len(three.tensors[0].pieces) == 8 and "cut by [dp | - | tp]" in three.svg
    everywhere = viz.sharding(torch.ones(8, 8, 8).shard(sharding.make_mesh(a=2, b=2, c=2), ("a", "b", "c")))
    assert ">0-1</text>" in everywhere.svg  # pieces behind each other
    rows = viz.sharding(torch.ones(8, 2).shard(sharding.make_mesh(dp=8), ("dp",)))
    assert all(f">{i}</text>" in rows.svg for i in range(8))  # rows that are thin still say where they are


@check
def a_compiled_step_follows_a_new_layout():
    p = torch.nn.Parameter(numbers(8, 8))

    @torch.compile
    def step(x):
        with torch.no_grad():
            p.mul_(0.5)
        return (p @ x).sum()

    p.data = p.data.shard(lines(), "dp")
    step(torch.ones(8, 8)), step(torch.ones(8, 8))
    assert spec(p) == P("dp")
    p.data = p.data.shard(lines(), (None, "dp"))
    step(torch.ones(8, 8)), step(torch.ones(8, 8))
    assert spec(p) == P(None, "dp") and p[0, 1].item() == 1 / 128


@check
def constraints_in_a_compiled_function():
    @torch.compile(fullgraph=True)
    def f(x):
        return (x * 2).shard(grid(), ("dp", "tp")).relu()

    y = f(numbers(8, 8))
    assert spec(y) == P("dp", "tp") and y.tolist() == (numbers(8, 8) * 2).tolist()


def parts_of_what_starts(compiled):
    """The shapes of all pieces of the state that an optimizer makes in its first step."""
    p = torch.nn.Parameter(sharding.shard(torch.ones(16, 24), grid(), ("dp", "tp")))
    optimizer, made, full = torch.optim.Adam([p]), [], _group.immediate.full

    def kept(*given):
        made.append(full(*given))
        return made[-1]

    def step():
        p.grad = torch.ones_like(p)
        optimizer.step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_group.immediate, "full", kept)
        (torch.compile(step) if compiled else step)()
    assert spec(optimizer.state[p]["exp_avg"]) == P("dp", "tp")
    return {piece.data.shape for x in made if x.shape == (16, 24) for piece in x.addressable_shards}


@check
def state_starts_in_parts():
    """No device ever holds the whole of what starts as zeros."""
    assert parts_of_what_starts(compiled=False) == parts_of_what_starts(compiled=True) == {(8, 6)}


@check
def arrays_of_jax_stay_where_they_are():
    """Without a device; mesh axes of either kind, in shard_map too."""
    for kind in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
        mesh = jax.make_mesh((8,), ("i",), axis_types=(kind,))
        array = jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(mesh, P("i")))
        with jax.set_mesh(mesh):
            for made in (torch.tensor, torch.as_tensor, torch.asarray):
                t = made(array)
                assert t.jax().sharding == array.sharding and (t.sin() + 1).jax().sharding.spec == P("i")
            doubled = jax.shard_map(lambda x: x * 2 + torch.ones(1), in_specs=P("i"), out_specs=P("i"))(t)
            assert doubled.tolist() == [1.0, 3, 5, 7, 9, 11, 13, 15]
            leaf = t.clone().requires_grad_()
            (leaf * leaf).sum().backward()
            assert leaf.grad.tolist() == (2 * array).tolist()
    assert torch.tensor(array, device="cpu").jax().devices() == {jax.devices()[0]}


if __name__ == "__main__":
    CHECKS.run()
