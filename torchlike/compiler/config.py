"""torch.compiler.config: settings that are accepted and change nothing."""

from torchlike.compiler._settings import COMPILER, install

install(__name__, COMPILER)
