"""A report of one page: the query, the funnel, counts, lags, and matches on time lines.

The page is written by hand, without a library for charts: it is small, it can be used with a keyboard,
and a browser draws one match at a time, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from piestream.diagnosis.funnel import diagnose_rows
from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.rows import TIME, GivenRows
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.pictures.found import Found, found_in
from piestream.pictures.histograms import histogram, histogram_svg
from piestream.pictures.offline import script_json
from piestream.pictures.stretches import Stretches, column_limits
from piestream.show.matches import Matches, lanes
from piestream.show.table import cell_text

__all__ = ["report", "report_of_rows"]

#: So many matches are listed and drawn; of more, some from all over the result.
LISTED = 500
#: So many partitions are listed.
_PARTITIONS = 100
_STRETCHES, _LAGS = 60, 40

_STATES = ("in this match", "in another match that is listed", "in no listed match", "not valid")


def report(query: Query, frame: Any, path: str | Path | None, options: BoundedOptions) -> str:
    """What `Query.report` gives."""
    text = report_of_rows(read_given(query, frame, options))
    if path is not None:
        Path(path).write_text(text, "utf-8", newline="\n")
    return text


def report_of_rows(rows: GivenRows) -> str:
    """The page about a query in rows."""
    found = found_in(rows)
    number = len(found.frame)
    chosen = np.unique(np.linspace(0, max(number - 1, 0), min(number, LISTED)).astype(np.int64))
    listed = found.listed(chosen.tolist())
    keys = Counter(found.frame.select(columns_named(rows.keys)).rows()) if rows.keys else Counter()
    places = {key: place for place, (key, _) in enumerate(keys.most_common())}
    name = rows.query.streams[0].name or "matches"
    parts = [
        f"<section><h2>Query</h2><pre>{escape(str(rows.query))}</pre></section>",
        f"<section><h2>Where the rows went</h2>{diagnose_rows(rows)._repr_html_()}</section>",
        *_counted(found, listed, keys),
        _matches(found, listed, places, number),
    ]
    data = _data(found, listed, chosen.tolist(), places)
    return _PAGE.format(
        policy="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'",
        title=escape(f"{name}: {number:,} match{'es' * (number != 1)}"),
        style=_asset("report.css"),
        parts="\n".join(parts),
        data=script_json(data),
        script=_asset("report.js"),
    )


def _asset(name: str) -> str:
    return files("piestream.pictures").joinpath("page", name).read_text("utf-8")


def _counted(found: Found, listed: Matches, keys: Counter[tuple[Any, ...]]) -> Iterator[str]:
    """The counts over time, the lags, and the counts by partition."""
    if not len(found.frame):
        return
    times = found.clock.scale.ticks(found.rows.times[TIME])
    first, last = (int(np.asarray(x)) for x in (times.min(), times.max()))
    reports = found.reports.to_numpy()
    per_tick = found.clock.scale.nanoseconds_per_tick
    counts, edges = histogram(reports, first, max(last, int(reports.max())), _STRETCHES, per_tick)
    over_time = histogram_svg(counts, [found.clock.text(edge) for edge in edges], "matches")
    lags = (found.reports - found.starts).to_numpy()
    counts, edges = histogram(lags, 0, int(lags.max()), _LAGS, per_tick)
    lengths = found.rows.time.as_lengths(pl.Series(edges, dtype=pl.Int64))
    lag = histogram_svg(counts, [cell_text(length) for length in lengths], "lags")
    quantiles = found.rows.time.as_lengths(
        pl.Series(np.quantile(lags, (0, 0.5, 0.9, 1), method="nearest").astype(np.int64))
    )
    named = zip(("shortest", "median", "p90", "longest"), quantiles, strict=True)
    yield (
        f'<div class="pair"><section><h2>Over time</h2><p>matches by their report</p>{over_time}'
        "</section><section><h2>Lags</h2><p>from the earliest start of a match to its report: "
        f"{', '.join(f'{name} {escape(cell_text(value))}' for name, value in named)}</p>{lag}"
        "</section></div>"
    )
    if keys:
        yield _by_partition(listed, keys)


def _by_partition(listed: Matches, keys: Counter[tuple[Any, ...]]) -> str:
    most = max(keys.values())
    rows = []
    for place, (key, count) in enumerate(keys.most_common(_PARTITIONS)):
        text = escape(listed.partition_text(key))
        rows.append(
            f'<tr><td><button data-key="{place}">{text}</button></td><td>{count:,}</td>'
            f'<td class="bar-of"><span style="width:{100 * count / most:.1f}%"></span></td></tr>'
        )
    more = f"; the {_PARTITIONS} with the most" if len(keys) > _PARTITIONS else ""
    return (
        f"<section><h2>By partition</h2><p>{len(keys):,} partitions with matches{more}</p>"
        '<div class="scroll"><table><thead><tr><th>partition</th><th>matches</th><th></th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _matches(found: Found, listed: Matches, places: dict[tuple[Any, ...], int], number: int) -> str:
    """The list of matches and the place of the time line; the script fills them."""
    if not number:
        return '<section id="matches"><h2>Matches</h2><p>There is none.</p></section>' + _HIDDEN
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *found.frame.columns))
    present = {match.partition for match in listed.matches} if found.rows.keys else set()
    options = "".join(
        f'<option value="{place}">{escape(listed.partition_text(key))}</option>'
        for key, place in places.items()
        if key in present or place < _PARTITIONS
    )
    of = f"{len(listed.matches):,} of {number:,}, from all over the result" * (number > LISTED)
    legend = "".join(
        f'<span><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="s{state}" x="1" y="1" '
        f'width="20" height="10"/></svg> {text}</span>'
        for state, text in enumerate(_STATES)
    )
    return _LIST.format(
        of=of, options=options, head=head, legend=legend, hidden="" if places else "hidden"
    )


def _data(
    found: Found,
    listed: Matches,
    chosen: list[int],
    places: dict[tuple[Any, ...], int],
) -> dict[str, Any]:
    stretches = Stretches(found.rows, listed)
    matches = [
        {
            "number": number + 1,
            "key": places.get(match.partition, -1),
            "partition": listed.partition_text(match.partition),
            "cells": [match.text(name) for name in match.row],
            "around": stretches.around(match),
        }
        for number, match in zip(chosen, listed.matches, strict=True)
    ]
    return {
        "calendar": found.clock.is_calendar,
        "symbols": lanes(found.query),
        "states": _STATES,
        "columns": column_limits(found.rows),
        "matches": matches,
    }


_LIST = """<section id="matches"><h2>Matches</h2><p>{of}</p>
<div class="controls"><label>search <input id="search" type="search" size="28"
aria-keyshortcuts="/"></label><label {hidden}>partition <select id="partition">
<option value="">all</option>{options}</select></label><span id="count" role="status"></span></div>
<h3 id="which" aria-live="polite"></h3><div id="line"></div><div class="legend">{legend}</div>
<p>Choose a match with the mouse, or with the arrow keys once the list has the focus; / is the search.</p>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody id="found"></tbody></table></div>
</section>"""

#: What the script looks for, where there is nothing to show.
_HIDDEN = """<div hidden><input id="search"><select id="partition"><option value=""></option></select>
<span id="count"></span><span id="which"></span><div id="line"></div>
<table><tbody id="found"></tbody></table></div>"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head>
<body><header><h1>{title}</h1><button id="theme">light or dark</button></header>
<main>
{parts}
</main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body></html>
"""
