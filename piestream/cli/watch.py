"""``piestream watch``: how running sessions and jobs go, for people and for Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

from piestream.cli.faults import refuse, reported

__all__ = ["watch"]


def watch(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="What a session or job writes its status to, or a directory of such files.",
        ),
    ],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from one look to the next.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each look.")
    ] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|FILE.prom|-",
            help="Serve the numbers at http://127.0.0.1:PORT/metrics, or write them to a file or, "
            "once, to standard output.",
        ),
    ] = None,
) -> None:
    """Watch running sessions and jobs: rates, watermark, state, last matches."""
    served = prometheus is not None and prometheus.isdigit()
    if prometheus is not None:
        if json:
            refuse(context, "--json and --prometheus exclude each other")
        if served and once:
            refuse(context, "--once does not serve: give a file, or - for standard output")
        if served and int(prometheus) > 65_535:
            refuse(context, f"--prometheus {prometheus}: ports go to 65535")
        if not served and prometheus != "-" and not prometheus.endswith(".prom"):
            refuse(
                context,
                f"--prometheus {prometheus}: give a port, a file whose name ends in .prom, or -",
            )
    with reported(context):
        from piestream.cli import watching

        if prometheus is None:
            watching.show(paths, every, once, json)
        elif served:
            watching.serve(paths, int(prometheus))
        elif prometheus == "-":
            watching.print_metrics(paths)
        else:
            watching.write_metrics(paths, every, once, prometheus)
