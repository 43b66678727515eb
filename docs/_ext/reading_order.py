"""The order of the gallery's pictures: that in which its first page names the scripts."""

from pathlib import Path


class ReadingOrder:
    """What sphinx-gallery sorts the scripts of a folder by."""

    def __init__(self, folder: str) -> None:
        self.page = Path(folder) / "GALLERY_HEADER.rst"

    def __call__(self, script: str) -> int:
        return self.page.read_text().index(script)

    def __repr__(self) -> str:
        return "ReadingOrder"  # by which Sphinx tells whether its settings changed
