"""`python -m torchlike run` against `python` itself, and `torch` as another name of this package.

Most programs run on a stand-in package made of the real runner and the real alias, with next to nothing
below them: what is compared is what the interpreter does, and a process then takes a fraction of a second.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import torchlike
from torchlike.interop import alias

REPOSITORY = Path(__file__).resolve().parent.parent
STAND_IN = {
    "__init__.py": """
        from torchlike import nn as nn
        from torchlike.interop.alias import install_as_torch as install_as_torch
        from torchlike.interop.alias import missing_names
        from torchlike.interop.alias import uninstall_as_torch as uninstall_as_torch
        __getattr__ = missing_names(__name__)
        def softmax(x): return x
    """,
    "nn/__init__.py": """
        from torchlike.interop.alias import missing_names
        from torchlike.nn import functional as functional
        __getattr__ = missing_names(__name__)
    """,
    "nn/functional.py": "def relu(x): return max(x, 0)",
    "utils/__init__.py": "",
    "utils/data.py": "class DataLoader: pass",
    "broken.py": "import no_such_dependency",
}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory) -> Path:
    """A folder whose `torchlike` has the real __main__.py and interop/ and otherwise STAND_IN."""
    folder = tmp_path_factory.mktemp("stand-in")
    write(folder / "torchlike", STAND_IN)
    real = REPOSITORY / "torchlike"
    shutil.copy(real / "__main__.py", folder / "torchlike")
    shutil.copytree(real / "interop", folder / "torchlike" / "interop")
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))


def python(*arguments: str, cwd: Path, path: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    settings = dict(capture_output=True, text=True, timeout=240, check=False)
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, input=given, **settings)


def same_as_python(tmp_path: Path, stand_in: Path, files: dict[str, str], *arguments: str, given: str = ""):
    """Run a program both ways; stdout, stderr and exit status must agree. Returns our run."""
    write(tmp_path, files)
    plain = python(*arguments, cwd=tmp_path, path=stand_in, given=given)
    ours = python("-m", "torchlike", "run", *arguments, cwd=tmp_path, path=stand_in, given=given)
    assert ours.stdout == plain.stdout
    assert ours.stderr == without_runpy(plain.stderr)
    assert ours.returncode == plain.returncode
    return ours


def without_runpy(text: str) -> str:
    return re.sub(r'^  File "<frozen runpy>".*\n', "", text, flags=re.MULTILINE)


WHERE_AM_I = """\
    '''A docstring.'''
    import sys
    print(__name__, __doc__, __file__, __package__, __cached__, sorted(globals()))
    print(type(__loader__).__name__, __spec__ and __spec__.name, vars(sys.modules["__main__"]) is globals())
    print(sys.argv, sys.path, sys.stdin.read())
    import neighbour
"""

FAILING = """\
    import atexit
    atexit.register(lambda: print("goodbye", helper()))
    def helper():
        return __name__
    def fail(depth):
        try:
            return fail(depth - 1) if depth else [].pop()
        except IndexError as error:
            raise ValueError("deep") from error
    fail(1)
"""

OWN_HOOK = """\
    import sys, traceback
    def hook(kind, value, trace):
        print("hook", kind.__name__, value, [frame.name for frame in traceback.extract_tb(trace)])
        assert value.__traceback__ is trace
    sys.excepthook = hook
    def fail():
        1 / 0
    fail()
