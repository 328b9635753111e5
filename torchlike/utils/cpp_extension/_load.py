"""``load`` and ``load_inline``: C++ sources become a module of operators."""

import ctypes
import hashlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax

from torchlike.utils.cpp_extension import _build
from torchlike.utils.cpp_extension._function import CppFunction
from torchlike.utils.cpp_extension._operator import Function, Rule, declared
from torchlike.utils.cpp_extension._signature import Signature, is_schema, parsed, schema_for

Names = Sequence[str] | Mapping[str, str] | str | None
_VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


class Exported(NamedTuple):
    """A function that a library exports: its schema text (or ""), its signature and its address."""

    schema: str
    signature: Signature
    handler: Any


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    *,
    functions: Names = None,
    results: Mapping[str, Rule] | None = None,
    vmap_method: str | Mapping[str, str] = "sequential",
) -> Any:
    """Compile C++ source files and return a module whose functions call them on tensors, on the CPU.

    The sources say what is exported: ``TORCHLIKE_FUNCTION(function, "(Tensor x, float eps=1e-5) -> Tensor")``, from
    ``#include <torchlike/extension.h>``, where ``function`` is a C++ function over buffers of XLA's FFI. Handlers made
    by ``XLA_FFI_DEFINE_HANDLER_SYMBOL`` are exported by naming them in ``functions`` with their schemas.

    A library is built once for each content (sources, the files they include, flags, compiler, version of jaxlib), and
    kept in ``build_directory``: by default ``$TORCH_EXTENSIONS_DIR/name``, else the user's cache folder. The functions
    work in eager mode, on meta tensors, in ``torch.compile`` and in ``jax.jit``; they have no derivative unless an
    ``autograd.Function`` gives them one.

    Args:
        name: of the extension, and of its namespace in ``torch.ops``.
        sources: one file or several.
        extra_cflags, extra_ldflags, extra_include_paths: for the compiler, the linker, and folders of headers.
        extra_cuda_cflags, extra_sycl_cflags: accepted as in PyTorch, without effect.
        verbose: print the commands and what the compiler says.
        with_cuda, with_sycl, is_standalone: True raises NotImplementedError.
        is_python_module: False returns the path of the library; the functions are then in ``torch.ops`` alone.
        keep_intermediates: whether the object files stay.
        functions: handlers to export, ``{name: schema}``; and schemas for functions that were exported without.
        results: for a function, what its results are like: the name of an argument (one for each result), or a
            function of the arguments, called with meta tensors, that returns tensors of the results' shapes and
            dtypes. Without, the results have the shape that all tensor arguments share, and the dtype that the C++
            function declares (any: that of the first tensor).
        vmap_method: how ``vmap`` runs a function, as in ``jax.ffi.ffi_call``, for all or for each by name: "sequential"
            calls it for each example; "broadcast_all" and "expand_dims" call it once with a leading dimension.

    Raises:
        RuntimeError: no compiler is installed, it reports an error, an exported name is not in the library, or ``name``
            is no identifier.
        TypeError: a schema contradicts the C++ function.
        NotImplementedError: sources for CUDA, or written against PyTorch's C++ interface.
        FileNotFoundError: a source or ``build_directory`` does not exist.
    """
    _demand_name(f"load({name!r})", name)
    _refuse(f"load({name!r})", with_cuda, with_sycl, is_standalone)
    paths = [Path(s).absolute() for s in ([sources] if isinstance(sources, str | os.PathLike) else sources)]
    if not paths:
        raise AssertionError(f"At least one source is required to build a library: load({name!r}) got none")
    _refuse_cuda_files(name, paths)
    texts = [path.read_bytes() for path in paths]
    for path, text in zip(paths, texts, strict=True):
        _refuse_torch(name, path.name, text.decode(errors="replace"))
    return _loaded(
        _request(name, paths, texts, extra_cflags, extra_ldflags, extra_include_paths, build_directory, verbose,
                 keep_intermediates),
        _named(functions), results, vmap_method, is_python_module,
    )  # fmt: skip


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Names = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    *,
    results: Mapping[str, Rule] | None = None,
    vmap_method: str | Mapping[str, str] = "sequential",
) -> Any:
    """As :func:`load`, from source text.

    ``#include <torchlike/extension.h>`` comes before the text, and each of ``functions`` is exported after it.

    Args:
        cpp_sources: the text, or several that are joined.
        cuda_sources, sycl_sources: any raise NotImplementedError.
        functions: names of C++ functions or of handlers in the text, ``{name: schema}``, or ``{name: description}``.
            Without a schema the arguments are those of the C++ function, given by position.
        with_pytorch_error_handling, use_pch: accepted as in PyTorch, without effect: a C++ exception always becomes a
            RuntimeError.
        no_implicit_headers: leave the ``#include`` in front away.

    Raises ValueError for ``functions`` of another type; the rest is as in :func:`load`.

    >>> import torchlike as torch
    >>> from torchlike.utils.cpp_extension import load_inline
    >>> source = '''
    ... void shifted(ffi::Buffer<ffi::F32> x, double by, ffi::ResultBuffer<ffi::F32> y) {
    ...   for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + by;
    ... }'''
    >>> module = load_inline("doc", source, functions={  # doctest: +SKIP
    ...     "shifted": "(Tensor x, float by=1.0) -> Tensor"})
    >>> module.shifted(torch.zeros(2), by=3)             # doctest: +SKIP
    tensor([3., 3.])
    """
    _demand_name(f"load_inline({name!r})", name)
    _refuse(f"load_inline({name!r})", with_cuda or cuda_sources, with_sycl or sycl_sources, False)
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    for i, text in enumerate(texts):
        _refuse_torch(name, f"cpp_sources[{i}]", text)
    wanted = _named(functions)
    folder = _build.folder_of(name, build_directory)
    content = _main_file(texts, wanted, not no_implicit_headers).encode()
    path = folder / f"main_{hashlib.sha256(content).hexdigest()[:16]}.cpp"
    if not path.exists():
        _build.write(path, content.decode())
    return _loaded(
        _request(name, [path], [content], extra_cflags, extra_ldflags, extra_include_paths, build_directory, verbose,
                 keep_intermediates),
        wanted, results, vmap_method, is_python_module,
    )  # fmt: skip


