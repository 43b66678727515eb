"""Every script of the gallery is short, runs by itself without a warning, and draws."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from posse.policies import user

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))


@pytest.fixture
def figures(monkeypatch):
    """The figures that are made in a test, pyplot's and all others, in a house without windows."""
    made: list[Figure] = []
    make = Figure.__init__

    def make_and_note(self, *args, **options):
        make(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(Figure, "__init__", make_and_note)
    monkeypatch.setattr(plt, "show", lambda: None)
    backend = matplotlib.get_backend()
    plt.switch_backend("Agg")
    with matplotlib.rc_context():  # scripts choose a style
        yield made
    plt.close("all")
    plt.switch_backend(backend)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_draws(script, figures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user, "_imported", {})  # as in a new process
    runpy.run_path(str(script))
    assert figures
    for figure in figures:
        figure.canvas.draw()
        assert [axes for axes in figure.axes if axes.has_data()]
    assert list(tmp_path.iterdir()) == []  # nothing is left in a reader's folder


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_reads_from_top_to_bottom(script):
    quotes, title, line, empty, *rest = script.read_text().splitlines()
    assert (quotes, line, empty) == ('"""', "=" * len(title), "")
    assert len(rest) <= 46  # fifty lines in all
    assert rest.count("# %%") >= 2  # words between the code


def test_the_first_page_names_every_script_once():
    assert len(SCRIPTS) >= 15
    named = re.findall(r":ref:`sphx_glr_gallery_(\w+)\.py`", (FOLDER / "GALLERY_HEADER.rst").read_text())
    assert sorted(named) == [path.stem for path in SCRIPTS]
