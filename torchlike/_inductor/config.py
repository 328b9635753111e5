"""torch._inductor.config: accepted, and without effect."""

from torchlike.compiler._settings import INDUCTOR, install

install(__name__, INDUCTOR)
