"""The charts of a time line: an overview to choose a stretch in, and that stretch below it.

Only what lies in the chosen stretch is drawn in full, so that a hundred thousand bars stay quick.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from piestream.pictures.scene import ColumnLine, Scene

__all__ = ["STATES", "chart_of", "lanes_of_scene", "spec_of"]

#: The states of a bar and their colours, which people with any kind of colour vision can tell apart.
STATES = {"in a match": "#0072B2", "in no match": "#9bb7c9", "not valid": "#D55E00"}

_MATCH = "#E69F00"
#: From so many bars on, the picture begins with a part of them.
_MANY_BARS = 1_500
_SHOWN_BARS = 300
#: The overview has so many steps.
_STEPS = 400
#: How the axis writes a time: as short as it can.
_MOMENT = (
    "utcmilliseconds(datum.value) ? utcFormat(datum.value, '%H:%M:%S.%L') : "
    "utcseconds(datum.value) ? utcFormat(datum.value, '%H:%M:%S') : "
    "utchours(datum.value) || utcminutes(datum.value) ? utcFormat(datum.value, '%H:%M') : "
    "utcFormat(datum.value, '%Y-%m-%d')"
)
_ROW = 26
_COLUMN_HEIGHT = 90


def spec_of(scene: Scene, width: int) -> dict[str, Any]:
    """The chart as Vega-Lite has it, with its data."""
    spec: dict[str, Any] = _chart(scene, width).to_dict()
    return {**spec, "datasets": _datasets(scene, lanes_of_scene(scene))}


def chart_of(scene: Scene, width: int) -> Any:
    """The chart as an Altair object, with its data."""
    chart = _chart(scene, width)
    chart.datasets = _datasets(scene, lanes_of_scene(scene))
    return chart


def _chart(scene: Scene, width: int) -> Any:
    import altair as alt

    lanes = lanes_of_scene(scene)
    brush = alt.selection_interval(name="stretch", encodings=["x"], **_first_stretch(scene))
    over = alt.selection_point(name="over", on="pointerover", fields=["match"], empty=False)
    parts = [
        _overview(alt, scene, lanes, width).add_params(brush),
        _bars(alt, scene, lanes, width, brush, over),
        *(_column(alt, scene, line, n, width, brush) for n, line in enumerate(scene.columns)),
    ]
    chart = alt.vconcat(*parts, spacing=14, title=_title(alt, scene))
    chart = chart.resolve_scale(color="independent").configure_axis(labelLimit=160)
    return chart.configure(font="system-ui, sans-serif")


def _title(alt: Any, scene: Scene) -> Any:
    count = len(scene.matches)
    text = scene.partition or scene.query.streams[0].name or "time line"
    return alt.TitleParams(
        text=text,
        subtitle=f"{len(scene.bars):,} intervals, {count:,} match{'es' * (count != 1)}; "
        "drag in the overview to choose a stretch",
        anchor="start",
    )


def _last(scene: Scene) -> float:
    """Where the picture ends: later than it begins."""
    return max([scene.last, *(end for _, end, _ in scene.spans())]) + (scene.last == scene.first)


def lanes_of_scene(scene: Scene) -> list[str]:
    """The names of the lanes, the matches' first; no symbol has the name of that."""
    rows = Counter({symbol.name: 1 for symbol in scene.query.symbols})
    for bar in scene.bars:
        rows[bar.symbol] = max(rows[bar.symbol], bar.row + 1)
    symbols = [_lane(name, row) for name, count in rows.items() for row in range(count)]
    matches = "matches"
    while matches in symbols:
        matches += " "
    return [matches, *symbols]


def _lane(symbol: str, row: int) -> str:
    """The name of a lane: of the first row of a symbol, or of another for intervals that overlap."""
    return f"{symbol} ({row + 1})" if row else symbol


def _first_stretch(scene: Scene) -> dict[str, Any]:
    """Where the picture begins: around the first match, if there are many bars."""
    if len(scene.bars) <= _MANY_BARS:
        return {"value": {"x": [scene.first, _last(scene)]}}
    starts = sorted(bar.start for bar in scene.bars)
    centre = scene.spans()[0][0] if scene.matches else starts[0]
    length = (scene.last - scene.first) * _SHOWN_BARS / len(starts)
    low = max(scene.first, centre - length / 4)
    return {"value": {"x": [low, min(low + length, scene.last)]}}


