"""What packages of others import and ask for: torchvision, lightning, transformers, Pyro and their like."""

import importlib
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from both import agree, agree_error
from story_kit import said, story

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
from torch.distributed.checkpoint import QuantizedHuggingFaceStorageReader, save
from torch.distributed.pipelining import SplitPoint, pipeline
import torch, torch.distributed.checkpoint.state_dict
assert not isinstance(torch.ones(1), DTensor) and Shard(0).dim == 0
assert torch.distributed.rpc.is_available() is False
for name in (share_comm_ctx, QuantizedHuggingFaceStorageReader):
    try:
        name()
    except NotImplementedError as error:
        assert f"{name.__module__}.{name.__name__}: " in str(error), error
    else:
        raise AssertionError
"""


@pytest.mark.once
def test_unbuilt_parts_are_named():
    subprocess.run([sys.executable, "-c", UNBUILT], check=True)


def test_eigenvectors_give_hermitian_gradients():
    def code(t):
        kept = []
        for dtype in (t.float64, t.complex128):
            a = t.arange(9.0, dtype=t.float64).reshape(3, 3).sin().to(dtype)
            p = (a @ a.mH + 6 * t.eye(3)).requires_grad_()
            values, vectors = t.linalg.eigh(p)
            kept += t.autograd.grad((vectors.abs() * a.abs()).sum() + (values * values).sum(), p, retain_graph=True)
            root = vectors * values.sqrt()
            kept += t.autograd.grad((root @ root.mH * t.arange(1.0, 10).reshape(3, 3)).real.sum(), p)
        return kept

    agree(code)


def test_hooks_of_one_gradient_share_its_tensor():
    """captum's LRP leaves an attribute on it for the hook that comes next."""

    def code(t):
        x, seen = t.ones(2, requires_grad=True), []

        def mark(grad):
            grad.mark = 5

        y = x * 2
        for hook in (seen.append, mark, lambda grad: grad * 3, seen.append):
            y.register_hook(hook)
        y.grad_fn.register_prehook(lambda grads: seen.append(grads[0]))
        y.grad_fn.register_prehook(lambda grads: seen.append(grads[0]))
        y.sum().backward()
        return [getattr(g, "mark", None) for g in seen], seen[2] is seen[3], seen[0] is seen[1], seen, x.grad

    agree(code)


def test_indices_of_rows_both_ways():
    def code(t):
        to_csr, to_coo = t._convert_indices_from_coo_to_csr, t._convert_indices_from_csr_to_coo
        rows, starts = t.tensor([0, 0, 2]), t.tensor([[0, 2, 3], [0, 1, 3]])
        columns = t.tensor([[0, 1, 1], [0, 0, 1]])
        return [
            to_csr(rows, 4), to_csr(rows.int(), 4), to_csr(rows, 4, out_int32=True), to_csr(rows[:0], 2),
            to_coo(starts[0], columns[0]), to_coo(starts[0].int(), columns[0].int()), to_coo(starts, columns),
            to_coo(starts[0], columns[0], transpose=True, out_int32=True),
            to_coo(t.zeros(3, dtype=t.long), rows[:0]), t.ops.aten._convert_indices_from_coo_to_csr(rows, 3),
        ]  # fmt: skip

    agree(code)
    with pytest.raises(NotImplementedError, match="not implemented for 'Float': indices are integers"):
        torchlike._convert_indices_from_coo_to_csr(torchlike.ones(2), 2)
    with pytest.raises(RuntimeError, match="Input is supposed to be a vector, but got 2 dimensional tensor"):
        torchlike._convert_indices_from_coo_to_csr(torchlike.ones(2, 2).long(), 2)


def test_transposed_sparse_matrices():
    def code(t):
        s = t.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse()
        return [x.to_dense() for x in (s.mT, s.H, s.mH, t.stack([s, s]).mT)], s.H.layout == t.sparse_coo

    agree(code)


def test_names_that_packages_ask_for():
    def code(t):
        from_worker = import_module(f"{t.__name__}.utils.data._utils.worker")
        x = t.ones(1, 1, 3, 3)
        given = x, x[..., :2, :2], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True
        aten = t.ops.aten._convolution
        children, context = import_module(f"{t.__name__}.utils._pytree")._list_flatten_with_keys([5, 6])
        return [
            [(str(key), value) for key, value in children], context,
            from_worker._generate_state(2**40 + 7, 2), x._cdata == x._cdata, x._cdata == x.detach()._cdata,
            t._convolution(*given), aten(*given), aten.deprecated(*given[:-1]), isinstance(x, t.ScriptObject),
            t._C.ScriptObject is t.ScriptObject, t.searchsorted(t.ones(2, 3), t.ones(2, 0)),
        ]  # fmt: skip

    agree(code)
    agree_error(lambda t: t.ScriptObject(), "No constructor defined")
    agree_error(
        lambda t: import_module(f"{t.__name__}._utils")._get_device_module("nope"), "registered as 'torch.nope'"
    )
    assert torchlike._utils._get_device_module("cpu") is torchlike.cpu
    for name in ("experimental", "device_mesh"):
        old = import_module(f"torchlike.distributed._tensor.{name}")
        assert getattr(old, "implicit_replication" if name == "experimental" else "DeviceMesh")


