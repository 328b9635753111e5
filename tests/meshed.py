"""DeviceMesh, DTensor, plans and FSDP in one process over eight CPUs: a script, run by ``test_sharding``."""

import copy
import io
import pickle
import warnings

import jax
import lowering_kit  # noqa: F401 (lowering takes less time)
import numpy as np
import pytest
import small_gpt
from checks_kit import Checks

import torchlike as torch
from torchlike.distributed import fsdp
from torchlike.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torchlike.distributed.device_mesh import DeviceMesh, init_device_mesh
from torchlike.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard, wrap
from torchlike.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
from torchlike.distributed.tensor.experimental import implicit_replication, local_map
from torchlike.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torchlike.distributed.tensor.placement_types import _StridedShard

warnings.simplefilter("error")
CHECKS = check = Checks()
NAMES = ("dp", "tp")
OFFLOAD = fsdp.CPUOffloadPolicy()


def line():
    return init_device_mesh("cpu", (8,))


def grid():
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=NAMES)


def numbers(*shape):
    return ((torch.arange(float(np.prod(shape))) * 7 % 11 - 5) / 8).reshape(*shape)


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@check
def a_mesh_of_one_process():
    m = grid()
    assert repr(m) == "DeviceMesh((dp=2, tp=4), 'cpu', stride=(4, 1))" and m.mesh.tolist() == [
        [*range(4)],
        [*range(4, 8)],
    ]
    assert repr(m["dp"]) == "DeviceMesh((dp=2), 'cpu', stride=(4,))" and m["dp"].mesh.tolist() == [0, 4]
    assert m.get_coordinate() == (0, 0) and m["tp"].size() == 4 and m["dp", "tp"] is m and m["tp"] == m["tp"] != m["dp"]
    assert m._flatten("all").size() == 8 and m["all"].mesh.tolist() == [*range(8)]
    with pytest.raises(NotImplementedError, match="several devices of one"):
        m.get_group("tp")
    with pytest.raises(RuntimeError, match="bigger than default world size 8, but found 9 ranks!; XLA_FLAGS"):
        init_device_mesh("cpu", (9,))
    with pytest.raises(RuntimeError, match="different numbers below 8"):
        DeviceMesh("cpu", [0, 0])
    assert copy.deepcopy(m) is m


@check
def a_dtensor_looks_like_the_whole():
    m = grid()
    whole = numbers(8, 4)
    x = distribute_tensor(whole, m, [Shard(0), Shard(1)])
    assert x.placements == (Shard(0), Shard(1)) and x.shape == (8, 4) and x.device_mesh is m
    assert [s.data.shape for s in x.to_local().jax().addressable_shards] == [(4, 1)] * 8
    close(x.full_tensor(), whole)
    y = x.redistribute(placements=[Replicate(), Shard(-2)])
    assert y.placements == (Replicate(), Shard(0)) and type(y.relu() + 1) is DTensor
    close((y @ y.t()).full_tensor(), whole @ whole.t())
    assert distribute_tensor(whole, m["tp"], [Shard(0)]).placements == (Shard(0),)
    assert "DTensor(local_tensor=" in repr(x) and zeros(8, device_mesh=line(), placements=[Shard(0)]).placements == (
        Shard(0),
    )
    close(DTensor.from_local(whole, m, [Shard(0), Partial()]).full_tensor(), whole)  # the process has the whole sum
    assert copy.deepcopy(x).placements == x.placements and x.clone().placements == x.placements


@check
def parts_that_are_not_equal():
    x = distribute_tensor(numbers(6, 3), line(), [Shard(0)]).requires_grad_()
    assert x.placements == (Shard(0),) and x.to_local().shape == (6, 3)  # the process has all parts
    y = torch.compile(lambda x: (x * 2).to_local())(x)
    y.sum().backward()
    assert x.grad.placements == (Shard(0),) and copy.deepcopy(x).placements == (Shard(0),)
    close(x.grad.full_tensor(), torch.full((6, 3), 2.0))
    assert x.redistribute(placements=[Shard(1)]).placements == (Shard(1),)
    nested = distribute_tensor(numbers(5, 2), grid(), [Shard(0), Shard(0)])
    assert nested.placements == (Shard(0), Shard(0)) and (nested + nested).placements == nested.placements
    close((nested + nested).full_tensor(), numbers(5, 2) * 2)


