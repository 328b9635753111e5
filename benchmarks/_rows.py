"""What a benchmark reports: rows of program, measure, baseline, ratio and target; printed, saved and compared."""

import argparse
import dataclasses
import json
import pathlib

DIGITS = 2


@dataclasses.dataclass(frozen=True)
class Row:
    """One ratio: ``measure`` of ``program`` over the same of ``against``, which is ``base`` ``unit``.

    ``ratio`` is None where it cannot be measured here; ``note`` says why. ``target``: None, or what the ratio should
    not exceed.
    """

    measure: str
    program: str
    against: str
    base: float | None
    unit: str
    ratio: float | None
    target: float | None = None
    note: str = ""

    @property
    def verdict(self):
        if self.ratio is None or self.target is None:
            return self.note
        verdict = "met" if round(self.ratio, DIGITS) <= self.target else "missed"
        return f"{verdict}; {self.note}" if self.note else verdict

    def cells(self):
        base = "" if self.base is None else f"{self.base:.3g} {self.unit}"
        ratio = "n/a" if self.ratio is None else f"{self.ratio:.{DIGITS}f}"
        target = "" if self.target is None else f"{self.target:.{DIGITS}f}"
        return [self.measure, self.program, self.against, base, ratio, target, self.verdict]


HEADER = ["measure", "program", "over", "which is", "ratio", "target", ""]
_RIGHT = (3, 4, 5)


def _widths(lines):
    return [max(len(line[i]) for line in lines) for i in range(len(HEADER))]


def _aligned(cells, widths):
    pairs = zip(cells, widths, strict=True)
    return [c.rjust(w) if i in _RIGHT else c.ljust(w) for i, (c, w) in enumerate(pairs)]


def text(rows):
    """The rows as an aligned table."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = _widths(lines)
    return "\n".join(("  " + "  ".join(_aligned(line, widths))).rstrip() for line in lines)


def markdown(rows):
    """The rows as a table of a Markdown page."""
    rule = ["---:" if i in _RIGHT else "---" for i in range(len(HEADER))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEADER, rule, *(row.cells() for row in rows)])


def save(path, rows):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")


def load(content):
    """The rows of a file, or of what was read from one."""
    if isinstance(content, pathlib.Path):
        content = json.loads(content.read_text())
    return [Row(**row) for row in content]


def command(description, names, measure):
    """The command line of a benchmark; ``measure(name, quick)`` gives the rows of one of ``names``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="small and short: to see that it runs")
    parser.add_argument("--json", help="a file for the rows")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        rows += measure(name, options.quick)
    print(text(rows))
    if options.json:
        save(options.json, rows)
