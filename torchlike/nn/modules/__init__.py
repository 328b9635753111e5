"""The modules, by family."""

from torchlike.nn.modules.container import ModuleDict as ModuleDict
from torchlike.nn.modules.container import ModuleList as ModuleList
from torchlike.nn.modules.container import ParameterDict as ParameterDict
from torchlike.nn.modules.container import ParameterList as ParameterList
from torchlike.nn.modules.container import Sequential as Sequential
from torchlike.nn.modules.module import Module as Module
