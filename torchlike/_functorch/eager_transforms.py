"""The transforms where functorch has them."""

from torchlike.func import debug_unwrap as debug_unwrap
from torchlike.func import functionalize as functionalize
from torchlike.func import hessian as hessian
from torchlike.func import jacfwd as jacfwd
from torchlike.func import jacrev as jacrev
from torchlike.func import jvp as jvp
from torchlike.func import linearize as linearize
from torchlike.func import vjp as vjp
from torchlike.func import vmap as vmap
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
