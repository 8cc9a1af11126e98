"""Job files: JSON lines and CSV, with the line numbers of rejected jobs."""

from pathlib import Path

from litemq.cli.job_file import JobFile
from litemq.client.engine.job import ImportResult, RefusedJob


def test_lines_that_are_no_json_are_kept_as_text(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"job_id": "a", "every": 5}\n\nnot json\n\n{"job_id": "b"}\n')
    with JobFile(path) as file:
        assert list(file) == [{"job_id": "a", "every": 5}, "not json", {"job_id": "b"}]
        result = file.with_lines(ImportResult(0, 0, 0, tuple(RefusedJob(number, "", "") for number in (1, 2, 3))))
    assert [refused.number for refused in result.refused] == [1, 3, 5]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        'job_id,topic,every,body,keys,paused,max_retries\na,t,5,"two\nlines",k;l,yes,3\nb,t,x,,,,\nc,t,,,,,\n'
    )
    with JobFile(path) as file:
        first, second, third = file
        result = file.with_lines(ImportResult(0, 0, 0, tuple(RefusedJob(number, "", "") for number in (1, 2, 3))))
    assert first == {
        "job_id": "a",
        "topic": "t",
        "every": 5.0,
        "body": "two\nlines",
        "keys": ["k", "l"],
        "paused": True,
        "max_retries": 3,
    }
    assert "'x'" in str(second)
    assert third == {"job_id": "c", "topic": "t"}
    assert [refused.number for refused in result.refused] == [3, 4, 5]


def test_a_line_of_csv_with_too_many_fields_is_no_job(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text('job_id,topic,cron,body\na,t,@daily,{"x":1,"y":2}\nb,t,@daily,"{""x"":1,""y"":2}"\n')
    with JobFile(path) as file:
        first, second = file
    assert "more fields" in str(first)
    assert (second["body"], second["properties"]) == (b'{"x":1,"y":2}', {"content-type": "application/json"})