def test_older_and_inner_names_of_distributed_tensors_are_the_same_objects():
    """A stand-in for DTensor would let isinstance say no of every DTensor."""
    tensor, fsdp = (import_module(f"torchlike.distributed.{name}") for name in ("tensor", "fsdp"))
    for place, name, found in (
        ("tensor._api", "DTensor", tensor), ("_tensor.api", "DTensor", tensor), ("_tensor.api", "zeros", tensor),
        ("_tensor.placement_types", "Shard", tensor), ("_composable.fsdp.fully_shard", "FSDPModule", fsdp),
        ("_composable.fsdp", "fully_shard", fsdp),
    ):  # fmt: skip
        assert getattr(import_module(f"torchlike.distributed.{place}"), name) is getattr(found, name), (place, name)


def test_traces_that_programs_put_together():
    """PyTorch Geometric's to_hetero has a trace() of its own, of these parts."""

    def code(t):
        fx = import_module(f"{t.__name__}.fx._symbolic_trace")

        class Own(t.fx.Tracer):
            @fx.compatibility(is_backward_compatible=True)
            def trace(self, root, concrete_args=None):
                self.root, self.submodule_paths = root, {m: n for n, m in root.named_modules()}
                self.graph, self.tensor_attrs = t.fx.Graph(tracer_cls=Own), {}
                run, args = self.create_args_for_root(type(root).forward, True, concrete_args)

                def asked(module, name):
                    return self.getattr(name, fx._orig_module_getattr(module, name), {})

                def called(module, *args, **kwargs):
                    return self.call_module(module, lambda *a, **k: fx._orig_module_call(module, *a, **k), args, kwargs)

                with fx._Patcher() as patcher:
                    patcher.patch_method(t.nn.Module, "__getattr__", asked, deduplicate=False)
                    patcher.patch_method(t.nn.Module, "__call__", called, deduplicate=False)
                    fx._patch_wrapped_functions(patcher)
                    fx._autowrap_check(patcher, run.__globals__, self._autowrap_function_ids)
                    self.create_node("output", "output", (self.create_arg(run(*args)),), {})
                return self.graph

        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.scale = t.nn.Linear(2, 3), t.nn.Parameter(t.ones(3))

            def forward(self, x):
                return t.relu(self.layer(x)) * self.scale

        class Bare(t.fx.GraphModule):
            def __init__(self):
                super().__init__(self, t.fx.Graph())

        t.manual_seed(0)
        net = Net()
        graph, x = Own().trace(net), t.ones(1, 2)
        nodes = [(n.op, n.name) for n in graph.nodes]
        return nodes, t.fx.GraphModule(net, graph)(x), net(x), Bare().meta, t.nn.Module.__call__ is fx._orig_module_call

    agree(code)


def test_vmap_is_made_of_steps_that_a_package_replaced():
    def code(t):
        inside, seen = importlib.import_module(f"{t.__name__}._functorch.vmap"), []
        own = inside._process_batched_inputs, inside._unwrap_batched

        def process(in_dims, args, func):
            seen.append("in")
            return own[0](in_dims, args, func)

        def unwrap(outputs, out_dims, level, size, func):
            seen.append("out")
            found = inside._maybe_remove_batch_dim("f", outputs, level, size, out_dims)
            with pytest.raises(ValueError, match="must only return Tensors"):
                inside._maybe_remove_batch_dim("f", 3, level, size, 0)
            with pytest.raises(ValueError, match="BatchedTensor when out_dim is None"):
                inside._maybe_remove_batch_dim("f", outputs, level, size, None)
            return found, inside._maybe_remove_batch_dim("f", 3, level, size, None)

        inside._process_batched_inputs, inside._unwrap_batched = process, unwrap
        try:
            result = t.vmap(lambda x, y: x.sum() * y, (0, None), out_dims=0)(t.arange(6.0).view(3, 2), t.ones(2))
        finally:
            inside._process_batched_inputs, inside._unwrap_batched = own
        return result, seen, t.vmap(lambda x: x.sum())(t.ones(3, 2)), list(seen)

    agree(code)


@story
def test_contexts_that_decorate(t):
    from_lib = import_module(f"{t.__name__}.utils._contextlib")
    base, bare, decorator = (
        from_lib._DecoratorContextManager, from_lib._NoParamDecoratorContextManager, from_lib.context_decorator
    )  # fmt: skip
    seen = []

    class Named(base):
        def __init__(self, name):
            self.name = name

        def clone(self):
            return type(self)(self.name)

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *error):
            seen.append("out")

    class Bare(bare):
        def __enter__(self):
            seen.append("bare")

        def __exit__(self, *error):
            seen.append("out")

    @Named("a")
    def numbers():
        yield from range(2)

    @Bare
    def one():
        return 1

    @Bare()
    def two():
        return 2

    kinds = t.no_grad(), t.enable_grad(), t.set_grad_enabled(True), t.inference_mode(), t.autograd.detect_anomaly(False)
    wrong = [said(lambda: decorator(t.no_grad, one), "^Passed in"), said(lambda: decorator(3, one)(), "context manag")]
    return list(numbers()), one(), two(), seen, [isinstance(x, base) for x in kinds], wrong


@story
def test_graphs_of_torchscript_are_no_ones(t):
    return [isinstance(t.ones(1), getattr(t._C, name)) for name in ("Graph", "Node", "Value", "Block")]


def test_backends_that_programs_compare_with():
    names = "GLOO", "MPI", "NCCL", "UCC", "XCCL", "FAKE", "UNDEFINED"
    agree(lambda t: [str(getattr(t.distributed.Backend, name)) for name in names])
