"""The site: its pages are listed, its links lead somewhere, its generated pages can be made. `make docs` builds it."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NAV = re.findall(r"^ +- [^:\n]+: ([\w./]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
PAGES = sorted(p for p in DOCS.glob("*.md") if p.name != "missing.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def site():
    spec = importlib.util.spec_from_file_location("make_site", DOCS / "make_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_listed_once():
    generated = {"missing.md", *(f"api/{name}.md" for name in site().reference())}
    assert len(NAV) == len(set(NAV)) and set(NAV) == {p.name for p in PAGES} | generated


def anchors(page):
    """The anchors of a page's headings, as Python-Markdown makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_resolve(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists() or target == DOCS / "missing.md", f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} is no heading of {target.name}"


def test_generated_pages():
    made = site()
    text = made.page("viz")
    assert "## graph" in text and "```pycon\n>>> import torchlike as torch" in text and "**Raises:**" in text
    assert "mm(Tensor self, Tensor mat2) -> Tensor" in made.signature(made.torchlike.mm)
    assert made.escaped("a [b] <c> `d_e` f_g") == r"a \[b] &lt;c> `d_e` f\_g"
    table = made.missing(["torch.futures", "torch.package", "torch.autograd.profiler_util"])
    assert (
        "`torch.package`" in table and "| `torch.autograd.profiler_util` |" in table and "`torch.futures`" not in table
    )


def test_metadata():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'readme = "README.md"' in text and 'docs = ["mkdocs-material"]' in text