def _datasets(scene: Scene, lanes: list[str]) -> dict[str, list[dict[str, Any]]]:
    bars: list[dict[str, Any]] = [
        {
            "lane": _lane(bar.symbol, bar.row), "symbol": bar.symbol, "start": bar.start, "end": bar.end, "state": bar.state,
            "length": bar.length, "events": bar.events, "matches": bar.matches,
        }
        for bar in scene.bars
    ]  # fmt: skip
    matches = [
        {
            "lane": lanes[0], "match": number, "start": start, "end": end, "report": report,
            "reported": scene.clock.text(match.reported),
        }
        for number, (match, (start, end, report)) in enumerate(
            zip(scene.matches, scene.spans(), strict=True), 1
        )
    ]  # fmt: skip
    found = {"bars": bars, "matches": matches, "steps": _steps(scene, lanes)}
    for number, line in enumerate(scene.columns):
        found[f"column{number}"] = [
            {"time": time, "value": value}
            for time, value in zip(line.times, line.values, strict=True)
        ]
        found[f"limits{number}"] = [
            {"limit": threshold.value, "says": str(threshold)} for threshold in line.thresholds
        ]
    return found


def _steps(scene: Scene, lanes: list[str]) -> list[dict[str, Any]]:
    """Where there is anything in each lane, in few steps."""
    first = scene.first
    step = (scene.last - first) / _STEPS or 1.0
    seen: dict[tuple[str, str], set[int]] = {}

    def cover(lane: str, state: str, start: float, end: float) -> None:
        low, high = int((start - first) / step), int((end - first) / step)
        seen.setdefault((lane, state), set()).update(
            range(max(low, 0), min(max(high, low), _STEPS) + 1)
        )

    for bar in scene.bars:
        cover(_lane(bar.symbol, bar.row), bar.state, bar.start, bar.end)
    for start, end, _ in scene.spans():
        cover(lanes[0], "in a match", start, end)
    rows = []
    for (lane, state), covered in sorted(seen.items(), key=lambda item: _ORDER[item[0][1]]):
        for low, high in _stretches(sorted(covered)):
            rows.append(
                {
                    "lane": lane,
                    "state": state,
                    "start": first + low * step,
                    "end": min(first + (high + 1) * step, scene.last + step),
                }
            )
    return rows


#: What is drawn later is seen: matches above all.
_ORDER = {state: -number for number, state in enumerate(STATES)}


