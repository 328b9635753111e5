"""``torch.utils.deterministic``: whether ``torch.empty`` fills its memory when algorithms have to be deterministic.

>>> import torchlike as torch
>>> torch.utils.deterministic.fill_uninitialized_memory
True
"""

# Memory is never uninitialized here: what torch.empty gives is zero, whatever this says.
fill_uninitialized_memory = True
