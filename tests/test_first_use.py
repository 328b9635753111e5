"""Importing the package imports little: its parts come when they are first used, under every name and alias."""

import ast
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fork_server
import pytest

import torchlike

ROOT = Path(torchlike.__file__).parent
LAZY = ["autograd", "compiler", "optim", "testing", "utils", "serialization", "func", "_library", "nn.modules"]


ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT.parent), os.environ["PYTHONPATH"]])}
Run = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """``run(code)``: the lines that it prints in a process that has imported jax, and nothing of the package."""
    with fork_server.started(tmp_path_factory.mktemp("codes"), "jax", env=ENV) as printed:
        yield lambda code: printed(code).splitlines()


def test_what_the_import_leaves_for_later():
    code = """
import sys, torchlike as torch
print(*(name for name in sys.modules if name.startswith(("torchlike.", "jax.extend"))))
assert not [name for name in ("optim", "compile", "nn", "Tensor", "save") if name not in dir(torch)]
assert "Linear" in dir(torch.nn) and callable(torch.nn.Linear.compile) and "torchlike.compiler" not in sys.modules
torch.nn.Linear(2, 3).compile()
assert torch.optim.SGD.__module__ == "torchlike.optim.sgd" and torch._dynamo.config and torch.ops.higher_order.scan
names = {}
exec("from torchlike import *", names)
exec("from torchlike.nn import *", names)
assert {"Linear", "Module", "optim", "compile", "load", "tensor"} <= names.keys() and "_api" not in names
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "torchlike._api" in loaded
    assert not [name for name in loaded if name.startswith(("jax.extend", *(f"torchlike.{part}" for part in LAZY)))]


def test_what_a_first_step_leaves_for_later(run):
    code = """
import sys
from torchlike import nn, optim
import torchlike as torch
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.SyncBatchNorm(3), nn.ReLU())
opt = optim.Adam(model.parameters())
model(torch.ones(4, 2)).sum().backward()
opt.step()
print(*(name for name in sys.modules if name.startswith(("torchlike.distributed", "torchlike.autograd"))))
assert torch.autograd.profiler.record_function and torch.nn.modules._functions.CrossMapLRN2d
"""
    assert run(code) == [""]


def test_python_without_docstrings_and_assertions(run):
    """As with ``python -OO``, of the package alone: to compile jax anew takes as long again."""
    code = """
from importlib.machinery import SourceFileLoader
usual = SourceFileLoader.get_code
def get_code(loader, name):
    if name.partition(".")[0] != "torchlike":
        return usual(loader, name)
    path = loader.get_filename(name)
    return compile(loader.get_data(path), path, "exec", dont_inherit=True, optimize=2)
SourceFileLoader.get_code = get_code
import torchlike as torch, torchlike.fx, torchlike.distributions
torch.nn.functional.conv1d(torch.ones(1, 1, 3, requires_grad=True), torch.ones(1, 1, 2)).sum().backward()
print(torch.hann_window(4).tolist(), torch.hann_window.__doc__)
"""
    assert run(code) == ["[0.0, 0.5, 1.0, 0.5] "]


@pytest.mark.parametrize("package", ["", "nn", "utils"])
def test_type_checkers_see_what_comes_later(package):
    """The imports for a type checker are the public submodules of the folder."""
    folder = ROOT / package
    tree = ast.parse((folder / "__init__.py").read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    prefix = f"torchlike.{package}".rstrip(".")
    own = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == prefix]
    named = {alias.name for node in own for alias in node.names}
    assert len(blocks) == 1
    assert {part.name for part in pkgutil.iter_modules([str(folder)]) if part.name[0] != "_"} <= named


GRADCHECK = {
    "an attribute": "import torch",
    "a plain import": "import torch.autograd.gradcheck",
    "another name": "import torch.autograd.gradcheck as g; assert g is torch.autograd.gradcheck",
    "from the module": "from torch.autograd.gradcheck import gradgradcheck, GradcheckError",
    "from the package": "from torch.autograd import gradcheck as g; assert g is torch.autograd.gradcheck",
    "importlib": "import importlib; importlib.import_module('torch.autograd.gradcheck')",
}
CALLABLE = "import torch, types; assert isinstance(torch.autograd.gradcheck, types.FunctionType)"


def test_a_function_with_the_name_of_its_module(run):
    """In PyTorch, and here under each order of imports and each alias, the name is the function."""
    statements = "\n".join(f"{code}\n{CALLABLE}" for code in GRADCHECK.values())
    exec(statements, {})
    before = ["", "import torchlike.autograd.gradcheck\n", "import torchlike.autograd\n"]
    for first in before:
        alias = f"{first}import torchlike; torchlike.install_as_torch()\n"
        run("\n".join(f"{alias}{code}; import torch\n{CALLABLE}" for code in GRADCHECK.values()))
    own = [code.replace("torch", "torchlike") for code in (*GRADCHECK.values(), CALLABLE)]
    run("\n".join(f"import torchlike\n{code}\n{own[-1]}" for code in own))


def test_every_module_under_its_alias(run):
    """``import torch.x.y`` gives the module, and leaves a name of ``torch.x`` that is no module as it was."""
    code = """
