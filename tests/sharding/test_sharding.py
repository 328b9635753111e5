"""Tensors and modules over eight devices, in processes of their own; on one device; what is refused."""

from pathlib import Path

import checks_kit
import divided
import meshed
import pytest
import sharded

import torchlike
from torchlike import sharding

SCRIPTS = (sharded, meshed, divided)


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """What the scripts say of each check."""
    return {f"{m.__name__}.{k}": v for m in SCRIPTS for k, v in checks_kit.told(Path(m.__file__)).items()}


@pytest.mark.parametrize("name", [f"{m.__name__}.{name}" for m in SCRIPTS for name in m.CHECKS])
def test_eight_devices(told, name):
    assert told.get(name, str(told)) == ""


def test_one_device():
    mesh = sharding.make_mesh(dp=1)
    x = torchlike.ones(4, 3, requires_grad=True)
    (x.shard(mesh, ("dp", None)) * 3).sum().backward()
    assert x.grad.tolist() == [[3] * 3] * 4
    assert sharding.spec_of(x) is None


MESH = {"dp": 1, "tp": 1}
LINEAR = torchlike.nn.Linear(3, 2)
X = torchlike.ones(4, 3)
WRONG = {
    "sizes": (
        lambda m: sharding.make_mesh(dp=7777),
        ValueError,
        r"'dp': 7777.* is not made of .* devices; pass devices=",
    ),
    "no axes": (lambda m: sharding.make_mesh(), ValueError, "lengths of axes must be positive"),
    "zero": (lambda m: sharding.make_mesh(dp=0), ValueError, "lengths of axes must be positive"),
    "two rests": (lambda m: sharding.make_mesh(dp=-1, tp=-1), ValueError, "one may be -1"),
    "no tensor": (lambda m: sharding.shard([1], m), TypeError, "argument 't' must be Tensor, not list"),
    "no mesh": (lambda m: X.shard("dp", "dp"), TypeError, "argument 'mesh' must be a Mesh or DeviceMesh, not str"),
    "unknown axis": (lambda m: X.shard(m, "pp"), ValueError, "unknown axis 'pp'; the mesh has"),
    "axis twice": (lambda m: X.shard(m, ("dp", "dp")), ValueError, "stands in it twice"),
    "entries": (lambda m: X.shard(m, (None,) * 3), ValueError, r"3 entries for the shape \[4, 3\]"),
    "no module": (lambda m: sharding.distribute(X, m), TypeError, "'module' must be a Module, not Tensor"),
    "rule": (
        lambda m: sharding.distribute(LINEAR, m, {"wieght": "dp"}),
        ValueError,
        "'wieght' fits none of.*weight, bias",
    ),
    "spec": (
        lambda m: sharding.distribute(LINEAR, m, {"bias": ("dp", "tp")}),
        ValueError,
        r"distribute\(\): bias: the spec",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call(sharding.make_mesh(MESH))
