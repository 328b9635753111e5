"""What the loader is made of."""

from torchlike.utils.data._utils import collate as collate
from torchlike.utils.data._utils import worker as worker