import importlib, pkgutil, types, torchlike
from torchlike.interop.renaming import SHARED
names = [m.name for m in pkgutil.walk_packages(torchlike.__path__, "torchlike.") if "__main__" not in m.name]
torchlike.install_as_torch()
for name in names:
    parent, _, last = name.rpartition(".")
    before = vars(importlib.import_module(parent.replace("torchlike", "torch", 1))).get(last)
    module = importlib.import_module(name.replace("torchlike", "torch", 1))
    assert module is importlib.import_module(name) and module.__spec__.name == module.__name__, name
    private = any(p[0] == "_" and p not in SHARED for p in name.split("."))
    assert module.__name__ == (name if private else name.replace("torchlike", "torch", 1)), module.__name__
    after = getattr(importlib.import_module(parent), last)
    assert after is (module if before is None else before), (name, before, after)
print(len(names))
"""
    assert int(run(code)[0]) > 300


def test_first_uses_by_many_threads(run):
    code = """
import threading, torchlike as torch
def use(i):
    parts = [lambda: torch.optim.SGD, lambda: torch.autograd.Function, lambda: torch.nn.Linear, lambda: torch.compile,
             lambda: torch.utils.data.DataLoader, lambda: torch.save, lambda: torch.nn.utils.clip_grad_norm_]
    barrier.wait()
    try:
        for k in range(len(parts)):
            assert callable(parts[(i + k) % len(parts)]())
    except BaseException as error:
        print(repr(error))
barrier = threading.Barrier(16)
threads = [threading.Thread(target=use, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
    assert run(code) == []


def test_pickles_find_what_was_not_used_yet(run):
    code = """
import io, pickle, subprocess, sys, torchlike as torch
values = [torch.optim.SGD, torch.nn.Linear(2, 3), torch.save, torch.nn.functional.relu, torch.utils.data.DataLoader]
print(pickle.dumps(values).hex())
"""
    [dumped] = run(code)
    assert run(f"import pickle; print(len(pickle.loads(bytes.fromhex('{dumped}'))))") == ["5"]


COLLECTOR = {
    "a failed import": ("sys.modules['torchlike._api'] = None", True),
    "a failed import of jax": ("sys.modules['jax'] = None", True),
    "off before": ("gc.disable()", False),
    "on before": ("", True),
    "frozen objects": ("x = [[]]; gc.freeze(); assert (n := gc.get_freeze_count())", True),
}


def test_the_garbage_collector_is_as_it_was(run):
    codes = [
        f"import gc, sys\n{before}\ntry:\n    import torchlike\nexcept ImportError: print('failed')\n"
        f"assert gc.isenabled() is {on}"
        for before, on in COLLECTOR.values()
    ]
    codes[-1] += "\nassert n - 100 < gc.get_freeze_count() <= n"
    assert [run(code) for code in codes] == [["failed"], ["failed"], [], [], []]


def test_what_a_layer_holds_that_is_imported_after_a_program_replaced_it(run):
    # PyTorch's attention holds the functions that were there when torch was imported.
    code = """
import torchlike as torch
torch.nn.init.xavier_uniform_ = torch.nn.functional.relu = print
layer = torch.nn.TransformerEncoderLayer(4, 2, 4)
print(bool(layer.self_attn.in_proj_weight.any()), layer.activation is print)
"""
    assert run(code) == ["True False"]
