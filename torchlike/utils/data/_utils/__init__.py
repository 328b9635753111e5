"""What the loader is made of."""

from torchlike.utils.data._utils import collate as collate
from torchlike.utils.data._utils import worker as worker
from torchlike.utils.data._utils.worker import MP_STATUS_CHECK_INTERVAL as MP_STATUS_CHECK_INTERVAL
