"""torch.export: functions as StableHLO programs that run without their Python code.

>>> import torchlike as torch
>>> ep = torch.export(lambda x, y: (x @ y).relu(), (torch.ones(2, 3), torch.ones(3, 4)))
>>> ep.module()(torch.ones(2, 3), torch.ones(3, 4)).shape
torch.Size([2, 4])
"""

import sys

from torchlike.export._callable import CallableModule as _CallableModule
from torchlike.export._errors import ConstraintViolationError as ConstraintViolationError
from torchlike.export._errors import UserError as UserError
from torchlike.export._examples import AdditionalInputs as AdditionalInputs
from torchlike.export._examples import ShapesCollection as ShapesCollection
from torchlike.export._examples import register_dataclass as register_dataclass
from torchlike.export._file import load as load
from torchlike.export._file import save as save
from torchlike.export._lowered import Lowered as Lowered
from torchlike.export._lowered import lowered as lowered
from torchlike.export._trace import export as export
from torchlike.export.dynamic_shapes import Dim as Dim
from torchlike.export.dynamic_shapes import dims as dims
from torchlike.export.exported_program import ExportedProgram as ExportedProgram
from torchlike.export.graph_signature import ExportGraphSignature as ExportGraphSignature
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
sys.modules[__name__].__class__ = _CallableModule

__all__ = [
    "AdditionalInputs",
    "ConstraintViolationError",
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "Lowered",
    "ShapesCollection",
    "UserError",
    "dims",
    "export",
    "load",
    "lowered",
    "register_dataclass",
    "save",
]
