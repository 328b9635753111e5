"""Where PyTorch keeps the class of nested tensors."""
