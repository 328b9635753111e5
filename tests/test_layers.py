"""The rules on who may import whom, kept by reading the sources; and proof that the reader can object."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchlike._core.dispatch import layers

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = "torchlike"
LAYERS = {"_base": 0, "_decl": 1, "_executor": 2, "_ops": 2, "_core": 3, "_aten": 4, "_transforms": 5}
TOP = 6
# The order of the public layer: a package or module imports what stands on lines above its own, and itself.
PUBLIC = """
_utils
_tensor storage
version
torch_version
interop _functions _later _setup types utils._pytree_keys
utils._pytree_nodes
utils._pytree_text utils._swap
utils._pytree utils._checkpoint_selective
futures _streams _formerly _aten_privates _dispatch utils._triton utils._foreach_utils
_jit_internal
accelerator xpu mps mtia onnx multiprocessing _checks _classes __config__ __future__
_tensor_str
amp interop.jax_functions
random linalg fft signal sparse special cpu cuda distributed
backends
_logging autograd
nn masked
func distributed.nn distributed._composable_state
distributed._functional_collectives
sharding distributed.device_mesh
distributed.tensor
distributed.fsdp distributed._tensor
profiler viz
nn.attention optim quasirandom utils utils._python_dispatch utils.data utils.hooks
_api _composites conventions interop.checkpoints return_types overrides testing utils._checkpoint_reentrant
utils.op_profile utils.dlpack _subclasses nested
_guards
_functorch _vmap_internals functional serialization compiler export utils.checkpoint utils.module_tracker
distributed.checkpoint distributed.optim distributed.algorithms distributed._composable
distributed._state_dict_utils
jit distributions hub fx ao
quantization nn.quantized nn.qat nn.intrinsic
_functorch.partitioners
_functorch.aot_autograd _functorch.config
_functorch.compilers
functorch _library _inductor utils.flop_counter distributed.pipelining
_C library _higher_order_ops distributed._functional_ops
distributed._dispatched
_VF
_dynamo
_custom_ops
utils.cpp_extension utils.model_zoo
_command
"""
FLOORS = {unit: floor for floor, line in enumerate(PUBLIC.split("\n")) for unit in line.split()}
WHOLE = len(PUBLIC)  # the package itself, and its command
RUNTIME = {PACKAGE, "jax", "jaxlib", "numpy", "ml_dtypes", "scipy", *sys.stdlib_module_names}
LINES = 600


def violations(root: Path) -> list[str]:
    """Every breach of the rules in the package at `root`, as `file:line: what`."""
    return sorted(fault for file in root.rglob("*.py") for fault in faults_of(root, file))


def faults_of(root: Path, file: Path) -> Iterator[str]:
    place, source = file.relative_to(root.parent), file.read_text()
    tree = ast.parse(source, str(place))
    layer = layer_of(list(file.relative_to(root).with_suffix("").parts))
    if (lines := len(source.splitlines())) >= LINES:
        yield f"{place}: {lines} lines; a file has fewer than {LINES}: split it along its meaning"
    for node, inside_function in walk(tree):
        for name in imported(node, place, root):
            own = name.split(".")[0] == PACKAGE
            if own and inside_function:
                yield f"{place}:{node.lineno}: imports {name} inside a function"
            if own and layer_of(name.split(".")[1:]) > layer:
                yield f"{place}:{node.lineno}: imports {name}, from a layer above its own"
            if own and layer == TOP and (problem := out_of_order(place, name)):
                yield f"{place}:{node.lineno}: {problem}"
            if name.split(".")[0] not in RUNTIME:
                yield f"{place}:{node.lineno}: imports {name}, which is no runtime dependency"
        if layer < TOP and imports_by_call(node):
            yield f"{place}:{node.lineno}: imports by a call, which hides what it imports"
    if file.name == "__init__.py":
        yield from logic_in_init(place, tree)


def layer_of(parts: list[str]) -> int:
    return LAYERS.get(parts[0], TOP) if parts else TOP


def out_of_order(place: Path, name: str) -> str:
    """What is wrong with the import of the public module ``name`` by another; packages may import their own parts."""
    parts, target = list(place.with_suffix("").parts[1:]), name.split(".")[1:]
    if layer_of(target) < TOP or parts[-1] == "__init__" and target[: len(parts) - 1] == parts[:-1]:
        return ""
    (own, floor), (other, below) = unit_of(parts), unit_of(target)
    if floor is None:
        return f"has no place in the order of the public layer (PUBLIC in {Path(__file__).name})"
    return f"imports {name}, which is not below {own}" if own != other and (below is None or below >= floor) else ""


def unit_of(parts: list[str]) -> tuple[str, int | None]:
    """The entry of PUBLIC that a module belongs to, and its place."""
    if not parts or parts[0] in ("__init__", "__main__"):
        return PACKAGE, WHOLE
    unit = ".".join(parts[:2])
    return (unit, FLOORS[unit]) if unit in FLOORS else (parts[0], FLOORS.get(parts[0]))


def walk(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes below `node`, with whether a function encloses them."""
    for child in ast.iter_child_nodes(node):
        yield child, inside
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from walk(child, inside or function)


