"""Anomaly mode under torch's module path."""

from torchlike._core.autograd.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
