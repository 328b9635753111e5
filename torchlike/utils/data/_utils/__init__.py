"""What the loader is made of."""

import atexit

from torchlike.utils.data._utils import collate as collate
from torchlike.utils.data._utils import fetch as fetch
from torchlike.utils.data._utils import pin_memory as pin_memory
from torchlike.utils.data._utils import signal_handling as signal_handling
from torchlike.utils.data._utils import worker as worker
from torchlike.utils.data._utils.worker import MP_STATUS_CHECK_INTERVAL as MP_STATUS_CHECK_INTERVAL

HAS_NUMPY = True
IS_WINDOWS = False
python_exit_status = False  # True when the interpreter ends
atexit.register(globals().update, python_exit_status=True)
