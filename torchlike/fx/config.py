"""torch.fx.config."""

# PyTorch prints steps that a pass skips; here none does.
disable_progress = True
verbose_progress = False
