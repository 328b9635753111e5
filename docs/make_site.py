"""Write the pages of the site that are generated when it is built: docs/api/*.md and docs/missing.md.

The reference is what ``help()`` says. What is missing are PyTorch's public names (``their_names.txt``) without a
counterpart, by module. Neither is kept in the repository; the pages' names are those of mkdocs.yml.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchlike
from torchlike._core.overrides.doors import ops_of
from torchlike.interop.their_names import their_names

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = ("torch.distributed.", "torch.utils.cpp_extension", "torch.fx.experimental", "torch.utils.benchmark")


def reference() -> list[str]:
    """The pages of the reference that mkdocs.yml lists, without folder and suffix."""
    return re.findall(r"api/([\w.]+)\.md", (ROOT / "mkdocs.yml").read_text())


def subject(page: str) -> Any:
    """What a page of the reference is about: the package, a module or a class."""
    if page in ("torch", "Tensor"):
        return torchlike if page == "torch" else torchlike.Tensor
    return importlib.import_module(f"torchlike.{page}")


def members(about: Any) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a module, the methods of a class."""
    listed = getattr(about, "__all__", None) or dir(about)
    for name in sorted(listed, key=str.lower):
        value = inspect.getattr_static(about, name, None) if isinstance(about, type) else getattr(about, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        if (inspect.isroutine(value) or isinstance(value, type | property)) and inspect.getdoc(value):
            yield name, value


def signature(value: Any) -> str:
    """The arguments of a function; of an operator those of its schemas."""
    if ops := ops_of(value):
        return "\n".join(op.schema.text for op in ops)
    try:
        return str(inspect.signature(value)) if callable(value) else ""
    except (TypeError, ValueError):
        return ""


def markdown(text: str) -> str:
    """A docstring as Markdown: examples in fences, sections as headings of lists, references as code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    lines, out, section = text.splitlines(), [], False
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.lstrip().startswith(">>>"):
            end = next((j for j in range(i, len(lines)) if not lines[j].strip()), len(lines))
            out += ["", "```pycon", *textwrap.dedent("\n".join(lines[i:end])).splitlines(), "```", ""]
            i = end
            continue
        if re.fullmatch(r"(Args|Attributes|Raises|Returns|Yields|Note|Shape|Example):", line.strip()):
            out += ["", f"**{line.strip()}**", ""]
            section = True
        elif section and line.startswith("    "):
            deeper = line.startswith("        ")
            out.append(f"    {line.strip()}" if deeper else f"- {line.strip()}")
        else:
            section = section and not line.strip()
            out.append(line.strip())
        i += 1
    return escaped("\n".join(out))


def escaped(text: str) -> str:
    """Without what Markdown would take for HTML or for links, outside code."""
    parts = re.split(r"(```.*?```|``.*?``|`[^`\n]*`)", text, flags=re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace("<", "&lt;").replace("[", "\\[").replace("_", "\\_").replace("*", "\\*")
        parts[i] = re.sub(r"\\\*\\\*(\w+:)\\\*\\\*", r"**\1**", parts[i])
    return "".join(parts)


def page(name: str) -> str:
    """One page of the reference."""
    about = subject(name)
    shown = {"torch": "torch", "Tensor": "torch.Tensor"}.get(name, f"torch.{name}")
    shown = f"torchlike.{name}" if name in ("conventions", "export", "viz") else shown
    parts = [f"# {shown}", "", markdown(inspect.getdoc(about) or ""), ""]
    for called, value in members(about):
        arguments = signature(value)
        parts += [f"## {called}", ""]
        if arguments:
            spelt = arguments if arguments[0] != "(" else f"{called}{arguments}"
            parts += [
                "```python",
                *(part for line in spelt.splitlines() for part in textwrap.wrap(line, 110)),
                "```",
                "",
            ]
        parts += [markdown(inspect.getdoc(value) or ""), ""]
    return "\n".join(parts).rstrip() + "\n"


@functools.cache
def own_names() -> dict[str, set[str]]:
    """PyTorch's public names, each where it stands highest: modules also show what they import from others."""
    own: dict[str, set[str]] = {place: set() for place in their_names()}
    seen = {"torch", "TYPE_CHECKING"}
    for place in sorted(own, key=lambda place: (place.count("."), place)):
        own[place] = {name for name in their_names()[place] if name not in seen}
        seen |= own[place] if not place.rpartition(".")[2][0].isupper() else set()
    return own


def missing(places: list[str]) -> str:
    """The page of what is missing."""
    rows, unbuilt = [], []
    for place in places:
        names = own_names()[place]
        if place.startswith(ELSEWHERE) or not names:
            continue
        holder = found(place)
        if holder is None:
            unbuilt.append(f"`{place}`")
            continue
        without = sorted(name for name in names if not has(holder, place, name))
        if without:
            said = ", ".join(f"`{name}`" for name in without)
            rows.append(f"| `{place}` | {len(names) - len(without)} of {len(names)} | {said} |")
    head = [
        "# What is missing", "",
        "PyTorch's public names that torchlike does not have, each at the highest module that has it.",
        "`python -m torchlike check PROGRAM` says which of them a program uses, and what to do instead. Modules that",
        "are not listed have all names; what differs behind a name [differences](differences.md) tells.", "",
        "| module | there | missing |",
        "|---|---|---|", *rows, "", "## Modules that are not built", "",
        "Under `python -m torchlike run` they can be imported; what is in them raises `NotImplementedError`",
        "when it is used.", "",
        ", ".join(unbuilt) + ".", "",
    ]  # fmt: skip
    return "\n".join(head)


def found(place: str) -> Any:
    """The module or class here, or None."""
    ours = "torchlike" + place.removeprefix("torch")
    parent, _, last = ours.rpartition(".")
    if last[:1].isupper():
        return getattr(importlib.import_module(parent), last, None)
    try:
        return importlib.import_module(ours)
    except ImportError:
        return None


def has(holder: Any, place: str, name: str) -> bool:
    try:
        return hasattr(holder, name) or found(f"{place}.{name}") is not None
    except Exception:  # it is there, and asks for what this machine lacks
        return True


def main() -> None:
    warnings.simplefilter("ignore")
    (DOCS / "api").mkdir(exist_ok=True)
    for name in reference():
        (DOCS / "api" / f"{name}.md").write_text(page(name))
    (DOCS / "missing.md").write_text(missing(sorted(their_names())))


if __name__ == "__main__":
    main()
