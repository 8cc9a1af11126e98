"""What `litemq cluster recover` and `elect` say of messages that may be lost."""

from __future__ import annotations

import json

import pytest

from litemq.cli.rendering.output import OutputFormat
from litemq.cli.rendering.replica_losses import write_losses, write_recovery
from litemq.client.engine.replicas import GroupRecovery, ReplicaGroupInfo, ReplicaInfo

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


@pytest.mark.parametrize(
    ("confirmed", "says"),
    [
        (
            350,
            "at least 250 bytes of acknowledged messages are lost: it has the log up to 100, and c reported 7 s ago",
        ),
        (100, "With a as the master, acknowledged messages may be lost. How many cannot be known: "),
        (0, "log up to 100, and no replica has reported to this NameServer that more is confirmed.\n"),
    ],
)
def test_a_loss_is_what_any_replica_has_reported(confirmed: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    group = ReplicaGroupInfo("orders", 1, 3, 2, 2, (_REPLICA,), "", False, 4, (), confirmed, "c", 7_000)
    write_losses(group, "a")
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("is_applied", "states"), [(False, ["alive", "silent for 3 s"]), (True, ["in sync", "silent"])]
)
def test_the_states_of_a_recovery_are_those_of_the_status(
    is_applied: bool, states: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    silent = _REPLICA._replace(broker_id="b", in_sync=False, alive=False, heard_ms_ago=3_000)
    recovery = GroupRecovery("orders", 9, ("a",), (_REPLICA, silent), 3, "", is_applied)
    write_recovery(recovery, OutputFormat.JSON, forced=False)
    rows = json.loads(capsys.readouterr().out)["replicas"]
    assert [row["state"].startswith(state) for row, state in zip(rows, states, strict=True)] == [True, True]


@pytest.mark.parametrize(("in_sync", "others"), [(("a",), True), (("a", "b"), False)])
def test_others_copy_if_there_are_any(
    in_sync: tuple[str, ...], others: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = (_REPLICA, _REPLICA._replace(broker_id="b"))
    write_recovery(GroupRecovery("orders", 9, in_sync, replicas, 2, "", False), OutputFormat.TABLE, forced=False)
    assert ("The others copy" in capsys.readouterr().out) == others
