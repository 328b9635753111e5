"""torch.distributed.checkpoint: files that both libraries read, and checkpoints that are whole or absent."""

import importlib
import json
import os
import re
import warnings

import numpy as np
import pytest
import torch
from both import agree
from process_kit import finished, started

import torchlike

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")


def dcp_of(t):
    return importlib.import_module(f"{t.__name__}.distributed.checkpoint")


def state(t, factor=1):
    model = t.nn.Parameter(t.ones(2) * factor)
    return {
        "m": {"w": t.arange(6.0).reshape(2, 3) * factor, "b": t.ones(3, dtype=t.bfloat16) * factor},
        "l": [t.ones(1) * factor, [t.zeros(2, dtype=t.int64) + factor, {"q": 2 * factor}]], "n": 5 * factor,
        "tuple": (1, factor), "none": None, "list": [1, factor], "p": model, "empty": t.zeros(0, 2),
        "num": t.tensor(factor),
        "strided": (t.arange(6.0).reshape(2, 3) * factor).t(),
    }  # fmt: skip


def plain(x):
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(y) for y in x]
    return [str(x.dtype), x.tolist()] if hasattr(x, "dtype") else x


@pytest.mark.parametrize(("writer", "reader"), [(torch, torchlike), (torchlike, torch), (torchlike, torchlike)])
def test_each_reads_what_the_other_wrote(writer, reader, tmp_path):
    dcp_of(writer).save(state(writer), checkpoint_id=tmp_path, no_dist=True)
    found = state(reader, 0)
    dcp_of(reader).load(found, checkpoint_id=tmp_path, no_dist=True)
    assert plain(found) == plain(state(reader))
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp"]


def test_tensors_over_one_device_are_plain_in_files(tmp_path):
    tensor = importlib.import_module("torchlike.distributed.tensor")
    mesh = importlib.import_module("torchlike.distributed").init_device_mesh("cpu", (1,))
    whole = torchlike.arange(6.0).reshape(3, 2)
    made = {str(p): tensor.distribute_tensor(whole, mesh, [p]) for p in (tensor.Shard(1), tensor.Replicate())}
    dcp_of(torchlike).save(made, checkpoint_id=tmp_path, no_dist=True)
    for t in (torch, torchlike):
        found = {name: t.zeros(3, 2) for name in made}
        dcp_of(t).load(found, checkpoint_id=tmp_path, no_dist=True)
        assert [x.tolist() for x in found.values()] == [whole.tolist()] * 2


def test_what_a_checkpoint_says_of_itself(tmp_path):
    def told(t):
        folder = tmp_path / t.__name__
        dcp_of(t).save(state(t), checkpoint_id=folder, no_dist=True)
        found = dcp_of(torch).FileSystemReader(folder).read_metadata()
        return str(found.state_dict_metadata), str(found.planner_data), str(list(found.storage_data)), found.version

    agree(told)


def test_planners_made_of_the_functions_of_the_default_ones(tmp_path):
    def run(t):
        d, folder = dcp_of(t), tmp_path / t.__name__
        f = importlib.import_module(f"{d.__name__}.default_planner")

        class Twice(d.SavePlanner):
            def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
                self.all = {name + end: x for name, x in state_dict.items() for end in ("", "_again")}

            def create_local_plan(self):
                return f.create_default_local_save_plan(self.all, True)

            def create_global_plan(self, all_plans):
                return f.create_default_global_save_plan(all_plans)

            def finish_plan(self, new_plan):
                return new_plan

            def resolve_data(self, write_item):
                return self.all[write_item.index.fqn] + 1

        d.save({"a": t.arange(3.0), "b": t.ones(2, 2)}, checkpoint_id=folder, no_dist=True, planner=Twice())
        metadata, found = d.FileSystemReader(folder).read_metadata(), {"a_again": t.zeros(3), "b": t.zeros(2, 2)}
        plan = f.create_default_local_load_plan(found | {"c": 1}, metadata, strict=False)
        d.load(found, checkpoint_id=folder, no_dist=True)
        with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: c"):
            f.create_default_local_load_plan(found | {"c": 1}, metadata)
        same = f.create_default_global_load_plan([plan]) == [plan]
        return sorted(metadata.state_dict_metadata), plain(found), len(plan.items), same

    agree(run)


