"""torch._functorch.config: accepted, and without effect."""

from torchlike.compiler._settings import FUNCTORCH, install

install(__name__, FUNCTORCH)
