"""torchlike.conventions: JAX's row is JAX's, pairs and trees, tables for papers, the shipped kinks, the command."""

from __future__ import annotations

import csv
import importlib
import os
import re
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import torchlike
from torchlike import conventions
from torchlike._decl.op import REGISTRY
from torchlike._decl.rules import conj
from torchlike.conventions import _table
from torchlike.conventions._command import main
from torchlike.conventions._kink_table import read
from torchlike.conventions._kinks import _kernel
from torchlike.conventions._namesakes import KERNEL, namesake
from torchlike.conventions._points import groups

EVERY = os.environ.get("TORCHLIKE_EVERY", "0") != "0"
F, TF, inf, nan = torchlike.nn.functional, torch.nn.functional, float("inf"), float("nan")

# name: (torchlike's function, PyTorch's, JAX's, its name, point)
NAMESAKES = {
    "relu": (torchlike.relu, torch.relu, jax.nn.relu, "jax.nn.relu", 0.0),
    "relu6": (F.relu6, TF.relu6, jax.nn.relu6, "jax.nn.relu6", 6.0),
    "hardswish": (F.hardswish, TF.hardswish, jax.nn.hard_swish, "jax.nn.hard_swish", -3.0),
    "hardsigmoid": (F.hardsigmoid, TF.hardsigmoid, jax.nn.hard_sigmoid, "jax.nn.hard_sigmoid", 3.0),
    "hardtanh": (F.hardtanh, TF.hardtanh, jax.nn.hard_tanh, "jax.nn.hard_tanh", 1.0),
    "leaky_relu": (F.leaky_relu, TF.leaky_relu, jax.nn.leaky_relu, "jax.nn.leaky_relu", 0.0),
    "selu": (F.selu, TF.selu, jax.nn.selu, "jax.nn.selu", 0.0),
    "logsigmoid": (F.logsigmoid, TF.logsigmoid, jax.nn.log_sigmoid, "jax.nn.log_sigmoid", 0.5),
    "gelu": (F.gelu, TF.gelu, partial(jax.nn.gelu, approximate=False), "jax.nn.gelu", 0.7),
    "clamp": (partial(torchlike.clamp, min=0.0, max=1.0), partial(torch.clamp, min=0.0, max=1.0),
              lambda x: jnp.clip(x, 0.0, 1.0), "jax.numpy.clip", 1.0),
    "lgamma": (torchlike.lgamma, torch.lgamma, jax.scipy.special.gammaln, "jax.scipy.special.gammaln", 0.5),
    "digamma": (torchlike.digamma, torch.digamma, jax.scipy.special.digamma, "jax.scipy.special.digamma", 0.5),
    "cummax": (partial(torchlike.cummax, dim=0), lambda x: torch.cummax(x, 0).values, jax.lax.cummax,
               "jax.lax.cummax", np.array([2.0, 2.0, 1.0])),
    "norm": (torchlike.linalg.norm, torch.linalg.norm, jnp.linalg.norm, "jax.numpy.linalg.norm", np.zeros(2)),
    "amax": (torchlike.amax, torch.amax, jnp.max, "jax.numpy.amax", np.array([1.0, 1.0])),
    "rsqrt": (torchlike.rsqrt, torch.rsqrt, jax.lax.rsqrt, "jax.lax.rsqrt", 0.0),
    "abs": (torchlike.abs, torch.abs, jnp.abs, "jax.numpy.abs", 0.0),
    "complex abs": (torchlike.abs, torch.abs, jnp.abs, "jax.numpy.abs", 3 - 4j),
    "method": (torchlike.Tensor.exp, torch.exp, jnp.exp, "jax.numpy.exp", 1 - 1j),
}  # fmt: skip


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", NAMESAKES)
def test_each_row_is_what_its_library_says(name):
    ours, pytorch, theirs, full_name, point = NAMESAKES[name]
    r = conventions.report(ours, point, order=1)
    assert r.jax_function == full_name and f"JAX gradient ({full_name})" in str(r)
    results, pull = jax.vjp(theirs, jnp.asarray(point))
    same(r.jax, pull(jnp.ones_like(results))[0])
    x = torch.tensor(point, dtype=torch.complex128 if np.iscomplexobj(point) else torch.float64, requires_grad=True)
    out = pytorch(x)
    same(r.pytorch, torch.autograd.grad(out, x, torch.ones_like(out))[0])
    tangent = torch.ones_like(x)
    along = torch.func.jvp(pytorch, (x.detach(),), (tangent,))[1]
    same(np.sum(np.asarray(r.forward[0]).reshape(*out.shape, -1), -1), (along + 0).numpy())


