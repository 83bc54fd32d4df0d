"""Tables as HTML for notebooks: plain elements, in the colours of the page that shows them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import polars as pl

__all__ = ["html_page", "html_table"]


def html_table(table: pl.DataFrame) -> str:
    """A frame as an HTML table; what is in it is escaped.

    >>> html_table(pl.DataFrame({"a": ["<1>"]}))
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in table.iter_rows()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_page(sections: Iterable[tuple[str, pl.DataFrame | None, str]]) -> str:
    """Sections of a title, a table and a text below it."""
    parts = []
    for title, table, text in sections:
        parts.append(f"<h4>{escape(title)}</h4>")
        if table is not None:
            parts.append(html_table(table))
        if text:
            parts.append(f"<p>{escape(text)}</p>")
    return f"<div>{''.join(parts)}</div>"
