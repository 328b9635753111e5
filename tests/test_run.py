"""`python -m torchlike run` against `python` itself, and `torch` as another name of this package.

Most programs run on a stand-in package made of the real runner and the real alias, with next to nothing
below them: what is compared is what the interpreter does, and a process then takes a fraction of a second.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import pytorchs
import torch as pytorch

import torchlike
from torchlike import torch_version, version
from torchlike.interop import alias, search_path

REPOSITORY = Path(__file__).resolve().parent.parent
STAND_IN = {
    "__init__.py": """
        from torchlike import nn as nn
        from torchlike import version as version
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
    (folder / "torchlike" / "_base").mkdir()
    for name in ("version.py", "torch_version.py", "_base/__init__.py", "_base/home.py"):
        shutil.copy(real / name, folder / "torchlike" / name)
    shutil.copytree(real / "interop", folder / "torchlike" / "interop")
    (folder / "torchlike" / "interop" / "__init__.py").write_text("")  # which loads the border to jax
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


def same_as_pytorch(tmp_path: Path, script: str) -> None:
    """Run a script both ways, unless it is known what PyTorch prints."""
    write(tmp_path, {"script.py": script})
    ours = python("-m", "torchlike", "run", "script.py", cwd=tmp_path, path=REPOSITORY)

    def theirs() -> str:
        return python("script.py", cwd=tmp_path, path=tmp_path).stdout

    expected = pytorchs.same(f"test_run {pytorchs.checksum(script)}", [script], ours.stdout, theirs)
    assert (ours.stdout, ours.returncode) == (expected, 0), ours.stderr


def without_runpy(text: str) -> str:
    return re.sub(r'^  File "<frozen runpy>".*\n', "", text, flags=re.MULTILINE)


WHERE_AM_I = """\
    '''A docstring.'''
    import sys
    print(__name__, __doc__, __file__, __package__, __cached__, sorted(globals()))
    print(type(__loader__).__name__, __spec__ and __spec__.name, vars(sys.modules["__main__"]) is globals())
    print(sys.argv, [folder for folder in sys.path if not folder.endswith("children")], sys.stdin.read())
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
    assert (torch.utils.__spec__.name, torch.utils.__name__) == ("torch.utils", "torch.utils")
    assert all(sys.modules[name].__spec__ is spec for name, spec in before.items())
    assert importlib.util.find_spec("torch") is not None
    assert importlib.util.find_spec("torch.utils.data") is not None

    def message(statement):
        try:
            exec(statement, {"torch": torch})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    for statement in ["torch.foo", "torch.nn.Foo", "torch._foo", "torch.nn.Conv3d()", "torch.__foo__",
                      "import torch.foo", "import torch.nn.foo", "from torch.foo.bar import baz",
                      "import torch.broken"]:
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
AttributeError: module 'torch' has no attribute 'foo'
AttributeError: module 'torch.nn' has no attribute 'Foo'
AttributeError: torchlike does not have torch._foo yet
NotImplementedError: torch.nn.Conv3d: not in torchlike yet
AttributeError: module 'torch' has no attribute '__foo__'
ModuleNotFoundError: torchlike does not have the module torch.foo yet
ModuleNotFoundError: torchlike does not have the module torch.nn.foo yet
ModuleNotFoundError: torchlike does not have the module torch.foo yet
ModuleNotFoundError: No module named 'no_such_dependency'
ImportError: cannot import name 'foo' from 'torch'
"""


def test_torch_is_another_name_of_the_same_modules(tmp_path, stand_in):
    write(tmp_path, {"script.py": ALIASES})
    done = python("-m", "torchlike", "run", "script.py", cwd=tmp_path, path=stand_in)
    assert done.stdout == ALIASES_PRINT, done.stderr
    assert "module 'torchlike' has no attribute 'softmx'. Did you mean: 'softmax'?" in done.stderr


def test_refuses_to_stand_in_beside_pytorch(monkeypatch):
    import torch

    finders, modules = list(sys.meta_path), dict(sys.modules)
    with pytest.raises(RuntimeError, match=r"install_as_torch: torch is already imported, from .*\.py"):
        alias.install_as_torch()
    assert sys.modules["torch"] is torch
    assert (sys.meta_path, dict(sys.modules)) == (finders, modules)


