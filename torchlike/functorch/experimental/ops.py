"""``functorch.experimental.ops``: its name says that it is not here when it is used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "use cond, while_loop, map, scan and associative_scan of torch._higher_order_ops")
