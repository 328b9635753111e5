"""Interpolation of bytes gives PyTorch's numbers, each of them."""

import itertools

import numpy as np
import pytest
import torch

import torchlike

X = np.random.RandomState(1).randint(0, 256, (2, 5, 17, 23)).astype("uint8")
GIVEN = [{"size": (9, 9)}, {"size": (40, 31)}, {"size": (5, 23)}, {"scale_factor": 1.7}, {"scale_factor": (2, 0.5)}]
GIVEN += [{"scale_factor": 1.03}]  # no other size
CASES = list(itertools.product(("bilinear", "bicubic"), (False, True), (False, True), GIVEN, (1, 3, 5)))


@pytest.mark.parametrize("mode,antialias,align_corners,given,channels", CASES)
def test_bytes(mode, antialias, align_corners, given, channels):
    got, expected = (
        t.nn.functional.interpolate(
            t.from_numpy(X[:, :channels]), mode=mode, antialias=antialias, align_corners=align_corners, **given
        )
        for t in (torchlike, torch)
    )
    assert got.dtype is torchlike.uint8 and np.array_equal(got.numpy(), expected.numpy())