@check
def what_a_dtensor_refuses():
    m, x = line(), distribute_tensor(numbers(8, 2), line(), [Shard(0)])
    for call, error, message in (
        (lambda: x + numbers(8, 2), RuntimeError, "add: got mixed torch.Tensor and DTensor"),
        (lambda: x.add_(numbers(8, 2)), RuntimeError, "got mixed"),
        (lambda: x + distribute_tensor(numbers(8, 2), grid()), RuntimeError, "must be over one mesh"),
        (lambda: zeros(8, device_mesh=m, placements=[Partial()]), NotImplementedError, "Partial placements"),
        (lambda: distribute_tensor(numbers(8), m, ["x"]), TypeError, "a placement must be"),
        (lambda: x.redistribute(grid(), [Replicate()] * 2), NotImplementedError, "between different meshes"),
        (lambda: DTensor(numbers(2)), TypeError, "make one with"),
        (lambda: DTensor.from_local(x, m), RuntimeError, "expected a plain torch.Tensor"),
        (x.tolist, RuntimeError, r"tolist\(\) is not supported.*full_tensor"),
        (
            lambda: parallelize_module(torch.nn.Linear(2, 2), grid(), ColwiseParallel()),
            ValueError,
            r"slice it: mesh\['tp'\]",
        ),
        (lambda: fully_shard(torch.nn.ModuleList()), ValueError, "do not implement forward"),
        (lambda: fully_shard(torch.nn.ModuleDict()), ValueError, "do not implement forward"),
        (lambda: fully_shard(torch.nn.ReLU(), dp_mesh_dims=1), NotImplementedError, "dp_mesh_dims"),
        (
            lambda: fully_shard(torch.nn.Linear(8, 8), mesh=init_device_mesh("xla", (8,)), offload_policy=OFFLOAD),
            NotImplementedError,
            "CPUOffloadPolicy on xla is not supported: parameters stay on the devices",
        ),
        (
            lambda: fully_shard(torch.nn.Linear(8, 8)).set_all_reduce_hook(print),
            NotImplementedError,
            "set_all_reduce_hook",
        ),
        (
            lambda: FullyShardedDataParallel(torch.nn.Linear(8, 8)).register_comm_hook(None, print),
            NotImplementedError,
            "register_comm_hook is not supported",
        ),
        (lambda: fsdp.share_comm_ctx(), NotImplementedError, "torch.distributed.fsdp.share_comm_ctx"),
    ):
        with pytest.raises(error, match=message):
            call()
    with implicit_replication():
        close((x + numbers(8, 2)).full_tensor(), numbers(8, 2) * 2)
    assert (x * torch.tensor(2.0)).placements == (Shard(0),)


@check
def dtensors_in_files():
    m, whole = grid(), numbers(8, 4)
    slices = [m["tp"], m["dp"], m._flatten("all")]
    for mesh in (m, *slices):
        assert pickle.loads(pickle.dumps(mesh)) == mesh
    x = torch.nn.Parameter(distribute_tensor(whole, m, [Shard(0), Shard(1)]))
    tensors = [x, distribute_tensor(whole, slices[0], [Shard(0)]), (x * 2).detach()]
    file = io.BytesIO()
    torch.save({"all": tensors, "again": x}, file)
    file.seek(0)
    found = torch.load(file)
    assert found["again"] is found["all"][0] and isinstance(found["again"], torch.nn.Parameter)
    for old, new in zip(tensors, found["all"], strict=True):
        assert type(new) is DTensor and new.device_mesh == old.device_mesh and new.placements == old.placements
        close(new.full_tensor().detach(), old.full_tensor().detach())
    make, (part, *facts) = x.__reduce_ex__(2)
    with pytest.raises(RuntimeError, match=r"shape \[8, 4\] was saved, and the parts here make \[4, 4\]"):
        make(part[:4], *facts)


