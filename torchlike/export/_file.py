"""Files of exported programs: a zip of StableHLO, of plain arrays, and of a description in JSON. Nothing in it is code
of Python, and nothing is unpickled.
"""

import dataclasses
import json
import os
import zipfile
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import IO, Any

import jax
import numpy as np

from torchlike._base import dtypes
from torchlike._core.conversion.convert import copied_array
from torchlike._core.tensor.tensor import Tensor, array_of
from torchlike._executor.immediate import Abstract
from torchlike.export._inputs import Input, Inputs, packed_ranges, packed_shape, unpacked_ranges, unpacked_shape
from torchlike.export._piece import Piece
from torchlike.export._program import LoadedProgram, Plan, Slot
from torchlike.export.exported_program import ExportedProgram
from torchlike.nn.parameter import Parameter
from torchlike.utils._pytree import LeafSpec, TreeSpec
from torchlike.version import __version__

VERSION = 1
_FORMAT = "torchlike.export"
_ABOUT = "program.json"
_CONTAINERS: dict[str, type] = {c.__name__: c for c in (tuple, list, dict, OrderedDict, deque)}
FileLike = str | os.PathLike | IO[bytes]


def save(
    ep: ExportedProgram,
    f: FileLike,
    *,
    extra_files: Mapping[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program, with its tensors, to one file.

    Args:
        f: a path or a binary file. extra_files: {name: text or bytes} kept beside it. opset_version,
            pickle_protocol: accepted; the version of StableHLO is in the programs, and nothing is pickled.

    Raises:
        TypeError: ``ep`` is no ExportedProgram. NotImplementedError: containers of a class that a file cannot name.

    >>> import io, torchlike as torch
    >>> ep = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> file = io.BytesIO()
    >>> torch.export.save(ep, file)
    >>> torch.export.load(file).module()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    about, entries = _packed(ep)
    for name, content in (extra_files or {}).items():
        entries[f"extra/{name}"] = content.encode() if isinstance(content, str) else bytes(content)
    text = json.dumps(about, indent=1)
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ABOUT, text)
        for name, data in entries.items():
            archive.writestr(name, data)


def load(
    f: FileLike, *, extra_files: dict[str, Any] | None = None, expected_opset_version: dict[str, int] | None = None
) -> ExportedProgram:
    """The exported program in a file; the code of the model is not needed.

    Args:
        f: a path or a binary file. extra_files: a dict whose keys are names of extra files; it receives their texts.
        expected_opset_version: accepted.

    Raises:
        zipfile.BadZipFile: no zip, or a damaged one. RuntimeError: a zip that ``save`` did not write, or that a later
            version of it wrote.
    """
    if hasattr(f, "seek"):
        f.seek(0)
    with zipfile.ZipFile(f) as archive:
        about = _about(archive)
        try:
            found = _unpacked(about, archive)
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]
        except (KeyError, TypeError, IndexError, AttributeError, UnicodeDecodeError) as error:
            raise RuntimeError(f"torch.export.load: the file is damaged or incomplete: {error}") from error
    return found


def _about(archive: zipfile.ZipFile) -> dict:
    try:
        about = json.loads(archive.read(_ABOUT))
    except (KeyError, ValueError) as error:
        raise RuntimeError(
            f"torch.export.load: the file holds no exported program of torchlike ({error}); use torch.export.save"
        ) from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise RuntimeError(f"torch.export.load: {_ABOUT} does not describe an exported program of torchlike")
    if about["version"] > VERSION:
        raise RuntimeError(
            f"torch.export.load: the file has version {about['version']}, written by torchlike {about['torchlike']}; "
            f"this is torchlike {__version__}, which reads versions up to {VERSION}: update torchlike"
        )
    return about


# ----- the description -----


