"""Every ```python block of README.md and docs/*.md runs, from top to bottom of its page."""

from __future__ import annotations

import doctest
import gc
import inspect
import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import lowering_kit  # noqa: F401 (lowering takes less time)
import pytest
from process_kit import free_port

import torchlike
from torchlike._decl.op import REGISTRY

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [*sorted(REPOSITORY.glob("README.md")), *sorted(REPOSITORY.glob("docs/*.md"))]  # docs/api is generated
BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(page: Path) -> int:
    """Run the blocks of a page in one namespace, those of `>>>` as doctests; returns how many there are."""
    text, namespace = page.read_text(), {"__name__": page.stem}
    text = text.replace(":29500", f":{free_port()}")  # PyTorch's usual port may be somebody's
    blocks = list(BLOCK.finditer(text))
    opened = len(re.findall(r"^ *```+ *python", text, re.MULTILINE))
    assert len(blocks) == opened, f"{page}: a block is not closed"
    for block in blocks:
        before = text.count("\n", 0, block.start("code"))  # so that errors name the line of the page
        code = re.sub(f"^{block['indent']}", "", block["code"], flags=re.MULTILINE)
        if code.lstrip().startswith(">>>"):
            run_session(code, namespace, page, before)
        else:
            exec(compile("\n" * before + code, str(page), "exec"), namespace)
    return len(blocks)


def run_session(code: str, namespace: dict[str, object], page: Path, before: int) -> None:
    session = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), before)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(session, out=report.append, clear_globs=False)
    namespace.update(session.globs)
    assert not result.failed, "".join(report)


def serve() -> None:
    """Run the pages that are asked for, each in a child of this process, which has imported the package and no more."""
    gc.collect()
    gc.freeze()  # a child's collector would copy the parent's memory by looking at it
    for line in sys.stdin:
        page, folder = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_alone(Path(page), Path(folder)))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)


def _alone(page: Path, folder: Path) -> int:
    """The exit status of a process that runs a page in a folder; what it prints is in the file `printed` there."""
    with (folder / "printed").open("w") as printed:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(printed.fileno(), stream.fileno())
    os.chdir(folder)
    try:
        if re.search(r"^import torch$", text := page.read_text(), re.MULTILINE) and "install_as_torch()" not in text:
            torchlike.install_as_torch()  # the page shows scripts that torchlike runs
        run_page(page)
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


@pytest.fixture(scope="module")
def reader() -> Iterator[Callable[[Path, Path], str | None]]:
    """Runs a page in a folder, in a process that has not imported PyTorch; gives what was printed if it fails."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(REPOSITORY)])}
    command = [sys.executable, "-c", "import test_docs; test_docs.serve()"]
    server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(page: Path, folder: Path) -> str | None:
        server.stdin.write(json.dumps([str(page), str(folder)]) + "\n")
        server.stdin.flush()
        status = server.stdout.readline().strip()
        return None if status == "0" else f"exit status {status}\n{(folder / 'printed').read_text()}"

    with server:
        yield run
        server.stdin.close()
    assert server.returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_code_blocks_run(page, reader, tmp_path):
    """In a process of its own, as a reader would run them."""
    assert reader(page, tmp_path) is None


def test_a_page_that_fails_says_why(reader, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("  2\n", "  3\n"))
    assert "page.md" in (said := reader(page, tmp_path)) and "exit status 1" in said and "Expected:\n    3" in said


PAGE = """
Text, and a block of another language:

```console
$ this is not python
```

```python
x = 1
```

- in a list:

  ```python
  >>> x + 1
  2
  >>> y = [x,
  ...      x]
  ```

```python
assert y == [1, 1]
```
"""


def test_blocks_share_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page) == 3


BROKEN = {
    "code": ("assert y", "assert not y", AssertionError, None),
    "session": ("  2\n", "  3\n", AssertionError, r"page\.md.*line 15"),
    "exception": ("x = 1", "x = 1 / 0", ZeroDivisionError, None),
    "not closed": ("[1, 1]\n```", "[1, 1]", AssertionError, "is not closed"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_block_fails(name, tmp_path):
    old, new, error, message = BROKEN[name]
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(old, new))
    with pytest.raises(error, match=message) as caught:
        run_page(page)
    if name == "exception":
        assert (caught.traceback[-1].path, caught.traceback[-1].lineno) == (page, 8)


DOCUMENTED = [op for op in REGISTRY.values() if ">>>" in (op.kernel.__doc__ or "")]


@pytest.mark.parametrize("op", DOCUMENTED, ids=lambda op: op.full_name)
def test_examples_of_operators_run(op):
    """doctest sees modules, functions and classes; the examples of operators stand in their kernels."""
    run_session(inspect.cleandoc(op.kernel.__doc__), {}, Path(f"{op.full_name}.md"), 0)
