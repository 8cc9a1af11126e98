"""Output of commands that may lose acknowledged messages of a replicated group."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from litemq.cli.rendering.output import OutputFormat, write_rows, write_value
from litemq.cli.rendering.replicas import describe_state
from litemq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litemq.client.engine.replicas import GroupRecovery, ReplicaGroupInfo, ReplicaInfo

__all__ = ["NOT_DONE", "write_losses", "write_recovery"]

NOT_DONE: Final = "Nothing was changed. Use --yes to apply. This cannot be undone.\n"
_COLUMNS: Final = ("replica", "state", "last_epoch", "log_end", "confirmed", "store")


def write_recovery(recovery: GroupRecovery, output: OutputFormat, *, forced: bool) -> None:
    """Write the new facts of a group, and the logs on which they are based.

    ``forced``: the command goes on although messages may be lost.
    """
    rows = [_row(each, facts_lost=not recovery.is_applied) for each in recovery.replicas]
    if output is not OutputFormat.TABLE:
        value = {**recovery._asdict(), "in_sync": list(recovery.in_sync), "replicas": rows}
        write_value(value, output)
        return
    write_rows(rows, _COLUMNS, output, none="")
    verb = "recovered" if recovery.is_applied else "would recover"
    names = ", ".join(recovery.in_sync)
    sys.stdout.write(f"\n{verb} group {recovery.group} at epoch {recovery.epoch}, in sync: {names}\n")
    if recovery.uncertainty:
        advice = "" if recovery.is_applied else f" Start all {recovery.configured} replicas with their data"
        if advice:
            advice += " to lose none." if forced else ", or add --force."
        sys.stdout.write(f"Acknowledged messages may be lost: {recovery.uncertainty}.{advice}\n")
    else:
        others = " The others copy what they lack." if len(recovery.in_sync) < recovery.configured else ""
        sys.stdout.write(f"All {recovery.configured} replicas report, and no acknowledged message is lost.{others}\n")
    if recovery.is_applied:
        sys.stdout.write("The group elects a master once the lease of the last one has ended.\n")
    else:
        sys.stdout.write(NOT_DONE)


def write_losses(group: ReplicaGroupInfo, replica: str) -> None:
    """Write what is lost if ``replica`` becomes the master, as far as the reports tell."""
    chosen = next((each for each in group.replicas if each.broker_id == replica), None)
    if chosen is None:
        known = ", ".join(each.broker_id for each in group.replicas)
        raise InvalidArgumentError(f"group {group.name} has no replica {replica!r}: choose one of {known}")
    rows = [{**_row(each, facts_lost=group.facts_lost), "lost": _lost(each, chosen)} for each in group.replicas]
    write_rows(rows, (*_COLUMNS, "lost"), OutputFormat.TABLE, none="")
    lost = group.confirmed_offset - chosen.log_end
    if lost > 0:
        sys.stdout.write(
            f"\nWith {replica} as the master, at least {lost} bytes of acknowledged messages are lost: it has the log "
            f"up to {chosen.log_end}, and {group.confirmed_by} reported {group.confirmed_ms_ago / 1000:.0f} s ago that "
            f"everything below {group.confirmed_offset} is confirmed.\n"
        )
    else:
        sys.stdout.write(
            f"\nWith {replica} as the master, acknowledged messages may be lost. How many cannot be known: it has the "
            f"log up to {chosen.log_end}, and no replica has reported to this NameServer that more is confirmed.\n"
        )
    sys.stdout.write(
        "Unknown: what was acknowledged after the last report of each replica, and whether the logs agree up to "
        f"the end of the log of {replica}.\n"
        "Other replicas that have more cut it off when they return, and keep it in files cut-off-….\n"
    )


def _row(replica: ReplicaInfo, *, facts_lost: bool) -> dict[str, object]:
    state = describe_state(replica, facts_lost=facts_lost)
    return {
        "replica": replica.broker_id,
        "state": state.replace("silent", f"silent for {replica.heard_ms_ago / 1000:.0f} s"),
        "last_epoch": replica.last_epoch,
        "log_end": replica.log_end,
        "confirmed": replica.confirm_offset,
        "store": replica.store_id,
    }


def _lost(replica: ReplicaInfo, chosen: ReplicaInfo) -> int:
    """Return how many confirmed bytes ``replica`` has that ``chosen`` lacks, by their lengths."""
    return max(0, replica.confirm_offset - chosen.log_end)
