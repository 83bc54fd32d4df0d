"""An interactive time line of one partition, drawn by Altair."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.pictures.charts import chart_of, lanes_of_scene, spec_of
from piestream.pictures.offline import page
from piestream.pictures.scene import Scene, scene_of

__all__ = ["Timeline", "timeline"]


@dataclass(frozen=True)
class Timeline:
    """A time line: a notebook shows it, `save` writes it, and ``chart`` is Altair's own.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> shown = query.timeline(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}))
    >>> shown
    <Timeline of a: 2 intervals, 2 matches>
    """

    scene: Scene = field(repr=False)
    width: int = 900

    @property
    def chart(self) -> Any:
        """The chart as an Altair object, with its data in it."""
        return chart_of(self.scene, self.width)

    def __repr__(self) -> str:
        names = ", ".join(symbol.name for symbol in self.scene.query.symbols)
        of = f" in {self.scene.partition}" if self.scene.partition else ""
        bars, matches = len(self.scene.bars), len(self.scene.matches)
        return (
            f"<Timeline of {names}{of}: {bars:,} interval{'s' * (bars != 1)}, "
            f"{matches:,} match{'es' * (matches != 1)}>"
        )

    def html(self) -> str:
        """One page that needs nothing else: it works offline.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> shown = query.timeline(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}))
        >>> shown.html()[:15]
        '<!doctype html>'
        """
        return page(self._title(), spec_of(self.scene, self.width))

    def _title(self) -> str:
        return self.scene.partition or self.scene.query.streams[0].name or "time line"

    def save(self, path: str | Path) -> None:
        """Write it as one HTML page that works offline, as SVG or as PNG, as its name ends.

        >>> import tempfile, polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> shown = query.timeline(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shown.save(f"{folder}/found.svg")
        ...     Path(f"{folder}/found.svg").read_text()[:4]
        '<svg'
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind == ".html":
            path.write_text(self.html(), "utf-8", newline="\n")
            return
        if kind not in (".svg", ".png"):
            raise ValueError(f"{path}: a time line is saved as .html, .svg or .png")
        import vl_convert

        spec = json.dumps(spec_of(self.scene, self.width))
        if kind == ".svg":
            path.write_text(vl_convert.vegalite_to_svg(spec), "utf-8", newline="\n")
        else:
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))

    def _repr_html_(self) -> str:
        lanes = len(lanes_of_scene(self.scene))
        height = 300 + 30 * lanes + 130 * len(self.scene.columns)
        return (
            f'<iframe title="{escape(self._title(), quote=True)}" sandbox="allow-scripts" '
            f'style="width:100%;height:{height}px;border:0" '
            f'srcdoc="{escape(self.html(), quote=True)}"></iframe>'
        )


def timeline(
    query: Query,
    frame: Any,
    matches: Any,
    partition: Any,
    width: int,
    options: BoundedOptions,
) -> Timeline:
    """What `Query.timeline` gives."""
    from piestream.pictures.offline import check_installed

    check_installed()
    return Timeline(scene_of(query, frame, matches, partition, options), width)
