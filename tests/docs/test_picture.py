"""The picture in the README is what the engine finds."""

from __future__ import annotations

import runpy

from tests.docs.blocks import ROOT


def test_the_picture_is_up_to_date() -> None:
    drawing = runpy.run_path(str(ROOT / "docs" / "draw_match.py"))
    stored = drawing["PICTURE"].read_text("utf-8")
    assert drawing["drawn"]() == stored, "run python docs/draw_match.py"
    assert "[2, 7)" in stored
    assert "[5, 9)" in stored
