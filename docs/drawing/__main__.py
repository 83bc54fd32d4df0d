"""Draw all pictures of the pages: ``python -m docs.drawing``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.drawing.gallery import gallery_pictures
from docs.drawing.match import match_picture
from docs.drawing.relations import relation_pictures

__all__ = ["pictures"]

DOCS = Path(__file__).parents[1]


def pictures() -> Iterator[tuple[Path, str]]:
    """Each picture and its file."""
    yield DOCS / "match.svg", match_picture()
    for name, picture in relation_pictures():
        yield DOCS / "relations" / f"{name}.svg", picture
    for name, picture in gallery_pictures():
        yield DOCS / "gallery" / f"{name}.svg", picture


if __name__ == "__main__":
    for path, picture in pictures():
        if not path.exists() or path.read_text("utf-8") != picture:
            path.write_text(picture, "utf-8")
            print(f"drawn: {path.relative_to(DOCS.parent)}")