@pytest.mark.parametrize("f", [
    lambda x: x.relu(), lambda x: x.relu() * 1, F.hardshrink, torchlike.nn.ReLU(), partial(torchlike.add, 1.0)
])  # fmt: skip
def test_without_a_namesake_it_is_torchlikes_kernel(f):
    r = conventions.report(f, 0.0, order=1)
    assert r.jax_function == KERNEL and "JAX gradient (torchlike's kernel)" in str(r)


def test_a_namesake_with_other_values_is_none():
    """jax.numpy.std divides by n, torch.std by n - 1; jnp.remainder agrees."""
    assert conventions.report(torchlike.std, np.array([1.0, 2])).jax_function == KERNEL
    assert conventions.report(torchlike.remainder, 5.0, 3.0).jax_function == "jax.numpy.remainder"


SECOND = {
    "sin": (lambda t, x: t.sin(x), 0.3), "abs": (lambda t, x: t.abs(x), 0.0), "power": (lambda t, x: x**3, -2.0),
    "squared size": (lambda t, z: t.abs(z) ** 2, 1 - 2j), "exp": (lambda t, z: t.exp(z), 1 - 2j),
    "linear": (lambda t, x: 3 * x, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name):
    f, point = SECOND[name]
    r = conventions.report(lambda x: f(torchlike, x), point, jax_function=lambda x: f(jnp, x))
    x = torch.tensor(point, dtype=torch.complex128 if np.iscomplexobj(point) else torch.float64, requires_grad=True)
    first = torch.autograd.grad(f(torch, x), x, torch.ones_like(f(torch, x)), create_graph=True)[0]
    real = first.real if first.is_complex() else first
    theirs = torch.autograd.grad(real.sum(), x)[0] if first.requires_grad else torch.zeros_like(x)
    same(r.second[0], (theirs + 0).resolve_conj().numpy())
    if name != "abs":
        same(r.second[1], np.conj(r.second[0]))
    assert conventions.report(lambda x: f(torchlike, x), point, order=1).second == (None, None)


def test_no_second_derivative():
    @jax.custom_vjp
    def once(x):
        return x * x

    once.defvjp(lambda x: (x * x, x), lambda x, g: (jax.pure_callback(lambda x, g: 2 * x * g, g, x, g),))
    r = conventions.report(torchlike.square, 3.0, jax_function=once)
    assert r.jax == 6 and r.second[0] == 2 and r.second[1] is None and "JAX second" not in str(r)


@jax.custom_jvp
def bent(x):
    return jnp.sin(x)


bent.defjvp(lambda primals, tangents: (bent(primals[0]), 7.0 * tangents[0]))


def test_any_pair():
    r = conventions.report(torchlike.sin, 0.5, jax_function=bent)
    assert (r.jax, r.jax_function, r.kink, r.differentiable) == (7, "bent", True, True)
    assert "fails: one of the functions has a rule of its own" in str(r)
    differs = conventions.report(torchlike.sin, 0.5, jax_function=jnp.cos)
    assert "jax.numpy.cos(x)" in str(differs) and "differs from f" in str(differs)


@pytest.mark.parametrize("f, point, expected", [
    (bent, 0.5, 7), (jnp.abs, 3 + 4j, 0.6 - 0.8j), (jax.nn.relu, 0.0, 0), (jnp.sinc, 0.0, 0),
    (lambda x: jnp.sin(x) * 2, 0.0, 2), (jnp.linalg.norm, np.array([3.0, 4]), [0.6, 0.8]),
])  # fmt: skip
def test_functions_of_jax_alone(f, point, expected):
    r = conventions.report(f, point)
    same(r.jax, expected)
    same(r.pytorch, np.conj(expected))
    assert not r.kink and r.jax_function != KERNEL


def parts(p, x):
    return {"product": p["w"] * x, "norm": ((p["w"] ** 2).sum(), p["z"][0] * p["z"][0].conj())}


def test_trees():
    point = {"w": np.array([1.0, 2]), "z": [1 + 1j]}
    both = conventions.report(parts, point, 3.0, argnum=(0, 1), jax_function=parts)
    assert isinstance(both, conventions.Reports) and len(both) == 3
    assert [r.name for r in both] == ["parts, d/d0['w']", "parts, d/d0['z'][0]", "parts, d/d1"]
    w, z, x = (torch.tensor(v, requires_grad=True) for v in (point["w"], 1 + 1j, np.float64(3.0)))
    out = parts({"w": w, "z": [z]}, x)
    joined = torch.cat([p.reshape(-1) for p in (out["norm"][0], out["norm"][1], out["product"])])
    for r, expected in zip(both, torch.autograd.grad(joined.real.sum(), [w, z, x]), strict=True):
        same(r.pytorch, expected.resolve_conj().numpy())
        same(r.jax, np.conj(r.pytorch))
        assert not r.kink
    assert both.columns() == ("argument", "quantity", "formula", "value") and both.rows()[0][0] == "0['w']"
    assert repr(both) == "<Reports parts: 3 arrays>" and isinstance(both[:1], conventions.Reports)
    assert "d/d" not in conventions.report(lambda a, b: (a, b), 1.0, 2.0).name


def test_dtypes_are_shown():
    kinds = {"float64": 1.0, "complex128": 1j, "float32": np.float32(1), "bfloat16": torchlike.ones(2).bfloat16()}
    for text, point in kinds.items():
        assert f"({text}), cotangent" in str(conventions.report(torchlike.exp, point, order=1))


def test_numbers_beside_arrays_do_not_widen():
    r = conventions.report(torchlike.clamp, torchlike.tensor(1.0), 1.0, None)
    assert (r.pytorch, r.jax, r.jax_function, r.kink) == (1, 0.5, "jax.numpy.clip", True)
    assert "(float32), cotangent" in str(r)
    both = conventions.report(torchlike.mul, torchlike.tensor(2.0), 3j, argnum=(0, 1))
    assert "(float32)" in str(both[0]) and "(complex64)" in str(both[1]) and not both[0].kink


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_kinks_of_narrow_numbers(dtype):
    """Rounding does not hide a factor of two."""
    point = torchlike.tensor(1.0, dtype=getattr(torchlike, dtype))
    assert conventions.report(torchlike.clamp, point, 0.0, 1.0, order=1).kink
    assert not conventions.report(torchlike.exp, point * 1.37, order=1).kink


# -- tables --------------------------------------------------------------------------------------------


def test_exports(tmp_path):
    r = conventions.report(torchlike.abs, 0.0)
    lines = r.to_markdown().splitlines()
    assert lines[0] == r.title() and lines[2] == "| quantity | formula | value |" and lines[3] == "|---|---|---|"
    assert len(lines) == 4 + len(r.rows())
    assert [*csv.reader(r.to_csv().splitlines())] == [[*r.columns()], *map(list, r.rows())]
    assert r.to_csv(tmp_path / "r.csv") is None and (tmp_path / "r.csv").read_text() == r.to_csv()
    latex = conventions.report(torchlike.square, 1 + 2j).to_latex()
    assert r"CW = df/dz* & (df/dx + 1j df/dy) / 2 & 0 \\" in latex and latex.count(r"\\") == 13
    assert r"\caption{f\_1: R $\to$ R at" in conventions.report(named("f_1"), 1.0).to_latex()
    piped = SimpleNamespace(columns=lambda: ("a|b",), rows=lambda: [("c|d",)], title=lambda: "t")
    assert conventions.Report.to_markdown(piped).splitlines()[2:] == [r"| a\|b |", "|---|", r"| c\|d |"]


def test_latex_of_long_and_wide_tables():
    def lines(rows):
        table = SimpleNamespace(columns=lambda: ("a", "b"), rows=lambda: rows, title=lambda: "a<b|")
        table.latex_rows = table.rows
        return conventions.Report.to_latex(table).splitlines()

    short = lines([("[0]", "*")] * 40)
    assert short[2:5] == [r"\caption{a\textless{}b\textbar{}}", r"\begin{tabular}{ll}", r"\toprule"]
    assert short[7] == r"{}[0] & * \\"
    long = lines([("x", "y")] * 41)
    assert long[:2] == [r"\begin{longtable}{ll}", r"\caption{a\textless{}b\textbar{}} \\"]
    assert long.count(r"a & b \\") == 2 and long[-1] == r"\end{longtable}" and len(long) == 41 + 13
    assert lines([("x", "y" * 80), ("x" * 60, "")])[3] == r"\begin{tabular}{p{0.39\linewidth}p{0.51\linewidth}}"
    assert lines([("x" * 10, "y" * 200)])[3] == r"\begin{tabular}{lp{0.80\linewidth}}"
    derived = conventions.derivation(torchlike.exp, 1 + 2j).to_latex()
    assert r" & CW = df/dz* = (df/dx + i df/dy) / 2 & CW = 0 \\" in derived


def named(name):
    def f(x):
        return x * 1

    f.__name__ = name
    return f


def test_pandas(monkeypatch):
    frames = SimpleNamespace(DataFrame=lambda rows, columns: SimpleNamespace(rows=rows, columns=columns, attrs={}))
    monkeypatch.setitem(sys.modules, "pandas", frames)
    r = conventions.report(torchlike.abs, 2.0)
    frame = r.to_pandas()
    assert frame.rows == r.rows() and frame.columns == [*r.columns()] and frame.attrs["title"] == r.title()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas: pandas is not installed.*to_csv"):
        r.to_pandas()


# -- kinks ---------------------------------------------------------------------------------------------

SHIPPED = conventions.kinks()


def arguments_of(point):
    """The arguments of a point, from its text."""
    found = {}
    for name, text in re.findall(r"(\w+)=(\[.*?\](?=, \w+=|$)|[^,]+)", point):
        value = np.array(eval(re.sub(r"[^\[\], ]+", lambda m: f"complex('{m.group()}')", text)))
        found[name] = value if "j" in text else value.real
    return found


def test_points_are_read_back():
    found = arguments_of("self=[0, -inf, nan], other=-1-0j, ord=0.5")
    np.testing.assert_equal(found["self"], [0, -inf, nan])
    assert np.signbit(found["other"].imag) and found["ord"] == 0.5
    assert arguments_of("self=[[1, 0], [0, 1]]")["self"].shape == (2, 2)


@pytest.mark.parametrize("row", SHIPPED, ids=lambda row: f"{row.operator}-{row.argument}")
def test_each_row_agrees_with_jax(row):
    """A live ``jax.grad`` of the function that the row names."""
    op = next(op for op in REGISTRY.values() if getattr(op, "full_name", "") == row.operator)
    tensors = [a.name for a in op.dynamic if a.is_tensor]
    for point in row.points if EVERY else row.points[:1]:
        given = arguments_of(point)
        arrays = {n: jnp.asarray(v) for n, v in given.items() if n in tensors}
        calls = next(groups_of(op, arrays))
        static = next(s for _, s, chosen in calls if all(given[n] == v for n, v in chosen.items()))
        named = {n: float(v) for n, v in given.items() if n not in arrays}
        if row.compared == KERNEL:
            function = _kernel(op, {n: None for n in named} | named, [*arrays], static)
        else:
            module, _, name = row.compared.rpartition(".")
            found = namesake(row.operator)
            assert found.function is getattr(importlib.import_module(module), name)
            dims = {a.name: v for a, v in zip(op.static, static, strict=True) if a.name in ("dim", "keepdim")}
            function = partial(found.call, **{n: v for n, v in dims.items() if v != ()}, **named)
        position = [*arrays].index(row.argument)
        gradient = live_gradient(function, [*arrays.values()], position)
        assert _table.numbers(np.asarray(conj(gradient))) == row.jax, point


def groups_of(op, arrays):
    """The groups of calls whose arrays have the rank of these."""
    rank = max(np.ndim(a) for a in arrays.values())
    for group in groups(op):
        if op.pointwise or next(iter(v for v in group[0][0].values() if isinstance(v, np.ndarray))).ndim == rank:
            yield group


def live_gradient(function, arrays, position):
    def total(x):
        out = function(*arrays[:position], x, *arrays[position + 1 :])
        results = out if isinstance(out, tuple | list) else [out]
        parts = [jnp.sum(r) for r in results if jnp.issubdtype(r.dtype, jnp.inexact)]
        return sum(parts[1:], parts[0])

    if not jnp.iscomplexobj(jax.eval_shape(total, arrays[position])):
        return jax.grad(total)(arrays[position])
    result, pull = jax.vjp(total, arrays[position])
    return pull(jnp.ones_like(result))[0]


def test_the_shipped_table(tmp_path):
    assert SHIPPED.versions["torch"] == torch.__version__.partition("+")[0]
    assert len(SHIPPED) > 150 and {"clamp", "cummax", "lgamma", "leaky_relu"} <= set(SHIPPED.operators)
    named = ("clamp", "cummax", "lgamma", "pow.Tensor_Tensor")
    assert all(k.compared != KERNEL for k in SHIPPED if k.operator in named)
    assert conventions.kinks() is SHIPPED and f"jax {SHIPPED.versions['jax']}" in SHIPPED.title()
    assert repr(SHIPPED) == f"<Kinks: {len(SHIPPED)} of {len(SHIPPED.operators)} operators; print() shows them>"
    SHIPPED.save(tmp_path / "k.json")
    assert [*read(tmp_path / "k.json")] == [*SHIPPED] and not SHIPPED.differences(read(tmp_path / "k.json"))
    differ = SHIPPED[1:].differences(SHIPPED[:-1])
    assert differ and differ.gone == [SHIPPED[-1]] and differ.new == [SHIPPED[0]]
    assert [row[0] for row in differ.rows()] == ["+", "-"] and "1 rows only with" in differ.title()


FEW = ("abs", "clamp", "cummax", "leaky_relu", "max", "atan2")
NOW = sorted({name.partition(".")[0] for name in SHIPPED.operators}) if EVERY else FEW


@pytest.mark.skipif(jax.__version__ != SHIPPED.versions["jax"], reason="the table is of another version of jax")
@pytest.mark.parametrize("operator", NOW)
def test_the_shipped_rows_are_what_is_found_now(operator):
    found = SHIPPED.among(lambda k: k.operator.partition(".")[0] == operator).differences(conventions.kinks(operator))
    assert not found, found


@pytest.mark.parametrize("there", [True, False], ids=["tqdm", "without"])
def test_progress(monkeypatch, capsys, there):
    if not there:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    conventions.kinks("abs", "sgn", progress=True)
    said = capsys.readouterr().err
    assert ("kinks: 2/2 sgn" in said) if not there else ("2/2" in said and "sgn" in said)
    conventions.kinks("abs")
    assert not capsys.readouterr().err


# -- derivations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("f, z, v", [
    (lambda z: z * z.conj() + z, 1 + 2j, 0.5 - 1j), (torchlike.exp, 0.3 - 1j, 1j), (torchlike.abs, 3 + 4j, 2.0),
    (lambda x: torchlike.exp(2j * x), 0.7, 1 - 1j), (torchlike.sin, 0.5, 3.0),
])  # fmt: skip
def test_each_formula_gives_what_the_library_gives(f, z, v):
    steps = conventions.derivation(f, z, cotangent=v)
    shown = {heading: here for heading, _, here in steps.steps}
    r = steps.report
    for library, value in (("PyTorch", r.pytorch), ("JAX", r.jax)):
        here = next(text for heading, text in shown.items() if heading.startswith(library))
        found = complex(re.match(r"g = ([^;]+)", here).group(1))
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4)
        if "in reals" in here:
            pair = [float(x) for x in re.search(r"= \[([^\]]+)\]", here.partition("in reals")[2]).group(1).split(",")]
            np.testing.assert_allclose(pair, [value.real, value.imag * (1 if library == "PyTorch" else -1)], atol=1e-4)
    assert steps.steps[-1][2].startswith("backward gives") and "differ" not in steps.steps[-1][2]
    assert str(steps).startswith(r.title() + "\n\n1. The function") and repr(steps).startswith("<Derivation of ")
    assert [*csv.reader(steps.to_csv().splitlines())][0] == ["step", "formula", "here"]


