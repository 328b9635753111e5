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

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: "\\" + c for c in "&%$#_{}"
}


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

    def to_latex(self) -> str:
        """The table as a LaTeX ``table`` with a caption; it needs the package ``booktabs``."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(map(_latex, cells)) + r" \\"

        body = [r"\toprule", line(self.columns()), r"\midrule", *map(line, self.rows()), r"\bottomrule"]
        return "\n".join([
            r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.title())}}}",
            rf"\begin{{tabular}}{{{'l' * len(self.columns())}}}", *body, r"\end{tabular}", r"\end{table}",
        ]) + "\n"  # fmt: skip

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

    def shown(self, form: str) -> str:
        """The table in one of ``FORMS``: "text", "markdown", "latex" or "csv"."""
        return FORMS[form](self)


FORMS = {
    "text": lambda table: str(table) + "\n",
    "markdown": Table.to_markdown,
    "latex": Table.to_latex,
    "csv": lambda table: table.to_csv(),
}


def _latex(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX[found.group()], text)
