"""Code in processes that have imported some modules and no more, each a fork of one that imported them: quicker.

    with fork_server.started(folder, "jax") as run:
        run("import torchlike; print(1)")  # "1\\n"

As a script: ``python fork_server.py FOLDER MODULE ...``, which imports nothing else of the tests.
"""

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def started(folder: Path, *modules: str, env: Mapping[str, str]) -> Iterator[Callable[[str], str]]:
    """``run(code)``: what the code prints; an AssertionError with that if it fails."""
    command = [sys.executable, __file__, str(folder), *modules]
    server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(code: str) -> str:
        server.stdin.write(json.dumps(code) + "\n")
        server.stdin.flush()
        status, printed = server.stdout.readline().strip(), (folder / "printed").read_text()
        assert status == "0", printed
        return printed

    with server:
        yield run
        server.stdin.close()
    assert server.returncode == 0


def serve(printed: Path) -> None:
    gc.collect()
    gc.freeze()  # a child's collector would copy this process's memory by looking at it
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(_alone(json.loads(line), printed))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _alone(code: str, printed: Path) -> int:
    """The exit status of code, run as a script of its own."""
    with printed.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv[:] = ["-c"]
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    place, *wanted = sys.argv[1:]
    sys.path.remove(str(Path(__file__).parent))
    for name in wanted:
        importlib.import_module(name)
    serve(Path(place) / "printed")
