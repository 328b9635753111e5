"""What Python imports first in processes that tests start: they end without a search for garbage.

That takes half a second once PyTorch or jax has been imported. Tests of ``python -m torchlike run`` start processes
that end as a user's do.
"""

import atexit
import gc

atexit.register(gc.freeze)
