"""The stubs of type checkers and editors. What mypy says of a program that uses them is part of `make lint`."""

import importlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_stubs_are_current():
    run = subprocess.run([sys.executable, ROOT / "docs/make_stubs.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_mypy_reads_the_program_that_tests_them():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'files = ["torchlike", "tests/typed_program.py"]' in text and '"**/*.pyi"' in text
    program = (ROOT / "tests/typed_program.py").read_text()
    assert program.count("assert_type(") > 20 and program.count("# type: ignore[") >= 8


def test_stubs_are_python():
    for path in (ROOT / "torchlike").rglob("*.pyi"):
        compile(path.read_text(), str(path), "exec")
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        assert path.stem == "_methods" or importlib.import_module(name)
