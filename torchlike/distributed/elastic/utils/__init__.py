"""``torch.distributed.elastic.utils``: what launchers and their scripts are made of."""

from torchlike.distributed.elastic.utils.api import get_env_variable_or_raise as get_env_variable_or_raise
from torchlike.distributed.elastic.utils.api import get_socket_with_port as get_socket_with_port
from torchlike.distributed.elastic.utils.api import macros as macros
