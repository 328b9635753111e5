"""torch.jit: scripted and traced functions and modules, which run their Python."""

from torchlike._jit_internal import Final as Final
from torchlike._jit_internal import _drop as _drop
from torchlike._jit_internal import _isinstance as _isinstance
from torchlike._jit_internal import _overload as _overload
from torchlike._jit_internal import _overload_method as _overload_method
from torchlike._jit_internal import export as export
from torchlike._jit_internal import ignore as ignore
from torchlike._jit_internal import is_scripting as is_scripting
from torchlike._jit_internal import unused as unused
from torchlike.futures import Future as Future
from torchlike.interop.lazy import on_first_use
from torchlike.jit import annotations as annotations
from torchlike.jit._async import _fork as _fork
from torchlike.jit._async import _wait as _wait
from torchlike.jit._async import fork as fork
from torchlike.jit._async import wait as wait
from torchlike.jit._calls import _get_trace_graph as _get_trace_graph
from torchlike.jit._errors import Error as Error
from torchlike.jit._freeze import freeze as freeze
from torchlike.jit._freeze import optimize_for_inference as optimize_for_inference
from torchlike.jit._freeze import run_frozen_optimizations as run_frozen_optimizations
from torchlike.jit._isinstance import isinstance as isinstance
from torchlike.jit._script import _script_if_tracing as _script_if_tracing
from torchlike.jit._script import _unwrap_optional as _unwrap_optional
from torchlike.jit._script import annotate as annotate
from torchlike.jit._script import enable_onednn_fusion as enable_onednn_fusion
from torchlike.jit._script import export_opnames as export_opnames
from torchlike.jit._script import fuser as fuser
from torchlike.jit._script import interface as interface
from torchlike.jit._script import is_tracing as is_tracing
from torchlike.jit._script import onednn_fusion_enabled as onednn_fusion_enabled
from torchlike.jit._script import optimized_execution as optimized_execution
from torchlike.jit._script import script as script
from torchlike.jit._script import script_if_tracing as script_if_tracing
from torchlike.jit._script import script_method as script_method
from torchlike.jit._script import set_fusion_strategy as set_fusion_strategy
from torchlike.jit._script import strict_fusion as strict_fusion
from torchlike.jit._serialization import jit_module_from_flatbuffer as jit_module_from_flatbuffer
from torchlike.jit._serialization import load as load
from torchlike.jit._serialization import save as save
from torchlike.jit._serialization import save_jit_module_to_flatbuffer as save_jit_module_to_flatbuffer
from torchlike.jit._trace import trace as trace
from torchlike.jit._trace import trace_module as trace_module
from torchlike.jit._types import Attribute as Attribute
from torchlike.jit._types import RecursiveScriptModule as RecursiveScriptModule
from torchlike.jit._types import ScriptFunction as ScriptFunction
from torchlike.jit._types import ScriptModule as ScriptModule
from torchlike.jit._types import ScriptWarning as ScriptWarning
from torchlike.jit._types import TopLevelTracedModule as TopLevelTracedModule
from torchlike.jit._types import TracedModule as TracedModule
from torchlike.jit._types import TracerWarning as TracerWarning
from torchlike.jit._types import TracingCheckError as TracingCheckError

__getattr__, __dir__ = on_first_use(__name__)
