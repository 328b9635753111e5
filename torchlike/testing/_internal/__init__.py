"""Helpers of tests: ``TestCase``, and tensors that log operators."""
