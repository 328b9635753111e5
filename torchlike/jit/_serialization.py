"""``torch.jit.save`` and ``load``: traced functions as exported programs."""

import os
import zipfile
from typing import Any, NoReturn

from torchlike.export._file import load as _load
from torchlike.export._file import save as _save
from torchlike.export._trace import export_function
from torchlike.jit._types import ScriptModule, _Saving
from torchlike.nn.modules.module import Module


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a traced function or module to a file, which :func:`load` reads without its Python code.

    It is a program in StableHLO (``torch.export``) for the shapes and dtypes of the examples that it was traced with.

    Args:
        f: a path or a binary file. _extra_files: {name: text or bytes}, kept beside it.

    Raises:
        NotImplementedError: a scripted function or module, which nobody has given examples of arguments.

    >>> import io, torchlike as torch
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(lambda x: x * 2, torch.ones(2)), file)
    >>> torch.jit.load(file)(torch.ones(2))
    tensor([2., 2.])
    """
    function: Any
    kept = getattr(m, "_kept", None)
    if kept is not None:
        function, examples = kept.module, kept.examples.get("forward")
    else:
        function, examples = getattr(m, "_function", None), getattr(m, "_examples", None)
    if examples is None:
        raise NotImplementedError(
            f"torch.jit.save: {type(m).__name__} has no example inputs to be exported with, and TorchScript is not "
            "written; save torch.jit.trace(module, example_inputs), torch.export.export(...) or the state_dict()"
        )
    args, kwargs = examples
    _save(export_function(function, args, kwargs), f, extra_files=_extra_files)


_Saving.save = staticmethod(save)


class _Loaded(ScriptModule):
    """A module that :func:`load` has read: calls run its program."""

    def __init__(self, program: Module) -> None:
        super().__init__()
        self.__dict__["program"] = program
        for kind in ("_parameters", "_buffers", "_modules"):
            self.__dict__[kind] = program.__dict__[kind]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return self.__dict__["program"](*args, **kwargs)

    def train(self, mode: bool = True) -> "_Loaded":
        """Set ``training``, which the program does not ask."""
        self.training = mode
        return self


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> ScriptModule:
    """The module in a file that :func:`save` wrote.

    Args:
        f: a path or a binary file. map_location: where its parameters go; None leaves them. _extra_files: a dict whose
            keys name extra files; it receives their texts.

    Raises:
        ValueError: there is no such file. NotImplementedError: the file holds PyTorch's TorchScript.
        RuntimeError: the file is neither.
    """
    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    if _is_torchscript(f):
        raise NotImplementedError(
            "torch.jit.load: the file is a TorchScript program of PyTorch, whose code torchlike does not run; "
            "build the module in Python and load its state_dict"
        )
    module = _Loaded(_load(f, extra_files=_extra_files).module())
    return module if map_location is None else module.to(map_location)


def _is_torchscript(f: Any) -> bool:
    try:
        with zipfile.ZipFile(f) as archive:
            return any("/code/" in name or name.endswith("/constants.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        raise RuntimeError("torch.jit.load: the file is no zip archive that torch.jit.save wrote") from None


def jit_module_from_flatbuffer(f: Any) -> NoReturn:
    """Raises NotImplementedError: files for mobile devices are not read."""
    raise NotImplementedError("torch.jit.jit_module_from_flatbuffer: TorchScript in flatbuffers is not read")


def save_jit_module_to_flatbuffer(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Raises NotImplementedError: files for mobile devices are not written."""
    raise NotImplementedError("torch.jit.save_jit_module_to_flatbuffer: TorchScript in flatbuffers is not written")
