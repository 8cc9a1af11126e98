"""The state of a broker besides its messages: a pure state machine over control records.

Entry classes: ``State`` (the machine), ``MachineParts`` (its parts), ``PlacedRecord`` (a record as
the parts see it), ``QueueKey`` and ``Topic``. The parts are in ``delivery``, ``transactions``,
``timers``, ``jobs``, ``archives`` and ``producers``. ``persistence`` stores the rows of the state
in ``state.db``.

Invariants: the log has every change before the state applies it. The same records give the same
state, whichever process applies them and whenever. A part imports neither the machine nor another
part.

May import: ``storage.files``; ``format``, ``proto``.
"""

from litemq.storage.state.machine import State
from litemq.storage.state.machine_parts import MachineParts
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.topics import (
    CONTROL_TOPIC,
    CONTROL_TOPIC_ID,
    NO_SETTINGS,
    QueueKey,
    Topic,
    TopicSettings,
    dead_letter_topic,
    retry_topic,
)

__all__ = [
    "CONTROL_TOPIC",
    "CONTROL_TOPIC_ID",
    "NO_SETTINGS",
    "MachineParts",
    "PlacedRecord",
    "QueueKey",
    "State",
    "Topic",
    "TopicSettings",
    "dead_letter_topic",
    "retry_topic",
]