_EXPORT = re.compile(r"^\s*TORCHLIKE_FUNCTION\(\s*(\w+)", re.MULTILINE)


def _main_file(texts: Sequence[str], functions: Mapping[str, str], header: bool) -> str:
    """One source of all the texts; errors in them are reported by the number of the text and its own lines."""
    parts = ["#include <torchlike/extension.h>"] if header else []
    for i, text in enumerate(texts):
        parts += [f'#line 1 "cpp_sources[{i}]"', text]
    parts += ['#line 1 "functions"', "#include <torchlike/extension.h>"]
    exported = {name for text in texts for name in _EXPORT.findall(text)}
    parts += [f"TORCHLIKE_FUNCTION({function});" for function in functions if function not in exported]
    return "\n".join(parts) + "\n"


def _request(
    name: str, paths: Sequence[Path], texts: Sequence[bytes], cflags: Sequence[str] | None,
    ldflags: Sequence[str] | None, includes: Sequence[str] | None, build_directory: str | None, verbose: bool,
    keep: bool,
) -> _build.Request:  # fmt: skip
    folders = tuple(str(Path(folder).absolute()) for folder in includes or ())
    return _build.Request(
        name, tuple(paths), tuple(texts), tuple(cflags or ()), tuple(ldflags or ()), folders,
        _build.folder_of(name, build_directory), verbose, keep,
    )  # fmt: skip


def _named(functions: Names) -> dict[str, str]:
    """{name: schema or description}."""
    if functions is None:
        return {}
    if isinstance(functions, str):
        return {functions: ""}
    if isinstance(functions, Mapping):
        return dict(functions)
    if isinstance(functions, Sequence):
        return dict.fromkeys(functions, "")
    raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")


# -- what is not supported -------------------------------------------------------------------------

_CUDA = (
    "are not supported: C++ extensions run on the CPU; write a kernel for an accelerator in Pallas "
    "(jax.experimental.pallas)"
)
_TORCH = re.compile(
    r"^\s*#\s*include\s*[<\"](?:torch|ATen|c10|pybind11)/.*$|^\s*(?:PYBIND11_MODULE|(?:STABLE_)?TORCH_LIBRARY\w*)\s*\(.*$",
    re.MULTILINE,
)


def _demand_name(function: str, name: str) -> None:
    """The name is a namespace of torch.ops that is free."""
    if not isinstance(name, str):
        raise TypeError(f"{function}: the name of an extension must be str, not {type(name).__name__}")
    if not name.isidentifier() or name in ("aten", "prim", "torchlike"):
        raise RuntimeError(
            f"{function}: cannot be the name of an extension, which is its namespace in torch.ops: expected an "
            "identifier, and none that has operators of the library's own"
        )


def _refuse(function: str, cuda: Any, sycl: Any, standalone: bool) -> None:
    for given, what in ((cuda, "CUDA sources"), (sycl, "SYCL sources")):
        if given:
            raise NotImplementedError(f"{function}: {what} {_CUDA}")
    if standalone:
        raise NotImplementedError(
            f"{function}: is_standalone=True, which makes a program of its own, is not supported; build it by make"
        )


