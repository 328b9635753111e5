"""Tracing for torch.export, and how the results of exported programs are described."""
