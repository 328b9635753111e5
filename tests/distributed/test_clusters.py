"""Which process this is, as the variables of clusters say."""

import pytest

from torchlike.distributed._rendezvous import of_environment

POD = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "10.0.0.3,10.0.0.4,10.0.0.5"}
SLICES = {"MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1", "MEGASCALE_COORDINATOR_ADDRESS": "head:1234"}
SLURM = {
    "SLURM_JOB_ID": "70000", "SLURM_STEP_NODELIST": "node[003-007,9],other", "SLURM_NTASKS": "6", "SLURM_PROCID": "4",
    "SLURM_LOCALID": "0",
}  # fmt: skip
LAUNCHER = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "9"}
CASES = {
    "a pod": (POD, (1, 3, "10.0.0.3:8482", False)),
    "its first host": ({**POD, "TPU_WORKER_ID": "0"}, (0, 3, "10.0.0.3:8482", True)),
    "two slices": ({**POD, **SLICES}, (4, 6, "head:8482", False)),
    "slices of a host": ({**SLICES, "TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "a"}, (1, 2, "head:8482", False)),
    "a port": ({**POD, "MASTER_PORT": "99"}, (1, 3, "10.0.0.3:99", False)),
    "an address": ({**POD, "MASTER_ADDR": "there", "MASTER_PORT": "99"}, (1, 3, "there:99", False)),
    "a launcher in a pod": ({**POD, **LAUNCHER}, (0, 2, "m:9", True)),
    "Slurm": (SLURM, (4, 6, f"node003:{70000 % 4096 + 61440}", False)),
    "Slurm in a pod": ({**POD, **SLURM}, (4, 6, f"node003:{70000 % 4096 + 61440}", False)),
    "one task of Slurm in a pod": ({**POD, **SLURM, "SLURM_NTASKS": "1"}, (1, 3, "10.0.0.3:8482", False)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in (*POD, *SLICES, *SLURM, "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHLIKE_SERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_what_variables_say(name, monkeypatch):
    variables, (rank, size, address, serves) = CASES[name]
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    found = of_environment()
    assert (found.rank, found.size, found.address, found.serves) == (rank, size, address, serves)


@pytest.mark.once
def test_one_host_is_no_pod(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_ID", "0")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "localhost")
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        of_environment()
