"""Methods and functions that few programs call: what they give, and how those that are refused say so."""

import importlib

import pytest
import torch
from both import agree_error
from story_kit import said, story

import torchlike

REFUSED = "int_repr q_scale q_zero_point qscheme q_per_channel_scales q_per_channel_axis q_per_channel_zero_points"


@story
def test_dim_order(t):
    wide = t.ones(2, 3, 4, 5).contiguous(memory_format=t.channels_last)
    found = [t.ones(2, 3), t.ones(2, 3).t(), wide, t.ones(3).expand(2, 3), t.tensor(1.0), t.ones(0, 2), t.ones(1, 3, 1)]
    formats = [t.contiguous_format, t.channels_last]
    wrong = [(t.ones(1, 3, 1), True), (t.ones(2, 1, 3, 4), formats), (wide, 3), (t.eye(2).to_sparse(), False)]
    errors = [
        said(lambda x=x, c=c: x.dim_order(ambiguity_check=c), "unique|bool or a list|sparse type") for x, c in wrong
    ]
    return [x.dim_order() for x in found], wide.dim_order(ambiguity_check=formats), errors


@story
def test_methods(t):
    x, base = t.ones(2, 3), t.arange(8.0)
    return (
        x.is_distributed(), x.is_vulkan, x.const_data_ptr() == x.data_ptr(), x.half().dequantize(), t.dequantize(x),
        base[2:4].slice_inverse(base, 0, 2, 4, 1), x.module_load(t.zeros(2, 3)), x, x.module_load(x + 1, assign=True),
        said(lambda: x.module_load(t.zeros(5)), "size of tensor"), said(lambda: x.record_stream(None), "parameter"),
        said(x.symeig, "removed"), said(x.eig, "removed"), said(lambda: x.solve(x), "removed"),
        said(lambda: x.lstsq(x), "removed"), said(x.xpu, "not compiled with XPU"), said(x.ipu, "not linked"),
        said(x.mtia, "not compiled with MTIA"),
    )  # fmt: skip


@story
def test_functions(t):
    rows, columns = t.eye(2).to_sparse_csr(), t.eye(2).to_sparse_csc()
    functional = t.nn.functional
    return (
        t.addmv_(t.ones(2), t.ones(2, 3), t.ones(3)), t.crow_indices_copy(rows), t.col_indices_copy(rows),
        t.ccol_indices_copy(columns), t.row_indices_copy(columns),
        t.embedding_renorm_(t.ones(2, 3) * 2, t.tensor([0]), 1.0, 2.0),
        functional.GRID_SAMPLE_INTERPOLATION_MODES, functional.GRID_SAMPLE_PADDING_MODES,
    )  # fmt: skip


@pytest.mark.parametrize("name", [*REFUSED.split(), "to_padded_tensor"])
def test_refused_methods(name):
    more = (0.0,) if name == "to_padded_tensor" else ()
    agree_error(lambda t: getattr(t.ones(2), name)(*more), name)


@pytest.mark.parametrize("name", "to_mkldnn chalf index".split())
def test_what_pytorch_has(name):
    with pytest.raises(NotImplementedError, match=r"oneDNN|complex32|first-class"):
        getattr(torchlike.ones(2), name)()


@pytest.mark.parametrize("name", "native_norm values_copy indices_copy hsmm saddmm quantize_per_tensor".split())
def test_refused_functions(name):
    assert hasattr(torch, name)
    with pytest.raises(NotImplementedError, match=name):
        getattr(torchlike, name)(torchlike.ones(2))


class Handle:
    def __init__(self, calls):
        self.remove = lambda: calls.append("removed")


@story
def test_kernels_of_attention(t):
    a, calls = t.nn.attention, []
    a.register_flash_attention_impl("mine", register_fn=lambda: Handle(calls))
    a.register_flash_attention_impl("quiet", register_fn=lambda: calls.append("called"))
    a.activate_flash_attention_impl("mine")
    seen = [a.current_flash_attention_impl()]
    a.restore_flash_attention_impl()
    a.activate_flash_attention_impl("quiet")
    seen += [a.current_flash_attention_impl(), calls, a.list_flash_attention_impls()]
    return *seen, said(lambda: a.activate_flash_attention_impl("x"), "Unknown")


def test_kernels_of_pytorch():
    with pytest.raises(NotImplementedError, match="FA4"):
        torchlike.nn.attention.activate_flash_attention_impl("FA4")


UNBUILT = "nn.functional.scaled_grouped_mm sparse.to_sparse_semi_structured linalg.common_notes"


@pytest.mark.parametrize("name", UNBUILT.split())
def test_what_is_missing_is_told_from_what_is_misspelt(name):
    module = torchlike
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=f"torchlike does not have torch.{name} yet"):
        getattr(module, last)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_the_type_of_tensors_in_schemas():
    for m in (torchlike, torch):
        found = m.TensorType.get()
        assert (str(found), found.kind()) == ("Tensor", "TensorType")
        kinds = [isinstance(a.type, m.TensorType) for a in m.ops.aten.add.Tensor._schema.arguments]
        assert kinds == [True, True, False]
        with pytest.raises(TypeError, match="No constructor defined"):
            m.TensorType()


def test_groups_of_tensors():
    for m in (torchlike, torch):
        group = importlib.import_module(f"{m.__name__}.utils._foreach_utils")._group_tensors_by_device_and_dtype
        a, b, c = m.ones(1), m.ones(2, dtype=m.float64), m.ones(3)
        found = group([[a, b, c], [None, None, None], [c, a, b], []], with_indices=True)
        lists, numbers = found[a.device, m.float32]
        assert [x is y for x, y in zip(lists[0], [a, c], strict=True)] == [True, True]
        assert lists[1:] == [[None, None], lists[2], []] and lists[2][0] is c and numbers == [0, 2]
        assert len(found) == 2 and found[b.device, m.float64][1] == [1]
        assert group([[a, b]])[a.device, m.float32][1] == []
        for wrong, words in ([], "to be true"), ([[a], [a, b]], "to be true"), ([[None]], "the 0-th Tensor is not"):
            with pytest.raises(RuntimeError, match=words):
                group(wrong)
