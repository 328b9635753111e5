"""DTensors over a mesh of one device: what operators make of them has the placements that PyTorch says."""

import importlib

import pytest
import torch
from both import agree

CALLS = {
    "add": lambda t, x: x + x,
    "of a number": lambda t, x: (x * 2).relu(),
    "turned": lambda t, x: x.t(),
    "permuted": lambda t, x: x.permute(1, 0),
    "more dimensions": lambda t, x: x.unsqueeze(0),
    "fewer": lambda t, x: x[None].squeeze(0),
    "in place": lambda t, x: x.add_(1).mul_(x),
    "zeros in place": lambda t, x: x.zero_(),
    "zeros like it": lambda t, x: t.zeros_like(x),
    "copied": lambda t, x: t.zeros_like(x).copy_(x),
    "another dtype": lambda t, x: x.double().clone().detach(),
    "lists": lambda t, x: t._foreach_add([x], [x])[0],
    "lists in place": lambda t, x: (t._foreach_mul_([x], 2), x)[1],
    "interpolated": lambda t, x: x.lerp_(x, 0.1),
    "a product": lambda t, x: x.relu() @ x.new_ones(x.shape[1], 3) if x.placements[0].dim == 0 else x,
    "gradient": lambda t, x: (x.requires_grad_() * x).sum().backward() or x.grad,
    "distributed anew": lambda t, x: x.redistribute(placements=[x.placements[0].__class__(1)]) + 1,
    "replicated": lambda t, x: x.redistribute(placements=[t.distributed.tensor.Replicate()]) + 1,
}


@pytest.fixture(scope="module")
def alone():
    """PyTorch's mesh is one of a group of processes."""
    group = torch.distributed
    group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
    yield
    group.destroy_process_group()


def made(t, shape, dim):
    tensor = importlib.import_module(f"{t.__name__}.distributed.tensor")
    mesh = importlib.import_module(f"{t.__name__}.distributed.device_mesh").init_device_mesh("cpu", (1,))
    return tensor.distribute_tensor(t.arange(shape[0] * shape[1]).float().reshape(shape), mesh, [tensor.Shard(dim)])


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(4, 6), (6, 6)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_placements(name, shape, dim, alone):
    agree(lambda t: str(CALLS[name](t, made(t, shape, dim)).placements))


def test_sums_along_the_other_dimension(alone):
    agree(lambda t: [str(made(t, (4, 6), dim).sum(1 - dim).placements) for dim in (0, 1)])


def test_a_trained_module(alone):
    def placements(t):
        model = t.nn.Linear(6, 4)
        fsdp = importlib.import_module(f"{t.__name__}.distributed.fsdp")
        fsdp.fully_shard(model, mesh=importlib.import_module(f"{t.__name__}.distributed").init_device_mesh("cpu", (1,)))
        optimizer, found = t.optim.AdamW(model.parameters()), []
        for _ in range(2):
            model(t.ones(3, 6)).sum().backward()
            found += [(name, str(p.placements), str(p.grad.placements)) for name, p in model.named_parameters()]
            optimizer.step()
            found += [str(kept["exp_avg"].placements) for kept in optimizer.state.values()]
            optimizer.zero_grad()
        return found

    agree(placements)
