"""torch.utils.model_zoo: the old name of ``torch.hub.load_state_dict_from_url``."""

from torchlike.hub import load_state_dict_from_url as load_url
from torchlike.interop.alias import missing_names

__all__ = ["load_url"]

__getattr__ = missing_names(__name__)