def _refuse_cuda_files(name: str, paths: Sequence[Path]) -> None:
    for path in paths:
        if path.suffix in (".cu", ".cuh", ".sycl"):
            raise NotImplementedError(f"load({name!r}): {path.name}: sources for accelerators {_CUDA}")


def _refuse_torch(name: str, where: str, text: str) -> None:
    match = _TORCH.search(text)
    if match is not None:
        line = text.count("\n", 0, match.end()) + 1
        raise NotImplementedError(
            f"extension {name!r}: {where}:{line}: `{match[0].strip()}`: sources written against PyTorch's C++ "
            "interface are not supported; write the function over ffi::Buffer arguments and ffi::ResultBuffer results, "
            "and export it by TORCHLIKE_FUNCTION of <torchlike/extension.h>"
        )


# -- from the library to the module ----------------------------------------------------------------


def _loaded(
    request: _build.Request, functions: dict[str, str], results: Mapping[str, Rule] | None,
    vmap_method: str | Mapping[str, str], is_python_module: bool,
) -> Any:  # fmt: skip
    path = _build.library(request)
    exported = _exported(path, functions)
    if not exported:
        raise RuntimeError(
            f"extension {request.name!r} exports no function: end its source with TORCHLIKE_FUNCTION(function), or "
            "name functions in functions={name: schema}"
        )
    _demand_known(request.name, "results", results, exported)
    methods = dict.fromkeys(exported, vmap_method) if isinstance(vmap_method, str) else vmap_method
    _demand_known(request.name, "vmap_method", methods, exported)
    made = [
        _function(request.name, path, name, found, functions.get(name, ""), (results or {}).get(name),
                  methods.get(name, "sequential"))
        for name, found in exported.items()
    ]  # fmt: skip
    return _module(request.name, path, made) if is_python_module else str(path)


def _demand_known(name: str, what: str, given: Mapping | None, exported: Mapping) -> None:
    unknown = sorted(set(given or {}) - set(exported))
    if unknown:
        raise ValueError(
            f"extension {name!r}: {what} for {unknown}, which it does not export; it exports {sorted(exported)}"
        )


def _exported(path: Path, functions: Mapping[str, str]) -> dict[str, Exported]:
    """The functions of a library: those in its own table, and handlers that the user names."""
    library = ctypes.CDLL(str(path))
    found: dict[str, Exported] = {}
    if hasattr(library, "torchlike_extension_entry"):
        entry = library.torchlike_extension_entry
        entry.restype = ctypes.c_void_p
        words = [ctypes.c_char_p() for _ in range(3)]
        while handler := entry(ctypes.c_size_t(len(found)), *map(ctypes.byref, words)):
            name, schema, signature = [(word.value or b"").decode() for word in words]
            if name in found:
                raise RuntimeError(f"{path.name} exports two functions {name!r}: give one of them another name")
            found[name] = Exported(schema, parsed(signature), _pointer(handler))
    for name in functions:
        if name not in found:
            if not hasattr(library, name):
                raise RuntimeError(
                    f"{path.name} has no function {name!r}; expected TORCHLIKE_FUNCTION({name}), or "
                    f"XLA_FFI_DEFINE_HANDLER_SYMBOL({name}, ...) outside of any namespace"
                )
            found[name] = Exported("", Signature(None, None), getattr(library, name))
    return found


def _pointer(address: int) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)


def _function(
    extension: str, path: Path, name: str, found: Exported, text: str, rule: Rule, vmap_method: str
) -> CppFunction:
    """What users call; the same for the same function of the same library."""
    if vmap_method not in _VMAP_METHODS:
        raise ValueError(f"{name}: vmap_method {vmap_method!r}; expected one of {', '.join(_VMAP_METHODS)}")
    text, doc = (text, "") if is_schema(text) else ("", text)
    if rule is not None and not isinstance(rule, str) and not callable(rule):
        rule = tuple(rule)
    key = path, name, text, doc, rule, vmap_method
    with _making:
        if key not in _MADE:
            schema = schema_for(name, text or found.schema, found.signature)
            target = f"torchlike.{path.stem}.{name}"
            if target not in _TARGETS:
                jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(found.handler), platform="cpu")
                _TARGETS.add(target)
            made = Function(name, extension, doc, target, schema, found.signature, rule, vmap_method)
            _MADE[key] = CppFunction(made, declared(made, f"{extension}.{len(_MADE)}"))
        _MADE[key].register_again()
        return _MADE[key]


_MADE: dict[tuple, CppFunction] = {}
_TARGETS: set[str] = set()
_making = threading.Lock()


def _module(name: str, path: Path, functions: Sequence[CppFunction]) -> ModuleType:
    """The functions as a module."""
    module = ModuleType(name, f"C++ extension built as {path}")
    module.__file__ = str(path)
    for function in functions:
        setattr(module, function.__name__, function)
    return module
