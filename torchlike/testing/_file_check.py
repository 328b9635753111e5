"""FileCheck: whether a text holds what is expected, in order."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

_IN_A_FILE = re.compile(
    r"# CHECK(?:-(NEXT|SAME|NOT|DAG|SOURCE-HIGHLIGHTED|REGEX|COUNT-(?:EXACTLY-)?\d+))?: ?(.*?)\s*$", re.MULTILINE
)


class _Check(NamedTuple):
    kind: str
    text: str
    times: int = 1

    def __str__(self) -> str:
        kind = f"COUNT-{self.times}" if self.kind == "COUNT" else self.kind
        return f"CHECK{kind and '-'}{kind}: {self.text}"


class FileCheck:
    """Expectations of a text, such as the code of a graph: each is searched for behind the one before.

    >>> import torchlike as torch
    >>> torch.testing.FileCheck().check("mul").check_not("div").check("add").run("a = mul(x, y)\\nb = add(a, x)")
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []

    def check(self, test_string: str) -> FileCheck:
        """``test_string`` comes somewhere behind."""
        return self._add(_Check("", test_string))

    def check_not(self, test_string: str) -> FileCheck:
        """``test_string`` does not come before what is checked next, or the end."""
        return self._add(_Check("NOT", test_string))

    def check_same(self, test_string: str) -> FileCheck:
        """``test_string`` comes behind on the same line."""
        return self._add(_Check("SAME", test_string))

    def check_next(self, test_string: str) -> FileCheck:
        """``test_string`` comes on the next line."""
        return self._add(_Check("NEXT", test_string))

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """``test_string`` comes ``count`` times; ``exactly``: and then no more before what is checked next.

        RuntimeError: ``count`` is 0 and ``exactly`` is not asked for, which would check nothing.
        """
        if not count and not exactly:
            raise RuntimeError(f"check_count({test_string!r}, 0) checks nothing: add exactly=True, or use check_not")
        if count:
            self._add(_Check("COUNT", test_string, count))
        return self._add(_Check("NOT", test_string)) if exactly else self

    def check_dag(self, test_string: str) -> FileCheck:
        """``test_string`` comes behind; neighbours that are checked so come in any order."""
        return self._add(_Check("DAG", test_string))

    def check_regex(self, test_string: str) -> FileCheck:
        """A match of the regular expression comes somewhere behind."""
        return self._add(_Check("REGEX", test_string))

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """``test_string`` comes somewhere behind, with ``~`` on the line below it."""
        return self._add(_Check("SOURCE-HIGHLIGHTED", test_string))

    def run(self, *texts: object) -> None:
        """Search the text; of two, the first one holds checks as comments (``# CHECK-NEXT: add``).

        Raises:
            RuntimeError: something is not there, or is and should not be; or nothing is checked.
        """
        if not 1 <= len(texts) <= 2 or isinstance(texts[0], int | float | bytes):
            raise TypeError(
                f"run(): expected a text, or checks and a text, but got {[type(x).__name__ for x in texts]}"
            )
        if len(texts) == 2:
            for kind, what in _IN_A_FILE.findall(str(texts[0])):
                self._add_written(kind, what)
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of Filecheck! Check for bad input.")
        _Search(str(texts[-1])).run(self._checks)

    def _add(self, check: _Check) -> FileCheck:
        if not isinstance(check.text, str):
            raise TypeError(f"FileCheck: expected a str to search for, but got {type(check.text).__name__}")
        self._checks.append(check)
        return self

    def _add_written(self, kind: str, text: str) -> None:
        if kind.startswith("COUNT"):
            self.check_count(text, int(kind.rpartition("-")[2]), "EXACTLY" in kind)
        else:
            self._add(_Check(kind, text))


class _Search:
    """The text, and how far it has been searched."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.forbidden: list[_Check] = []

    def run(self, checks: list[_Check]) -> None:
        start = 0  # where the neighbours of a check in any order are searched from
        for before, check in zip([None, *checks], checks, strict=False):
            if check.kind == "NOT":
                self.forbidden.append(check)
                continue
            grouped = check.kind == "DAG" and before is not None and before.kind == "DAG"
            start = start if grouped else self.at
            low, high = self.find(check, start)
            self.clear(start, low)
            self.at = max(self.at, high) if grouped else high
            for _ in range(check.times - 1):
                self.at = self.find(check, self.at)[1]
        self.clear(self.at, len(self.text))

    def find(self, check: _Check, start: int) -> tuple[int, int]:
        """Where the check is met: RuntimeError if nowhere."""
        pattern = check.text if check.kind == "REGEX" else re.escape(check.text)
        for found in re.compile(pattern).finditer(self.text, start):
            if check.kind != "SOURCE-HIGHLIGHTED" or self.highlighted(*found.span()):
                lines = self.text.count("\n", start, found.start())
                if check.kind == "SAME" and lines or check.kind == "NEXT" and lines > 1:
                    self.fail("not find", "\\n", check)
                if check.kind == "NEXT" and not lines:
                    self.fail("find", "\\n", check)
                return found.span()
        self.fail("find regex" if check.kind == "REGEX" else "find", check.text, check, start)

    def highlighted(self, low: int, high: int) -> bool:
        """Whether there are tildes below a place."""
        begin, end = self.text.rfind("\n", 0, low) + 1, self.text.find("\n", high)
        below = self.text[end + 1 :].partition("\n")[0] if end >= 0 else ""
        return below[low - begin : high - begin] == "~" * (high - low)

    def clear(self, low: int, high: int) -> None:
        """RuntimeError if a text comes that should not."""
        for check in self.forbidden:
            if self.text.find(check.text, low, high) >= 0:
                self.fail("not find", check.text, check)
        self.forbidden = []

    def fail(self, expected: str, text: str, check: _Check, start: int = 0) -> NoReturn:
        but = "found it" if expected.startswith("not") else "did not find it"
        raise RuntimeError(
            f'Expected to {expected} "{text}" but {but}\nSearched string:\n{self.text[start:]}\nFrom {check}\n'
        )
