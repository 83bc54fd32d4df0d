"""The programs that print tables of their own run at a tiny size, and print what they say."""

from __future__ import annotations

import importlib

import pytest

_SIZES = {
    "archives.minimum": "--pages 80 --page-rows 30 --every 40 --tries 1",
    "archives.grid": "--rows 4000 --page-rows 100 --every 20 --windows 20 --times 1 --unsure-rows 4000 "
    "--unsure-every 20",
    "archives.pushdown": "--rows 4000 --page-rows 100 --every 20 --times 1",
    "archives.appending": "--rows 4000 --page-rows 100 --times 1",
    "archives.aggregates": "--rows 4000 --page-rows 100 --times 1",
    "dejavu.summary": "--rows 400 --times 1",
    "operators": "--rows 4000 --times 1",
    "archives.selectivity": "--rows 4000 --page-rows 100 --symbols 2 --queries 1",
}


@pytest.mark.parametrize("name", _SIZES)
def test_it_prints_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = importlib.import_module(f"experiments.{name}")
    program.main(_SIZES[name].split())
    for table in capsys.readouterr().out.strip().split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len(lines) > 2
        assert len({line.count("|") for line in lines}) == 1


def test_no_page_that_must_be_read_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    from experiments.archives.minimum import main

    main(_SIZES["archives.minimum"].split())
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert all(int(must) <= int(read) for _, _, _, must, read, _ in rows)
    assert any(0 < int(must) <= int(read) < int(pages) // 4 for _, _, pages, must, read, _ in rows)