def test_a_derivation_at_a_kink():
    text = str(conventions.derivation(torchlike.abs, 0.0))
    assert "f is not differentiable here" in text
    assert "jax.vjp of jax.numpy.abs gives 1\n   they differ: a kink" in text
    assert "W and CW are a choice" in str(conventions.derivation(torchlike.abs, 0j))


@pytest.mark.parametrize("f, z", [(lambda z: z * z.conj() + z, 1 + 2j), (torchlike.abs, 2.0), (torchlike.sqrt, 0.0)])
def test_figures(f, z, tmp_path):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    steps = conventions.derivation(f, z)
    figure = steps.plot()
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert any(label.startswith("PyTorch: ") for label in labels) == bool(np.isfinite(steps.report.pytorch))
    if not np.iscomplexobj(steps.report.point):
        x, y = left.lines[0].get_data()
        same(y, f(torchlike.tensor(x)).numpy())
        assert [t.get_text() for t in right.get_legend().get_texts()][1].startswith("PyTorch: ")
    if np.iscomplexobj(steps.report.point):
        curve = right.lines[0].get_xydata() @ [1, 1j]
        t = np.exp(1j * np.linspace(0, 2 * np.pi, 200))
        same(curve, steps.report.value + steps.report.w * t + steps.report.cw * np.conj(t))
    figure.savefig(tmp_path / "f.png")
    plt.close(figure)
    with pytest.raises(ValueError, match="expected two axes, got 1"):
        steps.plot([left])


