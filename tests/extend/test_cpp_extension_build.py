"""torch.utils.cpp_extension: when extensions are compiled, and what is refused."""

from __future__ import annotations

import inspect
import re
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch as pytorch
import torch.utils.cpp_extension as theirs
from both import agree_error
from cpp_kit import COMPILER, FUNCTIONS, RESULTS, ROOT, extension, needs_compiler, same

import torchlike as torch
import torchlike.utils.cpp_extension as ours
from torchlike.utils.cpp_extension import load, load_inline

pytestmark = pytest.mark.compilers


@pytest.fixture(autouse=True)
def execution():
    """Building knows nothing of how calls are executed: each test runs once."""
    return torch.get_execution()


@pytest.fixture(scope="module")
def ext():
    return extension()


# -- building --------------------------------------------------------------------------------------


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """A compiler that writes down each call; where it links it copies the library ``prebuilt``."""
    log, prebuilt = tmp_path / "log", tmp_path / "prebuilt.so"
    script = tmp_path / "fake-c++"
    script.write_text(f"""#!{sys.executable}
import pathlib, re, shutil, sys
line = sys.argv[1:]
out = pathlib.Path(line[line.index("-o") + 1]) if "-o" in line else None
if "--version" in line:
    print("fake 1.2.3")
    sys.exit()
with open({str(log)!r}, "a") as file:
    file.write(" ".join(line) + "\\n")
if "-c" in line:
    source = pathlib.Path(line[line.index("-c") + 1])
    if "broken" in source.read_text():
        sys.exit(f"{{source}}:3: error: it is broken")
    read = [source] + [source.parent / name for name in re.findall('#include "(.*)"', source.read_text())]
    pathlib.Path(line[line.index("-MF") + 1]).write_text(f"{{out}}: " + " \\\\\\n ".join(map(str, read)) + "\\n")
    out.write_text("object")
else:
    shutil.copy({str(prebuilt)!r}, out)
""")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "builds"))

    def lines():
        return log.read_text().splitlines() if log.exists() else []

    lines.prebuilt = prebuilt
    return lines


LOWERED = {"Lowered": FUNCTIONS["Lowered"]}


def built(tmp_path, name="some", text="int x;", **kwargs):
    source = tmp_path / f"{name}.cpp"
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    return load(name, source, functions=FUNCTIONS, results=RESULTS, **kwargs)


@needs_compiler
def test_built_once_for_each_content(ext, counting, tmp_path):
    shutil.copy(ext.__file__, counting.prebuilt)
    first = built(tmp_path)
    assert len(counting()) == 2  # compiled and linked
    assert built(tmp_path).__file__ == first.__file__ and len(counting()) == 2
    assert built(tmp_path, text="int y;").__file__ != first.__file__ and len(counting()) == 4
    built(tmp_path, text="int y;", extra_cflags=["-O3"], extra_ldflags=["-lm"])
    assert len(counting()) == 6 and " -O3 " in counting()[-2] and counting()[-1].endswith(" -lm")
    assert built(tmp_path).__file__ == first.__file__ and len(counting()) == 6
    same(first.shifted(torch.zeros(1)), np.ones(1, np.float32))


@needs_compiler
def test_an_included_file_counts(ext, counting, tmp_path):
    shutil.copy(ext.__file__, counting.prebuilt)
    header, text = tmp_path / "part.h", '#include "part.h"\n'
    header.write_text("int a;")
    first = built(tmp_path, text=text)
    assert built(tmp_path, text=text).__file__ == first.__file__ and len(counting()) == 2
    header.write_text("int b;")
    second = built(tmp_path, text=text)
    assert second.__file__ != first.__file__ and len(counting()) == 4
    header.unlink()
    built(tmp_path, text="int c;")  # something else is not concerned
    assert len(counting()) == 6


