"""Promotion of a follower with many queues: from its election until it serves clients."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq import AsyncClient
from litemq.bench.replica_group import ReplicaGroup, running_group
from litemq.bench.workloads.group_watch import master_of, watching
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["Promotion"]

_QUEUES_A_TOPIC: Final = 1000
_TOPICS_A_CLIENT: Final = 5
_PASSES: Final = 5
_SETTLE_S: Final = 5.0


class Promotion:
    """A group with ``queues`` queues, each with a message, whose master is stopped."""

    def __init__(self, queues: int) -> None:
        self._topics = max(1, queues // _QUEUES_A_TOPIC)
        self._queues = min(queues, _QUEUES_A_TOPIC)

    def milliseconds(self) -> float:
        """Measure from the election to the registration of the new master, at the NameServer.

        The master serves clients before it registers. The NameServer is asked every 5 ms.
        """
        with running_group() as group:
            return run(self._measure(group))

    async def _measure(self, group: ReplicaGroup) -> float:
        async with watching(group) as watch:
            for first in range(0, self._topics, _TOPICS_A_CLIENT):
                await self._fill(group.url, range(first, min(self._topics, first + _TOPICS_A_CLIENT)))
            await asyncio.sleep(_SETTLE_S if self._topics > 1 else 0)  # until the queues' files are written
            view = await watch.wait_in_sync(len(group.replicas))
            group.replicas[master_of(view)].terminate()
            election = await watch.follow_election(view.epoch)
            return 1000 * (election.registered - election.elected)

    async def _fill(self, url: str, numbers: range) -> None:
        """Send a message to each queue of some topics.

        A client sends the messages of each tick to the next queue of a topic, as a rule.
        """
        topics = [f"topic-{number}" for number in numbers]
        async with AsyncClient(url) as mq:
            for topic in topics:
                await mq.admin.create_topic(topic, queues=self._queues)
                await mq.send(topic, b"first")  # loads the route
            for _ in range(_PASSES):
                for _ in range(self._queues):
                    for topic in topics:
                        mq.send_nowait(topic, b"one of many")
                    await asyncio.sleep(0)
                await mq.flush()
                described = [await mq.admin.describe_topic(topic) for topic in topics]
                if all(queue.next for topic in described for queue in topic.queues):
                    return
        raise LiteMQError(f"not every queue of {', '.join(topics)} has a message")
