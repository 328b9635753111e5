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


HELD = {
    "item": lambda w, x: x * w.item(),
    "float": lambda w, x: x * float(w),
    "tolist": lambda w, x: torch.tensor(w.tolist()) * x,
    "numpy": lambda w, x: torch.as_tensor(np.sin(w.detach().numpy())) + x,
    "an option": lambda w, x: torch.add(x, x, alpha=w.detach()),
    "an index": lambda w, x: x.expand(5)[: int(w)].sum(),
    "a length": lambda w, x: x.expand(w.detach().long()).sum(),
}


@pytest.mark.parametrize("kind", [torch.tensor, lambda v: torch.nn.Parameter(torch.tensor(v))])
@pytest.mark.parametrize("read", HELD.values(), ids=HELD)
def test_the_numbers_of_a_tensor_from_outside_are_those_of_now(read, kind):
    w = kind(2.0)
    program = torch.compile(lambda x: read(w, x))
    for number in (2.0, 3.0, 4.0):
        with torch.no_grad():
            w.fill_(number)
        x = torch.tensor(1.5)
        assert program(x).item() == read(w, x).item()


@pytest.mark.parametrize("read", [HELD["item"], HELD["float"]])
def test_in_one_program_those_are_refused(read):
    w = torch.tensor(1.0)
    with pytest.raises(RuntimeError, match="reads the numbers of a tensor from outside"):
        torch.compile(lambda x: read(w, x), fullgraph=True)(torch.tensor(1.0))
