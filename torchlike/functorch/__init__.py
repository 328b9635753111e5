"""What ``import functorch`` gives where ``torch`` means torchlike."""

from torchlike._functorch.deprecated import combine_state_for_ensemble as combine_state_for_ensemble
from torchlike._functorch.deprecated import functionalize as functionalize
from torchlike._functorch.deprecated import grad as grad
from torchlike._functorch.deprecated import grad_and_value as grad_and_value
from torchlike._functorch.deprecated import hessian as hessian
from torchlike._functorch.deprecated import jacfwd as jacfwd
from torchlike._functorch.deprecated import jacrev as jacrev
from torchlike._functorch.deprecated import jvp as jvp
from torchlike._functorch.deprecated import make_functional as make_functional
from torchlike._functorch.deprecated import make_functional_with_buffers as make_functional_with_buffers
from torchlike._functorch.deprecated import vjp as vjp
from torchlike._functorch.deprecated import vmap as vmap
from torchlike._functorch.make_functional import FunctionalModule as FunctionalModule
from torchlike._functorch.make_functional import FunctionalModuleWithBuffers as FunctionalModuleWithBuffers
from torchlike.fx.experimental.proxy_tensor import make_fx as make_fx
from torchlike.interop.lazy import on_first_use
from torchlike.version import __version__ as __version__

__getattr__, __dir__ = on_first_use(__name__)
