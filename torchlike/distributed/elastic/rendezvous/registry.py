"""``torch.distributed.elastic.rendezvous.registry``: the rendezvous that parameters ask for."""

from typing import Any, NoReturn

from torchlike.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousParameters,
    rendezvous_handler_registry,
)  # fmt: skip

__all__ = ["get_rendezvous_handler"]

_OWN = ("etcd", "etcd-v2", "c10d", "static")


def _refused(params: Any) -> NoReturn:
    raise NotImplementedError(
        f"torch.distributed.elastic: the rendezvous '{params.backend}' is the launcher's own: start processes with "
        "`python -m torchlike run` or elastic_launch, or register a handler of your own"
    )


for _name in _OWN:
    rendezvous_handler_registry.register(_name, _refused)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """A rendezvous that users have registered. NotImplementedError for those of torchrun."""
    return rendezvous_handler_registry.create_handler(params)
