"""Administration of consumer groups, the part of ``mq.admin`` for groups."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Final, Literal

from litemq.client.engine.engine import Engine
from litemq.client.engine.groups import GroupDescription, GroupSummary, ResetPlan
from litemq.client.times import to_ms
from litemq.errors import GroupNotFoundError, InvalidArgumentError, PartialAnswerError
from litemq.types import check_name

__all__ = ["GroupAdmin"]

_MAX_OFFSET: Final = 1 << 62


class GroupAdmin:
    """The methods of ``AsyncAdmin`` that list, reset, pause and delete groups."""

    _engine: Engine

    async def groups(self) -> list[GroupSummary]:
        """Return all consumer groups, with their topics, members and lag.

        Raises:
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.groups()

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's offsets and lag by queue, its members and its offset resets.

        Args:
            group_id: The consumer group.

        Raises:
            GroupNotFoundError: The group does not exist.
            InvalidArgumentError: The name of the group is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        info = await self._engine.describe_group(check_name(group_id, "group"))
        if info is None:
            raise GroupNotFoundError(f"group {group_id!r} does not exist: `litemq group list` shows all groups")
        return info

    async def plan_reset(
        self,
        topic: str,
        group_id: str,
        *,
        to: Literal["earliest", "latest"] | None = None,
        time: datetime | None = None,
        offset: int | None = None,
        shift: int | None = None,
    ) -> ResetPlan:
        """Return what a reset of a group's offsets to one target would change, and change nothing.

        A group that does not exist yet can be reset: its first consumer starts there.

        Args:
            topic: The name of the topic.
            group_id: The consumer group.
            to: ``earliest``: the oldest message; ``latest``: the next message to arrive.
            time: The first message stored at this time or later. It needs a time zone.
            offset: This offset, in each queue.
            shift: This many messages forward, or back if negative.

        Raises:
            InvalidArgumentError: No target or several targets are given, or one is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        targets = {
            "to": to,
            "timestamp": None if time is None else to_ms(time, "time"),
            "offset": offset,
            "shift": shift,
        }
        given = {name: value for name, value in targets.items() if value is not None}
        if len(given) != 1:
            raise InvalidArgumentError("choose exactly one of to='earliest', to='latest', time=, offset= and shift=")
        ((name, value),) = given.items()
        if isinstance(value, str):
            name, value = value, 0
        if not isinstance(value, int) or isinstance(value, bool) or not -_MAX_OFFSET < value < _MAX_OFFSET:
            raise InvalidArgumentError(f"{name}={value!r}: choose a whole number")
        return await self._engine.plan_reset(check_name(topic), check_name(group_id, "group"), name, value)

    async def reset(self, plan: ResetPlan, *, force: bool = False) -> ResetPlan:
        """Apply a plan of ``plan_reset``.

        Args:
            plan: The plan.
            force: Reset although the group has consumers. They rejoin and continue from the new
                offsets.

        Returns:
            The applied plan, whose ``reset_id`` ``undo_reset`` takes.

        Raises:
            GroupBusyError: The group has consumers, or leased messages, and ``force`` is not set.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.reset(plan, force=force)

    async def plan_undo(self, topic: str, group_id: str, *, reset_id: str = "") -> ResetPlan:
        """Return what ``undo_reset`` would change, without changing it.

        Args:
            topic: The name of the topic.
            group_id: The consumer group.
            reset_id: The reset. Default: the latest one.

        Raises:
            ResetNotFoundError: The reset does not exist.
            InvalidArgumentError: The reset has already been undone.
            GroupNotFoundError: The group does not exist.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        await self._check_group(group_id)
        return await self._engine.undo_reset(check_name(topic), group_id, reset_id, dry_run=True, force=False)

    async def undo_reset(self, topic: str, group_id: str, *, reset_id: str = "", force: bool = False) -> ResetPlan:
        """Restore the offsets from before a reset.

        Args:
            topic: The name of the topic.
            group_id: The consumer group.
            reset_id: The reset. Default: the latest one.
            force: Undo although the group has consumers.

        Returns:
            The changes. They are a reset themselves, and can be undone.

        Raises:
            ResetNotFoundError: The reset does not exist.
            InvalidArgumentError: The reset has already been undone.
            GroupNotFoundError: The group does not exist.
            GroupBusyError: The group has consumers, or leased messages, and ``force`` is not set.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        await self._check_group(group_id)
        return await self._engine.undo_reset(check_name(topic), group_id, reset_id, dry_run=False, force=force)

    async def pause_group(self, group_id: str) -> None:
        """Stop the delivery to a group. Its consumers still process what they have fetched.

        Args:
            group_id: The consumer group.

        Raises:
            GroupNotFoundError: The group does not exist.
            InvalidArgumentError: The name of the group is invalid.
            PartialAnswerError: A broker did not answer. The others have made the change.
            NoRouteError, NetworkError: No broker can be reached.
        """
        await self._check_group(group_id)
        await self._engine.pause_group(group_id, paused=True)

    async def resume_group(self, group_id: str) -> None:
        """Resume the delivery to a paused group.

        Args:
            group_id: The consumer group.

        Raises:
            GroupNotFoundError: The group does not exist.
            InvalidArgumentError: The name of the group is invalid.
            PartialAnswerError: A broker did not answer. The others have made the change.
            NoRouteError, NetworkError: No broker can be reached.
        """
        await self._check_group(group_id)
        await self._engine.pause_group(group_id, paused=False)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group with its offsets, pending retries and resets.

        Args:
            group_id: The consumer group.

        Raises:
            GroupBusyError: The group has consumers, or leased messages.
            GroupNotFoundError: The group does not exist.
            InvalidArgumentError: The name of the group is invalid.
            NoRouteError, NetworkError: No broker can be reached.
        """
        await self._check_group(group_id)
        await self._engine.delete_group(group_id)

    async def _check_group(self, group_id: str) -> None:
        """Raise if no broker knows the group; one that does not answer may not know it."""
        with contextlib.suppress(PartialAnswerError):
            await self.describe_group(group_id)
