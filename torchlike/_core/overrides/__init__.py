"""``__torch_function__``: which public functions can be overridden, and by whom."""
