"""A compiled function that asks for the numbers of an argument gets those of each call."""

import numpy as np
import pytest

import torchlike as torch

READS = {
    "item": lambda x: x * x.item(),
    "float": lambda x: x * float(x),
    "bool": lambda x: x * 2 if x > 0 else x * 3,
    "truth": lambda x: x * 2 if x else x + 5,
    "tolist": lambda x: torch.tensor(x.tolist()) * 2,
    "numpy": lambda x: torch.as_tensor(np.sin(x.numpy())),
    "array": lambda x: torch.as_tensor(np.asarray(x)) * 2,
    "of a view": lambda x: x.reshape(1)[0].item() * x,
    "text": lambda x: x * len(f"{x}"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_numbers_are_those_of_the_call(read):
    program = torch.compile(read)
    for number in (1.0, -2.0, 0.0, 123.5):
        x = torch.tensor(number)
        assert program(x).item() == read(x).item()


@pytest.mark.parametrize("read", [READS["item"], READS["numpy"]])
def test_in_one_program_it_is_refused(read):
    with pytest.raises(RuntimeError, match="reads the numbers of an argument"):
        torch.compile(read, fullgraph=True)(torch.tensor(1.0))
