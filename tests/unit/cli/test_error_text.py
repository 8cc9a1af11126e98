"""Messages of the client in the words of the command."""

import pytest
import typer

from litemq.cli.commands import dlq, group, message
from litemq.cli.error_text import in_command_words, options_of


@pytest.mark.parametrize(
    ("app", "given", "expected"),
    [
        (message.app, "delay=9e99: choose 0.01 s … 365 days", "--delay 9e99: choose 0.01 s … 365 days"),
        (
            message.app,
            "delay=, deliver_at= and delay_level= exclude",
            "--delay, --deliver-at and --delay-level exclude",
        ),
        (message.app, "most=0: choose 1 or more", "--limit 0: choose 1 or more"),
        (message.app, "no answer for 5 ms (delivery_timeout_ms): x", "no answer for 5 ms (send.delivery_timeout): x"),
        (dlq.app, "messages_per_s=-1: choose", "--rate -1: choose"),
        (group.app, "use --force (force=True): members", "use --force (force=True): members"),
        (group.app, "queue_id=5 is unknown", "queue_id=5 is unknown"),
    ],
)
def test_arguments_are_options_and_settings_are_keys(app: typer.Typer, given: str, expected: str) -> None:
    assert in_command_words(given, options_of(typer.main.get_command(app))) == expected
