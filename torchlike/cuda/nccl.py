"""NCCL, which XLA uses by itself."""

from typing import Any, NoReturn

from torchlike.interop.alias import missing_names

__all__ = ["is_available", "version"]

__getattr__ = missing_names(__name__)


def is_available(tensors: Any) -> bool:
    """Whether NCCL can be called for tensors: no; torch.distributed works through XLA."""
    return False


def version() -> NoReturn:
    """NotImplementedError: XLA has its own NCCL and does not tell."""
    raise NotImplementedError("torch.cuda.nccl.version: XLA has its own NCCL, whose version it does not tell")
