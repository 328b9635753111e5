"""A model over a mesh of two processes with two devices each has the losses of one device."""

import json
import time

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from process_kit import finished, started

from torchlike.distributed import _xla


def test_losses_over_the_devices_of_two_processes():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    for status, out, err in finished(started("spanning_script.py", **flags)):
        assert status == 0, f"{out[-2000:]}{err[-4000:]}"
        size, (one, *others) = json.loads(out.splitlines()[-1])
        assert size == 4 and others == [pytest.approx(one, rel=1e-5)] * 5


@pytest.mark.parametrize("several", [False, True])
def test_what_a_thread_has_launched_is_done_before_a_collective(several):
    """Eager collectives rely on it, since programs of two threads run in any order."""
    devices = jax.local_devices()[: None if several else 1]
    place = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x"))
    x = jax.device_put(np.ones((len(devices), 192, 192), np.float32), place)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: y @ x / 192, x))
    jax.block_until_ready([program(x), *_xla.launched()])
    result, early, polls = program(x), 0, 0
    fence = _xla.launched()
    while not result.is_ready():  # a moment after the program's end, when the next one has begun
        polls, early = polls + 1, early + all([f.is_ready() for f in fence])
        time.sleep(0.001)
    assert early <= polls / 2 and (several or polls > 5)
