"""Every ```python block of README.md and docs/*.md runs, from top to bottom of its page."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchlike  # noqa: F401  (declares the operators)
from torchlike._decl.op import REGISTRY

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [*sorted(REPOSITORY.glob("README.md")), *sorted(REPOSITORY.glob("docs/*.md"))]  # docs/api is generated
BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(page: Path) -> int:
    """Run the blocks of a page in one namespace, those of `>>>` as doctests; returns how many there are."""
    text, namespace = page.read_text(), {"__name__": page.stem}
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_code_blocks_run(page, tmp_path):
    """In a process of its own, which has not imported PyTorch: as a reader would run them."""
    code = "import sys, pathlib, test_docs; test_docs.run_page(pathlib.Path(sys.argv[1]))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(REPOSITORY)])}
    command = [sys.executable, "-c", code, str(page)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
