"""Coverage-guided fuzzing of the decoders: ``just fuzz --minutes N``.

Each target accepts any bytes. The decoders may only raise ``RecordFormatError``, and both codecs
must agree on the same bytes. Half of the inputs get valid checksums, so that the fuzzer reaches the
other rules.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["litemq"]):
    import numpy as np
    import numpy.typing as npt

    from litemq.errors import ProtocolError, RecordFormatError
    from litemq.format import native
    from litemq.format.arrow.batches import to_record_batch
    from litemq.format.batches.check import are_of_topic, check_batch, find_faults
    from litemq.format.batches.scan import scan
    from litemq.format.batches.stamp import group_by_queue, queue_entries, stamp_batch
    from litemq.format.batches.uniform_sends import uniform_sends
    from litemq.format.columns.keys import hash_keys
    from litemq.format.columns.record_columns import RecordColumns
    from litemq.format.crc import crc32c
    from litemq.format.messages import decode_messages
    from litemq.format.record import Stage
    from litemq.format.record_decode import decode_record
    from litemq.format.record_encode import encode_record
    from litemq.format.v1.columns import RecordColumnsV1, find_faults_v1
    from litemq.format.v1.record import decode_record_v1, encode_record_v1
    from litemq.net.frame import FrameReader, frame_prefix
    from litemq.types import Record, Stamp

HERE = Path(__file__).parent


def _with_right_crcs(data: bytes) -> bytes:
    """Return ``data`` with valid checksums of the first record."""
    if len(data) < 144:
        return data
    end = min(max(int.from_bytes(data[:4], "big"), 144), len(data))
    fixed = bytearray(data)
    fixed[4:8] = b"LMQ\x02"
    fixed[8:12] = crc32c(bytes(fixed[64:end])).to_bytes(4, "big")
    fixed[12:16] = crc32c(bytes(fixed[16:64])).to_bytes(4, "big")
    return bytes(fixed)


def scalar(data: bytes) -> None:
    """Decode and encode one record of either version."""
    for candidate in (data, _with_right_crcs(data)):
        for stage in Stage:
            with contextlib.suppress(RecordFormatError):
                stored = decode_record(candidate, stage=stage)
                assert encode_record(stored.record, stored.stamp) == candidate[: stored.size]
    with contextlib.suppress(RecordFormatError):
        old = decode_record_v1(data)
        assert old.stamp is not None
        assert old.facts is not None
        assert decode_record_v1(encode_record_v1(old.record, old.stamp, old.facts)).record == old.record


def columns(data: bytes) -> None:
    """Check columns of either version; compare each verdict with the scalar codec's."""
    for candidate in (data, _with_right_crcs(data)):
        found = scan(candidate)
        for stage in Stage:
            batch = RecordColumns(candidate, found.starts)
            faults = set(find_faults(batch, stage=stage).tolist())
            for number, start in enumerate(found.starts.tolist()):
                assert (number in faults) == _refuses(candidate, start, stage), (number, stage)
            with contextlib.suppress(RecordFormatError):
                check_batch(candidate, stage=stage)
            sound = np.setdiff1d(np.arange(len(batch)), list(faults))
            if stage is Stage.STORED and sound.size:
                to_record_batch(batch.subset(sound)).validate(full=True)
    found = scan(data, version=1)
    old = RecordColumnsV1(data, found.starts)
    faults = set(find_faults_v1(old).tolist())
    for number, start in enumerate(found.starts.tolist()):
        assert (number in faults) == _refuses(data, start, None), number
    valid = np.setdiff1d(np.arange(len(old)), list(faults))
    if valid.size:
        to_record_batch(old.subset(valid)).validate(full=True)


def loops(data: bytes) -> None:
    """Compare the C loops with the Python code. The last bytes are used as starts, valid or not."""
    assert native.loops is not None, "build the extension first: pip install -e ."
    starts = np.frombuffer(data[-48:] if len(data) >= 48 else bytes(48), np.int64)
    for candidate in (data, _with_right_crcs(data)):
        for some in (starts, starts % (len(candidate) + 9) - 4):
            _check_verdicts(candidate, some)
        quick, slow = _with(candidate, native_loops=True), _with(candidate, native_loops=False)
        assert quick == slow


def _check_verdicts(data: bytes, starts: npt.NDArray[np.int64]) -> None:
    """Run the C loops on arbitrary starts: a positive verdict must be right, nothing may crash."""
    count = starts.size
    inside = bool(((starts >= 0) & (starts <= len(data) - 144)).all())
    for stage in Stage:
        if native.loops.examine(data, starts, stage is Stage.STORED, 1 << 22, True):
            assert not any(start < 0 or _refuses(data, start, stage) for start in starts.tolist())
    native.loops.are_of_topic(data, starts, b"orders")
    native.loops.hash_keys(data, starts)
    buffer, numbers = bytearray(data), np.arange(count)
    assert native.loops.stamp(buffer, starts, numbers, numbers, 1, 2, 3, 4, 5, -1, 6) == inside
    assert inside or buffer == data
    entries = np.empty(24 * count, np.uint8)
    assert native.loops.queue_entries(data, starts, numbers[::-1].copy(), numbers, 3, entries) == inside


