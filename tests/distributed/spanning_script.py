"""A model over the devices of several processes, each of which has two: a script of torchlike.

    python spanning_script.py

RANK, WORLD_SIZE and so on are in the environment. ``test_spanning`` runs it. Prints the losses on one
device, and on all, in eager and compiled code.
"""

import json

import torchlike as torch
from torchlike import sharding

torch.distributed.init_process_group("gloo")
MESH = sharding.make_mesh(dp=-1)


def losses(lay, spread, compiled=False):
    torch.manual_seed(0)
    model = lay(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8)))
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    batches = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(1))
    return [run(spread(x)).item() for x in batches]


def over_all(compiled):
    return losses(lambda m: torch.distribute(m, MESH, lambda name, p: "dp"), lambda x: x.shard(MESH, "dp"), compiled)


found = [losses(lambda m: m, lambda x: x), over_all(False), over_all(True)]
print(json.dumps([MESH.size, found]))
torch.distributed.destroy_process_group()
