"""What packages of others import and ask for: torchvision, lightning, transformers, Pyro and their like."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from both import agree, agree_error

import torchlike
from torchlike._aten.packets import BROUGHT


def keys(t, *names):
    return t._C.DispatchKeySet(getattr(t._C.DispatchKey, names[0])), [getattr(t._C.DispatchKey, n) for n in names]


def test_sets_of_dispatch_keys():
    def code(t):
        a, (first, second) = keys(t, "AutocastCPU", "AutocastCUDA")
        b = t._C.DispatchKeySet(second)
        return [a, a | b, (a | b) - b, (a | b) & b, a == a, a == b, (a | b).has(first), a.has(second), a.add(second),
                (a | b).remove(first)]  # fmt: skip

    agree(code)


def test_layers_left_out():
    def code(t):
        both, _ = keys(t, "AutocastCPU")
        grads, _ = keys(t, "AutogradCPU")
        x = t.ones(2, 2, requires_grad=True)
        with t.autocast("cpu", dtype=t.bfloat16):
            with t._C._ExcludeDispatchKeyGuard(both):
                off = t.mm(x, x).dtype, t.is_autocast_enabled("cpu")
            with t._C._ExcludeDispatchKeyGuard(grads):
                unrecorded = t.mm(x, x).requires_grad
            return off, unrecorded, t.mm(x, x).dtype, t.is_autocast_enabled("cpu")

    agree(code)
    with pytest.raises(NotImplementedError, match="_ExcludeDispatchKeyGuard: CPU cannot be excluded"):
        torchlike._C._ExcludeDispatchKeyGuard(keys(torchlike, "CPU")[0])


def test_kernels_for_autocast():
    def code(t):
        library = t.library.Library("autocast_kernels", "FRAGMENT")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")

        def under_autocast(x):
            with t._C._ExcludeDispatchKeyGuard(keys(t, "AutocastCPU")[0]):
                return t.ops.autocast_kernels.twice(x.to(t.bfloat16))

        library.impl("twice", under_autocast, "AutocastCPU")
        twice = t.ops.autocast_kernels.twice
        plain = twice(t.ones(2))
        with t.autocast("cpu"):
            return plain, twice(t.ones(2)), library._destroy()

    agree(code)


def torchvision():
    """``torch.ops.torchvision`` as after torchvision's own request."""
    assert ("torchvision", "_C_stable") in BROUGHT  # what torchvision 0.29 loads
    BROUGHT["torchvision", "_C"]()
    return torchlike.ops.torchvision


def test_boxes_are_suppressed():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 10, (60, 2)).astype(np.float32)
    boxes, scores = np.concatenate([corners, corners + 3], 1), rng.permutation(60).astype(np.float32)
    kept = torchvision().nms(torchlike.tensor(boxes), torchlike.tensor(scores), 0.4)

    def shared(a, b):
        wide = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
        return wide / (18 - wide)

    expected: list[int] = []
    for i in np.argsort(-scores):
        if all(shared(boxes[i], boxes[j]) <= 0.4 for j in expected):
            expected.append(int(i))
    assert kept.dtype is torchlike.int64 and kept.tolist() == expected and len(expected) < 60
    empty = torchvision().nms(torchlike.zeros(0, 4), torchlike.zeros(0), 0.5)
    assert empty.shape == (0,) and empty.dtype is torchlike.int64


@pytest.mark.parametrize("boxes, scores", [((3, 5), (3,)), ((4,), (4,)), ((3, 4), (2,)), ((3, 4), (3, 1))])
def test_boxes_of_other_shapes(boxes, scores):
    with pytest.raises(RuntimeError, match=r"nms\(\): boxes"):
        torchvision().nms(torchlike.zeros(boxes), torchlike.zeros(scores), 0.5)


def test_what_torchvision_compiles_and_torchlike_does_not_compute():
    with pytest.raises(NotImplementedError, match="torchvision.roi_pool: torchlike does not compute"):
        torchvision().roi_pool(torchlike.ones(1, 1, 4, 4), torchlike.zeros(1, 5), 1.0, 2, 2)


@pytest.mark.parametrize("error", [OSError, NotImplementedError])
def test_other_libraries(error):
    with pytest.raises(error, match=r"load_library\('libx.so'\)"):
        torchlike.ops.load_library("libx.so")


def test_divergences_of_other_classes():
    agree(lambda t: t.distributions.register_kl(int, str)(len)([1]))
    agree_error(lambda t: t.distributions.register_kl(3, str), "class")


def test_names_for_onnx():
    agree(lambda t: [int(t.onnx.TensorProtoDataType.INT64), int(t.onnx.TrainingMode.TRAINING),
                     t.onnx.register_custom_op_symbolic("aten::relu", lambda g, x: x, 11)])  # fmt: skip
    assert torchlike.onnx.symbolic_helper.parse_args("v")(len) is len


def test_steps_of_paths():
    def code(t):
        p = t.utils._pytree
        pairs, context = p._dict_flatten_with_keys({"b": 1, "a": 2})
        return [str(pairs), context, str(p.SequenceKey(1)), p.MappingKey("a").get({"a": 3}), p.SequenceKey(0).get([4]),
                isinstance(p.tree_flatten([1])[1].children_specs[0], p.LeafSpec), p.tree_flatten(3)[1] == p.LeafSpec(),
                p._dict_unflatten(*p._dict_flatten({"x": 1})), dict in p.SUPPORTED_NODES]  # fmt: skip

    agree(code)


def test_pieces_of_printing():
    def code(t):
        text = t._tensor_str._tensor_str(t.arange(3), 6)
        return text, t._tensor_str._add_suffixes("Index(" + text, ["dim_size=3"], 6, force_newline=False)

    agree(code)


def test_operators_under_their_names_in_c():
    def code(t):
        x = t.arange(4.0).reshape(1, 4)
        nn, images = t._C._nn, x.reshape(1, 1, 1, 4)
        return [nn.reflection_pad1d(x, (1, 1)), nn.upsample_nearest2d(images, (2, 4)), hasattr(nn, "reflection_pad9d")]

    agree(code)


def test_arguments_of_to():
    agree(lambda t: [t._C._nn._parse_to("cpu", t.float64, True), t._C._nn._parse_to(t.ones(1, dtype=t.int64)),
                     t._C._nn._parse_to(device="cpu", memory_format=t.channels_last)])  # fmt: skip


def test_placements():
    def code(t):
        d = import_module(f"{t.__name__}.distributed.tensor")
        return [(repr(p), str(p), p == d.Shard(1), p.is_shard(), p.is_shard(1), p.is_replicate(), p.is_partial())
                for p in (d.Shard(0), d.Shard(1), d.Replicate(), d.Partial(), d.Partial("avg"))]  # fmt: skip

    agree(code)


UNBUILT = """
import torchlike; torchlike.install_as_torch()
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, share_comm_ctx
from torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.checkpoint import HuggingFaceStorageReader, save
from torch.distributed.pipelining import SplitPoint, pipeline
import torch, torch.distributed.checkpoint.state_dict
assert not isinstance(torch.ones(1), DTensor) and Shard(0).dim == 0
assert torch.distributed.rpc.is_available() is False
for name in (share_comm_ctx, pipeline, HuggingFaceStorageReader, ChildFailedError):
    try:
        name()
    except NotImplementedError as error:
        assert f"{name.__module__}.{name.__name__}: " in str(error), error
    else:
        raise AssertionError
"""


def test_unbuilt_parts_are_named():
    subprocess.run([sys.executable, "-c", UNBUILT], check=True)
