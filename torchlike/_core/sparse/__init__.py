"""Sparse tensors: tensors whose value is made of ordinary tensors, and what each operator does with them."""
