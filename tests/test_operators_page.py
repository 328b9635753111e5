"""docs/operators.md is what the declarations say, and the README's count is right."""

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
