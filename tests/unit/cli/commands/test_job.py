"""``litemq job``: verbs that need no broker, or an engine in memory."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq import Client
from litemq.cli.main import app
from litemq.testing import MemoryBroker

runner = CliRunner()


def test_next_prints_times_in_the_zone_and_in_utc() -> None:
    result = runner.invoke(
        app, ["job", "next", "30 4 * * *", "--timezone", "Asia/Shanghai", "--after", "2026-01-01T00:00:00Z", "-n", "2"]
    )
    assert result.stdout.splitlines() == [
        "time                       utc",
        "2026-01-02T04:30:00+08:00  2026-01-01T20:30:00Z",
        "2026-01-03T04:30:00+08:00  2026-01-02T20:30:00Z",
    ]
    result = runner.invoke(
        app, ["job", "next", "@every 90s", "--after", "2026-01-01T00:00:00Z", "-n", "1", "--format", "json"]
    )
    assert json.loads(result.stdout) == [{"time": "2026-01-01T00:01:30+00:00", "utc": "2026-01-01T00:01:30Z"}]


def test_next_says_what_is_wrong() -> None:
    assert "never matches" in str(runner.invoke(app, ["job", "next", "0 0 30 2 *"]).exception)


def test_import_tells_lines_that_are_wrong_and_does_the_others(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    good = '{"job_id": "a", "topic": "t", "every": 5, "body": {"n": 1}}'
    path.write_text(f'{good}\n\n{{"job_id": "b", "topic": "t", "cron": "0 0 30 2 *"}}\nnothing\n')
    result = runner.invoke(app, ["job", "import", str(path), "--url", "memory://imports"])
    assert result.exit_code == 1
    assert "1 created, 0 changed, 0 unchanged, 2 refused\n" in result.stdout
    assert "line 3 (b): '0 0 30 2 *' never matches" in result.output
    assert "line 4: 'nothing' is not a job" in result.output
    path.write_text(good)
    result = runner.invoke(
        app, ["job", "import", str(path), "--dry-run", "--url", "memory://imports", "--format", "json"]
    )
    assert (result.exit_code, json.loads(result.stdout)["created"]) == (0, 1)


def test_create_shows_the_job() -> None:
    arguments = [
        "job",
        "create",
        "nightly",
        "reports",
        "x",
        "--cron",
        "@daily",
        "--property",
        "a=b",
        "--url",
        "memory://jobs",
    ]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    assert "nightly" in result.stdout
    assert "{'a': 'b', 'content-type': 'text/plain'}" in result.stdout
    assert runner.invoke(app, [*arguments, "--property", "x"]).exit_code == 2


def test_a_job_without_a_name_is_refused() -> None:
    result = runner.invoke(app, ["job", "create", "", "reports", "x", "--every", "5", "--url", "memory://"])
    assert "must not be empty" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (['{"kind":  "nightly"}'], {"kind": "nightly"}),
        (["water the plants"], "water the plants"),
        (['{"kind": 1}', "--raw"], b'{"kind": 1}'),
        (["7", "--content-type", "application/json"], 7),
        ([], b""),
    ],
)
def test_the_body_of_a_job_arrives_as_a_python_value(arguments: list[str], value: object) -> None:
    with MemoryBroker() as broker, Client(broker.url) as mq:
        created = runner.invoke(
            app, ["job", "create", "nightly", "reports", *arguments, "--every", "3600", "--url", broker.url]
        )
        assert created.exit_code == 0, created.output
        mq.jobs.trigger("nightly")
        (message,) = mq.receive("reports", group_id="g", wait=10)
        assert message.value == value
        message.ack()


def test_the_bodies_of_a_csv_file_arrive_as_python_values(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text('job_id,topic,every,body\na,t,3600,"{""n"": 1}"\nb,t,3600,tea\n')
    with MemoryBroker() as broker, Client(broker.url) as mq:
        assert runner.invoke(app, ["job", "import", str(path), "--url", broker.url]).exit_code == 0
        for job_id, value in (("a", {"n": 1}), ("b", "tea")):
            mq.jobs.trigger(job_id)
            (message,) = mq.receive("t", group_id="g", wait=10)
            assert message.value == value
            message.ack()
