"""Commands of `python -m torchlike`."""
