"""Many jobs at once: some hundred with each request, several requests on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from litemq.client.engine.job import ImportResult, RefusedJob
from litemq.client.engine.job_options import JobOptions
from litemq.client.engine.jobs import JobBackend, PutHow
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.proto.jobs_pb2 import JobDefinition

__all__ = ["ImportResult", "JobImport", "NewJob"]

_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 1 << 20
_IN_FLIGHT: Final = 3
_MOST_REFUSED: Final = 10_000  # that are told

# What create takes, by name: job_id, topic and body, cron or every, and the other options. Times may be text, as JSON has them.
NewJob = Mapping[str, Any]
Define = Callable[[str, Any, str, JobOptions], JobDefinition]
_Numbered = tuple[int, JobDefinition]


class JobImport:
    """One import; ``run`` it once."""

    def __init__(self, backend: JobBackend, define: Define, *, dry_run: bool) -> None:
        self._backend = backend
        self._define = define
        self._dry_run = dry_run
        self._done = {"created": 0, "changed": 0, "unchanged": 0}
        self._refused: list[RefusedJob] = []
        self._room = asyncio.Semaphore(_IN_FLIGHT)

    async def run(self, jobs: Iterable[NewJob]) -> ImportResult:
        """Put all of them; raises what is no job's own fault."""
        brokers = await self._backend.brokers()
        waiting: dict[str, list[_Numbered]] = {}
        sizes: dict[str, int] = {}
        async with asyncio.TaskGroup() as requests:
            for number, given in enumerate(jobs, 1):
                try:
                    definition = self._defined(given)
                    broker = await self._backend.home(definition)
                except LiteMQError as error:
                    self._refuse(number, str(given.get("job_id", "")) if isinstance(given, Mapping) else "", str(error))
                    continue
                waiting.setdefault(broker, []).append((number, definition))
                sizes[broker] = sizes.get(broker, 0) + definition.ByteSize()
                if len(waiting[broker]) >= _AT_ONCE or sizes[broker] >= _BYTES_AT_ONCE:
                    sizes[broker] = 0
                    await self._room.acquire()
                    requests.create_task(self._put(broker, waiting.pop(broker), brokers))
            for broker, rest in waiting.items():
                await self._room.acquire()
                requests.create_task(self._put(broker, rest, brokers))
        self._refused.sort()
        return ImportResult(self._done["created"], self._done["changed"], self._done["unchanged"], tuple(self._refused))

    def _defined(self, given: NewJob) -> JobDefinition:
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(f"{str(given)[:80]!r} is no job: give a mapping with job_id, topic, body and cron or every")
        options: Any = dict(given)
        job_id, topic, body = (options.pop(name, default) for name, default in (("job_id", ""), ("topic", ""), ("body", b"")))
        if not isinstance(job_id, str) or not isinstance(topic, str):
            raise InvalidArgumentError("job_id and topic are text")
        for name in ("start_at", "end_at"):
            if isinstance(options.get(name), str):
                options[name] = _time(options[name], name)
        return self._define(topic, body, job_id, options)

    async def _put(self, home: str, jobs: list[_Numbered], brokers: list[str]) -> None:
        try:
            for broker, some in (await self._where(home, jobs, brokers)).items():
                outcomes = await self._backend.put(broker, [job for _, job in some], PutHow.EITHER, dry_run=self._dry_run)
                for (number, job), outcome in zip(some, outcomes, strict=True):
                    if outcome.code:
                        self._refuse(number, job.id, outcome.problem)
                    else:
                        self._done[outcome.done] += 1
        finally:
            self._room.release()

    async def _where(self, home: str, jobs: list[_Numbered], brokers: list[str]) -> dict[str, list[_Numbered]]:
        """Where each job lives, if it is there, or will: brokers may have come since it was created."""
        lives: dict[str, str] = {}
        for broker in brokers:
            if broker != home:
                lives.update({job.job_id: broker for job in await self._backend.get(broker, [job.id for _, job in jobs])})
        found: dict[str, list[_Numbered]] = {}
        for each in jobs:
            found.setdefault(lives.get(each[1].id, home), []).append(each)
        return found

    def _refuse(self, number: int, job_id: str, problem: str) -> None:
        if len(self._refused) < _MOST_REFUSED:
            self._refused.append(RefusedJob(number, job_id, problem))
        elif len(self._refused) == _MOST_REFUSED:
            self._refused.append(RefusedJob(number, job_id, "and more: mend these first"))


def _time(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(f"{name}={text!r} is no time: write 2026-01-31T12:00:00Z") from None
