"""Coverage-guided fuzzing of the frame parser and of every network handler: ``just fuzz-net``.

Each input is a sequence of requests, passing time and misbehaviour of clients. A request must end
in one answer or one refusal, or wait no longer than the protocol allows. Every other exception is
a finding: raised, logged, or lost in a task. So is an error that stays in memory because it is part
of a reference cycle, and memory that grows by more than 64 MiB, although the server is replaced
every few inputs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, Protocol

import atheris
from atheris.import_hook import HookManager

# Without tracing of comparisons, which leaks memory when it compares arrays of numpy.
with HookManager({"litemq"}, set(), True, False):
    from fuzz.servers.broker_service import BrokerService
    from fuzz.servers.client import Tally
    from fuzz.servers.findings import LoggedErrors
    from fuzz.servers.frame_service import FrameService
    from fuzz.servers.name_service import NAMESERVER_OPCODES, NameService
    from fuzz.servers.schema import REQUESTS
    from fuzz.servers.virtual_loop import VirtualLoop

    from litemq.errors import LiteMQError
    from litemq.proto.wire_pb2 import Opcode

HERE = Path(__file__).parent
_MAX_GROWTH: Final = 64 << 20
_MAX_INPUT: Final = 4096
_SEEDS_PER_PREFIX: Final = 2


class _Service(Protocol):
    """A server under the fuzzer."""

    opcodes: list[int]

    def play(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Target:
    """A way to start a server, and the number of inputs after which a new one replaces it.

    ``prefixes`` are the first bytes of the seeds: together, they use every opcode.
    """

    def __init__(
        self, start: Callable[[VirtualLoop, Tally], _Service], inputs_per_server: int, prefixes: list[bytes]
    ) -> None:
        self.start = start
        self.inputs_per_server = inputs_per_server
        self.prefixes = prefixes


# One request each: a step, the number of its opcode, and a header of the right type.
_REQUESTS: Final = [bytes([0, number, 128]) for number in range(len(REQUESTS))]
_GREETING: Final = bytes([2, 128])
_PING: Final = bytes([4, 0, 0, Opcode.PING, 1, 0])
# Two connections with a long frame each: the second waits until the first has sent all of its own.
_LONG_FRAMES: Final = b"".join(
    (
        _GREETING + bytes([8, 3, 0]),
        bytes([13, 0]) + _GREETING + bytes([8, 4, 0]),
        bytes([13, 1, 0]) + bytes([9, 5]),
        bytes([13, 1, 1]) + bytes([9, 6]),
    )
)
TARGETS: Final = {
    "frames": _Target(FrameService, 200, [_GREETING, _GREETING + _PING, _LONG_FRAMES]),
    "broker": _Target(BrokerService, 25, _REQUESTS),
    "disk": _Target(lambda loop, tally: BrokerService(loop, tally, on_disk=True), 25, _REQUESTS),
    "nameserver": _Target(NameService, 200, _REQUESTS),
}


class Fuzzer:
    """Plays inputs on one server after another, and judges the process after each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._target = TARGETS[name]
        self._loop = VirtualLoop()  # a new one for each server
        self._tally = Tally()
        gc.disable()
        self._logged = LoggedErrors()
        self._logged.install()
        self._server: _Service | None = None
        self._played: list[bytes] = []  # by the server
        self._memory_at_start = 0
        self._warm_after = 0  # executions
        self._until = 0.0
        self.executions = 0
        self._opcodes: list[int] = []

    def play(self, data: bytes) -> None:
        """Play one input, on a new server if the last one has played enough."""
        if self._server is None:
            random.seed(7)  # of the tokens of leases: a finding can be replayed
            self._loop = VirtualLoop()
            self._server = self._target.start(self._loop, self._tally)
            self._opcodes = self._server.opcodes
            gc.freeze()  # so that the collection after each input is quick
        self._played.append(data)
        self._server.play(data)
        self.executions += 1
        self._check()
        self._check_cycles()
        if len(self._played) >= self._target.inputs_per_server:
            self.replace_server()

    def replace_server(self) -> None:
        """Stop the server; the next input starts another."""
        if self._server is not None:
            self._server.close()
            self._server = None
            gc.unfreeze()
            assert not asyncio.all_tasks(self._loop), f"tasks run on: {asyncio.all_tasks(self._loop)}"
            self._loop.close()
            self._check()
            self._played.clear()
            gc.collect()
            self._check_memory()

    def _check_cycles(self) -> None:
        """Fail if refused requests left errors that only the garbage collector can free.

        Their tracebacks keep the buffers of the requests. Between inputs, no collection hides them.
        """
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        errors = [each for each in gc.garbage if isinstance(each, LiteMQError) and each.__traceback__ is not None]
        traces = Counter("".join(traceback.format_exception(error)) for error in errors)
        gc.garbage.clear()
        errors.clear()
        gc.collect()
        assert not traces, "errors in cycles:\n" + "\n".join(f"{count} x {trace}" for trace, count in traces.items())

    def _check(self) -> None:
        self._logged.check(self._loop.unhandled)

    def _check_memory(self) -> None:
        """Note the memory after the first inputs of the fuzzer; later, fail if it has grown."""
        if not self._memory_at_start:
            if self._until and self.executions >= self._warm_after:
                gc.collect()
                self._memory_at_start = anonymous_bytes()
            return
        growth = anonymous_bytes() - self._memory_at_start
        if growth > _MAX_GROWTH:
            gc.collect()
            growth = anonymous_bytes() - self._memory_at_start
        assert growth <= _MAX_GROWTH, f"memory grew by {growth >> 20} MiB in {self.executions} executions"

    def warm_up(self, seeds: list[bytes]) -> None:
        """Play ``seeds``, which use every opcode, so that lazy imports and caches are in memory."""
        for seed in seeds:
            self.guarded(partial(self.play, seed))
        self.guarded(self.replace_server)
        missing = [REQUESTS[opcode].name for opcode in self._opcodes if not self._tally.parsable[opcode]]
        assert not missing, f"no request with the opcodes {missing} was made"

    def fuzz(self, minutes: float, corpus: Path, findings: Path) -> NoReturn:
        """Play inputs that the fuzzer makes, for ``minutes``; then exit."""
        self._until = time.monotonic() + 60 * minutes
        self._warm_after = self.executions + 2 * self._target.inputs_per_server
        options = [
            f"-max_len={_MAX_INPUT}",
            "-timeout=300",  # for a busy machine: only an endless loop takes as long
            "-rss_limit_mb=4096",
            f"-artifact_prefix={findings}/",
            str(corpus),
        ]
        atheris.Setup([sys.argv[0], *options], self._play_until_end)
        atheris.Fuzz()
        raise AssertionError("the fuzzer exits by itself")

    def _play_until_end(self, data: bytes) -> None:
        self.guarded(partial(self.play, data))
        if time.monotonic() > self._until and self._memory_at_start:
            self.guarded(self.replace_server)
            self.report()
            sys.stdout.flush()
            os._exit(0)  # the fuzzer does not return to Python

    def guarded(self, act: Callable[[], None]) -> None:
        """Call ``act``. If it fails, save the inputs of this server, name them, and exit."""
        try:
            act()
        except BaseException:  # noqa: BLE001  every exception is a finding
            traceback.print_exc()
            print("\n".join(dict.fromkeys(self._loop.unhandled + self._logged.problems)))
            folder = HERE / "findings" / self._name / time.strftime("%Y%m%d-%H%M%S")
            folder.mkdir(parents=True, exist_ok=True)
            for number, each in enumerate(self._played):
                (folder / f"{number:04}").write_bytes(each)
            self.report()
            print(f"FINDING after {len(self._played)} inputs of a server, the last of which is {self._played[-1:]}")
            print(f"Replay them: python -m fuzz.network {self._name} --replay {folder}")
            sys.stdout.flush()
            os._exit(1)

    def report(self) -> None:
        """Print the requests by opcode, the executions and the memory."""
        print("\n".join(self._tally.lines(self._opcodes)))
        before, after = self._memory_at_start >> 20, anonymous_bytes() >> 20
        print(f"{self._name}: {self.executions} executions; memory {before} MiB at the start, {after} MiB at the end")


