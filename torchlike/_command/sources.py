"""The names of torch that a source uses, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOTS = ("torch", "functorch")


class Use(NamedTuple):
    """A name of torch, in full, at a line of a file; ``asked``: the program asks first whether it is there."""

    name: str
    line: int
    asked: bool


def uses(source: str, filename: str) -> list[Use]:
    """The uses of torch's names in a source, in the order of their lines. SyntaxError if it is no Python."""
    reader = _Reader()
    reader.visit(ast.parse(source, filename))
    longest = {(use.line, use.name) for use in reader.found}
    kept = [
        use
        for use in dict.fromkeys(reader.found)
        if not any(line == use.line and name.startswith(use.name + ".") for line, name in longest)
    ]
    return sorted(kept, key=lambda use: (use.line, use.name))


def files(place: Path) -> Iterator[Path]:
    """The Python files of a file or folder."""
    if place.is_dir():
        yield from sorted(path for path in place.rglob("*.py") if ".git" not in path.parts)
    else:
        yield place


class _Reader(ast.NodeVisitor):
    """Collects uses; ``names`` maps a name of the source to what of torch it stands for."""

    def __init__(self) -> None:
        self.found: list[Use] = []
        self.names: dict[str, str] = {}
        self.asking = 0  # inside a `try` that catches a missing name, or a branch on hasattr

    def _use(self, name: str, node: ast.AST) -> None:
        self.found.append(Use(name, getattr(node, "lineno", 0), bool(self.asking)))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in ROOTS:
                self._use(alias.name, node)
                self.names[alias.asname or root] = alias.name if alias.asname else root

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] not in ROOTS:
            return
        for alias in node.names:
            if alias.name == "*":
                self._use(module, node)
                continue
            self._use(f"{module}.{alias.name}", node)
            self.names[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._resolved(node)
        if name is not None:
            settable = isinstance(node.ctx, ast.Store)  # a name that is set need not be there before
            self.asking += settable
            self._use(name, node)
            self.asking -= settable
        else:
            self.visit(node.value)

    def _resolved(self, node: ast.AST) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return None
        return ".".join([self.names[node.id], *reversed(parts)])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = self._resolved(node.value)  # F = torch.nn.functional
            if name is not None:
                self.names[node.targets[0].id] = name
            else:
                self.names.pop(node.targets[0].id, None)

    def visit_Try(self, node: ast.Try) -> None:
        kinds = [handler.type or ast.Name("Exception") for handler in node.handlers]
        caught = {n.id for kind in kinds for n in ast.walk(kind) if isinstance(n, ast.Name)}
        asks = bool(caught & {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})
        self.asking += asks
        for child in node.body:
            self.visit(child)
        self.asking -= asks
        for child in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        asks = any(isinstance(n, ast.Call) and getattr(n.func, "id", "") == "hasattr" for n in ast.walk(node.test))
        typing = "TYPE_CHECKING" in ast.dump(node.test)
        self.asking += asks or typing
        for child in node.body:
            self.visit(child)
        self.asking -= asks or typing
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = dict(self.names)
        for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
            if a is not None:
                self.names.pop(a.arg, None)  # a parameter that hides a name of torch
        self.generic_visit(node)
        self.names = outer  # what a function imports is its own

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]
