"""A well-behaved client in its own process: ``python bystander.py PORT TOPIC``.

It sends a message every few milliseconds to one broker until its input is closed, and connects
again when the broker was killed. Then it prints how long each request took, and by how much the
machine itself delayed the client's own sleep before.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from typing import Final, NamedTuple, Self

from litemq.errors import ConnectionLostError, LiteMQError, RequestTimeoutError
from litemq.format.record_encode import RecordTemplate
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import Opcode, SendRequest
from litemq.types import Durability
from support.hostile import input_is_closed
from support.waiting import HANG_S

_PAUSE_S: Final = 0.01
_RECONNECT_S: Final = 0.1
_ANSWERED_WITHIN_S: Final = 10.0


class Sample(NamedTuple):
    """One request: when it began (monotonic), how long it took, and how late the client was."""

    at: float
    took: float
    late: float
    is_answered: bool


def observe(port: int, topic: str) -> list[Sample]:
    """Send until the input is closed."""
    template = RecordTemplate(topic, reliability=Durability.MEMORY)
    header = SendRequest(topic=topic, queue_id=0).SerializeToString()
    samples: list[Sample] = []
    peer: BlockingPeer | None = None
    number = 0
    while not input_is_closed():
        begin = time.monotonic()
        time.sleep(_PAUSE_S)
        at = time.monotonic()
        late = at - begin - _PAUSE_S
        is_answered = True
        try:
            peer = peer or BlockingPeer("127.0.0.1", port, client_id="bystander", answer_timeout=_ANSWERED_WITHIN_S)
            record = template.encode(b"x" * 100, message_id=f"steady-{number}", born_timestamp=1)
            number += 1
            at = time.monotonic()
            peer.request(Opcode.SEND, header, record)
        except ConnectionLostError:
            is_answered = False
            peer = None
        except RequestTimeoutError:
            peer = None  # it took long enough to be noticed
        except LiteMQError:
            pass  # a refusal is an answer
        samples.append(Sample(at, time.monotonic() - at, late, is_answered))
        if not is_answered:
            time.sleep(_RECONNECT_S)
    return samples


class Bystander:
    """The client's process."""

    def __init__(self, port: int, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.attack.bystander", str(port), topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> list[Sample]:
        """End the client; return its samples."""
        output, _ = self._process.communicate(timeout=HANG_S)
        return [Sample(*each) for each in json.loads(output)]


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the process that started it
    print(json.dumps(observe(int(sys.argv[1]), sys.argv[2])))  # noqa: T201
