"""Charts as pages without anything from elsewhere, and data inside of pages."""

from __future__ import annotations

import json
from functools import lru_cache
from html import escape
from importlib.util import find_spec
from typing import Any

__all__ = ["check_installed", "page", "script_json"]

#: What a page may load: nothing; Vega makes functions of a chart's expressions.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)


def check_installed() -> None:
    """Say what to install where what draws is missing."""
    for module in ("altair", "vl_convert"):
        if find_spec(module) is None:
            raise ImportError(
                f"time lines need {module.replace('_', '-')}: pip install 'piestream[plot]'",
                name=module,
            )


def script_json(value: Any) -> str:
    r"""A value as JSON that may stand in a page: nothing in it can end the script around it.

    >>> script_json("</script>")
    '"\\u003c/script>"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


@lru_cache(maxsize=1)
def _library() -> str:
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return text.replace("</script", "<\\/script")


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 8px; font-family: system-ui, sans-serif; background: #fff; color: #222; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16191d; color: #ddd; }} }}
</style></head>
<body><main id="chart" aria-label="{title}"></main>
<script type="application/json" id="spec">{spec}</script>
<script>{library}</script>
<script>
const spec = JSON.parse(document.getElementById("spec").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {{
  const ink = dark.matches ? "#ddd" : "#222", faint = dark.matches ? "#3a4048" : "#ddd";
  const config = {{background: null, axis: {{labelColor: ink, titleColor: ink, gridColor: faint,
    domainColor: faint, tickColor: faint}}, legend: {{labelColor: ink, titleColor: ink}},
    title: {{color: ink, subtitleColor: ink}}, view: {{stroke: faint}}}};
  vegaEmbed("#chart", spec, {{config, renderer: "canvas", ast: false,
    actions: {{export: true, source: false, compiled: false, editor: false}}}});
}}
dark.addEventListener("change", draw);
draw();
</script></body></html>
"""


def page(title: str, spec: dict[str, Any]) -> str:
    """A page with a chart of Vega-Lite, which draws it in the colours of its reader's choice."""
    return _PAGE.format(
        policy=_POLICY,
        title=escape(title, quote=True),
        spec=script_json(spec),
        library=_library(),
    )