@check
def gradients_and_optimizers():
    p = torch.nn.Parameter(distribute_tensor(numbers(8, 4), line(), [Shard(0)]))
    q = torch.nn.Parameter(numbers(8, 4))
    assert isinstance(p, torch.nn.Parameter) and isinstance(p, DTensor)
    ours, theirs = torch.optim.AdamW([p], 0.1), torch.optim.AdamW([q], 0.1)
    for _ in range(3):
        for optimizer, x in ((ours, p), (theirs, q)):
            optimizer.zero_grad()
            (x**3).sum().backward()
            optimizer.step()
    assert type(p.grad) is DTensor and p.grad is p.grad and p.grad.placements == p.placements == (Shard(0),)
    close(p.full_tensor().detach(), q.detach())
    norms = [torch.nn.utils.clip_grad_norm_([x], 0.5) for x in (p, q)]
    np.testing.assert_allclose(*[n.item() for n in norms], rtol=1e-5)
    leaf = numbers(8, 2).requires_grad_()
    (
        DTensor.from_local(leaf, line(), [Shard(0)]).redistribute(placements=[Replicate()]).to_local() ** 2
    ).sum().backward()
    close(leaf.grad, 2 * numbers(8, 2))


@check
def compiled_functions_take_and_give_dtensors():
    m = line()
    x, w = distribute_tensor(numbers(8, 4), m, [Shard(0)]), distribute_tensor(numbers(4, 4), m)
    f = torch.compile(lambda x: ((x @ w).relu(), x.redistribute(placements=[Replicate()])), fullgraph=True)
    for _ in range(2):
        y, z = f(x)
        assert (type(y), y.device_mesh, z.placements) == (DTensor, m, (Replicate(),))
        close(y.full_tensor(), (numbers(8, 4) @ numbers(4, 4)).relu())
    g = local_map(lambda a, b: a @ b, [Shard(0)], ([Shard(0)], [Replicate()]), device_mesh=m)
    assert torch.compile(g)(x, w).placements == (Shard(0),)
    with pytest.raises(ValueError, match="mismatched placements"):
        g(w, w)


