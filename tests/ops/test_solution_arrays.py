"""Numpy arrays of results whose strides leave gaps, as PyTorch's least-squares solutions have."""

import numpy as np
import pytest

import torchlike as torch


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
def test_a_solution_is_read_as_numbers(driver):
    a, b = np.arange(12.0).reshape(4, 3) + np.eye(4, 3), np.arange(12.0).reshape(4, 3)
    solution = torch.linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver=driver).solution
    assert solution.stride() == (1, 4)
    np.testing.assert_allclose(solution.numpy(), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-9)
    np.testing.assert_allclose(np.asarray(solution), solution.numpy())
    np.testing.assert_allclose(np.from_dlpack(solution), solution.numpy())


def test_what_is_written_into_a_copy_is_refused():
    array = torch.linalg.lstsq(torch.ones(4, 3) + torch.eye(4, 3), torch.ones(4, 2)).solution.numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1.0