def imported(node: ast.AST, place: Path, root: Path) -> list[str]:
    """The modules that an import statement loads, by absolute name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = list(place.parent.parts)[: len(place.parent.parts) - node.level + 1] if node.level else []
    origin = ".".join([*package, *([node.module] if node.module else [])])
    # `from package import name` loads name where it is a module, and else the package alone.
    folder = root.parent.joinpath(*origin.split("."))
    names = [alias.name for alias in node.names]
    modules = [name for name in names if (folder / name).is_dir() or (folder / f"{name}.py").is_file()]
    return [f"{origin}.{name}" for name in modules] + ([origin] if len(modules) < len(names) else [])


def imports_by_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called in ("import_module", "__import__")


def logic_in_init(place: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{place}:{node.lineno}: defines {node.name}; an __init__ file only re-exports"


def test_the_package_keeps_the_rules():
    faults = violations(REPOSITORY / PACKAGE)
    assert not faults, "\n" + "\n".join(faults)


def test_every_package_has_its_init_file():
    """A folder without one would be left out of a built distribution."""
    files = (REPOSITORY / PACKAGE).rglob("*.py")
    assert not [file.parent for file in files if not (file.parent / "__init__.py").is_file()]


def test_every_folder_says_what_it_holds():
    """What lives there, what may import it, where to start reading; and what it names is there."""
    for folder in {file.parent for file in (REPOSITORY / PACKAGE).rglob("*.py")}:
        text = (folder / "README.md").read_text()
        assert text.startswith(f"# {folder.relative_to(REPOSITORY)}\n")
        assert "**May be imported by:**" in text
        start = text.partition("**Start reading at:**")[2]
        named = re.findall(r"`([\w/]+\.(?:py|md))`", start)
        places = (folder, REPOSITORY / PACKAGE, REPOSITORY)
        assert named and all(any((place / name).is_file() for place in places) for name in named), (folder, named)


def test_the_table_of_layers_of_a_call_is_the_list():
    """docs/internals.md names them in the order in which a call passes them."""
    page = (REPOSITORY / "docs" / "internals.md").read_text()
    table = page.partition("| layer | active while |")[2].partition("\n\n")[0]
    named = [line.split("|")[1].strip().strip("`") for line in table.splitlines()[2:]]
    besides = ("overrides", "autograd", "executor")
    assert [name for name in named if name not in besides] == [layer.name for layer in layers.LAYERS]


ABOVE, INSIDE, FOREIGN = "from a layer above its own", "inside a function", "is no runtime dependency"
# name: (file, source, what the complaint says)
BREACHES = {
    "upwards": ("_base/a.py", "from torchlike._core import tensor", f"torchlike._core.tensor, {ABOVE}"),
    "upwards by a plain import": ("_decl/a.py", "import torchlike._ops.unary", ABOVE),
    "upwards, relative": ("_ops/a.py", "from .._core.tensor import x", f"torchlike._core.tensor, {ABOVE}"),
    "upwards to a name": ("_core/a.py", "from torchlike._transforms import vmap", ABOVE),
    "upwards to a public module": ("_core/a.py", "from torchlike.nn import Module", ABOVE),
    "upwards to the package": ("_core/a.py", "import torchlike", f"imports torchlike, {ABOVE}"),
    "upwards from __init__": ("_base/__init__.py", "from .. import _core", f"torchlike._core, {ABOVE}"),
    "for a type checker": ("_base/a.py", "if TYPE_CHECKING:\n    from torchlike._core import tensor", ABOVE),
    "public, upwards": ("nn/a.py", "from torchlike.compiler import compile", "which is not below nn"),
    "public, sideways": ("autograd/a.py", "import torchlike.nn", "imports torchlike.nn, which is not below autograd"),
    "public, to a part": ("utils/data/a.py", "from torchlike.utils import checkpoint", "not below utils.data"),
    "public, to the package": ("nn/a.py", "import torchlike", "imports torchlike, which is not below nn"),
    "without a place": ("new/a.py", "import torchlike.nn", "has no place in the order"),
    "in a function": ("nn/a.py", "def f():\n    from torchlike._base import x", ":2: imports torchlike"),
    "in a method, relative": ("nn/a.py", "class A:\n    def f(self):\n        from . import b", INSIDE),
    "in an async function": ("nn/a.py", "async def f():\n    import torchlike", INSIDE),
    "by a call": ("_core/a.py", "import importlib\nx = importlib.import_module(name)", "imports by a call"),
    "PyTorch": ("nn/a.py", "def f():\n    import torch.nn", f"imports torch.nn, which {FOREIGN}"),
    "another library": ("nn/a.py", "from pandas import io", f"imports pandas, which {FOREIGN}"),
    "a long file": ("nn/a.py", "x = 1\n" * LINES, "600 lines; a file has fewer than 600"),
    "logic in __init__": ("nn/__init__.py", "def f(): pass", "defines f; an __init__ file only re-exports"),
}

ALLOWED = {
    "_base/dtypes.py": "import jax.numpy as jnp\nimport ml_dtypes\nfrom numpy import dtype",
    "_decl/op.py": "from torchlike._base import dtypes\nfrom torchlike._base.dtypes import float32",
    "_ops/__init__.py": "",
    "_ops/unary.py": "from torchlike._executor.immediate import run\nfrom . import y",
    "_executor/immediate.py": "def f():\n    import threading\n    from jax import jit",
    "_core/tensor.py": "from .._ops import unary as u\nfrom torchlike import _base",
    "_transforms/vmap.py": "from torchlike._core.tensor import Tensor",
    "nn/__init__.py": "from torchlike.nn.linear import Linear as Linear\n__all__ = ['Linear']",
    "nn/linear.py": "import importlib\nimport torchlike.nn\nfrom .._functions import x\n" + "x = 1\n" * (LINES - 4),
    "utils/__init__.py": "from torchlike.utils import checkpoint as checkpoint",
    "utils/checkpoint.py": "from torchlike.autograd import function",
    "interop/alias.py": "import importlib\ndef f(x):\n    return importlib.import_module(x)",
}


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / PACKAGE / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / PACKAGE / name).write_text(textwrap.dedent(text))
    return folder / PACKAGE


@pytest.mark.parametrize("name", BREACHES)
def test_each_breach_is_found(name, tmp_path):
    file, source, expected = BREACHES[name]
    faults = violations(tree(tmp_path, {**ALLOWED, file: source}))
    assert any(fault.startswith(f"{PACKAGE}/{file}:") and expected in fault for fault in faults), faults


def test_what_is_allowed_is_let_through(tmp_path):
    assert violations(tree(tmp_path, ALLOWED)) == []