@needs_compiler
def test_another_process_compiles_nothing(ext, counting, tmp_path):
    shutil.copy(ext.__file__, counting.prebuilt)
    built(tmp_path)
    source = str(tmp_path / "some.cpp")
    script = f"""
import torchlike as torch
from torchlike.utils.cpp_extension import load
module = load("some", {source!r}, functions={LOWERED!r})
print(module.Lowered(torch.ones(2)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[0.5, 0.5]"
    assert len(counting()) == 2


@needs_compiler
def test_builds_at_the_same_time(ext, counting, tmp_path):
    shutil.copy(ext.__file__, counting.prebuilt)
    (tmp_path / "some.cpp").write_text("int x;")
    found = []
    threads = [threading.Thread(target=lambda: found.append(built(tmp_path).__file__)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1 and len(counting()) == 2


@needs_compiler
def test_files_of_a_build(ext, counting, tmp_path, capfd):
    shutil.copy(ext.__file__, counting.prebuilt)
    path = built(tmp_path, is_python_module=False, keep_intermediates=False, verbose=True)
    assert isinstance(path, str) and Path(path).parent == tmp_path / "builds" / "some"
    assert not list(Path(path).parent.glob("*.build"))
    assert "fake-c++ -MMD" in capfd.readouterr().out
    same(torch.ops.some.shifted(torch.zeros(1)), np.ones(1, np.float32))
    folder = tmp_path / "own"
    folder.mkdir()
    assert Path(built(tmp_path, build_directory=folder).__file__).parent == folder
    assert list(folder.glob("*.build/*.o"))


def test_error_of_the_compiler(counting, tmp_path):
    match = r"Error building extension 'some': .*some.cpp:3: error: it is broken.*The command was: .*fake-c\+\+ -MMD"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=re.compile(match, re.DOTALL)):
            built(tmp_path, text="broken")
    assert len(counting()) == 2
    assert not list((tmp_path / "builds" / "some").glob("*.json"))


@needs_compiler
def test_lines_of_inline_sources(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)Error building extension 'wrong'.*cpp_sources\[1\]:2:\d+: error"):
        load_inline("wrong", ["int a;", "int b;\nint c = nothing;"], functions=["f"], build_directory=tmp_path)


@needs_compiler
def test_a_function_that_cannot_be_called(tmp_path):
    source = "ffi::Error f(const char* x, ffi::ResultBuffer<ffi::F32> y) { return ffi::Error::Success(); }"
    with pytest.raises(RuntimeError, match="a parameter of a TORCHLIKE_FUNCTION is of a type that XLA's FFI cannot"):
        load_inline("wrong", source, functions=["f"], build_directory=tmp_path)


@needs_compiler
def test_exports_in_the_source(tmp_path):
    """What the source exports may be named again; two functions of one name are refused."""
    text = """namespace {
    void f(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) { y->typed_data()[0] = x.typed_data()[0] / 2; }
    TORCHLIKE_FUNCTION(f, "(Tensor x) -> Tensor");
    }"""
    module = load_inline("named", text, functions={"f": "Half of it."}, build_directory=tmp_path)
    assert module.f.__doc__ == "Half of it." and module.f.schema == "named::f(Tensor x) -> Tensor"
    same(module.f(torch.ones(1)), np.full(1, 0.5, np.float32))
    for name in ("one.cpp", "two.cpp"):
        (tmp_path / name).write_text(f"#include <torchlike/extension.h>\n{text}")
    with pytest.raises(RuntimeError, match="exports two functions 'f'"):
        load("both", [tmp_path / "one.cpp", tmp_path / "two.cpp"], build_directory=tmp_path)


@needs_compiler
def test_missing_functions(ext, counting, tmp_path):
    shutil.copy(ext.__file__, counting.prebuilt)
    (tmp_path / "some.cpp").write_text("int x;")
    with pytest.raises(RuntimeError, match=r"has no function 'Nope'; expected TORCHLIKE_FUNCTION\(Nope\), or XLA_FFI"):
        load("some", [tmp_path / "some.cpp"], functions={"Nope": "(Tensor x) -> Tensor"})


@needs_compiler
def test_no_functions(tmp_path):
    with pytest.raises(RuntimeError, match=r"extension 'none' exports no function: .*TORCHLIKE_FUNCTION"):
        load_inline("none", "int a;", build_directory=tmp_path, no_implicit_headers=True)


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(RuntimeError, match="CXX is 'no-such-compiler -O1', which is not an installed program"):
        load_inline("some", "int a;")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"none of c\+\+, g\+\+, clang\+\+ is installed.*apt-get install g\+\+"):
        load_inline("some", "int a;")


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda p: load_inline("x", "int a;", cuda_sources="int b;"), "CUDA sources are not supported: .*Pallas"),
        (lambda p: load_inline("x", "int a;", with_cuda=True), "CUDA sources"),
        (lambda p: load_inline("x", "int a;", sycl_sources=["int b;"]), "SYCL sources are not supported"),
        (lambda p: load("x", p, with_cuda=True), "CUDA sources"),
        (lambda p: load("x", [p, "kernel.cu"]), r"kernel.cu: sources for accelerators are not supported"),
        (lambda p: load("x", p, is_standalone=True), "is_standalone=True"),
        (lambda p: load_inline("x", "int a;\n#include <torch/extension.h>\n"), r"cpp_sources\[0\]:2: `#include <torch"),
        (lambda p: load_inline("x", ["", " # include <ATen/ATen.h>"]), r"cpp_sources\[1\]:1: .*TORCHLIKE_FUNCTION"),
        (lambda p: load_inline("x", "PYBIND11_MODULE(x, m) {\n}"), r"`PYBIND11_MODULE\(x, m\) \{`: sources written"),
        (lambda p: load_inline("x", "TORCH_LIBRARY_FRAGMENT(x, m) {}"), r"TORCH_LIBRARY_FRAGMENT"),
        (lambda p: load("x", p), r"theirs.cpp:1: `#include <torch/extension.h>`: .*ffi::Buffer"),
        (lambda p: ours.CppExtension("x", ["a.cpp"]), "CppExtension: .*load"),
        (lambda p: ours.CUDAExtension("x", ["a.cpp"]), "CUDAExtension: .*load"),
        (lambda p: ours.BuildExtension(), "BuildExtension: .*load"),
        (lambda p: ours.BuildExtension.with_options(use_ninja=False), "BuildExtension: .*load"),
        (lambda p: ours.include_paths("cuda"), "include_paths: .*'cuda'.*Pallas"),
        (lambda p: ours.library_paths("xpu"), "library_paths: .*'xpu'"),
    ],
)  # fmt: skip
def test_not_supported(tmp_path, monkeypatch, call, match):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    source = tmp_path / "theirs.cpp"
    source.write_text("#include <torch/extension.h>\n")
    with pytest.raises(NotImplementedError, match=match):
        call(source)


# -- as in PyTorch ---------------------------------------------------------------------------------


def of(t):
    """The module of the library ``t``."""
    return theirs if t is pytorch else ours


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: m.load_inline("x", "int a;", functions=3), "Expected 'functions' to be a list or dict, but was"),
        (lambda m: m.load("x", ["/nowhere/a.cpp"], is_python_module=False), "No such file or directory"),
        (lambda m: m.load("x", [], is_python_module=False), "At least one source is required to build a library"),
    ],
)  # fmt: skip
def test_errors_as_in_pytorch(tmp_path, monkeypatch, call, match):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    agree_error(lambda t: call(of(t)), match)


@pytest.mark.parametrize("name", ["a.b", "a b", "a/b", "", "aten", "torchlike"])
def test_names(name, tmp_path):
    for call in (load_inline, load):
        with pytest.raises(RuntimeError, match=rf"{call.__name__}\('{name}'\): .*expected an identifier"):
            call(name, "int a;", build_directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_text():
    agree_error(lambda t: of(t).load_inline(3, "int a;"), "str")


def test_a_folder_that_does_not_exist(tmp_path):
    for m in (ours, theirs):
        with pytest.raises(FileNotFoundError):
            m.load_inline("x", "int a;", functions=["a"], build_directory=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["load", "load_inline", "include_paths", "library_paths"])
def test_parameters_as_in_pytorch(name):
    parameters = inspect.signature(getattr(ours, name)).parameters.values()
    own = [(p.name, p.default) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert own == [(p.name, p.default) for p in inspect.signature(getattr(theirs, name)).parameters.values()]


@needs_compiler
def test_questions_about_the_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert ours.get_cxx_compiler() == Path(COMPILER).name
    fine, version = ours.get_compiler_abi_compatibility_and_version(COMPILER)
    assert fine and version > (0, 0, 0)
    assert ours.get_compiler_abi_compatibility_and_version("no-such-compiler") == (False, (0, 0, 0))
    assert ours.check_compiler_ok_for_platform(COMPILER) and not ours.check_compiler_ok_for_platform("no-such-compiler")


def test_the_rest(monkeypatch, tmp_path):
    assert ours.CUDA_HOME is None
    assert ours.is_ninja_available() is (shutil.which("ninja") is not None)
    for folder, header in zip(ours.include_paths(), ("torchlike/extension.h", "xla/ffi/api/ffi.h"), strict=True):
        assert (Path(folder) / header).is_file()
    assert ours.include_paths(torch_include_dirs=False) == [] == ours.library_paths()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="Ninja is required"):
        ours.verify_ninja_availability()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform != "darwin":
        assert ours.get_default_build_root() == str(tmp_path / "torchlike_extensions")
    with pytest.raises(AttributeError, match="module 'torchlike.utils.cpp_extension' has no attribute 'nope'"):
        ours.nope  # noqa: B018


# -- the page about it -----------------------------------------------------------------------------


@needs_compiler
def test_page(tmp_path, monkeypatch):
    """The blocks of docs/extensions_cpp.md run, and the C++ file that it shows."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    text = (ROOT / "docs" / "extensions_cpp.md").read_text()
    code = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(code) == 3
    exec(compile("\n".join(code), "extensions_cpp.md", "exec"), {})
    (source,) = re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "scale.cpp").write_text(source)
    module = load("page", str(tmp_path / "scale.cpp"))
    same(module.scale(torch.ones(2), 3), np.full(2, 3, np.float32))
    with pytest.raises(RuntimeError, match="scale: the factor is zero"):
        module.scale(torch.ones(2), factor=0.0).tolist()
