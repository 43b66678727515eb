"""The notebooks of examples/notebooks run from top to bottom, and are stored without what they showed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
SHOWN = {  # a part of what cells show, in this order
    "practitioner": [
        "Decision 0-",
        "Learner PosseTS",
        "Counts: 6",
        "Diagnosis: ",
        "Evaluation: ",
        "Watch: ",
        "Conclusion: ",
    ],
    "researcher": ["Problem(4 players", "Result: 1 problem", "Blend-TS(20)", "Result: 10 problems"],
}


# In a process of its own, because the libraries that run a notebook leave sockets open.
RUN = """
import sys
import nbclient, nbformat

book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
nbclient.execute(book, cwd=".", timeout=300)
nbformat.write(book, "run.ipynb")
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_makes(path, tmp_path):
    done = subprocess.run([sys.executable, "-c", RUN, path], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    book = json.loads((tmp_path / "run.ipynb").read_text())
    found = [output for cell in book["cells"] for output in cell.get("outputs", [])]
    data = [output["data"] for output in found if "data" in output]
    pages = iter("".join(each.get("text/html", "")) for each in data)
    assert [part for part in SHOWN[path.stem] if not any(part in page for page in pages)] == []
    assert sum("image/png" in each for each in data) >= 2
    assert not any("array(" in "".join(each.get("text/plain", "")) for each in data)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    text = path.read_text()
    book = json.loads(text)
    assert text == json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
