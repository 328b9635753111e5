"""docs/operators.md is what the declarations say, and the README's count is right."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
MAKER = runpy.run_path(str(DOCS / "make_operators.py"), run_name="make_operators")


def test_the_page_is_current():
    assert (DOCS / "operators.md").read_text() == MAKER["page"](), "run python docs/make_operators.py"


def test_the_readme_does_not_promise_more_names_than_there_are():
    readme = (DOCS.parent / "README.md").read_text()
    promised = int(readme.split(" names of PyTorch's")[0].rsplit(" ", 1)[1])
    assert promised <= MAKER["count"]()


def test_each_entry_whose_backward_calls_differ_has_a_reason():
    told = {name for names, *_ in MAKER["GAPS"] for name in re.findall("`([^`]+)`", names)}
    for line in MAKER["CALLS"].read_text().splitlines():
        entry, facts, *_ = line.split(" | ")
        parts = entry.removeprefix("nn.functional.").split(".")
        spellings = {".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
        assert facts.startswith("0 of") or spellings & told, f"{entry}: no row of GAPS in make_operators.py"
