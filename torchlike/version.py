"""Versions, under torch's names."""

__version__ = "0.1.0"
cuda: str | None = None
hip: str | None = None
git_version = "unknown"
debug = False
