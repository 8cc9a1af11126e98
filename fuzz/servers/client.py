"""A client without a network that judges the answers of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from fuzz.servers.choices import Choices
from fuzz.servers.request_maker import RequestMaker
from fuzz.servers.schema import REQUESTS

from litemq.errors import LiteMQError
from litemq.net.connection import Bytes
from litemq.net.failures import decode_failure, encode_failure
from litemq.net.frame import Frame
from litemq.net.sent_answers import pack_sent_answer, pack_sent_answers
from litemq.proto.wire_pb2 import Opcode

__all__ = ["Client", "Service", "Tally"]

_NOT_ANSWERED: Final = "a request with opcode %s was not answered"


class Service(Protocol):
    """A broker or a NameServer."""

    def handle(self, caller: Client, frames: list[Frame]) -> None: ...

    def caller_gone(self, caller: Client) -> None: ...


class Tally:
    """The number of requests by opcode: those with a header that can be parsed, and their ends."""

    def __init__(self) -> None:
        self.parsable: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def lines(self, opcodes: list[int]) -> list[str]:
        """Return a table with a row for each of ``opcodes``."""
        rows = [f"{'opcode':<22} {'requests':>9} {'answered':>9} {'refused':>9}"]
        for opcode in opcodes:
            counts = self.parsable[opcode], self.answered[opcode], self.refused[opcode]
            rows.append(f"{REQUESTS[opcode].name:<22} " + " ".join(f"{number:>9}" for number in counts))
        return rows


class Client:
    """A client of ``service``. Each request must have one answer, which a peer can decode."""

    def __init__(self, client_id: str, service: Service, maker: RequestMaker, tally: Tally) -> None:
        self.client_id = client_id
        self.peer = f"fuzzer of {client_id}"
        self.is_writable = True
        self._service = service
        self._maker = maker
        self._tally = tally
        self._numbers = count(1)
        self._waiting: dict[int, int] = {}  # opcodes of requests by their correlation id
        self.last_refusal: LiteMQError | None = None
        self._is_gone = False
        self._resumptions: list[Callable[[], None]] = []

    # As the fuzzer uses it ------------------------------------------------------------------------

    def send(self, frames: list[tuple[int, int, bytes, bytes]]) -> None:
        """Send requests together: opcode, flags, header and attachment of each."""
        requests = [Frame(next(self._numbers), *each) for each in frames]
        for frame in requests:
            self._waiting[frame.correlation] = frame.opcode
        self._service.handle(self, requests)

    def make_request(self, opcodes: list[int], choices: Choices) -> tuple[int, int, bytes, bytes]:
        """Make a request from the input: an opcode of ``opcodes``, in few cases any."""
        opcode = choices.pick(opcodes)
        how = choices.byte()
        if how < 12:
            return choices.integer(2), choices.byte() & 3, choices.raw(choices.byte()), choices.raw(choices.byte())
        if how < 24:
            return opcode, 0, choices.raw(choices.byte()), b""
        kind = REQUESTS[opcode]
        request = kind.request()
        self._maker.fill(request, choices, is_usual=how < 176)
        records = self._maker.records(request, choices) if kind.has_records or how == 255 else b""
        self._tally.parsable[opcode] += 1
        return opcode, 0, request.SerializeToString(), records

    def read_answers(self, *, is_reading: bool) -> None:
        """Read answers from now on, or stop."""
        self.is_writable = is_reading
        while self.is_writable and self._resumptions:
            self._resumptions.pop(0)()

    def leave(self) -> None:
        """End the connection."""
        self._is_gone = True
        self._waiting.clear()
        self._resumptions.clear()
        self._service.caller_gone(self)

    def reconnect(self, service: Service) -> None:
        """Continue with another server, which started in the place of the first."""
        self._service = service

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._waiting)

    def check_answered(self) -> None:
        """Fail if a request waits for its answer."""
        assert not self._waiting, _NOT_ANSWERED % sorted({_name(opcode) for opcode in self._waiting.values()})

    # As a server uses it --------------------------------------------------------------------------

    def on_writable(self, resume: Callable[[], None]) -> None:
        if not self._is_gone:
            self._resumptions.append(resume)

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        if more:
            part_of = self._waiting.get(frame[0])
            assert self._is_gone or part_of == Opcode.PULL, f"request {frame[0]} has a part of an answer"
            return
        opcode = self._end(frame[0])
        if opcode is not None:
            self._tally.answered[opcode] += 1
            self._maker.remember(REQUESTS[opcode].answer.FromString(header), bytes(attachment))

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        pack_sent_answers(correlations, queue_offsets, store_timestamp)
        for correlation, queue_offset in zip(correlations, queue_offsets, strict=True):
            self.answer(Frame(correlation, Opcode.SEND, 0, b"", b""), pack_sent_answer(queue_offset, store_timestamp))

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        self.last_refusal = decode_failure(encode_failure(error))
        opcode = self._end(frame[0])
        if opcode is not None:
            self._tally.refused[opcode] += 1

    def _end(self, correlation: int) -> int | None:
        """Return the opcode of a request that has its answer now; ``None`` after the end."""
        if self._is_gone:
            return None
        assert correlation in self._waiting, f"request {correlation} has two answers, or was never sent"
        return self._waiting.pop(correlation)


def _name(opcode: int) -> str:
    return REQUESTS[opcode].name if opcode in REQUESTS else str(opcode)
