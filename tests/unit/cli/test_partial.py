"""What a command reports at its end, besides its output."""

from __future__ import annotations

import pytest
import typer

from litemq.cli.partial import note_missing, note_problems, reports_missing
from litemq.cli.rendering.exit_codes import EXIT_PARTIAL


def test_each_server_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with reports_missing():
            note_missing({"b": "silent for 19 s", "a": "silent for 1 s"})
            note_missing({"b": "silent for 20 s"})

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == EXIT_PARTIAL
    assert capsys.readouterr().err.splitlines() == [
        "incomplete broker a does not answer: silent for 1 s",
        "incomplete broker b does not answer: silent for 19 s",
    ]


def test_the_problem_of_a_group_explains_its_broker(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with reports_missing():
            note_problems("group orders", ["facts lost"], explains="orders")
            note_problems("group users", [], explains="users")
            note_missing({"orders": "not the master", "users": "connection refused"})

    with pytest.raises(typer.Exit):
        command()
    assert capsys.readouterr().err.splitlines() == [
        "incomplete broker users does not answer: connection refused",
        "incomplete group orders: facts lost",
    ]