def anonymous_bytes() -> int:
    """Return the resident memory of this process, without that of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise AssertionError("this system does not tell a process its memory")


def make_seeds(target: str) -> list[bytes]:
    """Make the first inputs of a target: its prefixes, each with some arbitrary bytes."""
    chance = random.Random(7)  # the same seeds each time
    prefixes = TARGETS[target].prefixes
    arbitrary = [prefix + chance.randbytes(300) for prefix in prefixes for _ in range(_SEEDS_PER_PREFIX)]
    return [*prefixes, *arbitrary]


def check_opcodes() -> None:
    """Fail unless each opcode of the schema is a request to a broker or to a NameServer."""
    loop = VirtualLoop()
    broker = BrokerService(loop, Tally(), on_disk=True)
    handled = {*broker.opcodes, *NAMESERVER_OPCODES, Opcode.OPCODE_UNKNOWN, Opcode.HELLO, Opcode.PING}
    broker.close()
    loop.close()
    missing = [name for name, opcode in Opcode.items() if opcode not in handled]
    assert not missing, f"no target sends {missing}"


def main() -> None:
    """Fuzz one target for a number of minutes; exit with 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="play the inputs of a finding, with one server")
    arguments = parser.parse_args()
    fuzzer = Fuzzer(arguments.target)
    if arguments.replay is not None:
        for path in sorted(arguments.replay.iterdir()):
            fuzzer.play(path.read_bytes())
        fuzzer.replace_server()
        fuzzer.report()
        return
    check_opcodes()
    corpus = HERE / "corpus" / arguments.target
    findings = HERE / "findings" / arguments.target
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = make_seeds(arguments.target)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    fuzzer.warm_up(seeds)
    fuzzer.fuzz(arguments.minutes, corpus, findings)


if __name__ == "__main__":
    main()