def _stretches(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _time(alt: Any, scene: Scene, field: str, brush: Any = None) -> Any:
    kind = "T" if scene.clock.is_calendar else "Q"
    domain: Any = [scene.first, _last(scene)]
    if brush is not None:  # what is chosen, or everything once nothing is
        domain = {"param": brush.name, "encoding": "x"}
    scale: dict[str, Any] = {"domain": domain, "nice": False}
    axis: dict[str, Any] = {"labelOverlap": True}
    if scene.clock.is_calendar:
        scale["type"] = "utc"
        axis["labelExpr"] = _MOMENT
    return alt.X(f"{field}:{kind}", scale=alt.Scale(**scale), axis=alt.Axis(**axis), title=None)


def _written(scene: Scene, field: str) -> str:
    """The expression of a time as people write it."""
    if not scene.clock.is_calendar:
        return f"datum.{field}"
    return f"utcFormat(datum.{field}, '%Y-%m-%d %H:%M:%S.%L')"


def _lane_axis(alt: Any, lanes: list[str]) -> Any:
    return alt.Y("lane:N", sort=lanes, scale=alt.Scale(domain=lanes), title=None)


def _state_colour(alt: Any, legend: bool) -> Any:
    shown = alt.Legend(orient="top", title=None) if legend else None
    scale = alt.Scale(domain=list(STATES), range=list(STATES.values()))
    return alt.Color("state:N", scale=scale, legend=shown)


def _overview(alt: Any, scene: Scene, lanes: list[str], width: int) -> Any:
    return (
        alt.Chart(
            alt.NamedData("steps"), title=alt.TitleParams("overview", anchor="start", fontSize=11)
        )
        .mark_bar(height={"band": 0.7}, clip=True)
        .encode(
            x=_time(alt, scene, "start"),
            x2="end",
            y=_lane_axis(alt, lanes),
            color=_state_colour(alt, legend=False),
        )
        .properties(width=width, height=12 * len(lanes))
    )


def _bars(alt: Any, scene: Scene, lanes: list[str], width: int, brush: Any, over: Any) -> Any:
    inside = "!isValid(stretch.start) || (datum.end >= stretch.start[0] && datum.start <= stretch.start[1])"
    ends = [alt.Tooltip("from:N"), alt.Tooltip("to:N")]
    texts = {"from": _written(scene, "start"), "to": _written(scene, "end")}
    x = _time(alt, scene, "start", brush)
    band = (
        alt.Chart(alt.NamedData("matches"))
        .mark_rect(opacity=0.22, color=_MATCH, clip=True)
        .encode(x=x, x2="end")
        .transform_filter(over)
    )
    bars = (
        alt.Chart(alt.NamedData("bars"))
        .mark_bar(height={"band": 0.68}, clip=True, minBandSize=1)
        .encode(
            x=x,
            x2="end",
            y=_lane_axis(alt, lanes),
            color=_state_colour(alt, legend=True),
            tooltip=[
                alt.Tooltip("symbol:N"), *ends,
                alt.Tooltip("length:N"), alt.Tooltip("events:Q"),
                alt.Tooltip("state:N"), alt.Tooltip("matches:Q", title="in matches"),
            ],
        )
        .transform_filter(inside)
        .transform_calculate(**texts)
    )  # fmt: skip
    matches = (
        alt.Chart(alt.NamedData("matches"))
        .mark_bar(height={"band": 0.68}, clip=True, color=_MATCH, opacity=0.55, stroke="#7a5200")
        .encode(
            x=x,
            x2="end",
            y=_lane_axis(alt, lanes),
            tooltip=[alt.Tooltip("match:Q"), *ends, alt.Tooltip("reported:N")],
        )
        .transform_filter(inside)
        .transform_calculate(**texts)
        .add_params(over)
    )
    reports = (
        alt.Chart(alt.NamedData("matches"))
        .mark_tick(thickness=2, color="#7a5200", clip=True, height={"band": 0.9})
        .encode(x=_time(alt, scene, "report", brush), y=_lane_axis(alt, lanes))
        .transform_filter(inside)
    )
    layers = alt.layer(band, bars, matches, reports)
    return layers.properties(width=width, height=_ROW * len(lanes))


def _column(alt: Any, scene: Scene, line: ColumnLine, number: int, width: int, brush: Any) -> Any:
    inside = "!isValid(stretch.start) || (datum.time >= stretch.start[0] && datum.time <= stretch.start[1])"
    x = _time(alt, scene, "time", brush)
    y = alt.Y("value:Q", title=line.name, scale=alt.Scale(zero=False))
    data = alt.Chart(alt.NamedData(f"column{number}"))
    hover = [alt.Tooltip("at:N"), alt.Tooltip("value:Q", title=line.name)]
    layers = [
        data.mark_line(
            interpolate="step-after", strokeWidth=1.3, color="#4c78a8", clip=True
        ).encode(x=x, y=y),
        data.mark_circle(size=50, opacity=0, clip=True)
        .encode(x=x, y=y, tooltip=hover)
        .transform_filter(inside)
        .transform_calculate(at=_written(scene, "time")),
    ]
    if line.thresholds:
        limits = alt.Chart(alt.NamedData(f"limits{number}"))
        layers.append(
            limits.mark_rule(strokeDash=[5, 3], color="#CC79A7", strokeWidth=1.5).encode(
                y="limit:Q", tooltip=alt.Tooltip("says:N", title="limit")
            )
        )
        layers.append(
            limits.mark_text(align="right", dx=-4, dy=-6, color="#b0568a", fontSize=10).encode(
                y="limit:Q", x=alt.value(width), text="says:N"
            )
        )
    return alt.layer(*layers).properties(width=width, height=_COLUMN_HEIGHT)