"""

PROGRAMS = {
    "its own place": (
        {"sub/script.py": WHERE_AM_I, "sub/neighbour.py": "print(__name__, __file__)"},
        ["sub/script.py", "--epochs", "3", "-m", "-", "--help", ""],
    ),
    "an uncaught exception": ({"fail.py": FAILING}, ["fail.py"]),
    "an exception hook of its own": ({"hook.py": OWN_HOOK}, ["hook.py"]),
    "an exit status": ({"exit.py": "raise SystemExit(7)"}, ["exit.py"]),
    "an exit message": ({"exit.py": "import sys; sys.exit('that went wrong')"}, ["exit.py"]),
    "an interrupt": ({"stop.py": "def f():\n    raise KeyboardInterrupt\nf()"}, ["stop.py"]),
    "a syntax error": ({"bad.py": "x = 1\ny = (\n"}, ["bad.py"]),
    "a source encoding": ({"latin.py": "# coding: utf-8\nprint('é'.encode())\n"}, ["latin.py"]),
    "no such file": ({}, ["nope.py", "-x"]),
    "a folder's package": (
        {"pkg/__init__.py": "import sys; print(sys.argv)", "pkg/__main__.py": WHERE_AM_I, "neighbour.py": ""},
        ["-m", "pkg", "-m", "--flag"],
    ),
    "a module that fails": ({"pkg/fail.py": FAILING}, ["-m", "pkg.fail"]),
    "no such module": ({}, ["-m", "nope"]),
    "no such parent": ({}, ["-m", "nope.module"]),
    "a package without __main__": ({"pkg/__init__.py": ""}, ["-m", "pkg"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_as_python_does(name, tmp_path, stand_in):
    files, arguments = PROGRAMS[name]
    same_as_python(tmp_path, stand_in, files, *arguments, given="typed")


def test_a_symbolic_link_finds_the_neighbours_of_its_target(tmp_path, stand_in):
    write(tmp_path, {"sub/script.py": WHERE_AM_I, "sub/neighbour.py": "print(__file__)"})
    (tmp_path / "link.py").symlink_to(tmp_path / "sub" / "script.py")
    same_as_python(tmp_path, stand_in, {}, "link.py")


MISUSES = {(): 2, ("run",): 2, ("run", "-x"): 2, ("walk", "script.py"): 2, ("--help",): 0}


@pytest.mark.parametrize("arguments", MISUSES)
def test_usage(arguments, tmp_path, stand_in):
    done = python("-m", "torchlike", *arguments, cwd=tmp_path, path=stand_in)
    assert done.returncode == MISUSES[arguments]
    assert (done.stderr or done.stdout).startswith("usage: python -m torchlike run SCRIPT")


ALIASES = """\
    import importlib.util, sys
    import torchlike
    before = {n: m.__spec__ for n, m in sys.modules.items() if n.startswith("torchlike")}

    import torch
    import torch.nn.functional as F
    from torch import nn, softmax
    from torch.utils.data import DataLoader
    assert torch is torchlike and nn is torchlike.nn and F is torchlike.nn.functional
    assert sys.modules["torch.nn"] is torchlike.nn and torch.nn.functional.relu is F.relu
    assert DataLoader is sys.modules["torchlike.utils.data"].DataLoader
    assert torch.utils.__spec__.name == torch.utils.__name__ == "torchlike.utils"
    assert all(sys.modules[name].__spec__ is spec for name, spec in before.items())
    assert importlib.util.find_spec("torch") is not None
    assert importlib.util.find_spec("torch.utils.data") is not None

    def message(statement):
        try:
            exec(statement, {"torch": torch})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    for statement in ["torch.foo", "torch.nn.Foo", "torch._foo", "torch.__foo__", "import torch.foo",
                      "import torch.nn.foo", "from torch.foo.bar import baz", "import torch.broken"]:
        print(message(statement))
    print(message("from torch import foo").partition(" (")[0])
    assert not hasattr(torch, "foo") and getattr(torch.nn, "foo", 3) == 3
    assert importlib.util.find_spec("torch.foo") is None

    torch.install_as_torch()
    assert sum(type(finder).__name__ == "_AliasFinder" for finder in sys.meta_path) == 1
    torch.uninstall_as_torch()
    torch.uninstall_as_torch()
    assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
    assert torch.nn is sys.modules["torchlike.nn"]
    torch.softmx
"""

ALIASES_PRINT = """\
AttributeError: torchlike does not have torch.foo yet
AttributeError: torchlike does not have torch.nn.Foo yet
AttributeError: torchlike does not have torch._foo yet
AttributeError: module 'torchlike' has no attribute '__foo__'
ModuleNotFoundError: torchlike does not have the module torch.foo yet
ModuleNotFoundError: torchlike does not have the module torch.nn.foo yet
ModuleNotFoundError: torchlike does not have the module torch.foo yet
ModuleNotFoundError: No module named 'no_such_dependency'
ImportError: cannot import name 'foo' from 'torchlike'
"""


def test_torch_is_another_name_of_the_same_modules(tmp_path, stand_in):
    write(tmp_path, {"script.py": ALIASES})
    done = python("-m", "torchlike", "run", "script.py", cwd=tmp_path, path=stand_in)
    assert done.stdout == ALIASES_PRINT, done.stderr
    assert "torchlike does not have torch.softmx yet. Did you mean: 'softmax'?" in done.stderr


def test_refuses_to_stand_in_beside_pytorch(monkeypatch):
    import torch

    finders, modules = list(sys.meta_path), dict(sys.modules)
    with pytest.raises(RuntimeError, match=r"install_as_torch: torch is already imported, from .*\.py"):
        alias.install_as_torch()
    assert sys.modules["torch"] is torch
    assert (sys.meta_path, dict(sys.modules)) == (finders, modules)


PORTED = """\
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.arange(12.0).reshape(6, 2) / 12
    y = x.sum(1, keepdim=True)
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=3):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(epoch, f"{loss.item():.5f}", model.weight)
"""


def test_an_unmodified_script_prints_what_pytorch_prints(tmp_path):
    write(tmp_path, {"script.py": PORTED})
    ours = python("-m", "torchlike", "run", "script.py", cwd=tmp_path, path=REPOSITORY)
    plain = python("script.py", cwd=tmp_path, path=tmp_path)
    assert (ours.stdout, ours.returncode) == (plain.stdout, 0), ours.stderr


def test_the_package_offers_the_alias():
    assert torchlike.install_as_torch is alias.install_as_torch
    assert torchlike.uninstall_as_torch is alias.uninstall_as_torch
