"""What every table can be turned into: text, HTML, Markdown, LaTeX, CSV, a pandas frame."""

from __future__ import annotations

import csv
import importlib
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchlike.conventions import _table

# LaTeX's older fonts have other signs in the places of <, > and |.
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "->": r"$\to$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", **{c: "\\" + c for c in "&%$#_{}"},
}  # fmt: skip
_A_PAGE, _A_LINE, _NARROW = 40, 90, 24  # rows of a page, letters of a line, and of a column that needs no breaks


class Table(ABC):
    """A title, the names of the columns and rows of text. ``print`` shows it, notebooks draw it."""

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @abstractmethod
    def rows(self) -> Sequence[tuple[str, ...]]:
        """The cells, row by row."""

    @abstractmethod
    def title(self) -> str:
        """What stands above the table."""

    def __str__(self) -> str:
        return _table.text(self.title(), self.columns(), self.rows())

    def _repr_html_(self) -> str:
        return _table.html(self.title(), self.columns(), self.rows())

    def to_markdown(self) -> str:
        """The table in Markdown, the title above it."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

        rule = "|" + "---|" * len(self.columns())
        return "\n".join([self.title(), "", line(self.columns()), rule, *map(line, self.rows())]) + "\n"

    def latex_rows(self) -> Sequence[tuple[str, ...]]:
        """The cells as LaTeX has them, row by row."""
        return self.rows()

    def to_latex(self) -> str:
        """The table as a LaTeX ``table`` with a caption; it needs the package ``booktabs``.

        A table of more than 40 rows is a ``longtable`` (of the package with that name), which pages may part.
        """
        rows = self.latex_rows()
        head = [r"\toprule", _line(self.columns()), r"\midrule"]
        caption, kinds = rf"\caption{{{_latex(self.title())}}}", _kinds([self.columns(), *rows])
        if len(rows) > _A_PAGE:
            lines = [
                rf"\begin{{longtable}}{{{kinds}}}", caption + r" \\", *head, r"\endfirsthead", *head, r"\endhead",
                r"\bottomrule", r"\endfoot", *map(_line, rows), r"\end{longtable}",
            ]  # fmt: skip
        else:
            lines = [
                r"\begin{table}", r"\centering", caption, rf"\begin{{tabular}}{{{kinds}}}", *head, *map(_line, rows),
                r"\bottomrule", r"\end{tabular}", r"\end{table}",
            ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def to_csv(self, path: Any = None) -> str | None:
        """The table as comma-separated values, without the title: returned, or written to ``path``."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns(), *self.rows()])
        if path is None:
            return text.getvalue()
        Path(path).write_text(text.getvalue(), encoding="utf-8")
        return None

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame`` of text, with its title in ``attrs["title"]``.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("to_pandas: pandas is not installed; `pip install pandas`, or use to_csv()") from error
        frame = pandas.DataFrame([*self.rows()], columns=[*self.columns()])
        frame.attrs["title"] = self.title()
        return frame

    def render(self, form: str) -> str:
        """The table in one of ``FORMS``: "text", "markdown", "latex" or "csv"."""
        return FORMS[form](self)


FORMS = {
    "text": lambda table: str(table) + "\n",
    "markdown": Table.to_markdown,
    "latex": Table.to_latex,
    "csv": lambda table: table.to_csv(),
}


def _line(cells: Sequence[str]) -> str:
    """A row; in braces what a row break before it would take for its argument."""
    text = " & ".join(map(_latex, cells))
    return ("{}" if text[:1] in ("[", "*") else "") + text + r" \\"


def _kinds(rows: Sequence[Sequence[str]]) -> str:
    """The kinds of the columns: where they are wider than a page together, the wide ones are paragraphs."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) <= _A_LINE:
        return "l" * len(widths)
    narrow = sum(w for w in widths if w <= _NARROW)
    wide = sum(min(w, _A_LINE) for w in widths if w > _NARROW)
    room = max(_A_LINE - narrow, _A_LINE // 3) / _A_LINE
    return "".join(
        "l" if w <= _NARROW else rf"p{{{0.9 * room * min(w, _A_LINE) / wide:.2f}\linewidth}}" for w in widths
    )


def _latex(text: str) -> str:
    return re.sub(r"->|[\\~^&%$#_{}<>|]", lambda found: _LATEX[found.group()], text)
