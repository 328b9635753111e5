"""Foundations that import nothing of ours: dtypes, devices, promotion, random keys."""
