"""torch.ops.aten: operators as the calls that PyTorch makes of them, for dispatch modes and subclasses."""
