"""Every block of the documentation runs and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of, outputs_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block, expected, printed in outputs_of(page):
        assert printed == expected, f"{page.name}, line {block.line}"


def test_the_pages_show_something() -> None:
    shown = [block for page in PAGES for block in blocks_of(page) if block.language == "python"]
    assert len(shown) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    import re

    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        link = (target[0] or target[1]).partition("#")[0]
        if link and "://" not in link:
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n3\n```\n")
    ((block, expected, printed),) = outputs_of(page)
    assert (block.line, expected, printed) == (10, "3\n", "2\n")
