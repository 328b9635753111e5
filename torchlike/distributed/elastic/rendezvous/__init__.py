"""``torch.distributed.elastic.rendezvous``: where processes meet."""

from torchlike.distributed.elastic.rendezvous.api import RendezvousClosedError as RendezvousClosedError
from torchlike.distributed.elastic.rendezvous.api import RendezvousConnectionError as RendezvousConnectionError
from torchlike.distributed.elastic.rendezvous.api import RendezvousError as RendezvousError
from torchlike.distributed.elastic.rendezvous.api import RendezvousGracefulExitError as RendezvousGracefulExitError
from torchlike.distributed.elastic.rendezvous.api import RendezvousHandler as RendezvousHandler
from torchlike.distributed.elastic.rendezvous.api import RendezvousHandlerCreator as RendezvousHandlerCreator
from torchlike.distributed.elastic.rendezvous.api import RendezvousHandlerRegistry as RendezvousHandlerRegistry
from torchlike.distributed.elastic.rendezvous.api import RendezvousInfo as RendezvousInfo
from torchlike.distributed.elastic.rendezvous.api import RendezvousParameters as RendezvousParameters
from torchlike.distributed.elastic.rendezvous.api import RendezvousStateError as RendezvousStateError
from torchlike.distributed.elastic.rendezvous.api import RendezvousStoreInfo as RendezvousStoreInfo
from torchlike.distributed.elastic.rendezvous.api import RendezvousTimeoutError as RendezvousTimeoutError
from torchlike.distributed.elastic.rendezvous.api import rendezvous_handler_registry as rendezvous_handler_registry
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
