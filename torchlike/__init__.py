"""torchlike: PyTorch's API and semantics, computed by JAX.

>>> import torchlike as torch
>>> x = torch.ones(3, requires_grad=True)
>>> (x * 2).sum().backward()
>>> x.grad
tensor([2., 2., 2.])
"""

import sys as _sys
from typing import TYPE_CHECKING

from torchlike import _setup as _setup  # settings of jax; first

# isort: split
with _setup.PAUSED:
    from torchlike import __config__ as __config__
    from torchlike import __future__ as __future__
    from torchlike import version as version
    from torchlike._api import *  # noqa: F403
    from torchlike._base.dtypes import WIDE_NAMES
    from torchlike._executor import forked as _forked  # noqa: F401 - takes note of forks
    from torchlike._executor.execution import get_execution as get_execution
    from torchlike._executor.execution import set_execution as set_execution
    from torchlike._executor.execution import x64 as x64
    from torchlike._functions.generator import set_rng as set_rng
    from torchlike.interop.alias import install_as_torch as install_as_torch
    from torchlike.interop.alias import uninstall_as_torch as uninstall_as_torch
    from torchlike.interop.lazy import on_first_use
    from torchlike.interop.root_names import ATEN_PRIVATES as _ATEN_PRIVATES
    from torchlike.interop.root_names import CHECKS as _NAMES_OF_CHECKS
    from torchlike.interop.root_names import FORMERLY as _NAMES_OF_BEFORE
    from torchlike.interop.root_names import STORAGES as _NAMES_OF_STORAGES
    from torchlike.interop.root_names import C as _NAMES_OF_C

if TYPE_CHECKING:  # what is imported when it is first used
    from torchlike import accelerator as accelerator
    from torchlike import amp as amp
    from torchlike import ao as ao
    from torchlike import autograd as autograd
    from torchlike import backends as backends
    from torchlike import compiler as compiler
    from torchlike import conventions as conventions
    from torchlike import cpu as cpu
    from torchlike import cuda as cuda
    from torchlike import distributed as distributed
    from torchlike import distributions as distributions
    from torchlike import export as export
    from torchlike import fft as fft
    from torchlike import func as func
    from torchlike import functional as functional
    from torchlike import functorch as functorch
    from torchlike import futures as futures
    from torchlike import fx as fx
    from torchlike import hub as hub
    from torchlike import interop as interop
    from torchlike import jit as jit
    from torchlike import library as library
    from torchlike import linalg as linalg
    from torchlike import masked as masked
    from torchlike import mps as mps
    from torchlike import mtia as mtia
    from torchlike import multiprocessing as multiprocessing
    from torchlike import nested as nested
    from torchlike import nn as nn
    from torchlike import onnx as onnx
    from torchlike import optim as optim
    from torchlike import overrides as overrides
    from torchlike import profiler as profiler
    from torchlike import quantization as quantization
    from torchlike import quasirandom as quasirandom
    from torchlike import random as random
    from torchlike import return_types as return_types
    from torchlike import serialization as serialization
    from torchlike import sharding as sharding
    from torchlike import signal as signal
    from torchlike import sparse as sparse
    from torchlike import special as special
    from torchlike import storage as storage
    from torchlike import testing as testing
    from torchlike import torch_version as torch_version
    from torchlike import types as types
    from torchlike import utils as utils
    from torchlike import viz as viz
    from torchlike import xpu as xpu
    from torchlike._higher_order_ops import cond as cond
    from torchlike.compiler import compile as compile
    from torchlike.compiler import explain as explain
    from torchlike.func import vmap as vmap
    from torchlike.futures import Future as Future
    from torchlike.jit import ScriptFunction as ScriptFunction
    from torchlike.jit import ScriptModule as ScriptModule
    from torchlike.serialization import load as load
    from torchlike.serialization import save as save
    from torchlike.sharding import distribute as distribute

torch = _sys.modules[__name__]  # a name that PyTorch's package has, too
__version__ = version.__version__
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        **dict.fromkeys(_NAMES_OF_CHECKS, "_checks"),
        **dict.fromkeys(_ATEN_PRIVATES, "_aten_privates"),
        **dict.fromkeys(_NAMES_OF_C, "_C"),
        **dict.fromkeys(_NAMES_OF_BEFORE, "_formerly"),
        **dict.fromkeys(_NAMES_OF_STORAGES, "storage"),
        "AcceleratorError": "cuda",
        "Event": "_streams",
        "GradScaler": "amp",
        "OutOfMemoryError": "cuda",
        "PyTorchFileReader": "interop.checkpoints.records",
        "PyTorchFileWriter": "interop.checkpoints.records",
        "Stream": "_streams",
        "classes": "_classes",
        "get_device_module": "_streams",
        "while_loop": "_higher_order_ops",
        "Future": "futures",
        "ScriptFunction": "jit",
        "ScriptModule": "jit",
        "ScriptObject": "_classes",
        "compile": "compiler",
        "cond": "_higher_order_ops",
        "fork": "jit",
        "wait": "jit",
        "distribute": "sharding",
        "explain": "compiler",
        "load": "serialization",
        "save": "serialization",
        "vmap": "func",
    }
    | dict.fromkeys(WIDE_NAMES, "_wide"),
    changing=("Storage",),
)
