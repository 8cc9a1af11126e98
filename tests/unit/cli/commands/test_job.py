"""``litemq job``: what can be said without a broker, and the files that it reads."""

import json
from pathlib import Path

from typer.testing import CliRunner

from litemq.cli.job_file import JobFile
from litemq.cli.main import app
from litemq.client.engine.job import ImportResult, RefusedJob

runner = CliRunner()


def test_next_prints_times_in_the_zone_and_in_utc() -> None:
    result = runner.invoke(app, ["job", "next", "30 4 * * *", "--timezone", "Asia/Shanghai", "--after", "2026-01-01T00:00:00Z", "-n", "2"])
    assert result.stdout.splitlines() == [
        "time                       utc",
        "2026-01-02T04:30:00+08:00  2026-01-01T20:30:00Z",
        "2026-01-03T04:30:00+08:00  2026-01-02T20:30:00Z",
    ]
    result = runner.invoke(app, ["job", "next", "@every 90s", "--after", "2026-01-01T00:00:00Z", "-n", "1", "--format", "json"])
    assert json.loads(result.stdout) == [{"time": "2026-01-01T00:01:30+00:00", "utc": "2026-01-01T00:01:30Z"}]


def test_next_says_what_is_wrong() -> None:
    assert "never matches" in str(runner.invoke(app, ["job", "next", "0 0 30 2 *"]).exception)


def test_json_lines_with_what_is_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"job_id": "a", "every": 5}\n\nnot json\n\n{"job_id": "b"}\n')
    with JobFile(path) as file:
        assert list(file) == [{"job_id": "a", "every": 5}, "not json", {"job_id": "b"}]
        told = file.with_lines(ImportResult(0, 0, 0, tuple(RefusedJob(number, "", "") for number in (1, 2, 3))))
    assert [refused.number for refused in told.refused] == [1, 3, 5]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text('job_id,topic,every,body,keys,paused,max_retries\na,t,5,"two\nlines",k;l,yes,3\nb,t,x,,,,\nc,t,,,,,\n')
    with JobFile(path) as file:
        first, second, third = file
        told = file.with_lines(ImportResult(0, 0, 0, tuple(RefusedJob(number, "", "") for number in (1, 2, 3))))
    assert first == {"job_id": "a", "topic": "t", "every": 5.0, "body": "two\nlines", "keys": ["k", "l"], "paused": True, "max_retries": 3}
    assert "'x'" in str(second)
    assert third == {"job_id": "c", "topic": "t"}
    assert [refused.number for refused in told.refused] == [3, 4, 5]


def test_import_tells_lines_that_are_wrong_and_does_the_others(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    good = '{"job_id": "a", "topic": "t", "every": 5, "body": {"n": 1}}'
    path.write_text(f'{good}\n\n{{"job_id": "b", "topic": "t", "cron": "0 0 30 2 *"}}\nnothing\n')
    result = runner.invoke(app, ["job", "import", str(path), "--url", "memory://imports"])
    assert result.exit_code == 1
    assert "1 created, 0 changed, 0 unchanged, 2 refused\n" in result.stdout
    assert "line 3 (b): '0 0 30 2 *' never matches" in result.output
    assert "line 4: 'nothing' is no job" in result.output
    path.write_text(good)
    result = runner.invoke(app, ["job", "import", str(path), "--dry-run", "--url", "memory://imports", "--format", "json"])
    assert (result.exit_code, json.loads(result.stdout)["created"]) == (0, 1)


def test_create_shows_the_job() -> None:
    arguments = ["job", "create", "nightly", "reports", "x", "--cron", "@daily", "--property", "a=b", "--url", "memory://jobs"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    assert "nightly" in result.stdout
    assert "{'a': 'b'}" in result.stdout
    assert runner.invoke(app, [*arguments, "--property", "x"]).exit_code == 2


def test_a_line_of_csv_with_too_many_fields_is_no_job(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text('job_id,topic,cron,body\na,t,@daily,{"x":1,"y":2}\nb,t,@daily,"{""x"":1,""y"":2}"\n')
    with JobFile(path) as file:
        first, second = file
    assert "more fields" in str(first)
    assert second["body"] == '{"x":1,"y":2}'


def test_a_job_without_a_name_is_refused() -> None:
    result = runner.invoke(app, ["job", "create", "", "reports", "x", "--every", "5", "--url", "memory://"])
    assert "must not be empty" in str(result.exception)
