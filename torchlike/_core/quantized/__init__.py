"""Quantized tensors: integers that stand for numbers, and what each operator does with them."""
