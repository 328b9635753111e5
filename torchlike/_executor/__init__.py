"""L2: the only place that calls XLA."""
