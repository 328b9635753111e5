"""A model over the devices of several processes, each of which has two: a script of torchlike.

    python spanning_script.py

RANK, WORLD_SIZE and so on are in the environment. ``test_spanning`` runs it. Prints the losses on one
device, and on all, in eager and compiled code.
"""

import json

import torchlike as torch
from torchlike import sharding
from torchlike.distributed.fsdp import fully_shard
from torchlike.distributed.tensor import DTensor, Partial, Shard, distribute_tensor, init_device_mesh
from torchlike.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torchlike.fx.experimental.proxy_tensor import make_fx

torch.distributed.init_process_group("gloo")
MESH = sharding.make_mesh(dp=-1)


class Summed(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        torch.distributed.all_reduce(y)
        return y


def clipped(parameters):
    """What clipping with a bound that is never met leaves as it is, the norm being one process's own."""
    parameters = [*parameters]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    whole = norm.full_tensor() if isinstance(norm, DTensor) else torch.tensor(float(norm))
    torch.nn.utils.clip_grads_with_norm_(parameters, 1e3, whole)


def losses(lay, spread, compiled=False, share=lambda loss: loss):
    torch.manual_seed(0)
    model = lay(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8)))
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        if not compiled:
            clipped(model.parameters())
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    batches = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(1))
    return [share(run(spread(x))).item() for x in batches]


def over_all(compiled):
    return losses(lambda m: torch.distribute(m, MESH, lambda name, p: "dp"), lambda x: x.shard(MESH, "dp"), compiled)


def mine(x):
    rank, half = torch.distributed.get_rank(), len(x) // 2
    return x[rank * half : (rank + 1) * half]


def mean(loss):
    loss = loss.detach().clone()
    torch.distributed.all_reduce(loss, torch.distributed.ReduceOp.AVG)
    return loss


def fully(model, mesh=None):
    """Each process has half of the batch, which it cuts over its devices."""
    for part in model:
        if isinstance(part, torch.nn.Linear):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert all(len(p.to_local().jax().devices()) == 2 for p in model.parameters())
    assert model[0].weight.to_local().shape[0] == 8 and model[0].weight.placements[0].dim == 0
    return model


def both(model):
    """Tensor parallel over the devices of each process, fully sharded over the processes."""
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, grid["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully(model, grid["dp"])


def parts():
    """from_local, to_local and sums of parts that lie over two devices."""
    mesh, rank = init_device_mesh("cpu", (4,)), torch.distributed.get_rank()
    whole = torch.arange(16.0).reshape(8, 2)
    x = DTensor.from_local(mine(whole), mesh, [Shard(0)])
    right = x.shape == (8, 2) and torch.equal(x.full_tensor(), whole) and torch.equal(x.to_local(), mine(whole))
    sums = [DTensor.from_local(whole + rank, mesh, [Partial(op)]).full_tensor() for op in ("sum", "avg", "max")]
    wanted = [whole * 2 + 1, whole + 0.5, whole + 1]
    count = DTensor.from_local(torch.arange(4), mesh, [Partial()]).full_tensor()
    grid = init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp"))["tp"]  # whose rows lie on both devices
    y = distribute_tensor(whole, grid, [Shard(1)])
    return bool(
        right and all(map(torch.equal, sums, wanted)) and count.tolist() == [0, 2, 4, 6]
        and torch.equal((y * 2).full_tensor(), whole * 2)
    )  # fmt: skip


def loaded():
    """A model made on meta, cut, and given its parameters: what it computes is what the whole one does."""
    whole = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
    fully_shard(model)
    cut = model.state_dict()
    for name, value in whole.state_dict().items():
        whole_ = distribute_tensor(value, cut[name].device_mesh, cut[name].placements)
        cut[name] = torch.nn.Parameter(whole_)
    model.load_state_dict(cut, assign=True)
    x = torch.ones(4, 8)
    torch.distributed.broadcast(whole[0].weight.data, 0)
    return model[0].weight.full_tensor().equal(whole[0].weight) and model(x).shape == (4, 8)


def refusals():
    found = []
    for make in (lambda: torch.export.export(Summed(), (torch.ones(2),)), lambda: make_fx(Summed())(torch.ones(2))):
        try:
            make()
        except NotImplementedError as error:
            found.append(str(error).partition(":")[0])
    return found


found = [losses(lambda m: m, lambda x: x), over_all(False), over_all(True)]
found += [losses(fully, mine, share=mean), losses(both, mine, share=mean), losses(fully, mine, True, mean)]
assert parts() and loaded()
assert refusals() == [f"all_reduce between processes under {name}" for name in ("torch.export", "make_fx")], refusals()
print(json.dumps([MESH.size, found]))
torch.distributed.destroy_process_group()
