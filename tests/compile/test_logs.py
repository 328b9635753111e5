"""What is logged of compilation: chosen by TORCHLIKE_LOG or torch._logging.set_logs."""

import os
import subprocess
import sys

import torchlike as torch
from torchlike._base import logs

PROGRAM = """
import torchlike as torch
scale = 2.0
def step(x):
    return x * scale
def choose(x):
    return x if x.sum() > 0 else -x
run = torch.compile(step)
run(torch.ones(1)); run(torch.ones(2)); run(torch.ones(2).double())
scale = 3.0
run(torch.ones(1))
torch.compile(choose)(torch.ones(1))
"""


def logged(value, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([os.path.dirname(os.path.dirname(torch.__file__)), os.environ["PYTHONPATH"]])
    environment = os.environ | {"TORCHLIKE_LOG": value, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, tmp_path / "program.py"], env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_environment_chooses_what_is_logged(tmp_path):
    code, err = logged("graph_breaks,recompiles", tmp_path)
    assert code == 0
    lines = [line for line in err.splitlines() if line.startswith(("[torchlike.recompiles]", "[torchlike.graph_br"))]
    assert lines[0] == (
        "[torchlike.recompiles] recompiling step: argument 0 (float32[1] before, float32[2] now) has changed"
    )
    assert "(float32[2] before, float64[2] now)" in lines[1] and lines[2].endswith(" step: scale has changed")
    (found,) = [line for line in lines if "graph break in choose (" in line]
    assert "program.py:7: return x if x.sum() > 0 else -x: it needs the value of a tensor" in found
    assert 'program.py", line 7, in choose\n' in err and "torchlike.guards" not in err


def test_a_wrong_name_of_a_log(tmp_path):
    code, err = logged("guards,recompile", tmp_path)
    assert code != 0 and "there is no log called 'recompile'; expected a list of: all, compile, graph_breaks" in err


def test_set_logs(capsys):
    torch._logging.set_logs(guards=True, recompiles=True)
    scale = [2.0]
    f = torch.compile(lambda x: x * scale[0])
    f(torch.ones(1))
    scale[0] = 3.0
    f(torch.ones(1))
    shown = capsys.readouterr().err
    assert "[torchlike.guards]   float32[1]\n" in shown and "[torchlike.guards]   scale\n" in shown
    assert "[torchlike.recompiles] recompiling test_set_logs.<locals>.<lambda>: scale[0] has changed\n" in shown
    torch._logging.set_logs(dynamo=10, modules={"torchlike.somewhere": True})
    torch.compile(lambda x: x * 2)(torch.ones(1))
    assert "[torchlike.compile] program 1 of test_set_logs" in capsys.readouterr().err
    torch._logging.set_logs()
    torch.compile(lambda x: x * 3)(torch.ones(1))
    assert not capsys.readouterr().err


def test_every_category_is_a_logger():
    logs.enable(["all"])
    assert all(logger.level == 10 for logger in (logs.COMPILE, logs.GRAPH_BREAKS, logs.RECOMPILES, logs.GUARDS))
    logs.enable([])
    assert all(logger.level == 0 for logger in (logs.COMPILE, logs.GRAPH_BREAKS, logs.RECOMPILES, logs.GUARDS))