# -- the command ---------------------------------------------------------------------------------------


def command(capsys, *arguments):
    """(status, what it printed, what it complained of)"""
    try:
        main(arguments, torchlike)
        status = 0
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


def test_the_command(capsys, tmp_path):
    status, out, _ = command(capsys, "report", "nn.functional.leaky_relu", "0.0", "--format", "csv")
    assert status == 0 and "JAX gradient (jax.nn.leaky_relu),v df/dx,1" in out
    assert "R -> R at x = 1 (float64)" in command(capsys, "report", "abs", "1")[1]  # an integer of a shell is a point
    assert "jax.numpy.clip" in command(capsys, "report", "torch.clamp", "1.0", "0.0", "1.0")[1]
    assert "C -> R at z = 3+4j" in command(capsys, "derive", "abs", "3+4j", "--figure", str(tmp_path / "a.png"))[1]
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert command(capsys, "kinks", "--format", "markdown")[1] == SHIPPED.to_markdown()
    assert command(capsys, "kinks", "abs", "--save", str(tmp_path / "k.json"))[:2] == (0, "")
    assert len(read(tmp_path / "k.json")) == 2
    assert command(capsys, "diff", "abs", "--before", str(tmp_path / "k.json"))[0] == 0
    SHIPPED[:1].save(tmp_path / "k.json")
    status, out, _ = command(capsys, "diff", "abs", "--before", str(tmp_path / "k.json"))
    assert status == 1 and out.startswith("0 rows only with")


@pytest.mark.parametrize("arguments, status, message", [
    (("report", "nothing", "1.0"), 1, "no function called 'nothing'"),
    (("report", "abs", "one"), 1, "'one' is no number"),
    (("report", "hardswish", "3.0", "-3.0"), 1, "leaf Variable that requires grad"),
    (("kinks", "nothing"), 1, r"\['nothing'\] are not among"),
    (("diff", "--before", "/nowhere"), 1, "No such file"),
    ((), 2, "required: command"),
])  # fmt: skip
def test_misuse(capsys, arguments, status, message):
    found, out, error = command(capsys, *arguments)
    assert found == status and not out and re.search(message, error)


def test_it_is_reached_from_python_m():
    run = [sys.executable, "-m", "torchlike", "conventions", "report", "abs", "0.0"]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0 and "JAX gradient (jax.numpy.abs)" in done.stdout
