"""torch.fx.experimental.rewriter: tracing of functions whose ``assert`` statements become steps."""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from torchlike.fx._qualified import PACKAGE
from torchlike.fx._symbolic_trace import Tracer
from torchlike.fx.annotate import annotate
from torchlike.fx.graph import Graph
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]

__getattr__ = missing_names(__name__)

_ASSERT, _ANNOTATE = "_traced_assert", "_traced_annotate"  # what the rewritten code calls, found in its closure
_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class AST_Rewriter(ast.NodeTransformer):
    """Makes functions whose ``assert`` calls ``torch._assert``, and whose annotated variables annotate steps."""

    def rewrite(self, fn: types.FunctionType) -> types.FunctionType:
        """The function, rewritten; itself where there is nothing to rewrite.

        Raises OSError if its source is not known.
        """
        code = fn.__code__
        found = _definition(code)
        if found is None:
            return fn
        made = self.visit(found)
        names = {n.id for n in ast.walk(made) if isinstance(n, ast.Name)}
        if not names & {_ASSERT, _ANNOTATE}:
            return fn
        cells = dict(zip(code.co_freevars, fn.__closure__ or (), strict=True))
        cells[_ASSERT] = types.CellType(sys.modules[PACKAGE]._assert)
        cells[_ANNOTATE] = types.CellType(annotate)
        new = _compiled(made, list(cells), fn)
        closure = tuple(cells[name] for name in new.co_freevars)
        function = types.FunctionType(new, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__"):
            setattr(function, name, getattr(fn, name))
        function.__dict__.update(fn.__dict__)
        return function

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """``torch._assert(test, message)``."""
        self.generic_visit(node)
        return _at(node, ast.Expr(_call(_ASSERT, node.test, node.msg or ast.Constant(""))))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """``variable = annotate(value, type)``; a variable without a value stays."""
        self.generic_visit(node)
        if node.value is None:
            return node
        return _at(node, ast.Assign([node.target], _call(_ANNOTATE, node.value, node.annotation)))

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Fields of classes keep their annotations, which dataclasses read."""
        node.body = [part if isinstance(part, ast.AnnAssign) else self.visit(part) for part in node.body]
        return node


def _at(old: ast.AST, new: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _definition(code: types.CodeType) -> Any:
    """The syntax tree of a function, with the lines of its file; None for a lambda."""
    if code.co_name == "<lambda>":
        return None
    source = inspect.getsource(code)
    indented = source[:1].isspace()
    tree = ast.parse(f"if True:\n{source}" if indented else source)
    ast.increment_lineno(tree, code.co_firstlineno - 1 - indented)
    first = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    return first if isinstance(first, ast.FunctionDef) else None


def _compiled(definition: ast.FunctionDef, free: list[str], fn: types.FunctionType) -> types.CodeType:
    """The code of a function; ``free`` are names of its closure."""
    path = ["outer", definition.name]
    body: Any = definition
    for owner in filter(str.isidentifier, fn.__qualname__.split(".")[-2:-1]):  # private names are those of the class
        body = ast.ClassDef(name=owner, bases=[], keywords=[], body=[definition], decorator_list=[])
        path.insert(1, owner)
    outer = ast.parse(f"def outer({', '.join(free)}): pass")
    outer.body[0].body = [body]  # type: ignore[attr-defined]
    flags = fn.__code__.co_flags & _FUTURE
    code = compile(ast.fix_missing_locations(outer), fn.__code__.co_filename, "exec", flags, dont_inherit=True)
    for name in path:
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    return code


class RewritingTracer(Tracer):
    """A tracer for functions and modules with ``assert``: it becomes a step that calls ``torch._assert``.

    Only the function that is traced, or the ``forward`` of the module, is rewritten, and not what it calls.

    >>> import torchlike as torch
    >>> def positive(x):
    ...     assert x > 0, "no"
    ...     return x
    >>> tracer = RewritingTracer()
    >>> graph = tracer.trace(positive)
    >>> print(torch.fx.GraphModule(tracer.root, graph).code.strip())
    def forward(self, x):
        gt = x > 0
        _assert = torch._assert(gt, 'no');  gt = _assert = None
        return x
    """

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """As :meth:`Tracer.trace`; ``self.root`` is a copy of a module, which shares its parameters and submodules."""
        rewritten = self._rewritten(root) if isinstance(root, Module) else _rewrite(root)
        return super().trace(rewritten, concrete_args)

    def _rewritten(self, root: Module) -> Module:
        cls, name = type(root), self.traced_func_name
        parts = {name: _rewrite(getattr(cls, name)), "__module__": cls.__module__}
        made: Module = object.__new__(type("RewrittenModule", (cls,), parts))
        made.__dict__.update(root.__dict__)
        for part in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            made.__dict__[part] = made.__dict__[part].copy()
        return made


def _rewrite(fn: Any) -> Any:
    return AST_Rewriter().rewrite(fn) if isinstance(fn, types.FunctionType) else fn
