"""What this rank compiles of a few programs: ``shared_script.py FILE``, run by ``test_shared_cache.py``."""

import json
import sys

import jax
from jax._src import compiler

import torchlike as torch

d = torch.distributed
compiles, usual = [], compiler.backend_compile_and_load


def counted(backend, module, *rest):
    compiles.append(str(module.operation.attributes["sym_name"]).strip('"'))
    return usual(backend, module, *rest)


compiler.backend_compile_and_load = counted
d.init_process_group("gloo")
rank = d.get_rank()
x = torch.arange(4.0) + rank
d.all_reduce(x)
y = torch.full((3,), rank + 1)
d.broadcast(y, 1)
mesh = d.device_mesh.init_device_mesh("cpu", (2,))
cut = d.tensor.distribute_tensor(torch.arange(6.0), mesh, [d.tensor.Shard(0)])
alone = jax.jit(lambda z: z * 3 + 1)(jax.device_put(float(rank), jax.local_devices()[0])).item()
of_one_rank = jax.jit(lambda z: z - 7)(2.0).item() if rank else None
found = x.tolist(), y.tolist(), (cut * 2).full_tensor().tolist(), alone, of_one_rank
with open(sys.argv[1], "w") as file:
    json.dump([compiles, found], file)
d.barrier()
d.destroy_process_group()
