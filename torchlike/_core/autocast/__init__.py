"""Autocast: the dtypes that operators compute in, chosen for each call."""
