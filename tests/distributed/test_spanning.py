"""A model over a mesh of two processes with two devices each has the losses of one device."""

import json

import pytest
from process_kit import finished, started


def test_losses_over_the_devices_of_two_processes():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    for status, out, err in finished(started("spanning_script.py", **flags)):
        assert status == 0, f"{out[-2000:]}{err[-4000:]}"
        size, (one, *others) = json.loads(out.splitlines()[-1])
        assert size == 4 and others == [pytest.approx(one, rel=1e-5)] * 5
