"""Files of exported programs: saved, loaded without the model's code, and what is refused."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from both import agree, agree_error
from export_kit import filled, module, numbers

import torchlike as torch
from torchlike.export import Dim, load, save

pytestmark = pytest.mark.compilers

REPOSITORY = Path(__file__).resolve().parents[2]


def _file(ep):
    f = io.BytesIO()
    save(ep, f)
    return f


def _round(t, m, args, **kwargs):
    f = io.BytesIO()
    t.export.save(t.export.export(m, args, **kwargs), f)
    f.seek(0)
    return t.export.load(f)


def _model(t):
    def forward(self, x):
        return {"y": self.l(self.bn(x)) * self.k, "z": (x, 3, None)}

    m = module(t, forward, bn=t.nn.BatchNorm1d(3), l=t.nn.Linear(3, 2))
    m.register_buffer("k", t.ones(2) * 2, persistent=False)
    return m


def test_a_loaded_program_is_the_program():
    def script(t):
        ep = _round(t, _model(t), (numbers(t, 4, 3),))
        g, x = ep.module(), numbers(t, 4, 3, start=2)
        out = g(x)
        (out["y"] ** 2).sum().backward()
        grads = [t.round(p.grad, decimals=4) for p in g.parameters()]
        return out, out["z"][0] is x, dict(g.state_dict()), g(x), grads, sorted(ep.constants), g.bn.num_batches_tracked

    agree(script)


SCRIPT = """
import sys, numpy as np, torchlike as torch
ep = torch.export.load(sys.argv[1])
g = ep.module()
x = torch.from_numpy(np.load(sys.argv[2])).requires_grad_()
torch.manual_seed(1)
out = g(x)
out.square().sum().backward()
grads = {n: p.grad.numpy() for n, p in g.named_parameters()}
np.savez(sys.argv[3], out=out.detach().numpy(), x=x.grad.numpy(), **grads)
assert "models" not in sys.modules and g.state_dict()["1.num_batches_tracked"].item() == 1
"""


def test_loaded_in_a_process_without_the_model(tmp_path):
    m = filled(torch, torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)))
    save(torch.export.export(m, (torch.ones(4, 3),), dynamic_shapes=({0: Dim("b", min=2)},)), tmp_path / "m.pt2")
    x = numbers(torch, 6, 3)
    np.save(tmp_path / "x.npy", x.numpy())
    command = [sys.executable, "-c", SCRIPT, *[str(tmp_path / name) for name in ("m.pt2", "x.npy", "out.npz")]]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ["PYTHONPATH"]])}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    x.requires_grad_()
    torch.manual_seed(1)
    out = m(x)
    out.square().sum().backward()
    expected = {"out": out.detach(), "x": x.grad} | {n: p.grad for n, p in m.named_parameters()}
    with np.load(tmp_path / "out.npz") as found:
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_paths_and_extra_files(tmp_path):
    def script(t):
        path = tmp_path / f"{t.__name__}.pt2"
        t.export.save(t.export.export(t.nn.ReLU(), (t.ones(2),)), path, extra_files={"notes": "hello"})
        extra = {"notes": ""}
        ep = t.export.load(str(path), extra_files=extra)
        return extra, ep.module()(t.tensor([-1.0, 1.0])), ep.example_inputs is None or True

    agree(script)


KINDS = [np.float64, np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.uint8, np.bool_, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_kind_of_tensor(kind):
    k = torch.from_jax_array(torch.ones(2, 3).__jax_array__().astype(kind))
    ep = torch.export(lambda x: (k, x.view(-1)), (k,))
    kept, flat = load(_file(ep)).module()(k)
    assert kept.dtype == k.dtype and kept._host().tobytes() == k._host().tobytes() and flat.shape == (k.numel(),)


def test_tied_parameters_stay_tied():
    m = module(torch, lambda self, x: self.b(self.a(x)), a=torch.nn.Linear(2, 2), b=torch.nn.Linear(2, 2))
    m.b.weight = m.a.weight
    g = load(_file(torch.export.export(m, (torch.ones(1, 2),)))).module()
    assert g.a.weight is g.b.weight and list(g.state_dict()) == list(m.state_dict())
    assert isinstance(g.a.weight, torch.nn.Parameter) and len(list(g.parameters())) == 3
    g.b.weight = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="a.weight and b.weight were one tensor"):
        g(torch.ones(1, 2))


def test_frozen_parameters_and_value_checks():
    e = torch.nn.Embedding(3, 2)
    e.weight.requires_grad = False
    g = load(_file(torch.export.export(e, (torch.tensor([0]),)))).module()
    assert not g.weight.requires_grad and not g(torch.tensor([1])).requires_grad
    with pytest.raises(IndexError, match="embedding"):
        g(torch.tensor([7]))
    g.weight.requires_grad_()
    g(torch.tensor([1])).sum().backward()
    assert g.weight.grad[1].tolist() == [1.0, 1.0]


def test_views_and_ranges_survive():
    ep = torch.export(lambda x: (x.T, x[:, 1:]), (torch.ones(2, 3),))
    x = torch.ones(2, 3)
    transposed, rest = load(_file(ep)).module()(x)
    rest.zero_()
    assert transposed.stride() == (1, 3) and x.sum() == 2 and transposed.sum() == 2
    b = Dim("b", min=2, max=5)
    ep = load(_file(torch.export(lambda x: x * 2, (torch.ones(3),), dynamic_shapes=({0: b},))))
    assert ep.module()(torch.ones(5)).shape == (5,) and str(ep.range_constraints) == "{'b': VR[2, 5]}"
    with pytest.raises(AssertionError, match="<= 5"):
        ep.module()(torch.ones(6))


def test_saved_again():
    first = _file(torch.export(lambda x: x * 2, (torch.ones(3),), platforms=("cpu", "tpu")))
    second = _file(load(first))
    assert load(second).platforms == ("cpu", "tpu") and load(second).module()(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_file_holds_no_pickle():
    with zipfile.ZipFile(_file(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)))) as archive:
        names = set(archive.namelist())
        about = json.loads(archive.read("program.json"))
    programs = {f"{name}.stablehlo" for name in ("forward", "forward_vjp", "backward")}
    assert names == programs | {"program.json", "tensors/0", "tensors/1"}
    assert about["format"] == "torchlike.export" and about["version"] == 1


def _changed(change):
    """A file with one entry changed, or without it where ``change`` gives None."""
    old = zipfile.ZipFile(_file(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))))
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return f


def _about(**fields):
    return lambda name, data: json.dumps(json.loads(data) | fields) if name == "program.json" else data


DAMAGED = {
    "newer version": (_about(version=99, torchlike="9.9"), r"version 99, written by torchlike 9.9.*update torchlike"),
    "another format": (_about(format="other"), "does not describe an exported program"),
    "no description": (lambda n, d: None if n == "program.json" else d, "holds no exported program of torchlike"),
    "no JSON": (lambda n, d: b"{" if n == "program.json" else d, "holds no exported program of torchlike"),
    "no program": (lambda n, d: None if n == "forward.stablehlo" else d, "damaged or incomplete.*forward.stablehlo"),
    "no tensor": (lambda n, d: None if n == "tensors/1" else d, "damaged or incomplete.*tensors/1"),
    "short tensor": (lambda n, d: d[:-4] if n == "tensors/0" else d, "weight has 20 bytes in the file instead of 24"),
    "missing field": (_about(plain={}), "damaged or incomplete"),
    "unknown container": (_about(in_spec={"type": "Popen", "context": None, "children": []}), "damaged.*Popen"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(name):
    change, match = DAMAGED[name]
    with pytest.raises(RuntimeError, match=match):
        load(_changed(change))


def test_a_damaged_program_is_no_program():
    with pytest.raises(Exception, match=r"."):
        load(_changed(lambda n, d: d[: len(d) // 2] if n.endswith("stablehlo") else d)).module()(torch.ones(1, 3))


def test_flipped_bits():
    data = bytearray(_file(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))).getvalue())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        at = archive.getinfo("tensors/0").header_offset + 40
    data[at + 5] ^= 255
    with pytest.raises(zipfile.BadZipFile):
        load(io.BytesIO(bytes(data)))


def test_no_file(tmp_path):
    (tmp_path / "text").write_bytes(b"hello")
    agree_error(lambda t: t.export.load(tmp_path / "absent.pt2"), "No such file")
    agree_error(lambda t: t.export.load(tmp_path / "text"), "File is not a zip file")
    agree_error(lambda t: t.export.save(3, tmp_path / "x.pt2"), "must be an instance of 'ExportedProgram', got 'int'")


def test_what_a_file_cannot_hold():
    class Keyed:
        """A key that is no text."""

    d = {Keyed(): torch.ones(2)}
    ep = torch.export(lambda d: list(d.values())[0] * 2, (d,))
    assert ep.module()(d).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="a dict of .* cannot be named in a file"):
        save(ep, io.BytesIO())
    meta = torch.export.export(torch.nn.Linear(3, 2, device="meta"), (torch.ones(1, 3),))
    with pytest.raises(NotImplementedError, match="weight is on meta"):
        save(meta, io.BytesIO())
    with pytest.raises(RuntimeError, match="meta"):
        meta.module()(torch.ones(1, 3))
