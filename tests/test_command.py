"""`python -m torchlike check`, `info` and `--version`."""

import json
import subprocess
import sys

import pytest

import torchlike.__main__ as command
from torchlike._command import about, check
from torchlike._command.sources import uses


def found(tmp_path, source):
    """(line, name, kind) of the findings in a source."""
    file = tmp_path / "program.py"
    file.write_text(source)
    return [(finding.line, finding.name, finding.kind) for finding in check.check(file)]


FINDINGS = {
    "all there": ("import torch\ntorch.ones(2).sum()\ntorch.nn.Linear(1, 2)", []),
    "torch itself": ("import torch\ntorch.torch.ones(2)\ntorch.torch.oness", [(3, "torch.oness", "unknown")]),
    "torch of a module": (
        "import torch\ntorch.sparse.torch.eye(2)\ntorch.sparse.torch.oness", [(3, "torch.oness", "unknown")],
    ),
    "from another module": ("from torch.optim.adam import Optimizer\nfrom torch.nn.modules.conv import F", []),
    "a typo": ("import torch\ntorch.oness(2)", [(2, "torch.oness", "unknown")]),
    "not there yet": ("import torch as t\nt._C._no_such()", [(2, "torch._C._no_such", "missing")]),
    "from a module": ("from torch.nn import Linear, Nothing", [(1, "torch.nn.Nothing", "unknown")]),
    "under another name": ("import torch.nn.functional as F\nF.relux()", [(2, "torch.nn.functional.relux", "unknown")]),
    "assigned": ("import torch\nfn = torch.nn.functional\nfn.relux", [(3, "torch.nn.functional.relux", "unknown")]),
    "reassigned": ("import torch\nfn = torch.nn\nfn = 3\nfn.relux", []),
    "a module": ("import torch._no_such.thing", [(1, "torch._no_such", "missing")]),
    "of a class": ("import torch\ntorch.Tensor.summ", [(2, "torch.Tensor.summ", "unknown")]),
    "of a value": ("import torch\ntorch.float32.anything", []),
    "caught": ("try:\n    import torch._no_such\nexcept ImportError:\n    pass", []),
    "caught otherwise": ("try:\n    import torch._no\nexcept KeyError:\n    pass", [(2, "torch._no", "missing")]),
    "asked for": (
        "import torch\nif hasattr(torch, 'no'):\n    torch.no()\nelse:\n    torch.no",
        [(5, "torch.no", "unknown")],
    ),
    "a parameter": ("import torch\ndef f(torch):\n    return torch.no", []),
    "in a function": (
        "def f():\n    import torch\n    torch.no\ndef g(torch):\n    torch.no",
        [(3, "torch.no", "unknown")],
    ),
    "only set": ("import torch\ntorch.my_own = 3", []),
    "different": (
        "import torch\ntorch.backends.cudnn.benchmark = True",
        [(2, "torch.backends.cudnn.benchmark", "differs")],
    ),
    "refuses": ("import torch.cuda as c\nc.memory_snapshot()", [(2, "torch.cuda.memory_snapshot", "refuses")]),
    "another library": ("import numpy as torch\ntorch.no", []),
    "no Python": ("x = (", [(1, "", "refuses")]),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name, tmp_path):
    source, expected = FINDINGS[name]
    assert found(tmp_path, source) == expected


def test_each_use_once_and_the_longest():
    source = "import torch\ntorch.nn.Linear(1, 2)"
    assert [use.name for use in uses(source, "x")] == ["torch", "torch.nn.Linear"]


def test_the_report(tmp_path, capsys):
    (tmp_path / "pkg").mkdir()
    file = tmp_path / "pkg" / "a.py"
    file.write_text("import torch\ntorch.oness\ntorch.set_num_threads(1)\n")
    (tmp_path / "pkg" / "b.py").write_text("import torch\ntorch.ones(1)\n")
    assert check.main([str(tmp_path / "pkg")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}:2: torch.oness: unknown: PyTorch 2.13 has no such name"
    assert lines[1].startswith(f"{file}:3: torch.set_num_threads: differs: accepted and ignored")
    assert lines[2] == "torchlike check: names of torch: 1 unknown, 1 differs"
    assert check.main(["--json", str(file)]) == 1
    assert json.loads(capsys.readouterr().out)[0] == {
        "file": str(file), "line": 2, "name": "torch.oness", "kind": "unknown",
        "way_out": "PyTorch 2.13 has no such name",
    }  # fmt: skip
    assert check.main([str(tmp_path / "pkg" / "b.py")]) == 0
    assert capsys.readouterr().out == "torchlike check: names of torch: all are there\n"


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["/no/such/place"], ["no_such_package"]])
def test_misuse(arguments, capsys):
    assert check.main(arguments) == 2
    assert "usage" in (said := capsys.readouterr().out) or "there is no file, folder or package" in said


def test_every_way_out_is_reached():
    """What the tables say of names is about names: those that differ are there."""
    for name in check.DIFFERENT:
        assert check._trouble(name) == ("differs", name, check.DIFFERENT[name])


def test_the_command(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import torch\ntorch.oness(2)\nraise SystemExit('it ran')\n")
    done = subprocess.run([sys.executable, "-m", "torchlike", "check", str(file)], capture_output=True, text=True)
    assert done.returncode == 1 and "torch.oness: unknown" in done.stdout and "it ran" not in done.stderr


def test_versions_and_devices(capsys):
    command.main(["--version"])
    assert capsys.readouterr().out == "torchlike 0.1.0\n"
    command.main(["info"])
    told = capsys.readouterr().out
    assert (
        told.startswith("torchlike 0.1.0, in the place of PyTorch 2.13.0\n")
        and "\njax " in told
        and "\ndevice " in told
    )


def test_files_that_are_gone_are_not_counted(tmp_path):
    (tmp_path / "there").write_bytes(b"12")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert about._size(tmp_path) == f"{tmp_path}: 1 files, 0.0 MB"
    assert about._size(tmp_path / "no") == f"{tmp_path / 'no'}: 0 files, 0.0 MB"
