"""Coverage-guided fuzzing of the decoders: ``just fuzz --minutes N``.

Each target takes any bytes. A target may only raise the format error; and where both codecs look at the same bytes they must agree.
Half of the inputs get right checksums, so that the fuzzer comes past them to the rules behind.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["litemq"]):
    import numpy as np

    from litemq.errors import RecordFormatError
    from litemq.format.arrow import to_record_batch
    from litemq.format.check import check_batch, find_faults
    from litemq.format.columns import RecordColumns
    from litemq.format.columns_v1 import RecordColumnsV1, find_faults_v1
    from litemq.format.crc import crc32c
    from litemq.format.record import Stage, decode_record, encode_record
    from litemq.format.record_v1 import decode_record_v1, encode_record_v1
    from litemq.format.scan import scan
    from litemq.types import Record, Stamp

HERE = Path(__file__).parent


def _with_right_crcs(data: bytes) -> bytes:
    """The checksums of the first record made to fit, wherever its size says that it ends."""
    if len(data) < 144:
        return data
    end = min(max(int.from_bytes(data[:4], "big"), 144), len(data))
    fixed = bytearray(data)
    fixed[4:8] = b"LMQ\x02"
    fixed[8:12] = crc32c(bytes(fixed[64:end])).to_bytes(4, "big")
    fixed[12:16] = crc32c(bytes(fixed[16:64])).to_bytes(4, "big")
    return bytes(fixed)


def scalar(data: bytes) -> None:
    """Both versions, one record at a time."""
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
    """Both versions by column, each verdict held against the scalar codec's."""
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
    sound = np.setdiff1d(np.arange(len(old)), list(faults))
    if sound.size:
        to_record_batch(old.subset(sound)).validate(full=True)


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
    """Valid records to begin with: the fuzzer finds the neighbours."""
    folder.mkdir(parents=True, exist_ok=True)
    full = Record("orders", b"body", "id-1", ("a", "b"), ("k",), {"p": "q", "订": "单"}, sharding_key="s", born_host="h", delay_time=5)
    one = Record("orders", b"x" * 20, "id-2", ("a",), ("key",), {"p": "q", "r": "s"})
    seeds = [
        encode_record(full, Stamp(8, 1, 2)),
        encode_record(full),
        encode_record(one, Stamp()) * 3,
        encode_record(one) * 3,
        encode_record_v1(full, Stamp()),
        encode_record_v1(one, Stamp()) * 2,
    ]
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(seed)


TARGETS = {"scalar": scalar, "columns": columns}


def main() -> None:
    """Fuzz one target for a number of minutes; ends with 0 when nothing was found."""
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
        # The instrumented comparisons of numpy arrays lose some 16 KB a run, which the same code without the fuzzer does not. What a
        # decoder may allocate is held by tests; here a single large allocation is what would give it away.
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
