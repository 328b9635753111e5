"""``replace_all_batch_norm_modules_``: batch norm without the running statistics that vmap cannot update."""

from torchlike.nn.modules.batchnorm import _BatchNorm
from torchlike.nn.modules.module import Module


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm in ``root`` work without running statistics, in place; returns ``root``.

    Under :func:`vmap` each example would change the one set of statistics that they share, which is refused.

    >>> import torchlike as torch
    >>> norm = torch.func.replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(2))
    >>> norm.running_mean, norm.track_running_stats
    (None, False)
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
