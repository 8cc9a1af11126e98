"""What `litemq cluster recover` says of messages that may be lost."""

from __future__ import annotations

import pytest

from litemq.cli.rendering.output import OutputFormat
from litemq.cli.rendering.replica_losses import write_recovery
from litemq.client.engine.replicas import GroupRecovery, ReplicaInfo

_REPLICA = ReplicaInfo("a", "host:1", False, True, True, 1, 100, 0, 0, "00", 90, 0, 0)


@pytest.mark.parametrize(
    ("is_applied", "forced", "says"),
    [
        (False, False, " Start all 3 replicas with their data, or add --force.\n"),
        (False, True, " Start all 3 replicas with their data to lose none.\n"),
        (True, True, "\n"),
    ],
)
def test_the_advice_is_what_is_left_to_do(
    is_applied: bool, forced: bool, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recovery = GroupRecovery("orders", 9, ("a",), (_REPLICA,), 3, "only 1 of 3 replicas reports", is_applied)
    write_recovery(recovery, OutputFormat.TABLE, forced=forced)
    assert f"may be lost: only 1 of 3 replicas reports.{says}" in capsys.readouterr().out
