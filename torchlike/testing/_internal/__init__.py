"""Helpers for tests of ``__torch_dispatch__``."""
