"""torch.cpu.amp: an earlier name of torch.amp, for CPUs."""

from torchlike.cpu.amp.autocast_mode import autocast as autocast
from torchlike.cpu.amp.grad_scaler import GradScaler as GradScaler
