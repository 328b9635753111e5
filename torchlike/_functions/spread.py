"""The method that lays a tensor out over devices."""

import importlib

from torchlike._functions._install import method


@method()
def shard(self, mesh, spec=None):
    """The tensor cut over a mesh of devices; see :func:`torchlike.sharding.shard`.

    >>> import torchlike as torch
    >>> mesh = torch.sharding.make_mesh(dp=-1)
    >>> torch.ones(mesh.size).shard(mesh, "dp").sum().item() == mesh.size
    True
    """
    return importlib.import_module("torchlike.sharding").shard(self, mesh, spec)
