"""Optimizers and learning rate schedulers."""

from torchlike.optim import lr_scheduler as lr_scheduler
from torchlike.optim.optimizer import Optimizer as Optimizer
