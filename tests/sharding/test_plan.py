"""`python -m torchlike plan`: what a script needs of devices that are not there."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from torchlike._command import plan
from torchlike._executor import hlo

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama.py"


def planned(*arguments):
    command = [sys.executable, "-m", "torchlike", "plan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_step_of_a_llama():
    run = planned(EXAMPLE, "--mesh", "2x4", "--tp", "4", "--layers", "1", "--steps", "2")
    assert run.returncode == 0, run.stderr
    assert "needs the numbers of a tensor" in run.stdout and "on 8 devices (2x4)" in run.stdout
    assert re.search(r"a device holds +\d+ kB", run.stdout) and re.search(r"all-reduce +\d+ .* tp\n", run.stdout)
    assert run.stdout.count("lowered in") == 1  # the second call's program alone


def test_a_script_without_a_compiled_step(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nx = torch.ones(1 << 20, 1 << 20)\nprint((x + 1).device, len(__import__('jax').devices()))"
    )
    run = planned(script, "--mesh", "3")
    assert run.returncode == 1 and run.stdout == "meta 3\n" and "give its step to torch.compile" in run.stderr


def test_state_that_no_machine_has_room_for(tmp_path):
    """Moments of an optimizer are made within the step: as shapes, like all else."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from torchlike import sharding\n"
        "p = torch.nn.Parameter(torch.ones(1 << 18, 1 << 18).shard(sharding.make_mesh(dp=4), 'dp'))\n"
        "optimizer = torch.optim.Adam([p])\n"
        "@torch.compile\n"
        "def step():\n"
        "    p.grad = torch.ones_like(p)\n"
        "    optimizer.step()\n"
        "step()\n"
    )
    run = planned(script, "--mesh", "4")
    assert run.returncode == 0 and re.search(r"arguments +206 GB", run.stdout), run.stdout + run.stderr


def test_value_checks_have_no_flags_to_read():
    """numpy would read the address of a shape as the flag: true for one of some fifty addresses."""
    program = object.__new__(plan.PlannedProgram)
    program.errors, program.failed = [ValueError()], [jax.ShapeDtypeStruct((1,), bool) for _ in range(2000)]
    program.examine()
    assert program.failed == []


@pytest.mark.parametrize("text", ["", "0", "2x", "x2", "2x0", "2,4", "-1"])
def test_meshes_that_are_none(text, capsys):
    with pytest.raises(SystemExit):
        plan.arguments_of(["s.py", f"--mesh={text}"])
    assert "is no mesh; expected lengths of axes" in capsys.readouterr().err


PROGRAM = """HloModule x
%body (p: f32[2]) -> f32[2] {
  %a = f32[2,4]{1,0} all-gather(%p), replica_groups=[2,4]<=[8], dimensions={1}
}
%unused (p: f32[2]) -> f32[2] {
  %a = f32[2,4]{1,0} all-gather(%p), replica_groups=[2,4]<=[8]
}
ENTRY %main (p: f32[2]) -> f32[2] {
  %w = f32[2] while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %r = (f32[8]{0}, bf16[4]{0}) all-reduce(%p, %q), replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}, to_apply=%add
  %i = f32[2] all-reduce(%p), replica_groups=mesh['axis_0'=4,'axis_1'=2], device_ids=([2,4]T(1,0)) {'axis_0'}
  %s = f32[2]{0} reduce-scatter(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  %t = (f32[2]{0}, f32[4]{0}) all-gather-start(%p), replica_groups=[4,2]<=[2,4]T(1,0)
  %u = f32[4]{0} all-gather-done(%t)
  %v = pred[3] collective-permute(%p), source_target_pairs={{0,1},{1,0}}
  %x = f32[2] all-reduce(%p), replica_groups={}, to_apply=%add
}
"""


def test_collectives_of_a_program():
    found = hlo.collectives(PROGRAM, {"a": 2, "b": 4})
    assert {(c.kind, c.over, c.size): n for c, n in found.items()} == {
        ("all-gather", "b", 32): 5, ("all-reduce", "a", 40): 1, ("reduce-scatter", "b", 32): 1,
        ("all-reduce", "b", 8): 1,
        ("all-gather", "a", 16): 1, ("collective-permute", "2 devices", 3): 1, ("all-reduce", "all", 8): 1,
    }  # fmt: skip
