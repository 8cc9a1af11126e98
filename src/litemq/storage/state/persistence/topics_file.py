"""``topics.json``: the name of the broker and its topics, for tools that read a data directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from litemq.storage.files.disk import Disk

__all__ = ["ListedTopic", "TopicList", "read_topics", "write_topics"]


class ListedTopic(NamedTuple):
    """A topic of the file."""

    name: str
    queues: int


class TopicList(NamedTuple):
    """The content of the file: the broker's name and its topics by id, without system topics."""

    broker: str
    topics: dict[int, ListedTopic]


def write_topics(disk: Disk, path: Path, content: TopicList) -> None:
    """Replace the file at ``path`` atomically."""
    topics = [
        {"topic_id": topic_id, "name": topic.name, "queues": topic.queues} for topic_id, topic in content.topics.items()
    ]
    document = {"version": 1, "broker": content.broker, "topics": topics}
    data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    new = path.with_suffix(".json.new")
    file = disk.open(new, create=True)
    file.truncate(0)
    file.write(data, 0)
    file.sync()
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def read_topics(path: Path) -> TopicList | None:
    """Read the file at ``path``; ``None`` if it is missing or damaged."""
    try:
        document = json.loads(path.read_bytes())
        topics = {
            int(topic["topic_id"]): ListedTopic(str(topic["name"]), int(topic["queues"]))
            for topic in document["topics"]
        }
        return TopicList(str(document.get("broker", "")), topics)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
