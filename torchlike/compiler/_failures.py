"""The errors of compilation, under PyTorch's names, for code that catches them."""

from torchlike._transforms.capture.compiled_function import Unfit


class TorchDynamoException(RuntimeError):
    """What all errors of compilation are."""


class Unsupported(TorchDynamoException, Unfit):
    """``fullgraph=True``: the function cannot be one program."""


class RecompileError(TorchDynamoException):
    """A function would be compiled again while ``torch._dynamo.config.error_on_recompile`` forbids it."""


class InvalidBackend(TorchDynamoException):
    """``torch.compile(backend=...)`` names a backend that does not exist."""


class InternalTorchDynamoError(TorchDynamoException):
    """Not raised by torchlike: errors of its own are raised as they are."""


class BackendCompilerFailed(TorchDynamoException):
    """A function that was given as backend has raised, or returned what cannot be called."""


class TorchRuntimeError(TorchDynamoException):
    """Not raised by torchlike: an error of the compiled function is raised as it is."""


class UserError(TorchDynamoException):
    """Not raised by torchlike."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """Not raised by torchlike: control flow raises what it raises in eager code."""


class CondOpArgsMismatchError(TorchDynamoException):
    """Not raised by torchlike."""


class ResetRequired(TorchDynamoException):
    """Not raised by torchlike: settings may change at any time."""


class RestartAnalysis(TorchDynamoException):
    """Not raised by torchlike."""


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    """Not raised by torchlike."""


class FailOnRecompileLimitHit(Exception):
    """A function that may not run in eager code was compiled too many times."""
