"""Data pipes: datasets that are made of others, step by step."""

from torchlike.utils.data.datapipes import iter as iter
from torchlike.utils.data.datapipes import map as map
from torchlike.utils.data.datapipes import utils as utils
