"""The README stands alone, as on the page of a package index; so does what Python's help prints."""

from __future__ import annotations

import pydoc
import re
import tomllib
from pathlib import Path

import pytest

import piestream as ps

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text("utf-8")
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_HOME = _PROJECT["urls"]["Homepage"]
_FILES = (
    f"{_HOME}/blob/main/",
    _HOME.replace("github.com", "raw.githubusercontent.com") + "/main/",
)
_INLINE = re.findall(r"\]\(([^)\s]+)\)", _README)
_NAMED = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", _README, re.MULTILINE))


def test_the_first_command_installs_from_the_index() -> None:
    first = re.search(r"```sh\n(.*?)\n```", _README, re.DOTALL)
    assert first is not None
    assert first[1].startswith("pip install piestream")


@pytest.mark.parametrize("link", [*_INLINE, *_NAMED.values()])
def test_links_are_absolute_and_lead_to_what_is_there(link: str) -> None:
    assert link.startswith(_FILES)
    path, _, anchor = next(link.removeprefix(f) for f in _FILES if link.startswith(f)).partition(
        "#"
    )
    assert (_ROOT / path).is_file()
    if anchor:
        titles = re.findall(r"^#+ (.*)$", (_ROOT / path).read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}


def test_every_link_has_its_target_and_every_target_a_link() -> None:
    prose = re.sub(r"^```.*?^```", "", _README, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\]\[([^\]]+)\]", prose)) == set(_NAMED)


def test_the_project_says_where_it_is() -> None:
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(_PROJECT["urls"])
    for url in _PROJECT["urls"].values():
        assert url.startswith(_HOME)
    changelog = _PROJECT["urls"]["Changelog"].removeprefix(_FILES[0])
    assert (_ROOT / changelog).is_file()


def test_help_on_a_query_shows_its_clauses_an_example_and_its_errors() -> None:
    shown = pydoc.plain(pydoc.render_doc(ps.query))
    for part in ("FROM", "DEFINE", "PATTERN", "WITHIN", "RETURN", "QueryError", ".run(", ">>>"):
        assert part in shown


def test_help_on_the_package_leads_on() -> None:
    shown = pydoc.plain(pydoc.render_doc(ps))
    for part in ("ps.query(", "help(ps.query)", _HOME):
        assert part in shown