def _with(data: bytes, *, native_loops: bool) -> list[object]:
    """Return everything that one of the two implementations decodes from ``data``."""
    native.enabled = native_loops
    try:
        found = scan(data)
        known: list[object] = [
            found.starts.tolist(),
            found.end,
            found.stop,
            _messages(data),
            _encoded_again(data),
            _frames(data),
            uniform_sends(data),
        ]
        for stage in Stage:
            faults = find_faults(RecordColumns(data, found.starts), stage=stage)
            known.append(faults.tolist())
            sound = np.setdiff1d(np.arange(found.starts.size), faults)
            if sound.size:
                buffer = bytearray(data)
                batch = RecordColumns(buffer, found.starts).subset(sound)
                keys = hash_keys(batch)
                numbers = np.arange(sound.size)
                topic = bytes(memoryview(buffer)[int(batch.bounds[1, 0]) : int(batch.bounds[2, 0])])
                known += [keys.hashes.tolist(), keys.owners.tolist(), batch.sizes.tolist(), are_of_topic(batch, topic)]
                stamp_batch(
                    batch,
                    commitlog_offsets=numbers,
                    queue_offsets=numbers,
                    topic_ids=numbers % 2,
                    queue_ids=0,
                    store_timestamp=9,
                    epoch=1,
                )
                runs = group_by_queue(numbers % 2, numbers * 0)
                known += [buffer, queue_entries(batch, runs, commitlog_offsets=numbers, store_timestamps=9).tobytes()]
        return known
    finally:
        native.enabled = True


def _messages(data: bytes) -> object:
    """Return the messages in ``data``, or the error."""
    try:
        return decode_messages(data)
    except RecordFormatError as error:
        return str(error)


def _encoded_again(data: bytes) -> list[bytes]:
    """Decode and encode again the first record, in both stages."""
    again = []
    for stage in Stage:
        with contextlib.suppress(RecordFormatError):
            again.append(encode_record(decode_record(data, stage=stage).record))
    return again


def _frames(data: bytes) -> list[object]:
    """Return the frames that a connection reads from ``data``, received in two pieces."""
    reader = FrameReader(512)
    known: list[object] = []
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        reader.feed(piece)
        try:
            while frames := reader.frames(3):
                known.append(frames)
        except ProtocolError as error:
            known.append(str(error))
        known.append(reader.buffered)
    return known


def _refuses(data: bytes, start: int, stage: Stage | None) -> bool:
    try:
        if stage is None:
            decode_record_v1(data, start)
        else:
            decode_record(data, start, stage=stage)
    except RecordFormatError:
        return True
    return False


def _seed(folder: Path) -> None:
    """Write valid records as the initial corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    full = Record(
        "orders",
        b"body",
        "id-1",
        ("a", "b"),
        ("k",),
        {"p": "q", "订": "单"},
        sharding_key="s",
        born_host="h",
        delay_time=5,
    )
    one = Record("orders", b"x" * 20, "id-2", ("a",), ("key",), {"p": "q", "r": "s"})
    seeds = [
        encode_record(full, Stamp(8, 1, 2)),
        encode_record(full),
        encode_record(one, Stamp()) * 3,
        encode_record(one) * 3,
        encode_record_v1(full, Stamp()),
        encode_record_v1(one, Stamp()) * 2,
        frame_prefix(7, 16, 0, 3, 5) + b"abcbytes" + frame_prefix(8, 16, 1, 18) + bytes(18),
    ]
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(seed)


TARGETS = {"scalar": scalar, "columns": columns, "loops": loops}


def main() -> None:
    """Fuzz one target for a number of minutes; exit with 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=1.0)
    arguments = parser.parse_args()
    corpus = HERE / "corpus" / arguments.target
    findings = HERE / "findings" / arguments.target
    findings.mkdir(parents=True, exist_ok=True)
    _seed(corpus)
    options = [
        f"-max_total_time={int(arguments.minutes * 60)}",
        "-max_len=1024",
        "-timeout=20",
        # Instrumented comparisons of numpy arrays leak about 16 KB per run; the code itself does
        # not. Tests limit the memory of decoders; here, only a single large allocation is an error.
        "-rss_limit_mb=6144",
        "-malloc_limit_mb=256",
        "-print_final_stats=1",
        f"-artifact_prefix={findings}/",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], TARGETS[arguments.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