IDENTITY = """\
    import importlib.metadata, pickle, pickletools, re, subprocess, sys
    import multiprocessing
    import torch
    import torch.nn as nn

    def child(queue):
        import torch
        queue.put((torch.__name__, str(torch.__version__), torch.Tensor.__module__))

    if __name__ == "__main__":
        print(torch.__name__, torch.nn.functional.__name__, torch.torch is torch, torch.__version__ >= (2, 0))
        kinds = [torch.Tensor, torch.Size, torch.dtype, torch.device, torch.Generator, torch.no_grad, nn.Linear,
                 nn.Parameter, nn.MultiheadAttention, nn.ChannelShuffle, torch.optim.SGD, torch.optim.Optimizer,
                 torch.optim.Adafactor, torch.optim.lr_scheduler.OneCycleLR, torch.utils.data.DataLoader,
                 torch.utils.hooks.RemovableHandle, torch.distributions.Normal, torch.storage.UntypedStorage,
                 torch.distributions.transforms.ComposeTransform, torch.autograd.Function, torch.amp.GradScaler,
                 torch.autocast, torch.finfo, torch.nn.functional.relu, torch.cuda.is_available]
        print([f"{kind.__module__}.{kind.__qualname__}" for kind in kinds])
        found = importlib.metadata.version("torch"), torch.version.__version__
        assert found == (str(torch.__version__),) * 2, found
        dumped = pickle.dumps([nn.Linear(2, 3), torch.nn.functional.relu, torch.optim.SGD, torch.Size([2])])
        texts = {a for op, a, _ in pickletools.genops(dumped) if isinstance(a, str) and a.startswith("torch")}
        print(sorted(t for t in texts if not re.search("conversion|storage", t)), pickle.loads(dumped)[0])
        code = "import torch, importlib.metadata as m; print(m.version('torch') == torch.__version__, torch.__name__)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        from torch.optim.adam import Optimizer, Tensor, torch as itself  # what PyTorch's modules import from elsewhere
        from torch.functional import F, TYPE_CHECKING, handle_torch_function
        from torch.nn.functional import ScalingType
        print(Optimizer is torch.optim.Optimizer, Tensor is torch.Tensor, itself is torch, F is nn.functional,
              handle_torch_function is torch.overrides.handle_torch_function, TYPE_CHECKING,
              isinstance(torch.ones(1), ScalingType))
        for method in ("spawn", "fork"):
            context = multiprocessing.get_context(method)
            queue = context.SimpleQueue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            assert queue.get() == ("torch", str(torch.__version__), "torch")
            process.join()
            print(method, process.exitcode)
"""


def test_it_shows_pytorchs_names(tmp_path):
    """Names of modules and classes, versions, pickles; in child processes too."""
    same_as_pytorch(tmp_path, IDENTITY)


UNDONE = """\
    import os, sys
    before = os.environ["PYTHONPATH"], list(sys.path), sys.excepthook, list(sys.meta_path)
    import torchlike
    import torchlike.nn
    def shown():
        kinds = torchlike.Tensor, torchlike.nn.Linear, torchlike.no_grad, torchlike.nn.functional.relu
        return torchlike.__name__, torchlike.__version__, [kind.__module__ for kind in kinds]
    names = shown()
    torchlike.install_as_torch()
    import torch.optim
    assert shown() != names and torch.optim.SGD.__module__ == "torch.optim.sgd"
    torchlike.uninstall_as_torch()
    assert shown() == names and torchlike.optim.SGD.__module__ == "torchlike.optim.sgd", shown()
    assert (os.environ["PYTHONPATH"], sys.path, sys.excepthook, sys.meta_path) == before
    import torch
    print(torch.__version__, torch.Tensor is torchlike.Tensor)
"""


def test_nothing_is_left_of_an_alias_that_was_taken_back(tmp_path):
    write(tmp_path, {"script.py": UNDONE})
    done = python("script.py", cwd=tmp_path, path=REPOSITORY)
    assert done.stdout == f"{pytorch.__version__} False\n", done.stderr


ERRORS = """\
    import torch
    def inner(x):
        return x @ torch.ones(2, 3)
    def outer(x):
        try:
            inner(x)
        except RuntimeError as error:
            raise ValueError("outer") from error
    outer(torch.ones(2, 3))
"""


def test_tracebacks_have_the_users_lines(tmp_path):
    write(tmp_path, {"script.py": ERRORS})
    run = "-m", "torchlike", "run", "script.py"
    short = python(*run, cwd=tmp_path, path=REPOSITORY).stderr
    assert short.count("  File ") == 4 == short.count("script.py"), short
    assert re.search(r"\nRuntimeError: mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\).*\n\nThe above", short)
    assert short.endswith("\nValueError: outer\n")
    in_full = f"import os, runpy, sys; os.environ['TORCHLIKE_TRACEBACK'] = 'full'; sys.argv = {list(run[1:])}"
    shown = "runpy.run_module('torchlike', run_name='__main__')"
    full = python("-c", f"{in_full}; {shown}", cwd=tmp_path, path=REPOSITORY).stderr
    assert "_executor" in full and full.endswith("\nValueError: outer\n")


def test_the_metadata_of_the_stand_in():
    """The folder that children search says the version that the package shows."""
    found = importlib.metadata.distributions(name="torch", path=[search_path.FOLDER])
    assert [each.version for each in found] == [version.STANDS_FOR]


COMPARED = [
    "2.13.0", "2.13", "2.13.0+cpu", "2.13.0+cu", "2.13.0+1", "2.13.0+cpu.1", "2.13.0.dev20260101", "2.13.0a0",
    "2.13.0rc1", "2.13.0alpha2", "2.13.0a1.dev3", "2.13.0.post1", "2.13.0.post1.dev2", "2.13.0-1", "v2.13", "2.14",
    "1!0.1", "parrot",
]  # fmt: skip
BESIDE = [(2, 13), (2, 13, 1), [2, 12], (2, "parrot"), 3, None, 2.0]
ORDERS = ("__gt__", "__lt__", "__eq__", "__ge__", "__le__")


@pytest.mark.parametrize("text", COMPARED)
def test_versions_compare_as_pytorchs(text):
    ours, theirs = torch_version.TorchVersion(text), pytorch.torch_version.TorchVersion(text)
    for other in (*COMPARED, *BESIDE):
        said = [[getattr(v, order)(other) for order in ORDERS] for v in (ours, theirs)]
        assert said[0] == said[1], other
    assert hash(ours) == hash(text) and ours + "!" == text + "!"


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
    same_as_pytorch(tmp_path, PORTED)


def test_the_package_offers_the_alias():
    assert torchlike.install_as_torch is alias.install_as_torch
    assert torchlike.uninstall_as_torch is alias.uninstall_as_torch
