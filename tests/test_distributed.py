"""torch.distributed of one process, next to PyTorch's, in a process of its own.

PyTorch's gloo has been seen to wait for ever in a process that thousands of other tests have run in.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_one_process():
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(HERE / "one_process.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=HERE.parent, env=dict(os.environ))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
