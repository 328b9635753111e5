"""Storage, Tensor and View, and what may change them."""
