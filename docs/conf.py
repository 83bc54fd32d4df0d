"""How Sphinx makes a site of the pages: ``make docs``.

The pages are plain Markdown that reads as well without a site. The whole repository is Sphinx's
source, so that a link is the same there and here.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pygments.lexer import words
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword
from sphinx.application import Sphinx

from piestream.language.clauses import CLAUSES

ROOT = Path(__file__).parents[1]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

#: What stands in the navigation, in this order: a title, and the page.
NAVIGATION = {
    "Begin": {
        "Tutorial": "docs/tutorial",
        "Recipes": "docs/recipes",
        "From other systems": "docs/coming-from",
        "Gallery": "docs/gallery",
    },
    "Write queries": {
        "Language": "docs/query-language",
        "Semantics": "docs/semantics",
        "Streams": "docs/streams",
        "Row patterns": "docs/row-patterns",
        "Interval tables": "docs/interval-tables",
    },
    "Keep rows": {"Archives": "docs/archives", "Live against archive": "docs/live-and-archive"},
    "Look at results": {"Diagnosis": "docs/diagnosis", "Time lines": "docs/time-lines"},
    "Use it": {
        "API": "docs/api",
        "Command line": "docs/cli",
        "Spark": "docs/spark",
        "Testing": "docs/testing",
    },
    "Behind it": {
        "How it works": "docs/how-it-works",
        "Architecture": "ARCHITECTURE",
        "Measurements": "experiments/report",
        "Experiments": "experiments/README",
        "Contributing": "CONTRIBUTING",
        "Changelog": "CHANGELOG",
    },
}

project = _PROJECT["name"]
release = _PROJECT["version"]
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [f"{page}.md" for pages in NAVIGATION.values() for page in pages.values()]
include_patterns.append(f"{root_doc}.md")
exclude_patterns = [".*", "build", "dist", "out", "piestream", "tests"]

# SQL's row patterns and the texts of other systems are more than the highlighter knows.
suppress_warnings = ["misc.highlighting_failure"]
# Anchors are those of a repository's pages; a link to one that does not exist is a warning.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"piestream {release}"
html_static_path = ["site/static"]
html_css_files = ["piestream.css"]
html_extra_path = ["site/root"]  # the page that leads from the root to the first one
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
# A summary of a result is read from its page, which browsers refuse where there is no server.
html_show_search_summary = False
html_theme_options = {
    "source_repository": _PROJECT["urls"]["Source"],
    "source_branch": "main",
    "top_of_page_buttons": ["view"],
}


class QueryLexer(SqlLexer):  # type: ignore[misc]
    """SQL, and the words of piestream's clauses."""

    _words = (
        *(word for clause in CLAUSES for word in clause.split()),
        "AT",
        "LEAST",
        "MOST",
        "UNIT",
    )
    tokens = {  # noqa: RUF012
        **SqlLexer.tokens,
        "root": [(words(_words, suffix=r"\b"), Keyword), *SqlLexer.tokens["root"]],
    }


def _append_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Append the navigation to the first page: a list of pages is Sphinx's, not Markdown's."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            entries = "\n".join(f"{title} </{entry}>" for title, entry in pages.items())
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _append_navigation)
    app.add_lexer("sql", QueryLexer)