PLAN = {
    "tokens": RowwiseParallel(input_layouts=Replicate()), "blocks.*.qkv": ColwiseParallel(),
    "blocks.*.out": RowwiseParallel(), "blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}  # fmt: skip


def sharded(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


LAYOUTS = {
    "fsdp": sharded,
    "tp": lambda model: parallelize_module(model, grid()["tp"], PLAN),
    "fsdp and tp": lambda model, m=None: sharded(parallelize_module(model, (m := grid())["tp"], PLAN), mesh=m["dp"]),
    "hybrid": lambda model: sharded(model, mesh=grid()),
    "wrapped": lambda model: FullyShardedDataParallel(
        model, auto_wrap_policy=wrap.ModuleWrapPolicy({torch.nn.LayerNorm})
    ),
}


@check
def losses_of_plans_and_fsdp_are_those_of_one_device():
    expected = [small_gpt.trained(torch, layers=layers)[0] for layers in (0, 1)]
    for name, lay in LAYOUTS.items():
        # blocks take long to compile
        compiled, layers = name in ("fsdp and tp", "wrapped"), int(name not in ("hybrid", "wrapped"))
        losses, model, optimizer = small_gpt.trained(torch, lay, compiled=compiled, layers=layers)
        np.testing.assert_allclose(losses, expected[layers], rtol=2e-6, err_msg=name)
        for p in model.parameters():
            if isinstance(p, DTensor):
                state = optimizer.state[p]["exp_avg"].jax().sharding
                assert p.grad.placements == p.placements and state == p.to_local().jax().sharding, name


@check
def each_device_holds_its_part():
    _, model, optimizer = small_gpt.trained(torch, sharded, compiled=True, layers=0, steps=1)
    held, whole = dict.fromkeys(jax.devices(), 0), 0
    for p in model.parameters():
        for t in (p.to_local(), p.grad.to_local(), optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]):
            whole += t.nbytes
            for piece in t.detach().jax().addressable_shards:
                held[piece.device] += piece.data.nbytes
    assert max(held.values()) <= 1.1 * whole / 8, (held, whole)


def whole_arrays(*shape):
    """How many arrays of a shape there are that each device has whole."""
    return sum(
        x.shape == shape and x.sharding.is_fully_replicated and x.sharding.num_devices > 1 for x in jax.live_arrays()
    )


@check
def what_autograd_keeps_is_cut():
    x = numbers(8, 16)
    for reshard in (True, False):
        layer = fully_shard(torch.nn.Linear(16, 24, bias=False), reshard_after_forward=reshard)
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        assert whole_arrays(24, 16) == (not reshard)
        (y**2).sum().backward()
        w = layer.weight.full_tensor().detach()
        close(layer.weight.grad.full_tensor(), 2 * (x @ w.t()).t() @ x)
        close(leaf.grad, 2 * (x @ w.t()) @ w)
        del y, w, layer
    layer = fully_shard(torch.nn.Linear(16, 16))
    x.requires_grad_()
    z = layer(x).sum()
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place between forward and backward"):
        z.backward()


def small():
    torch.manual_seed(3)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.LayerNorm(8))
    return torch.nn.Sequential(*layers)


def stepped(model, optimizer, steps=2):
    losses = []
    for k in range(steps):
        loss = ((model(numbers(16, 8) + k) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@check
def state_dicts_of_a_wrapped_model_are_whole():
    FSDP, S = FullyShardedDataParallel, fsdp.StateDictType
    plain = small()
    model = FSDP(small(), auto_wrap_policy=wrap.ModuleWrapPolicy({torch.nn.Sequential}))
    own, other = (torch.optim.Adam(m.parameters(), 0.01) for m in (plain, model))
    np.testing.assert_allclose(stepped(plain, own), stepped(model, other), rtol=1e-5)
    whole, moments = model.state_dict(), FSDP.optim_state_dict(model, other)
    for held, expected in zip(whole.values(), plain.state_dict().values(), strict=True):
        assert type(held) is torch.Tensor
        close(held, expected)
    mine = FSDP.rekey_optim_state_dict(moments, fsdp.OptimStateKeyType.PARAM_ID, model)
    for k, state in own.state_dict()["state"].items():
        assert all(type(x) is torch.Tensor for x in mine["state"][k].values())
        close(mine["state"][k]["exp_avg"], state["exp_avg"])
    nested = torch.nn.Sequential(*small())
    nested[2] = FSDP(nested[2])
    for again in (FSDP(small()), FSDP(nested)):
        optimizer = torch.optim.Adam(again.parameters(), 0.5)
        assert repr(again.load_state_dict(whole)) == "<All keys matched successfully>"
        assert [*again.state_dict()] == [*whole]
        FSDP.optim_state_dict_to_load(again, optimizer, moments, load_directly=True)
        np.testing.assert_allclose(stepped(again, optimizer), stepped(*copy.deepcopy((plain, own))), rtol=1e-4)
    parent = torch.nn.ModuleDict({"a": FSDP(small())})
    parent.load_state_dict({"a." + key: x for key, x in whole.items()})
    close(parent.state_dict()["a.2.0.weight"], whole["2.0.weight"])
    with FSDP.state_dict_type(parent, S.SHARDED_STATE_DICT):
        assert {type(x) for x in parent.state_dict().values()} == {DTensor}
        parent.load_state_dict(parent.state_dict())
    with FSDP.state_dict_type(model, S.SHARDED_STATE_DICT):
        held = FSDP.optim_state_dict(model, other)["state"]["0.weight"]["exp_avg"]
        assert held.placements == model.module[0].weight.placements
    for whole_wanted in (False, True):
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=whole_wanted))
        assert {type(x) for x in state.values()} == {torch.Tensor if whole_wanted else DTensor}
    with pytest.raises(NotImplementedError, match="LOCAL_STATE_DICT is not supported; use"):
        FSDP.set_state_dict_type(model, S.LOCAL_STATE_DICT)
    with pytest.raises(ValueError, match="make the optimizer after the model is wrapped"):
        FSDP.optim_state_dict(model, own)
    with pytest.raises(RuntimeError, match="size mismatch for 0.weight"):
        model.load_state_dict({**whole, "0.weight": numbers(2)})


