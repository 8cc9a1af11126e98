"""Deduplication: a retried send is appended once, and nothing is appended after a gap."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.sending.deduplication import Deduplication
from litemq.broker.sending.send_tick import Request
from litemq.errors import RemoteError, SequenceGapError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode
from litemq.storage.state import QueueKey
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


def _request(broker: Broker, batch: bytes) -> Request:
    return Asking(broker).channel, Frame(1, int(Opcode.SEND), 0, b"", batch), 0


def test_requests_are_new_known_repeated_or_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            receipt = await ann.send(records(producer_id=7))
            known, new, refused = (
                records(producer_id=7),
                records(2, first=1, producer_id=7),
                records(first=9, producer_id=7),
            )
            requests = [_request(broker, batch) for batch in (known, new, new, refused)]
            tick = Deduplication(broker.context).check(16, requests, None)
            assert [(frame.attachment, earlier) for _, frame, earlier, _ in tick.known] == [
                (known, [(receipt.queue_offset, receipt.store_timestamp)])
            ]
            assert ([frame.attachment for frame in tick.frames], tick.counts, tick.earlier) == ([new], [2], {})
            assert tick.repeated == [requests[2]]
            assert [(frame.attachment, type(error)) for _, frame, error in tick.refused] == [
                (refused, SequenceGapError)
            ]
            assert broker.context.store.state.end_offsets[QueueKey(16, 0)] == 1, "a check appends nothing"

    asyncio.run(main())


@pytest.mark.parametrize(("second", "is_uniform"), [(1, True), (0, False), (2, False)])
def test_requests_are_checked_together_while_no_sequence_is_missing_or_repeated(
    second: int, is_uniform: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            await Asking(broker).create()
            requests = [_request(broker, records(first=first, producer_id=7)) for first in (0, second)]
            tick = Deduplication(broker.context).check_uniform(16, requests)
            assert (tick is not None) is is_uniform
            if tick is not None:
                assert (tick.counts, bytes(tick.joined or b"")) == (
                    [1, 1],
                    b"".join(request[1].attachment for request in requests),
                )

    asyncio.run(main())


@KINDS
def test_a_repeated_send_is_appended_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            one = records(producer_id=7)
            first, again = await ann.send(one), await ann.send(one)
            assert [(e.queue_offset, e.store_timestamp) for e in again.earlier] == [
                (first.queue_offset, first.store_timestamp)
            ]
            assert again.queue_offset == -1
            # Twice in the same turn.
            two = records(first=1, producer_id=7)
            once, twice = await asyncio.gather(ann.send(two), ann.send(two))
            assert (once.queue_offset, [e.queue_offset for e in twice.earlier]) == (1, [1])
            # A batch whose first part is known.
            longer = await ann.send(records(4, first=0, producer_id=7))
            assert ([e.queue_offset for e in longer.earlier], longer.queue_offset) == ([0, 1], 2)
            assert broker.context.store.state.end_offsets[QueueKey(16, 0)] == 4
            # The same sequences are others in another queue, and of another producer.
            assert (await ann.send(one, 1)).queue_offset == 0
            assert (await ann.send(records(producer_id=8))).queue_offset == 4

    asyncio.run(main())


@KINDS
def test_all_sends_after_a_gap_are_refused(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            flipped = bytearray(records(first=1, producer_id=7))
            flipped[-9] ^= 1
            sent = [
                records(producer_id=7),
                bytes(flipped),
                records(first=2, producer_id=7),
                records(first=3, producer_id=7),
            ]
            zero, one, two, three = await asyncio.gather(*map(ann.send, sent), return_exceptions=True)
            assert not isinstance(zero, BaseException)
            assert isinstance(one, RemoteError)
            for refused in (two, three):
                assert isinstance(refused, SequenceGapError)
                assert refused.expected == 1
            with pytest.raises(SequenceGapError):
                await ann.send(records(producer_id=9, first=5))
            assert (await ann.send(records(3, first=1, producer_id=7))).queue_offset == 1

    asyncio.run(main())
