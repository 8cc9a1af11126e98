"""Jobs: messages that a broker sends by itself, at the times of a schedule."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Unpack

from litemq.client.engine.engine import Backend
from litemq.client.engine.job import BackfillResult, Job, JobRun
from litemq.client.engine.job_options import JobOptions, set_body, set_options
from litemq.client.engine.jobs import PutHow, PutOutcome
from litemq.client.jobs.bulk_import import ImportResult, JobImport, NewJob
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, JobExistsError, JobNotFoundError
from litemq.net.failures import error_of
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.types import check_name

__all__ = ["UNCHANGED", "FoundJobs", "Jobs"]

_PAGE: Final = 500
UNCHANGED: Final[Any] = object()

FoundJobs = list[Job]


class Jobs:
    """``mq.jobs``: create jobs, look at them, pause and trigger them. A job lives on one broker, chosen by a hash of its id."""

    def __init__(self, backend: Backend, serializers: Serializers) -> None:
        self._backend = backend.jobs
        self._serializers = serializers

    async def create(self, topic: str, body: Any = b"", *, job_id: str = "", **options: Unpack[JobOptions]) -> Job:
        """A new job, which sends ``body`` to ``topic`` at the times of ``cron`` or ``every``. Raises ``JobExistsError`` where its id is taken."""
        definition = self._definition(topic, body, job_id or f"job-{uuid.uuid4().hex[:16]}", options)
        there = await self._find(definition.id) if job_id else None
        broker = await self._backend.home(definition)
        if there is not None and there.broker != broker:
            raise JobExistsError(
                f"there is a job {job_id!r} already, on broker {there.broker!r}: choose another id, or change it with `mq.jobs.update`, `litemq job create --replace`"
            )
        await self._put(broker, definition, PutHow.CREATE)
        return await self.get(definition.id)

    async def upsert(self, topic: str, body: Any = b"", *, job_id: str, **options: Unpack[JobOptions]) -> Job:
        """Create a job, or make the one of that id what is said here; one that is paused stays so."""
        definition = self._definition(topic, body, job_id, options)
        there = await self._find(job_id)
        await self._put(await self._backend.home(definition) if there is None else there.broker, definition, PutHow.EITHER)
        return await self.get(job_id)

    async def update(self, job_id: str, *, topic: str | None = None, body: Any = UNCHANGED, **options: Unpack[JobOptions]) -> Job:
        """Change what is said here of a job, and leave the rest. Ticks that were due before are not sent any more where the schedule is another."""
        there = await self.get(job_id)
        definition = JobDefinition()
        definition.CopyFrom(there.definition)
        if topic is not None:
            definition.topic = check_name(topic)
        if body is not UNCHANGED:
            set_body(definition, body, self._serializers)
        set_options(definition, options)
        if definition.ordering_key != there.definition.ordering_key or (definition.ordering_key and topic is not None):
            definition.ClearField("queue_id")
            if definition.ordering_key and await self._backend.home(definition) != there.broker:
                raise InvalidArgumentError(
                    f"the queue of ordering key {definition.ordering_key!r} is on another broker than job {job_id!r}: delete it, and create it anew"
                )
        await self._put(there.broker, definition, PutHow.CHANGE)
        return await self.get(job_id)

    async def get(self, job_id: str) -> Job:
        """A job. Raises ``JobNotFoundError`` where there is none."""
        found = await self._find(job_id)
        if found is None:
            raise JobNotFoundError(f"there is no job {job_id!r}: `litemq job list` shows those that there are")
        return found

    async def count(self) -> int:
        """How many jobs there are."""
        return sum([(await self._backend.page(broker, after=-1, most=1)).total for broker in await self._backend.brokers()])

    async def list(
        self, *, topic: str = "", group_id: str = "", prefix: str = "", paused: bool | None = None, most: int = 100
    ) -> FoundJobs:
        """Up to so many jobs that fit all that is said, on each broker in the order in which they were created."""
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        found: FoundJobs = []
        async for job in self._each(topic, group_id, prefix, paused):
            found.append(job)
            if len(found) >= most:
                break
        return found

    async def _each(self, topic: str, group_id: str, prefix: str, paused: bool | None) -> AsyncIterator[Job]:
        for broker in await self._backend.brokers():
            after, is_end = -1, False
            while not is_end:
                page = await self._backend.page(broker, after=after, most=_PAGE, topic=topic, group=group_id, prefix=prefix, paused=paused)
                for job in page.jobs:
                    yield job
                after, is_end = page.next_after, page.is_end

    async def pause(self, job_id: str) -> None:
        """Send nothing more by its schedule, until it is resumed; it can still be triggered."""
        _raise(await self._backend.pause((await self.get(job_id)).broker, [job_id], paused=True))

    async def resume(self, job_id: str) -> None:
        """Go on with the next tick. What was due meanwhile is counted as skipped; ``backfill`` sends it."""
        _raise(await self._backend.pause((await self.get(job_id)).broker, [job_id], paused=False))

    async def trigger(self, job_id: str) -> str:
        """Send its message now, whatever its schedule says; the message's id."""
        return await self._backend.trigger((await self.get(job_id)).broker, job_id, f"t{uuid.uuid4().hex[:12]}")

    async def backfill(self, job_id: str, since: datetime, until: datetime, *, dry_run: bool = False) -> BackfillResult:
        """Send a message for each tick from ``since`` to before ``until`` that is over and has none; with ``dry_run`` only count them.

        Whether one was sent is known as far back as the log goes.
        """
        begin, end = to_ms(since, "since"), to_ms(until, "until")
        if begin >= end:
            raise InvalidArgumentError(f"since={since} is not before until={until}")
        broker = (await self.get(job_id)).broker
        sent = there = 0
        while begin:
            some_sent, some_there, begin = await self._backend.backfill(broker, job_id, begin, end, dry_run=dry_run)
            sent, there = sent + some_sent, there + some_there
        return BackfillResult(sent, there)

    async def delete(self, job_id: str) -> None:
        """Delete a job; messages that it has sent stay."""
        _raise(await self._backend.delete((await self.get(job_id)).broker, [job_id]))

    async def history(self, job_id: str, *, most: int = 20) -> Sequence[JobRun]:
        """Its latest messages, as far back as the log goes, and what became of them; the latest first."""
        return await self._backend.history((await self.get(job_id)).broker, job_id, most)

    async def import_(self, jobs: Iterable[NewJob], *, dry_run: bool = False) -> ImportResult:
        """Create or change many jobs, some hundred with each request. Those that cannot be are told, and the others done."""
        return await JobImport(self._backend, self._definition, dry_run=dry_run).run(jobs)

    # ------------------------------------------------------------------------------------------------------------------------------

    def _definition(self, topic: str, body: Any, job_id: str, options: JobOptions) -> JobDefinition:
        definition = JobDefinition(id=check_name(job_id, "job"), topic=check_name(topic))
        set_options(definition, options)
        set_body(definition, body, self._serializers)
        return definition

    async def _find(self, job_id: str) -> Job | None:
        for broker in await self._backend.brokers():
            for job in await self._backend.get(broker, [job_id]):
                return job
        return None

    async def _put(self, broker: str, definition: JobDefinition, how: PutHow) -> None:
        _raise(await self._backend.put(broker, [definition], how, dry_run=False))


def _raise(outcomes: Sequence[PutOutcome]) -> None:
    for outcome in outcomes:
        if outcome.code:
            raise error_of(outcome.code, outcome.problem)