@check
def what_is_written_to_summoned_parameters_is_kept():
    model = FullyShardedDataParallel(small())
    before = model.module[0].bias.full_tensor().detach().clone()
    for kept in (False, True):
        with FullyShardedDataParallel.summon_full_params(model, writeback=kept):
            assert type(model.module[0].weight) is torch.Tensor
            model.module[0].weight.data.fill_(2.0)
            with torch.no_grad():
                model.module[0].bias.mul_(3)
        assert (model.module[0].weight.full_tensor() == 2).all().item() == kept
        close(model.module[0].bias.full_tensor().detach(), before * 3 if kept else before)
    with pytest.raises(NotImplementedError, match="writeback=True and rank0_only=True"):
        FullyShardedDataParallel.summon_full_params(model, rank0_only=True).__enter__()


@check
def parameters_brought_together_ahead_are_those_of_now():
    found = []
    for ahead in (None, torch.enable_grad, torch.no_grad):
        model = sharded_layers()
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        for _ in range(3):
            if ahead is not None:
                with ahead():
                    model.unshard()
            loss = model(numbers(8, 8)).square().mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
            optimizer.step()
            optimizer.zero_grad()
            found.append((loss.item(), norm.item()))
        assert type(model[1].weight) is DTensor
    np.testing.assert_allclose(found[3:6], found[:3])
    np.testing.assert_allclose(found[6:], found[:3])


def sharded_layers():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
    fully_shard(model[0])
    return fully_shard(model)


@check
def wrappers_by_hand_with_options():
    policy = fsdp.MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)

    def made(m):
        m.to_empty(device="cpu", recurse=False)
        with torch.no_grad():
            m.weight.fill_(0.5), m.bias.zero_()

    options = {"mixed_precision": policy, "param_init_fn": made, "cpu_offload": fsdp.CPUOffload(offload_params=True)}
    with wrap.enable_wrap(wrapper_cls=FullyShardedDataParallel, **options):
        inner = torch.nn.Sequential(torch.nn.Linear(8, 8, device="meta"), torch.nn.Identity())
        inner[1].register_buffer("kept", torch.full((2,), 0.7))
        model = wrap.wrap(inner)
    assert type(model) is FullyShardedDataParallel and type(wrap.wrap(inner)) is type(inner)
    assert model(numbers(8, 8)).dtype == torch.bfloat16 and inner[1].kept.dtype == torch.bfloat16
    state = model.state_dict()
    assert {x.dtype for x in state.values()} == {torch.float32} and state["0.weight"].sum() == 32
    model.load_state_dict(state)
    with pytest.raises(NotImplementedError, match="some of the processes"):
        FullyShardedDataParallel(torch.nn.Linear(2, 2), object())


