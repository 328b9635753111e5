"""Transformations of whole functions: their capture as one program."""
