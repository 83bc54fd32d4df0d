"""Where a job reads the rows of each stream, as the command line says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from piestream.adapters.inputs import Inputs
from piestream.language.model import Query
from piestream.spark.job.connectors import KAFKA_HINT, Connector, parse_connector

__all__ = ["Source", "pairs", "parse_sources", "with_hint"]


@dataclass(frozen=True)
class Source:
    """Where the rows of one stream come from, and which columns they have."""

    connector: Connector
    schema: str | None = None
    select: tuple[str, ...] = ()

    def frame(self, spark: Any) -> Any:
        """The streaming frame."""
        with with_hint(self.connector):
            frame = self.connector.read_stream(spark, self.schema)
        return frame.selectExpr(*self.select) if self.select else frame


@contextmanager
def with_hint(connector: Connector) -> Iterator[None]:
    """Explain what is missing where Spark does not know its connector for Kafka."""
    try:
        yield
    except Exception as error:
        if connector.kind == "kafka" and "Failed to find data source" in str(error):
            raise ValueError(KAFKA_HINT) from None
        raise


def parse_sources(
    query: Query,
    sources: Sequence[str],
    schemas: Sequence[str] = (),
    selects: Sequence[str] = (),
    options: Sequence[str] = (),
) -> dict[str, Source]:
    """The source of each stream of a query.

    Where there are several, each text begins with the name of its stream and ``=``; an option
    without a name is one of all.

    >>> import piestream as ps
    >>> query = ps.query("FROM a WITH b DEFINE x AS p > 1, y AS b.q > 1 PATTERN x before y WITHIN 9")
    >>> found = parse_sources(query, ["a=parquet:in", "b=rate:5"], selects=["b=value AS q"])
    >>> found["b"].connector.place, found["b"].select
    ('5', ('value AS q',))
    """
    names = list(Inputs(query).readers)
    placed = _by_name("--source", names, sources, optional=len(names) == 1)
    for name in names:
        given = placed.get(name, [])
        if len(given) != 1:
            what = "no --source" if not given else f"more than one --source ({', '.join(given)})"
            raise ValueError(f"there is {what} for {name}: write --source {name}=parquet:DIR")
    if len(names) == 1:  # anything may stand before an =
        (name,) = names
        return {name: _source(name, placed[name][0], schemas, selects, options)}
    types = _by_name("--schema", names, schemas)
    columns = _by_name("--select", names, selects)
    settings = _by_name("--source-option", names, options, optional=True)
    return {
        name: _source(
            name,
            placed[name][0],
            types.get(name, []),
            columns.get(name, []),
            [*settings.get("", []), *settings.get(name, [])],
        )
        for name in names
    }


def _source(
    name: str, text: str, schemas: Sequence[str], selects: Sequence[str], options: Sequence[str]
) -> Source:
    if len(schemas) > 1:
        raise ValueError(f"there is more than one --schema for {name}")
    connector = parse_connector(text, pairs(options), is_source=True)
    return Source(connector, schemas[0] if schemas else None, tuple(selects))


def pairs(items: Sequence[str]) -> dict[str, str]:
    """What is written as NAME=VALUE.

    >>> pairs(["header=true"])
    {'header': 'true'}
    """
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{item}: write NAME=VALUE")
        found[name] = value
    return found


def _by_name(
    option: str, names: Sequence[str], texts: Sequence[str], *, optional: bool = False
) -> dict[str, list[str]]:
    """Texts by the stream that each begins with; where that is optional, the others by ``""``."""
    found: dict[str, list[str]] = {}
    for text in texts:
        known = [name for name in names if text.startswith(f"{name}=")]
        if known:
            name = max(known, key=len)
            found.setdefault(name, []).append(text[len(name) + 1 :])
        elif optional:
            found.setdefault(names[0] if len(names) == 1 else "", []).append(text)
        else:
            raise ValueError(
                f"{option} {text}: the query reads {', '.join(names)}: say for which of them it is, "
                f"as in {option} {names[0]}={text}"
            )
    return found
