"""Imports of a read task: neither pandas nor a client, which take longer than many tasks."""

import subprocess
import sys

_PROGRAM = """
import sys
import litemq.spark.source, litemq.spark.read.stream
from litemq.format.record_encode import encode_record
from litemq.spark.fetch import decode
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.types import Record, Stamp

made = [Record("t", b"b" * n, tags=("a",), properties={"k": "v" * n}) for n in range(3)]
records = b"".join(encode_record(record, Stamp()) for record in made)
assert sum(batch.num_rows for batch in decode(records, MESSAGE_SCHEMA.names, "a")) == 3
print(sorted({"pandas", "litemq.client.async_client", "litemq.client.engine.engine"} & set(sys.modules)))
"""


def test_reading_loads_only_what_reading_needs() -> None:
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
