"""torch.amp: automatic mixed precision."""

from torchlike.amp.autocast_mode import _enter_autocast as _enter_autocast
from torchlike.amp.autocast_mode import _exit_autocast as _exit_autocast
from torchlike.amp.autocast_mode import autocast as autocast
from torchlike.amp.autocast_mode import custom_bwd as custom_bwd
from torchlike.amp.autocast_mode import custom_fwd as custom_fwd
from torchlike.amp.autocast_mode import is_autocast_available as is_autocast_available
from torchlike.amp.grad_scaler import GradScaler as GradScaler
from torchlike.interop.alias import missing_names

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

__getattr__ = missing_names(__name__)
