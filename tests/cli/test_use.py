"""What the commands print, and the codes that they exit with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream import __version__
from piestream.demo.command import write_matches

HERE = Path(__file__).parent
GOOD = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    values = [0, 1, 1, 0, 1, 0]
    path.write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in enumerate(values * 10)))
    return path


def test_a_limit_stops_the_run_and_says_so(rows: Path, piestream: Any, tmp_path: Path) -> None:
    result = piestream("run", "-q", GOOD, rows, "--limit", 3)
    assert result.stdout.count("\n") == 5
    assert result.stderr.splitlines()[0] == "stopped at the limit of 3 rows; there are more"
    assert "the first" not in result.stderr
    assert ", 3 matches in " in result.stderr
    for name in ("out.csv", "out.parquet", "out.ndjson"):
        piestream("run", "-q", GOOD, rows, "--limit", 3, "-o", tmp_path / name)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4
    assert len(pl.read_parquet(tmp_path / "out.parquet")) == 3
    assert "stopped" not in piestream("run", "-q", GOOD, rows, "--limit", 20).stderr


def test_a_query_may_begin_with_a_byte_order_mark(
    rows: Path, piestream: Any, tmp_path: Path
) -> None:
    (tmp_path / "query.sql").write_text(GOOD.replace(" DEFINE", "\r\nDEFINE"), "utf-8-sig")
    assert piestream("check", tmp_path / "query.sql", rows).stdout == "ok\n"
    assert ps.query(f"\ufeff{GOOD}") == ps.query(GOOD)


def test_a_table_of_the_first_rows_and_a_summary(
    rows: Path, piestream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piestream.cli.work.TABLE_ROWS", 3)
    result = piestream("run", "-q", GOOD, rows)
    assert result.exit_code == 0
    assert result.stdout == (
        " detected_at   a_ts   a_te\n"
        "───────────────────────────\n"
        "           1      1   NULL\n"
        "           4      4   NULL\n"
        "           7      7   NULL\n"
    )
    first, last = result.stderr.splitlines()
    assert first == "the first 3 of 20 rows; --all prints all, -o FILE writes them"
    assert last.startswith("60 events, 20 matches in ")
    assert re.search(r"events/s\); 0 late, 0 ties, \d+ live intervals?$", last)


def test_all_rows_of_the_table(rows: Path, piestream: Any) -> None:
    result = piestream("run", "-q", GOOD, rows, "--all")
    assert result.stdout.count("\n") == 22
    assert "the first" not in result.stderr


def test_a_long_table_comes_in_pages(
    rows: Path, piestream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piestream.cli.output.PAGE_ROWS", 8)
    whole = piestream("run", "-q", GOOD, rows, "--all").stdout
    pages = whole.split("\n\n")
    assert [page.strip().count("\n") - 1 for page in pages] == [8, 8, 4]


def test_an_empty_result_shows_its_columns(rows: Path, piestream: Any) -> None:
    result = piestream("run", "-q", GOOD.replace("x > 0", "x > 1"), rows, "--quiet")
    assert result.stdout.splitlines()[0].split() == ["detected_at", "a_ts", "a_te"]
    assert (result.exit_code, result.stderr) == (0, "")


def test_an_empty_result_has_its_columns_and_types(
    rows: Path, piestream: Any, tmp_path: Path
) -> None:
    query = GOOD.replace("x > 0", "x > 1")
    piestream("run", "-q", query, rows, "-o", tmp_path / "found.parquet")
    assert pl.read_parquet(tmp_path / "found.parquet").schema == {
        "detected_at": pl.Int64(),
        "a_ts": pl.Int64(),
        "a_te": pl.Int64(),
    }
    result = piestream("run", "-q", query, rows, "-o", "-")
    assert result.stdout == "detected_at,a_ts,a_te\n"


def test_check_says_ok_alone_and_against_columns(rows: Path, piestream: Any) -> None:
    for arguments in ((), (rows,)):
        result = piestream("check", "-q", GOOD, *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "ok\n", "")


def test_check_prints_faults_with_carets(piestream: Any, tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text("FROM s\nDEFINE a AS x > 0\nPATTERN a\nWITHN 9\n")
    result = piestream("check", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "line 4, column 1: there is no clause WITHN\n"
        "  4 | WITHN 9\n"
        "    | ^^^^^\n"
        "    = did you mean WITHIN?\n"
    )


def test_check_finds_what_does_not_fit_the_columns(rows: Path, piestream: Any) -> None:
    result = piestream("check", "-q", GOOD.replace("x >", "xx >"), rows)
    assert result.exit_code == 1
    assert "there is no column xx" in result.stderr
    assert "did you mean x?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "a query is missing"),
        (["run", "nowhere.sql"], "cannot read the query nowhere.sql"),
        (["run", GOOD, "ROWS"], "the text of a query is given with -q"),
        (["run", "ROWS", "drivers.sql"], "is data: the query comes first"),
        (["run", "-q", GOOD], "there is no data"),
        (["run", "-q", GOOD, "nowhere.csv"], "there is no file nowhere.csv"),
        (["run", "-q", GOOD, "*.nothing.csv"], "no file matches"),
        (["run", "-q", GOOD, "ROWS", "-"], "cannot be read together"),
        (["run", "-q", GOOD, "-"], "give the format"),
        (["run", "-", "-", "--format", "csv"], "cannot both come from standard input"),
        (["run", "-q", GOOD, "ROWS", "-o", "found.txt"], "which format?"),
        (["run", "-q", GOOD, "ROWS", "-o", "nowhere/found.csv"], "there is no directory nowhere"),
        (["run", "-q", GOOD, "ROWS", "-o", "f.csv", "--output-format", "table"], "a table is"),
        (["run", "-q", GOOD, "ROWS", "--lateness", "5 parsecs"], "unknown unit: parsecs"),
        (["run", "-q", GOOD, "ROWS", "--lateness", "5", "--sort"], "exclude each other"),
        (
            ["run", "-q", GOOD, "ROWS", "--type", "x=number"],
            "there is no type number: types are int, float",
        ),
        (["run", "-q", GOOD, "ROWS", "--type", "x"], "--type x: write COLUMN=TYPE"),
        (["run", "-q", GOOD, "ROWS", "--encoding", "utf-88"], "there is no encoding 'utf-88'"),
        (["run", "-q", GOOD, "ROWS", "--ties", "none"], "--ties"),
        (["run", "-q", GOOD, "ROWS", "--nothing"], "--nothing"),
        (["explain", "-q", GOOD, "ROWS"], "needs nothing but a query"),
        (["nothing"], "nothing"),
    ],
)
def test_wrong_use_exits_with_2(
    arguments: list[str],
    message: str,
    rows: Path,
    piestream: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = piestream(*(rows if a == "ROWS" else a for a in arguments), stdin=GOOD)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("query", "content", "message"),
    [
        ("FROM", "t,x\n1,1\n", "line 1"),
        (GOOD, "t,x\n1,1\n2,1,7\n", "rows.csv, line 3: the row has 3 fields, and 2"),
        (GOOD, "t,x\n", "rows.csv holds no rows"),
        (GOOD, "", "rows.csv is empty"),
        (GOOD, "t,y\n1,1\n", "there is no column x"),
        (GOOD, "t,x\nlate,1\n", "the time column t has type String"),
        (GOOD.replace("FROM s", "FROM 'no.csv'"), None, "line 1, column 6: there is no file"),
    ],
)
def test_a_bad_query_or_bad_data_exits_with_1(
    query: str, content: str | None, message: str, piestream: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    data = [] if content is None else [path]
    path.write_text(content or "")
    result = piestream("run", "-q", query, *data)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_no_parquet_is_named(piestream: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text("hello")
    result = piestream("run", "-q", GOOD, path)
    assert result.exit_code == 1
    assert "rows.parquet: parquet: File out of specification" in result.stderr


def test_a_failed_run_leaves_an_older_result_alone(rows: Path, piestream: Any) -> None:
    old = rows.with_name("found.csv")
    old.write_text("precious")
    rows.write_text("t,x\n1,1\n1,1\n")
    assert piestream("run", "-q", GOOD, rows, "-o", old).exit_code == 1
    assert old.read_text() == "precious"
    assert sorted(path.name for path in rows.parent.iterdir()) == ["found.csv", "rows.csv"]


def test_version(piestream: Any) -> None:
    assert piestream("--version").stdout == f"piestream {__version__}\n"


def test_explain_prints_text_and_diagrams(piestream: Any) -> None:
    query = "FROM s DEFINE a AS x > 0, b AS y > 0 PATTERN a meets b WITHIN 9"
    assert "  meets: decided at b.ts = a.te\n" in piestream("explain", "-q", query).stdout
    mermaid = piestream("explain", "-q", query, "--format", "mermaid").stdout
    assert mermaid.startswith("### a meets b\n\n```mermaid\nstateDiagram-v2\n")
    assert "digraph pair {" in piestream("explain", "-q", query, "--format", "dot").stdout


def test_demo_writes_what_it_finds(piestream: Any, tmp_path: Path) -> None:
    out = tmp_path / "found"
    result = piestream("demo", "--cars", 150, "--seconds", 240, "--out", out)
    assert result.exit_code == 0
    found = pl.read_parquet(out / "matches.parquet")
    assert len(found) > 0
    assert len(pl.read_csv(out / "matches.csv")) == len(found)
    assert found["detected_at"].is_sorted()
    assert f"the first of {len(found)} matches" in result.stdout
    assert str(found["car_id"][0]) in result.stdout
    assert "events/s" in result.stdout


@pytest.mark.parametrize("name", ["matches.parquet", "matches.csv"])
def test_a_demo_that_cannot_write_a_file_leaves_the_others_as_they_were(
    piestream: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    result = piestream("demo", "--cars", 5, "--seconds", 10, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path / name} is a directory, not a file to write\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("failing", ["write_parquet", "write_csv"])
def test_a_demo_that_is_interrupted_while_it_writes_keeps_the_old_files(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches = pl.DataFrame({"a": [1]})
    write_matches(matches, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    whole = getattr(pl.DataFrame, failing)

    def interrupt(*given: Any) -> None:
        whole(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, failing, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_matches(pl.DataFrame({"a": [2]}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_demo_finds_first_what_the_readme_shows(piestream: Any, tmp_path: Path) -> None:
    shown = piestream("demo", "--seconds", 60, "--out", tmp_path).stdout.splitlines()
    first = next(number for number, line in enumerate(shown) if line.startswith("───")) + 1
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "\n".join(shown[first - 2 : first + 2]) in readme


OPEN = "FROM f PARTITION BY id ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 99 EMIT ON COMPLETION"


def test_rows_that_are_missing_at_the_end_are_said_and_can_be_had(
    piestream: Any, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("id,t,x\na,1,5\na,4,5\nb,2,5\nc,3,5\nc,4,0\n")
    run = piestream("run", "-q", OPEN, data, "--output-format", "csv")
    assert run.stdout.splitlines()[1:] == ["c,4,3,4"]
    assert "2 rows are missing, whose intervals are open where the data ends" in run.stderr
    closed = piestream("run", "-q", OPEN, data, "--output-format", "csv", "--at-end", "close")
    assert sorted(closed.stdout.splitlines()[1:]) == ["a,4,1,4", "b,3,2,3", "c,4,3,4"]
    assert "missing" not in closed.stderr


def test_an_archive_among_several_streams_is_named_by_its_directory(
    piestream: Any, tmp_path: Path
) -> None:
    text = (
        "FROM {} ORDER BY t WITH {} ORDER BY t DEFINE a AS one.x > 0, b AS two.x > 0 "
        "PATTERN a equals b WITHIN 9"
    )
    lake = ps.archive(tmp_path / "lake", time="t")
    lake.append([{"t": 1, "x": 5}, {"t": 2, "x": 0}])
    arguments = ("run", "--output-format", "csv", "-q")
    for name in (lake.path, f"{lake.path}/rows/*.parquet"):
        found = piestream(*arguments, text.format("one", "two"), f"one={name}", f"two={name}")
        assert found.stdout.splitlines()[1:] == ["2,1,2,1,2"]
    named = text.format(f"'{lake.path}' AS one", f"'{lake.path}' AS two")
    assert piestream(*arguments, named).stdout.splitlines()[1:] == ["2,1,2,1,2"]
    assert ps.query(named).run().rows() == [(2, 1, 2, 1, 2)]
    assert "2 matches" not in piestream("run", "--why", "-q", named).stdout


_PAST = (
    "FROM (FROM trades ORDER BY t DEFINE l AS x < PREV(x) PATTERN l WITHIN 9 RETURN COUNT(l) AS n) AS fall "
    "WITH (FROM ARCHIVE '{}' ORDER BY t DEFINE u AS x > PREV(x) PATTERN u WITHIN 9 RETURN COUNT(u) AS n) AS rise "
    "DEFINE f AS fall.n > 0, r AS rise.n > 0 PATTERN r meets; before f WITHIN 5 RETURN r.ts, f.ts"
)


def test_an_archive_is_the_past_of_a_stream_and_is_read_around_its_matches(
    piestream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ps.archive(tmp_path / "trades", time="t", page_rows=10, file_rows=1000)
    lake.append(pl.DataFrame({"t": range(1000), "x": [n % 4 for n in range(1000)]}))
    other = ps.archive(tmp_path / "other" / "trades", time="t")
    other.append([{"t": 995, "x": 1}, {"t": 996, "x": 7}])
    live = tmp_path / "live.csv"
    live.write_text("t,x\n1000,9\n1001,5\n1002,6\n")
    arguments = ("run", "-q", _PAST.format(lake.path), f"trades={live}")
    monkeypatch.setattr("piestream.archives.costs._READ", 0)
    monkeypatch.setattr("piestream.archives.costs._PAGE", 0)
    near = piestream(*arguments)
    whole = piestream(*arguments, "--status", tmp_path / "status.json")
    assert near.stdout == whole.stdout
    events = [int(run.stderr.split(" events")[0].replace(",", "")) for run in (near, whole)]
    assert events[0] < 100 < events[1]
    given = piestream(*arguments, f"trades={other.path}", "--output-format", "csv")
    expected = ps.query(_PAST.format(lake.path)).run(
        {"trades": pl.read_csv(live)}, archives={"trades": other}
    )
    assert given.stdout.splitlines()[1:] == [",".join(map(str, row)) for row in expected.rows()]


def test_it_is_told_what_it_takes_to_look_into_a_large_archive(
    piestream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ps.archive(tmp_path / "lake", time="t")
    lake.append(pl.DataFrame({"t": range(50), "x": [0] * 50}))
    monkeypatch.setattr("piestream.cli.why._BY_ITSELF", 20)
    query = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"
    said = piestream("run", "--why", "-q", query, lake.path)
    assert "reading all 50 rows of the archive" in said.stderr
    assert "a (x > 0) never holds" in said.stdout


def test_what_is_not_there_or_is_called_like_a_pattern(piestream: Any, tmp_path: Path) -> None:
    query = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"
    (tmp_path / "empty").mkdir()
    said = piestream("run", "-q", query, tmp_path / "empty").stderr
    assert "is a directory, and not of Parquet files alone" in said
    rows = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
    rows.write_parquet(tmp_path / "a[1].parquet")
    rows.with_columns(x=0).write_parquet(tmp_path / "a1.parquet")
    rows.write_csv(tmp_path / "a[1].csv")
    for name in ("a[1].parquet", "a[1].csv", "a?1?.parquet"):
        assert "1 match in" in piestream("run", "-q", query, tmp_path / name).stderr
    lake = ps.archive(tmp_path / "lake", time="t")
    lake.append(rows)
    for path in (tmp_path / "lake" / "rows").iterdir():
        path.unlink()
    said = piestream("run", "-q", query, tmp_path / "lake").stderr
    assert "a file is missing" in said
    assert "verify() tells all that are" in said


def test_a_date_and_a_time_of_day_in_two_columns_are_told_how_to_be_one(
    piestream: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Date,Time,x\n2026-01-01,10:00:00,5\n")
    query = "FROM s ORDER BY ts DEFINE a AS x > 0 PATTERN a WITHIN 9 s"
    assert '--type "ts=datetime(Date,Time)"' in piestream("run", "-q", query, path).stderr
    path.write_text("date,hour,x\nnew year,10h,5\n")
    said = piestream("run", "-q", query.replace("ORDER BY ts", ""), path).stderr
    assert "no date or datetime column, which could be the time column" in said
    assert '--type "when=datetime(date,hour)"' in said


def test_a_fault_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n1,5\n")
    asked = (
        "import sys, piestream.compiled.announcement as told\n"
        "told.Announcement.begin = lambda self: sys.exit('something is compiled')\n"
        "from piestream.cli.app import app\n"
        "app()"
    )
    query = GOOD.replace("x >", "y >")
    command = [sys.executable, "-c", asked, "run", "-q", query, str(path)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.stderr.startswith("line 1, column 31: there is no column y")
