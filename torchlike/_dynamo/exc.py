"""torch._dynamo.exc: the errors of compilation."""

from torchlike.compiler._failures import BackendCompilerFailed as BackendCompilerFailed
from torchlike.compiler._failures import CondOpArgsMismatchError as CondOpArgsMismatchError
from torchlike.compiler._failures import FailOnRecompileLimitHit as FailOnRecompileLimitHit
from torchlike.compiler._failures import InternalTorchDynamoError as InternalTorchDynamoError
from torchlike.compiler._failures import InvalidBackend as InvalidBackend
from torchlike.compiler._failures import RecompileError as RecompileError
from torchlike.compiler._failures import ResetRequired as ResetRequired
from torchlike.compiler._failures import RestartAnalysis as RestartAnalysis
from torchlike.compiler._failures import TensorifyScalarRestartAnalysis as TensorifyScalarRestartAnalysis
from torchlike.compiler._failures import TorchDynamoException as TorchDynamoException
from torchlike.compiler._failures import TorchRuntimeError as TorchRuntimeError
from torchlike.compiler._failures import UncapturedHigherOrderOpError as UncapturedHigherOrderOpError
from torchlike.compiler._failures import Unsupported as Unsupported
from torchlike.compiler._failures import UserError as UserError
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
