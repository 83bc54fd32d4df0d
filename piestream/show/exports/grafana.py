"""Matches as annotations of Grafana: the bodies of its HTTP API, one for each match."""

from __future__ import annotations

import json
from html import escape

from piestream.expressions.durations import NANOSECONDS
from piestream.show.matches import Match, Matches, key_text

__all__ = ["grafana_annotations"]


def grafana_annotations(found: Matches) -> str:
    """The matches as a JSON list of annotations of regions: times in milliseconds, tags, a text.

    Grafana shows the text as HTML, so that what the data holds is escaped in it.

    >>> import piestream as ps
    >>> query = ps.query("FROM cars ORDER BY t UNIT s DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> text = query.export(query.run([{"t": 1, "x": 5}, {"t": 3, "x": 0}]), "grafana")
    >>> json.loads(text)[0]["time"], json.loads(text)[0]["tags"]
    (1000, ['piestream', 'cars'])
    """
    annotations = []
    for match in found.matches:
        annotations.append(
            {
                "time": _milliseconds(found, match.start),
                "timeEnd": _milliseconds(found, match.end),
                "tags": _tags(found, match),
                "text": "<br>".join(
                    f"<b>{escape(name)}</b> {escape(match.text(name))}" for name in match.row
                ),
            }
        )
    return json.dumps(annotations, indent=1, allow_nan=False) + "\n"


def _milliseconds(found: Matches, ticks: int) -> int:
    return int(found.scale.in_units(ticks, NANOSECONDS["ms"]))


def _tags(found: Matches, match: Match) -> list[str]:
    name = found.query.streams[0].name
    named = zip(found.query.partition_by, match.partition, strict=True)
    keys = [f"{column}:{key_text(value)}" for column, value in named]
    return ["piestream", *([name] if name else []), *keys]
