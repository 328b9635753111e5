"""Overloads of aten that torchlike does not compute: there with PyTorch's signatures, they say why."""

import runpy
from pathlib import Path

import pytest
import torch as torch_oracle

import torchlike as torch
from torchlike._composites.refused import REFUSED

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
LISTING = runpy.run_path(str(DOCS / "missing_overloads.py"), run_name="missing_overloads")


def test_every_overload_of_pytorch_is_there():
    assert not [text for text in LISTING["missing"]() if text not in REFUSED]


def test_the_list_is_current():
    assert LISTING["LIST"].read_text() == LISTING["listing"](), "run python docs/missing_overloads.py"


def test_each_has_its_signature_and_a_reason():
    for text, why in REFUSED.items():
        name, _, overload = text[: text.index("(")].partition(".")
        found = getattr(getattr(torch.ops.aten, name), overload or "default")
        assert str(found._schema) == f"aten::{text}"
        with pytest.raises(NotImplementedError, match=f"^aten::{name}.* is not computed by torchlike: .{{8}}"):
            found.op()
        assert why


@pytest.mark.parametrize("name", ["cudnn_grid_sampler", "_mkldnn_transpose", "_spsolve"])
def test_what_no_processor_computes_is_the_same_error(name):
    for t in (torch, torch_oracle):
        x = t.ones(1, 1, 2, 2)
        with pytest.raises(NotImplementedError, match=f"aten::{name}"):
            getattr(t.ops.aten, name)(x, *([0, 1] if name == "_mkldnn_transpose" else [x]))


def test_forms_that_compute_come_before_those_that_are_refused():
    x = torch.tensor([3, 1])
    assert torch.equal(torch.ops.aten.sort(x)[0], torch.tensor([1, 3]))
