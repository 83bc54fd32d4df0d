"""A reader of Prometheus' text format, strict about what the format asks for."""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples of each metric by their labels; fails where the text breaks the format."""
    assert text == "" or text.endswith("\n")
    found: dict[str, dict[Any, float]] = {}
    helped: set[str] = set()
    types: dict[str, str] = {}
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helped, "HELP and TYPE come before the samples"
            assert name not in types
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total")
            types[name] = kind
            found[name] = {}
        elif not line.startswith("#"):
            name, labels, value = _sample(line)
            assert list(types)[-1] == name, "the samples of a metric stand together"
            assert labels not in found[name], "a sample comes once"
            found[name][labels] = value
    return found


def _sample(line: str) -> tuple[str, tuple[tuple[str, str], ...], float]:
    matched = _NAME.match(line)
    assert matched
    name, rest = matched[0], line[matched.end() :]
    assert rest[0] == "{"
    inside, _, value = rest[1:].rpartition("} ")
    labels, at = [], 0
    while at < len(inside):
        label = _LABEL.match(inside, at)
        assert label, line
        labels.append((label[1], re.sub(r"\\.", lambda e: _ESCAPED[e[0]], label[2])))
        at = label.end()
    return name, tuple(labels), float(value)
