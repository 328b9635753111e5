"""Data into tensors and out of them: Python, NumPy, DLPack, indices, devices, factories."""