def _packed(ep: ExportedProgram) -> tuple[dict, dict[str, bytes]]:
    program, entries = ep._program, {}
    pieces = {"forward": program.forward, "forward_vjp": program.forward_vjp, "backward": program.backward}
    described = {}
    for name, piece in pieces.items():
        if piece is not None:
            described[name], entries[f"{name}.stablehlo"] = piece.packed()
    tensors = []
    for k, t in enumerate(ep._tensors):
        value = array_of(t)
        if isinstance(value, Abstract):
            name = program.slots[k].names[0]
            raise NotImplementedError(f"torch.export.save: {name} is on meta, so it has no numbers")
        entries[f"tensors/{k}"] = np.ascontiguousarray(value).tobytes()
        tensors.append({"requires_grad": t.requires_grad})
    about = {
        "format": _FORMAT,
        "version": VERSION,
        "torchlike": __version__,
        "jax": jax.__version__,
        "name": program.name,
        "pieces": described,
        "slots": [dataclasses.asdict(slot) for slot in program.slots],
        "tensors": tensors,
        "inputs": [dataclasses.asdict(e) | {"shape": packed_shape(e.shape)} for e in program.inputs.entries],
        "ranges": packed_ranges(program.inputs.ranges),
        "in_spec": _packed_spec(program.inputs.spec),
        "out_spec": _packed_spec(program.out_spec),
        "plain": dataclasses.asdict(program.plain),
        "graded": None if program.graded is None else dataclasses.asdict(program.graded),
        "ungraded": program.ungraded,
    }
    return about, entries


def _unpacked(about: dict, archive: zipfile.ZipFile) -> ExportedProgram:
    pieces = {name: Piece.unpacked(piece, archive.read(f"{name}.stablehlo")) for name, piece in about["pieces"].items()}
    slots = [Slot(**slot) for slot in about["slots"]]
    entries = [Input(**(e | {"shape": unpacked_shape(e["shape"])})) for e in about["inputs"]]
    program = LoadedProgram(
        about["name"],
        slots,
        Inputs(_unpacked_spec(about["in_spec"]), entries, unpacked_ranges(about["ranges"])),
        _unpacked_spec(about["out_spec"]),
        Plan(**about["plain"]),
        pieces["forward"],
        None if about["graded"] is None else Plan(**about["graded"]),
        pieces.get("forward_vjp"),
        pieces.get("backward"),
        about["ungraded"],
    )
    tensors = [
        _tensor(slot, archive.read(f"tensors/{k}"), more["requires_grad"])
        for k, (slot, more) in enumerate(zip(slots, about["tensors"], strict=True))
    ]
    return ExportedProgram(program, tensors)


def _tensor(slot: Slot, data: bytes, requires_grad: bool) -> Tensor:
    dtype = getattr(dtypes, slot.dtype).np
    size = int(np.prod(slot.shape)) * dtype.itemsize
    if len(data) != size:
        raise RuntimeError(f"torch.export.load: {slot.names[0]} has {len(data)} bytes in the file instead of {size}")
    t = copied_array(np.frombuffer(data, dtype).reshape(slot.shape))
    return Parameter(t, requires_grad) if slot.kind == "parameter" else t.requires_grad_(requires_grad)


def _packed_spec(spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return None
    context = spec.context
    plain = context is None or isinstance(context, int) or isinstance(context, list) and all(map(_is_key, context))
    if _CONTAINERS.get(spec.type.__name__) is not spec.type or not plain:
        raise NotImplementedError(
            f"torch.export.save: a {spec.type.__name__} of {context} cannot be named in a file; use tuples, lists and "
            "dicts with keys that are texts or numbers"
        )
    return {"type": spec.type.__name__, "context": context, "children": [_packed_spec(c) for c in spec.children()]}


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float | bool | None)


def _unpacked_spec(packed: Any) -> TreeSpec:
    if packed is None:
        return LeafSpec()
    children = tuple(_unpacked_spec(c) for c in packed["children"])
    return TreeSpec(_CONTAINERS[packed["type"]], packed["context"], children)
