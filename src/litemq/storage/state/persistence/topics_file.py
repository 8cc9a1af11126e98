"""``topics.json``: whose log this is and which topics have which numbers, for those who read a data directory without opening it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from litemq.storage.files.disk import Disk

__all__ = ["ToldTopic", "ToldTopics", "read_topics", "write_topics"]


class ToldTopic(NamedTuple):
    """A topic that there is."""

    name: str
    queues: int


class ToldTopics(NamedTuple):
    """What the file says: the name of the broker, and its topics by their numbers. The broker's own, which are the same everywhere, are left out."""

    broker: str
    topics: dict[int, ToldTopic]


def write_topics(disk: Disk, path: Path, told: ToldTopics) -> None:
    """Write the file anew: it is whole at any moment."""
    topics = [{"topic_id": number, "name": topic.name, "queues": topic.queues} for number, topic in told.topics.items()]
    data = json.dumps({"version": 1, "broker": told.broker, "topics": topics}, indent=2, ensure_ascii=False).encode() + b"\n"
    new = path.with_suffix(".json.new")
    file = disk.open(new, create=True)
    file.truncate(0)
    file.write(data, 0)
    file.sync()
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def read_topics(path: Path) -> ToldTopics | None:
    """What the file says; ``None`` where there is none, or it is damaged: the log says the same."""
    try:
        told = json.loads(path.read_bytes())
        topics = {int(one["topic_id"]): ToldTopic(str(one["name"]), int(one["queues"])) for one in told["topics"]}
        return ToldTopics(str(told.get("broker", "")), topics)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
