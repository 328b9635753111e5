"""torch.cuda.amp: earlier names of torch.amp, for GPUs."""

from torchlike.cuda.amp.autocast_mode import autocast as autocast
from torchlike.cuda.amp.autocast_mode import custom_bwd as custom_bwd
from torchlike.cuda.amp.autocast_mode import custom_fwd as custom_fwd
from torchlike.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from torchlike.cuda.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
