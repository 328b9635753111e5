"""A plugin of pytest: jax's second CPU stands for a GPU, so that what must stay apart does stay apart.

``pytest -p second_cpu tests/accelerator``, with this folder in PYTHONPATH. jax computes on the second CPU by default,
as it does on a GPU; torchlike calls it "cuda:0". What a GPU alone has (its memory, its name) is not there.
"""

import os
from functools import cache

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2 " + os.environ.get("XLA_FLAGS", "")

import jax

import torchlike._base.device as places

CPU, GPU = jax.devices("cpu")
_live = jax.live_arrays


def _devices(backend=None):
    return [CPU] if backend == "cpu" else [GPU]


jax.devices = _devices
jax.local_devices = lambda process_index=None, backend=None, host_id=None: _devices(backend)
jax.default_backend = lambda: "gpu"
jax.local_device_count = lambda backend=None: 1
jax.live_arrays = lambda platform=None: [a for a in _live() if platform != "gpu" or a.devices() == {GPU}]
jax.config.update("jax_default_device", GPU)
places.from_jax = cache(lambda found: places.device("cuda", 0) if found is GPU else places.device("cpu"))
