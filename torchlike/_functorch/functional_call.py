"""``functional_call`` and ``stack_module_state`` where functorch has them."""

from torchlike.func import functional_call as functional_call
from torchlike.func import stack_module_state as stack_module_state
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