@check
def mixed_precision_and_unshard():
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    layer = fully_shard(torch.nn.Linear(16, 8), mp_policy=policy)
    layer.set_separate_reduce_scatter_group(True)  # where collectives run changes no numbers
    y = layer(numbers(8, 16))
    y.sum().backward()
    assert (y.dtype, layer.weight.dtype, layer.weight.grad.dtype) == (torch.float32,) * 3
    layer.unshard()
    assert type(layer.weight) is torch.nn.Parameter and layer.weight.dtype == torch.bfloat16
    layer(numbers(8, 16))
    layer.reshard()
    assert layer.weight.placements == (Shard(0),)
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        fully_shard(layer)
    odd = fully_shard(torch.nn.Linear(16, 3))
    assert (odd.weight.placements, odd.bias.placements) == ((Shard(1),), (Shard(0),))
    chosen = fully_shard(torch.nn.Linear(16, 8), shard_placement_fn=lambda p: Shard(p.ndim - 1))
    assert chosen.weight.placements == (Shard(1),)
    state = chosen.state_dict()
    chosen.load_state_dict({k: v * 2 for k, v in state.items()})
    assert chosen.weight.placements == (Shard(1),) and type(state["weight"]) is DTensor


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))

    def reset_parameters(self):
        for layer in (self[0], self[2]):
            layer.reset_parameters()


def spots(model):
    return [(type(p), p.placements) for p in model.parameters()]


@check
def fully_sharded_models_are_made_on_meta_and_loaded():
    with torch.device("meta"):
        model = Net()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    expected = [(DTensor, (Shard(0),))] * 4
    assert model[0].weight.device.type == "meta" and spots(model) == expected
    model.to_empty(device="cpu")
    model.reset_parameters()
    torch.nn.init.trunc_normal_(model[0].weight)
    torch.nn.init.xavier_uniform_(model[2].weight)
    assert spots(model) == expected
    whole, x = Net(), numbers(8, 16)
    parts = model.state_dict()
    for name, value in whole.state_dict().items():
        parts[name] = torch.nn.Parameter(distribute_tensor(value, parts[name].device_mesh, parts[name].placements))
    model.load_state_dict(parts, assign=True)
    assert spots(model) == expected
    close(model(x).detach(), whole(x).detach())
    again = copy.deepcopy(model).double()
    again(x.double()).sum().backward()
    assert spots(again) == expected and again[0].weight.grad is not None and model[0].weight.grad is None


@check
def parts_of_parts_that_later_dimensions_cut():
    """As PyTorch says of eight processes."""
    mesh, whole = grid(), numbers(16, 3)
    layer = torch.nn.Linear(3, 16, bias=False)
    with torch.no_grad():
        layer.weight.copy_(whole)
    fully_shard(parallelize_module(layer, mesh["tp"], ColwiseParallel()), mesh=mesh["dp"])
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2, 3)).sum().backward()
    given = distribute_tensor(whole, mesh, [_StridedShard(0, split_factor=4), Shard(0)])
    loaded = pickle.loads(pickle.dumps(given))
    for w in (layer.weight, given, loaded, layer.weight.grad, given * 2 + given):
        assert str(w.placements) == "(_StridedShard(dim=0, sf=4), Shard(dim=0))"
        for piece in w.detach().jax().addressable_shards:
            dp, tp = divmod(piece.device.id, 4)
            assert piece.index[0].indices(16)[:2] == (4 * tp + 2 * dp, 4 * tp + 2 * dp + 2)
    assert all(torch.equal(w.full_tensor(), whole) for w in (layer.weight, given, loaded))
    optimizer.step()
    assert str(optimizer.state[layer.weight]["exp_avg"].placements) == str(given.placements)
    assert torch.equal(given.sum(0).full_tensor(), whole.sum(0))
    for to in ([Shard(0), Shard(0)], [Replicate(), Shard(0)]):
        assert torch.equal(given.redistribute(mesh, to).full_tensor(), whole)
    with pytest.raises(NotImplementedError, match=r"_StridedShard\(dim=0, sf=3\) is supported where later dimensions"):
        distribute_tensor(whole, mesh, [_StridedShard(0, split_factor=3), Shard(0)])
    assert (str(given.placements[0]), given.placements[0].is_shard()) == ("_S(0, 4)", False)


if __name__ == "__main__":
    CHECKS.run()
