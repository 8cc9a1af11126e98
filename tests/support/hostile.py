"""Misbehaving clients in their own process: ``python hostile.py KIND PORT TOPIC ARGUMENTS``.

They send frames over bare sockets until their input is closed, then print their observations as
JSON.
"""

from __future__ import annotations

import ctypes
import json
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, Self

from litemq.errors import OverloadedError
from litemq.format.record_encode import RecordTemplate
from litemq.net.failures import decode_failure
from litemq.net.frame import Flag, FrameReader, frame_prefix
from litemq.proto.wire_pb2 import Hello, Opcode, PullRequest, SendAnswer, SendRequest
from litemq.types import Durability

_SENT_AWAY_WITHIN_S: Final = 60.0  # a broker does so after 5 s
BODIES: Final = 32  # distinct messages that a flood repeats; each contains its number


def body_of(number: int, size: int) -> bytes:
    """Return the body of message ``number`` of a flood."""
    return b"%02d" % (number % BODIES) * (size // 2)


def greeted(port: int, name: str, timeout: float | None = None) -> socket.socket:
    """Open a connection and send HELLO, without waiting for the answer."""
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    hello = Hello(least_version=1, most_version=1, client_id=name).SerializeToString()
    connection.sendall(frame_prefix(0, Opcode.HELLO, 0, len(hello)) + hello)
    return connection


def input_is_closed(wait: float = 0.0) -> bool:
    return bool(select.select([sys.stdin], [], [], wait)[0])


def never_read(port: int, topic: str, connections: str) -> dict[str, Any]:
    """Pull all messages as often as the socket allows, and read no answer."""
    pull = PullRequest(topic=topic, queue_id=0, offset=0, max_messages=10_000, max_bytes=4 << 20).SerializeToString()
    frame = frame_prefix(1, Opcode.PULL, 0, len(pull)) + pull
    held: list[socket.socket] = []
    asked = 0
    while not input_is_closed(0.2):
        if len(held) < int(connections):
            held.append(greeted(port, f"never-reads-{len(held)}"))
            held[-1].setblocking(False)
        for connection in held:
            try:
                for _ in range(1_000):
                    asked += connection.send(frame) == len(frame)
            except OSError:  # full, or ended
                continue
    return {"asked": asked}


def half_open(port: int, topic: str, connections: str) -> dict[str, Any]:
    """Open connections that never greet, that greet and fall silent, or that stop in a message.

    Return which of them the broker has closed.

    At the end, it waits for those that the broker must close.
    """
    count = int(connections)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    idle = [greeted(port, f"idle-{number}") for number in range(count)]
    torn = [greeted(port, f"torn-{number}") for number in range(count)]
    header = SendRequest(topic=topic, queue_id=0).SerializeToString()
    for connection in torn:
        connection.sendall(frame_prefix(1, Opcode.SEND, 0, len(header), 8 << 20) + header + bytes(4 << 20))
    while not input_is_closed(0.2):
        pass
    until = time.monotonic() + _SENT_AWAY_WITHIN_S
    must_end = [*silent, *torn]
    while must_end and time.monotonic() < until:
        must_end = [connection for connection in must_end if not _was_ended(connection)]
        time.sleep(0.05)
    left = set(must_end)
    return {
        "silent": sum(connection not in left for connection in silent),
        "idle": sum(map(_was_ended, idle)),
        "torn": sum(connection not in left for connection in torn),
    }


def _was_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def flood(port: int, topic: str, level: str, size: str, bytes_per_s: str, most_unanswered: str) -> dict[str, Any]:
    """Send at a rate, whatever the answers, with up to ``most_unanswered`` bytes in flight.

    0 means no limit.
    """
    template = RecordTemplate(topic, reliability=Durability[level.upper()])
    header = SendRequest(topic=topic, queue_id=0).SerializeToString()
    records = [template.encode(body_of(n, int(size)), message_id=f"flood-{n}", born_timestamp=1) for n in range(BODIES)]
    connection = greeted(port, "flood")
    connection.setblocking(False)
    rate, window = float(bytes_per_s), int(most_unanswered) or 1 << 62
    reader = FrameReader(16 << 20)
    answers: Counter[str] = Counter()
    acked: list[tuple[int, int]] = []  # offset and number of the message
    retry_after: set[int] = set()
    number = sent_bytes = answered_bytes = 0
    unsent = memoryview(b"")
    begin = time.monotonic()
    while not input_is_closed():
        may_send = unsent or (sent_bytes < (time.monotonic() - begin) * rate and sent_bytes - answered_bytes < window)
        readable, writable, _ = select.select([connection], [connection] if may_send else [], [], 0.001)
        if readable:
            data = connection.recv(1 << 20)
            if not data:
                break
            reader.feed(data)
            while frames := reader.frames(256):
                for frame in frames:
                    if frame.opcode == Opcode.HELLO:
                        continue
                    answered_bytes += len(records[0])
                    if frame.flags & Flag.ERROR:
                        error = decode_failure(frame.header)
                        answers[type(error).__name__] += 1
                        if isinstance(error, OverloadedError):
                            retry_after.add(error.retry_after_ms)
                    else:
                        answers["acked"] += 1
                        acked.append((SendAnswer.FromString(frame.header).queue_offset, frame.correlation - 1))
        if writable:
            try:
                while True:
                    if not unsent:
                        if sent_bytes >= (time.monotonic() - begin) * rate or sent_bytes - answered_bytes >= window:
                            break
                        record = records[number % BODIES]
                        number += 1
                        unsent = memoryview(
                            frame_prefix(number, Opcode.SEND, 0, len(header), len(record)) + header + record
                        )
                        sent_bytes += len(record)
                    unsent = unsent[connection.send(unsent) :]
            except BlockingIOError:
                pass
    return {
        "seconds": time.monotonic() - begin,
        "sent_bytes": sent_bytes,
        "record_bytes": len(records[0]),
        "answers": answers,
        "acked": acked,
        "retry_after_ms": sorted(retry_after),
    }


def malformed(port: int, topic: str, connections: str) -> dict[str, Any]:
    """Send frames that no client sends, on many connections, again and again."""
    chance = Random(3)
    sent = closed = 0
    opcodes = Opcode.values()
    header = SendRequest(topic=topic, queue_id=0).SerializeToString()
    while not input_is_closed():
        held: list[socket.socket] = []
        for number in range(int(connections)):
            try:
                held.append(
                    greeted(port, f"malformed-{number}", timeout=1)
                    if number % 2
                    else socket.create_connection(("127.0.0.1", port), timeout=1)
                )
            except OSError:
                continue
        for number, connection in enumerate(held):
            junk = chance.randbytes(chance.randrange(1, 200))
            frame = (
                b"\xff" * 16,
                b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                frame_prefix(1, chance.choice(opcodes), 0, len(junk)) + junk,
                frame_prefix(1, Opcode.SEND, 0, len(header), len(junk)) + header + junk,
                frame_prefix(1, chance.randrange(1 << 16), 0, len(junk)) + junk,
                junk,
            )[number % 6]
            try:
                connection.sendall(frame)
                sent += 1
            except OSError:
                closed += 1
        time.sleep(0.2)
        closed += sum(map(_was_ended, held))
        for connection in held:
            connection.close()
    return {"sent": sent, "closed": closed}


def hold(port: int, topic: str, connections: str) -> dict[str, Any]:
    """Hold as many connections as the broker accepts, and try to open more."""
    held: list[socket.socket] = []
    most = 0
    while not input_is_closed(0.05):
        held = [connection for connection in held if not _was_ended(connection)]
        while len(held) < int(connections):
            try:
                held.append(greeted(port, f"holds-{len(held)}", timeout=1))
            except OSError:
                break
        most = max(most, len(held))
    return {"most": most, "at_the_end": len(held)}


class Hostile:
    """A misbehaving client in its own process."""

    def __init__(self, kind: str, port: int, topic: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, kind, str(port), topic, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_begun(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"begins\n"

    def end(self) -> dict[str, Any]:
        """End the client; return its report."""
        output, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        report: dict[str, Any] = json.loads(output)
        return report


KINDS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "never-read": never_read,
    "half-open": half_open,
    "flood": flood,
    "malformed": malformed,
    "hold": hold,
}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the process that started it
    kind, port, *rest = sys.argv[1:]
    print("begins", flush=True)  # noqa: T201
    print(json.dumps(KINDS[kind](int(port), *rest)))  # noqa: T201
