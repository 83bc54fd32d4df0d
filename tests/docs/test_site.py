"""The site of the pages: every link leads somewhere, and it needs no network."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` makes it: what Sphinx warns of is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = "-m sphinx -W --keep-going -q -c docs"
    done = subprocess.run(
        [sys.executable, *command.split(), "-d", folder / "doctrees", ROOT, folder / "html"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert command in (ROOT / "Makefile").read_text("utf-8")
    return folder / "html"


def test_every_page_is_in_the_navigation(site: Path) -> None:
    navigation = runpy.run_path(str(ROOT / "docs" / "conf.py"))["NAVIGATION"]
    listed = [f"{page}.md" for pages in navigation.values() for page in pages.values()]
    pages = {str(page.relative_to(ROOT)) for page in PAGES} - {"README.md", "docs/index.md"}
    assert pages <= set(listed)
    index = (site / "docs" / "index.html").read_text("utf-8")
    for page in listed:
        assert (site / page).with_suffix(".html").is_file()
        assert Path(page).stem + ".html" in index


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]
    assert len(files) > 20
    loaded = re.compile(
        r"""(?:<(?:script|img|iframe|link)\b[^>]*\s(?:src|href)=["']?|@import\s*["']?|url\(["']?)"""
        r"(https?:)?//",
        re.IGNORECASE,
    )
    for file in files:
        found = loaded.search(file.read_text("utf-8"))
        assert found is None, f"{file.relative_to(site)}: {found and found[0]}"


def test_it_is_searched_without_a_server(site: Path) -> None:
    page = (site / "search.html").read_text("utf-8")
    assert 'src="searchindex.js"' in page  # a script, which needs no request
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert "followed-by" in index or "follow" in index


def test_the_root_leads_to_the_first_page(site: Path) -> None:
    (target,) = re.findall(r"url=([\w/.]+)", (site / "index.html").read_text("utf-8"))
    assert (site / target).is_file()
