"""Modules that programs import and ask: onnx, hub, multiprocessing, accelerator, xpu, cuda's streams."""

import hashlib
import os
import re
from pathlib import Path

import pytest
from both import agree
from spawned import fail, work
from story_kit import said, story

import torchlike
from torchlike.interop.refusing import refused_class


@story
def test_what_there_is_not(t):
    return [
        t.accelerator.is_available(), t.accelerator.current_accelerator(), t.accelerator.device_count(),
        said(t.accelerator.synchronize), said(t.accelerator.current_device_index), t.xpu.is_available(),
        t.xpu.device_count(), t.onnx.is_in_onnx_export(), said(t.cuda.Stream, "torch.cuda.Stream requires CUDA"),
        said(t.cuda.Event, "Tried to instantiate dummy base class Event"),
        said(t.cuda.CUDAGraph, "Tried to instantiate dummy base class CUDAGraph"),
        said(t.cuda.current_stream, "Torch not compiled with CUDA enabled"),
        said(lambda: t.cuda.graph(1), "torch.cuda.Stream requires CUDA support"),
    ]  # fmt: skip


@story
def test_a_context_of_no_stream(t):
    with t.cuda.stream(None):
        return t.ones(2)


def test_onnx_is_not_written():
    with pytest.raises(NotImplementedError, match="torch.onnx.export: ONNX files are not written"):
        torchlike.onnx.export(torchlike.nn.ReLU(), (torchlike.ones(1),), "file")


def test_files_from_the_network(tmp_path):
    """A file:// URL stands for the network."""
    state = {"weight": torchlike.arange(3.0)}
    torchlike.save(state, tmp_path / "first")
    digest = hashlib.sha256((tmp_path / "first").read_bytes()).hexdigest()
    source = tmp_path / f"model-{digest[:8]}.pt"
    os.rename(tmp_path / "first", source)

    def run(t):
        folder = str(tmp_path / t.__name__)
        found = t.hub.load_state_dict_from_url(Path(source).as_uri(), model_dir=folder, check_hash=True, progress=False)
        wrong = str(tmp_path / f"wrong-{t.__name__}")
        bad = said(
            lambda: t.hub.download_url_to_file(source.as_uri(), wrong, "0" * 8, progress=False), "invalid hash value"
        )
        return found, os.listdir(folder), bad, os.path.exists(wrong), t.hub.HASH_REGEX.search(source.name).group(1)

    agree(run)
    assert re.fullmatch(r"\w+", digest)


@story
def test_folders_of_models(t):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hubconf.py").write_text('def double(x):\n    """Twice x."""\n    return 2 * x\n')
        return [
            t.hub.load(folder, "double", 4, source="local"),
            said(lambda: t.hub.load(folder, "none", source="local")),
            said(lambda: t.hub.load(folder, "double", source="elsewhere")),
        ]  # fmt: skip


def test_the_network_is_not_trusted_with_code():
    with pytest.raises(NotImplementedError, match="torch.hub: code from GitHub"):
        torchlike.hub.load("pytorch/vision", "resnet18")


@pytest.mark.once
def test_spawned_processes(tmp_path):
    torchlike.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    assert sorted(p.read_text() for p in tmp_path.iterdir()) == ["0", "2"]
    with pytest.raises(torchlike.multiprocessing.ProcessRaisedException, match="ValueError: number 0 fails"):
        torchlike.multiprocessing.spawn(fail, nprocs=1)


@story
def test_sharing_strategies(t):
    mp = t.multiprocessing
    names = (
        "Process",
        "Queue",
        "SimpleQueue",
        "Pool",
        "Manager",
        "get_context",
        "set_start_method",
        "cpu_count",
        "Lock",
    )
    return [
        mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}, mp.get_sharing_strategy(),
        [name for name in names if not hasattr(mp, name)], type(mp.get_context("spawn")).__name__,
        type(said(lambda: mp.set_sharing_strategy("none"))),
    ]  # fmt: skip


@story
def test_functions_that_need_calls_between_processes(t):
    function = t.distributed.rpc.api._require_initialized(abs)
    return function.__name__, said(lambda: function(-1), "RPC has not been initialized")


def test_constants_of_classes_that_refuse():
    # Packages take them for defaults of their own functions, which nobody may call.
    refused = refused_class("torch.sparse", "SparseSemiStructuredTensor", "not here")
    for name in ("_DEFAULT_ALG_ID", "BACKEND"):
        with pytest.raises(NotImplementedError, match=f"SparseSemiStructuredTensor.{name}: not here"):
            bool(getattr(refused, name))
    with pytest.raises(AttributeError):
        _ = refused._load_dispatch_table
