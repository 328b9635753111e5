"""Levels of function transforms: vmap and forward-mode derivatives."""
