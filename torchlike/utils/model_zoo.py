"""torch.utils.model_zoo: the old name of ``torch.hub.load_state_dict_from_url``."""

import contextlib

from torchlike.hub import load_state_dict_from_url as load_url
from torchlike.interop.alias import missing_names

with contextlib.suppress(ImportError):
    from torchlike.hub import tqdm as tqdm

__all__ = ["load_url"]

__getattr__ = missing_names(__name__)
