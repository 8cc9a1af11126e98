"""Bulk import of jobs: hundreds per request, several requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from litemq.client.engine.job import ImportResult, RefusedJob
from litemq.client.engine.job_options import JobOptions
from litemq.client.engine.jobs import JobEngine, PutHow
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.proto.jobs_pb2 import JobDefinition

__all__ = ["ImportResult", "JobImport", "NewJob"]

_MAX_BATCH: Final = 500
_MAX_BATCH_BYTES: Final = 1 << 20
_IN_FLIGHT: Final = 3
_MAX_REFUSED: Final = 10_000  # invalid jobs listed in the result

# The arguments of ``create`` by name. Times may be ISO 8601 strings.
NewJob = Mapping[str, Any]
Define = Callable[[str, Any, str, JobOptions], JobDefinition]
_Numbered = tuple[int, JobDefinition]


class JobImport:
    """One import. Call ``run`` once."""

    def __init__(self, engine: JobEngine, define: Define, *, dry_run: bool) -> None:
        self._engine = engine
        self._define = define
        self._dry_run = dry_run
        self._done = {"created": 0, "changed": 0, "unchanged": 0}
        self._refused: list[RefusedJob] = []
        self._slots = asyncio.Semaphore(_IN_FLIGHT)

    async def run(self, jobs: Iterable[NewJob]) -> ImportResult:
        """Create or change ``jobs``.

        Invalid jobs are listed in the result; other errors are raised.
        """
        brokers = await self._engine.brokers()
        pending: dict[str, list[_Numbered]] = {}
        sizes: dict[str, int] = {}
        async with asyncio.TaskGroup() as requests:
            for number, given in enumerate(jobs, 1):
                try:
                    definition = self._parse(given)
                    broker = await self._engine.home_broker(definition)
                except LiteMQError as error:
                    self._refuse(number, str(given.get("job_id", "")) if isinstance(given, Mapping) else "", str(error))
                    continue
                pending.setdefault(broker, []).append((number, definition))
                sizes[broker] = sizes.get(broker, 0) + definition.ByteSize()
                if len(pending[broker]) >= _MAX_BATCH or sizes[broker] >= _MAX_BATCH_BYTES:
                    sizes[broker] = 0
                    await self._slots.acquire()
                    requests.create_task(self._put(broker, pending.pop(broker), brokers))
            for broker, rest in pending.items():
                await self._slots.acquire()
                requests.create_task(self._put(broker, rest, brokers))
        self._refused.sort()
        return ImportResult(self._done["created"], self._done["changed"], self._done["unchanged"], tuple(self._refused))

    def _parse(self, given: NewJob) -> JobDefinition:
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(
                f"{str(given)[:80]!r} is not a job: pass a mapping with job_id, topic, body and cron or every"
            )
        options: Any = dict(given)
        job_id, topic, body = (
            options.pop(name, default) for name, default in (("job_id", ""), ("topic", ""), ("body", b""))
        )
        if not isinstance(job_id, str) or not isinstance(topic, str):
            raise InvalidArgumentError("job_id and topic must be strings")
        for name in ("start_at", "end_at"):
            if isinstance(options.get(name), str):
                options[name] = _time(options[name], name)
        return self._define(topic, body, job_id, options)

    async def _put(self, home: str, jobs: list[_Numbered], brokers: list[str]) -> None:
        try:
            for broker, some in (await self._group_by_broker(home, jobs, brokers)).items():
                outcomes = await self._engine.put(
                    broker, [job for _, job in some], PutHow.EITHER, dry_run=self._dry_run
                )
                for (number, job), outcome in zip(some, outcomes, strict=True):
                    if outcome.code:
                        self._refuse(number, job.id, outcome.problem)
                    else:
                        self._done[outcome.done] += 1
        finally:
            self._slots.release()

    async def _group_by_broker(
        self, home: str, jobs: list[_Numbered], brokers: list[str]
    ) -> dict[str, list[_Numbered]]:
        """Group ``jobs`` by the broker that has each one, or else by ``home``."""
        known: dict[str, str] = {}
        for broker in brokers:
            if broker != home:
                known.update(
                    {job.job_id: broker for job in await self._engine.get(broker, [job.id for _, job in jobs])}
                )
        found: dict[str, list[_Numbered]] = {}
        for each in jobs:
            found.setdefault(known.get(each[1].id, home), []).append(each)
        return found

    def _refuse(self, number: int, job_id: str, problem: str) -> None:
        if len(self._refused) < _MAX_REFUSED:
            self._refused.append(RefusedJob(number, job_id, problem))
        elif len(self._refused) == _MAX_REFUSED:
            self._refused.append(RefusedJob(number, job_id, "and more: correct these first"))


def _time(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(f"{name}={text!r} is not a time: write it as 2026-01-31T12:00:00Z") from None