def failure(call):
    """The error of a step on rank 0."""
    with pytest.raises(BaseException) as caught:
        call()
    error = caught.value
    if type(error).__name__ == "CheckpointException":
        assert not isinstance(error, Exception) and list(error.failures) == [0]
        error = error.failures[0][0]
    return type(error).__name__, re.sub(r"<class .*>", "", str(error)).replace("/torchlike", "").replace("/torch", "")


WRONG = {
    "another name": lambda t, d, p: d.load({"nope": t.ones(1)}, checkpoint_id=p, no_dist=True),
    "another size": lambda t, d, p: d.load({"p": t.ones(3)}, checkpoint_id=p, no_dist=True),
    "no number": lambda t, d, p: d.load({"p": 3}, checkpoint_id=p, no_dist=True),
    "no folder": lambda t, d, p: d.load({"p": t.ones(3)}, no_dist=True),
    "no writer": lambda t, d, p: d.save({"p": t.ones(3)}, no_dist=True),
    "not twice": lambda t, d, p: d.save({}, storage_writer=d.FileSystemWriter(p, overwrite=False), no_dist=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusals(name, tmp_path):
    def refused(t):
        folder = tmp_path / t.__name__
        dcp_of(t).save(state(t), checkpoint_id=folder, no_dist=True)
        return failure(lambda: WRONG[name](t, dcp_of(t), folder))

    agree(refused)


def test_nothing_there(tmp_path):
    assert "No such file" in failure(lambda: dcp_of(torchlike).load({}, checkpoint_id=tmp_path, no_dist=True))[1]


def test_metadata_is_no_program(tmp_path):
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    told = failure(lambda: dcp_of(torchlike).load({"x": 1}, checkpoint_id=tmp_path, no_dist=True))
    assert "os.system was not an allowed global" in told[1]


def test_parts_and_objects(tmp_path):
    def run(t):
        d, folder = dcp_of(t), tmp_path / t.__name__

        class App:
            v = 3

            def state_dict(self):
                return {"v": self.v, "t": t.ones(2) * self.v}

            def load_state_dict(self, given):
                self.v, self.given = given["v"], given

        d.save({"app": App(), "n": 4}, checkpoint_id=folder, no_dist=True)
        app, some = App(), {"nope": 1, "n": 0}
        app.v = 0
        d.load({"app": app}, checkpoint_id=folder, no_dist=True)
        d.load(some, checkpoint_id=folder, no_dist=True, planner=d.DefaultLoadPlanner(allow_partial_load=True))
        wide = {"app": {"t": t.zeros(2, dtype=t.float64), "v": None}}
        d.load(wide, checkpoint_id=folder, no_dist=True)
        convert = importlib.import_module(f"{d.__name__}.format_utils")
        convert.dcp_to_torch_save(folder, tmp_path / "one.pt")
        convert.torch_save_to_dcp(tmp_path / "one.pt", folder / "again")
        whole = t.load(tmp_path / "one.pt")
        return app.v, plain(app.given), some, plain(wide), plain(whole), sorted(os.listdir(folder / "again"))

    agree(run)


def test_the_old_one_counts_until_the_new_one_is_there(tmp_path):
    d = dcp_of(torchlike)
    d.save({"x": torchlike.ones(2)}, checkpoint_id=tmp_path, no_dist=True)

    class Full(d.FileSystemWriter):
        def finish(self, metadata, results):
            raise OSError("no space left")

    with pytest.warns(UserWarning, match="existing checkpoint"), pytest.raises(d.CheckpointException, match="no space"):
        d.save({"x": torchlike.zeros(2)}, storage_writer=Full(tmp_path), no_dist=True)
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp", "__0_1.distcp"]
    found = {"x": torchlike.zeros(2)}
    d.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert found["x"].tolist() == [1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d.save({"x": torchlike.ones(2) * 3}, checkpoint_id=tmp_path, no_dist=True)
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_1.distcp"]


def told(text):
    return [line for line in text.splitlines() if line.endswith(("right", "wrong"))]


def test_two_processes(tmp_path):
    """Ranks write a part each, and the number of ranks may change; a rank that dies leaves the old checkpoint."""
    whole = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    both = {"x": torch.tensor(whole), "rows": torch.tensor(whole), "n": 5}
    dcp_of(torch).save(both, checkpoint_id=tmp_path / "theirs", no_dist=True)
    (_, first, error), (_, second, other) = finished(started("dcp_script.py", tmp_path), 120)
    steps = ("theirs", "pieces", "later", "at once", "fails", "kept")
    assert told(first) == [f"{step}: right" for step in ("theirs", "files", *steps[1:], "dies")], error
    assert told(second) == [f"{step}: right" for step in steps], other
    for t in (torch, torchlike):
        found = {
            "rows": t.zeros(4, 6), "spread": t.zeros(4, 6), "step": 0, "only0": t.ones(1), "only1": t.zeros(1),
            "model": {"b": t.zeros(300)},
        }  # fmt: skip
        dcp_of(t).load(found, checkpoint_id=tmp_path / "ours", no_dist=True)
        assert found["rows"].tolist() == found["spread"].tolist() == (whole * 2).tolist() and found["step"] == 2
        assert (found["only0"].item(), found["only1"].item(), found["model"]["b"].sum().item()) == (0, 1, 600)


HF = {
    "one": {}, "files": {"fqn_to_index_mapping": {"a": 1, "b": 2, "m.x": 3}}, "parts": {"save_distributed": True},
    "whole": {"save_distributed": True, "enable_consolidation": True},
}  # fmt: skip


def tensors(factor=1):
    t = torchlike
    return {
        "a": t.arange(6.0).reshape(2, 3).t() * factor, "b": t.ones(3, dtype=t.bfloat16) * factor,
        "m": {"x": t.tensor([1, 2]) * factor, "y": t.tensor(True) & (factor > 0)}, "empty": t.zeros(0, 2),
    }  # fmt: skip


@pytest.mark.parametrize("options", HF.values(), ids=HF)
def test_checkpoints_of_safetensors(options, tmp_path):
    dcp = dcp_of(torchlike)
    dcp.save(tensors(), storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, **options), no_dist=True)
    found = tensors(0)
    dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(tmp_path), no_dist=True)
    assert plain(found) == plain(tensors())
    with pytest.raises(BaseException, match="Missing key in checkpoint state_dict: zz"):
        dcp.load({"zz": torchlike.ones(1)}, storage_reader=dcp.HuggingFaceStorageReader(tmp_path), no_dist=True)


def test_what_a_file_of_safetensors_says(tmp_path):
    """As the package of that name reads and writes it."""
    dcp, x = dcp_of(torchlike), {"a": torchlike.tensor([[1.0, 2.0]]), "b": torchlike.tensor([3], dtype=torchlike.int8)}
    with pytest.warns(UserWarning, match="tensors alone, left out: n"):
        dcp.save(x | {"n": 1}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path), no_dist=True)
    data = (tmp_path / "model-00001-of-00001.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    said = json.loads(data[8:end])
    places = {"a": {"saved_offsets": [0, 0]}, "b": {"saved_offsets": [0]}}
    assert json.loads(said.pop("__metadata__")["DCP_SHARDING_INFO"]) == places and end % 8 == 0
    a = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    assert said == {"a": a, "b": {"dtype": "I8", "shape": [1], "data_offsets": [8, 9]}}
    assert data[end:] == np.float32([1, 2]).tobytes() + b"\x03"
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    file = "model-00001-of-00001.safetensors"
    assert index == {"metadata": {"total_size": 9}, "weight_map": {"a": file, "b": file}}


def test_files_that_are_no_safetensors(tmp_path):
    dcp, file = dcp_of(torchlike), tmp_path / "x.safetensors"
    entry = {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}
    for header, message in ((b"\xff" * 20, "no file of safetensors"), (json.dumps(entry).encode(), "12 are expected")):
        file.write_bytes(len(header).to_bytes(8, "little")[: 8 * (header[:1] == b"{")] + header + b"\0" * 8)
        with pytest.raises(ValueError, match=message):
            dcp.HuggingFaceStorageReader(tmp_path).read_metadata()
    texts = {"__metadata__": {"DCP_SHARDING_INFO": json.dumps({"a": {"saved_offsets": [2]}})}}
    header = json.dumps(texts | {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    with pytest.raises(ValueError, match="parts of 'a' are missing, 2 numbers of 4"):
        dcp.HuggingFaceStorageReader(tmp_path).read_metadata()
