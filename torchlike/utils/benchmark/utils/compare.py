"""Tables of measurements."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

from torchlike.interop.alias import missing_names
from torchlike.utils.benchmark.utils import common

__all__ = ["Colorize", "Compare"]

__getattr__ = missing_names(__name__)

_END = "\033[0m"
_ALIKE = 1e-7  # seconds that make no difference
# (times over the best from which on, the escape codes before): the best are green, the worst red.
_COLOURS = (
    (5.0, "\033[31m\033[1m"), (2.0, "\033[2m\033[91m"), (1.1, ""), (1.01, "\033[34m\033[1m"), (0.0, "\033[92m\033[1m"),
)  # fmt: skip


class Colorize(enum.Enum):
    """Among which cells the best is green."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table for each label: a row for each sub-label, or statement, and a column for each description.

    Args:
        results: measurements. Those of one cell count as one.

    Raises:
        ValueError: a result is no Measurement.

    >>> from torchlike.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def measured(size, name, seconds):
    ...     return Measurement(1, [seconds], TaskSpec("f(x)", "pass", "", "dot", size, name))
    >>> Compare([measured("[4]", "sum", 2e-6), measured("[4]", "bmm", 5e-6)]).print()
    [--------- dot ---------]
               |  sum  |  bmm
    1 threads: --------------
          [4]  |  2.0  |  5.0
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    """

    def __init__(self, results: list[common.Measurement]) -> None:
        self._results: list[common.Measurement] = []
        self.extend_results(results)
        self._trimmed, self._coloured, self._warns = False, Colorize.NONE, False

    def extend_results(self, results: Iterable[common.Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for result in results:
            if not isinstance(result, common.Measurement):
                raise ValueError(f"Compare: expected an instance of Measurement, got {type(result)} instead")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show the digits that measurements can be trusted with, and no others."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the cells of each column, or row, by how far they are from the best."""
        self._coloured = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark measurements whose middle half spans more than a tenth of the median."""
        self._warns = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        labels = common.ordered_unique(m.label for m in self._results)
        return "\n".join([self._table([m for m in self._results if m.label == label]) for label in labels])

    def _table(self, measurements: list[common.Measurement]) -> str:
        table = _Table(measurements, self._trimmed, self._coloured, self._warns)
        unit = f"Times are in {common.unit_to_english(table.unit)}s ({table.unit})."
        note = ["(! XX%) Measurement has high variance, where XX is the IQR / median * 100."] if table.warned else []
        return "\n".join([*table.lines(), "", unit, *note, ""])


class _Table:
    """The measurements of one label, by block of threads and row, and by column."""

    def __init__(self, given: list[common.Measurement], trimmed: bool, coloured: Colorize, warns: bool) -> None:
        self.label, self.trimmed, self.coloured, self.warns = given[0].label or "", trimmed, coloured, warns
        merged = common.Measurement.merge(given)
        self.cells = {(self._row(m), m.description): m for m in merged}
        self.rows = sorted(common.ordered_unique(map(self._row, given)), key=lambda row: row[:2])
        self.columns = common.ordered_unique(m.description for m in given)
        self.unit, self.scale = common.select_unit(min(m.median for m in merged))
        self.warned = warns and any(m.has_warnings for m in (*given, *merged))

    @staticmethod
    def _row(m: common.Measurement) -> tuple[int, str, str]:
        return m.num_threads, m.env or "", m.as_row_name

    def lines(self) -> list[str]:
        names = self._names()
        width = max(map(len, names))
        columns = [self._column(column) for column in self.columns]
        head = "  |  ".join([" " * width, *[title.center(len(cells[0])) for title, cells in columns]])
        lines = [f"[{f' {self.label} '.center(len(head) - 2, '-')}]", head]
        threads = 0
        for i, (row, name) in enumerate(zip(self.rows, names, strict=True)):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(len(head), "-"))
            shown = [self._coloured(i, j, cells[i]) for j, (_, cells) in enumerate(columns)]
            lines.append("  |  ".join([name.ljust(width), *shown]))
        return lines

    def _names(self) -> list[str]:
        """The first column: environments where there are several, each in the first of its rows, and rows."""
        several = len({env for _, env, _ in self.rows}) > 1
        width, told, names = max(len(env) for _, env, _ in self.rows) * several + 4, None, []
        for threads, env, name in self.rows:
            new = several and (threads, env) != told
            told = threads, env
            names.append("  " + (f"({env})" if new else "").ljust(width) + name)
        return names

    def _column(self, column: str | None) -> tuple[str, list[str]]:
        """Its title, and the texts of its cells, all of one width."""
        found = [self.cells.get((row, column)) for row in self.rows]
        measured = [m for m in found if m is not None]
        numbers, warnings = self._numbers(measured), [self._warning(m) for m in measured]
        digits = max(map(len, numbers))
        blank = " " * len("(! XX%)") if any(warnings) else ""
        shown = (n.rjust(digits) + (w or blank) for n, w in zip(numbers, warnings, strict=True))
        texts = ["" if m is None else next(shown) for m in found]
        width = max(map(len, [column or "", *texts]))
        return column or "", [text.center(width) for text in texts]

    def _numbers(self, measured: list[common.Measurement]) -> list[str]:
        """Medians in the unit of the table, with as many places as the least exact of them allows."""
        values = [m.median / self.scale for m in measured]
        if not self.trimmed:
            return [f"{value:.1f}" for value in values]
        digits = [m.significant_figures for m in measured]
        places = max(min(d - math.ceil(math.log10(v)) for d, v in zip(digits, values, strict=True)), 0)
        return [f"{common.trim_sigfig(v, d):.{places}f}" for v, d in zip(values, digits, strict=True)]

    def _warning(self, m: common.Measurement) -> str:
        return f" (! {m.iqr / m.median * 100:.0f}%)" if self.warned and m.has_warnings else ""

    def _coloured(self, i: int, j: int, text: str) -> str:
        measured = self.cells.get((self.rows[i], self.columns[j]))
        if measured is None or self.coloured is Colorize.NONE:
            return text
        if self.coloured is Colorize.ROWWISE:
            beside = [self.cells.get((self.rows[i], column)) for column in self.columns]
        else:
            beside = [self.cells.get((row, self.columns[j])) for row in self.rows if row[0] == self.rows[i][0]]
        best = min(m.median for m in beside if m is not None)
        ratio = measured.median / best if measured.median - best > _ALIKE else 1.0
        code = next(code for least, code in _COLOURS if ratio > least)
        return f"{code}{text}{_END * 2}" if code else text
