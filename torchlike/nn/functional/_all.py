"""Every function behind the layers, made overridable."""

from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._functions.indexing import one_hot  # noqa: F401
from torchlike._functions.rearrange import pad  # noqa: F401
from torchlike.nn.functional.activation import *  # noqa: F403
from torchlike.nn.functional.attention import *  # noqa: F403
from torchlike.nn.functional.conv import *  # noqa: F403
from torchlike.nn.functional.dropout import *  # noqa: F403
from torchlike.nn.functional.embed import *  # noqa: F403
from torchlike.nn.functional.loss import *  # noqa: F403
from torchlike.nn.functional.margin import *  # noqa: F403
from torchlike.nn.functional.misc import *  # noqa: F403
from torchlike.nn.functional.norm import *  # noqa: F403
from torchlike.nn.functional.pool import *  # noqa: F403
from torchlike.nn.functional.scaled import *  # noqa: F403
from torchlike.nn.functional.vision import *  # noqa: F403

_published = _publish("torch.nn.functional", globals())
globals().update(_published)

__all__ = list(_published)
