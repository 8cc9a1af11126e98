"""Scheduled messages: ``mq.jobs``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Unpack

from litemq.client.engine.engine import Engine
from litemq.client.engine.job import BackfillResult, Job, JobRun
from litemq.client.engine.job_options import JobOptions, set_body, set_options
from litemq.client.engine.jobs import PutHow, PutOutcome
from litemq.client.engine.survey import Survey
from litemq.client.jobs.bulk_import import ImportResult, JobImport, NewJob
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, JobExistsError, JobNotFoundError
from litemq.net.failures import error_from_code
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.types import check_name

__all__ = ["UNCHANGED", "FoundJobs", "Jobs"]

_PAGE: Final = 500
UNCHANGED: Final[Any] = object()

FoundJobs = list[Job]


class Jobs:
    """Creates, changes, lists and triggers jobs.

    A job lives on one broker, selected by a hash of its id.
    """

    def __init__(self, engine: Engine, serializers: Serializers) -> None:
        self._survey = engine.survey
        self._engine = engine.jobs
        self._serializers = serializers

    async def create(self, topic: str, body: Any = b"", *, job_id: str = "", **options: Unpack[JobOptions]) -> Job:
        """Create a job, which sends ``body`` to ``topic`` on a schedule.

        Args:
            topic: The topic to send to.
            body: As in ``mq.send``.
            job_id: The id. Default: a random one.
            options: ``cron`` or ``every``, and the other fields of ``JobOptions``.

        Returns:
            The new job.

        Raises:
            JobExistsError: A job with this id exists.
            CronSyntaxError: The schedule is invalid, or never matches.
            InvalidArgumentError, SerializationError: An argument is invalid.
            OverloadedError: The broker has as many jobs as it allows.
            NoRouteError, NetworkError: No broker can be reached.
        """
        definition = self._definition(topic, body, job_id or f"job-{uuid.uuid4().hex[:16]}", options)
        existing = await self._find(definition.id) if job_id else None
        broker = await self._engine.home_broker(definition)
        if existing is not None and existing.broker != broker:
            raise JobExistsError(
                f"job {job_id!r} already exists, on broker {existing.broker!r}: choose another id, or change it with "
                "`mq.jobs.update` or `litemq job create --replace`"
            )
        await self._put(broker, definition, PutHow.CREATE)
        return await self.get(definition.id)

    async def upsert(self, topic: str, body: Any = b"", *, job_id: str, **options: Unpack[JobOptions]) -> Job:
        """Create a job, or replace the definition of the job with this id.

        A paused job stays paused.

        Args:
            topic: The topic to send to.
            body: As in ``mq.send``.
            job_id: The id.
            options: ``cron`` or ``every``, and the other fields of ``JobOptions``.

        Returns:
            The job.

        Raises:
            CronSyntaxError: The schedule is invalid, or never matches.
            InvalidArgumentError, SerializationError: An argument is invalid.
            OverloadedError: The broker has as many jobs as it allows.
            NoRouteError, NetworkError: No broker can be reached.
        """
        definition = self._definition(topic, body, job_id, options)
        existing = await self._find(job_id)
        await self._put(
            await self._engine.home_broker(definition) if existing is None else existing.broker,
            definition,
            PutHow.EITHER,
        )
        return await self.get(job_id)

    async def update(
        self, job_id: str, *, topic: str | None = None, body: Any = UNCHANGED, **options: Unpack[JobOptions]
    ) -> Job:
        """Change the named fields of a job.

        If the schedule changes, ticks that were due before are not sent.

        Args:
            job_id: The id.
            topic: The new topic.
            body: The new body.
            options: The fields of ``JobOptions`` to change.

        Returns:
            The changed job.

        Raises:
            JobNotFoundError: No job has this id.
            CronSyntaxError: The schedule is invalid, or never matches.
            InvalidArgumentError, SerializationError: An argument is invalid, or the job would move
                to another broker.
            NoRouteError, NetworkError: No broker can be reached.
        """
        existing = await self.get(job_id)
        definition = JobDefinition()
        definition.CopyFrom(existing.definition)
        if topic is not None:
            definition.topic = check_name(topic)
        if body is not UNCHANGED:
            set_body(definition, body, self._serializers)
        set_options(definition, options)
        if definition.ordering_key != existing.definition.ordering_key or (
            definition.ordering_key and topic is not None
        ):
            definition.ClearField("queue_id")
            if definition.ordering_key and await self._engine.home_broker(definition) != existing.broker:
                raise InvalidArgumentError(
                    f"the queue of ordering key {definition.ordering_key!r} is on another broker than job {job_id!r}: "
                    "delete the job, and create it again"
                )
        await self._put(existing.broker, definition, PutHow.CHANGE)
        return await self.get(job_id)

    async def get(self, job_id: str) -> Job:
        """Return a job.

        Args:
            job_id: The id.

        Raises:
            JobNotFoundError: No job has this id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        survey, found = await self._search(job_id)
        if found is not None:
            return found
        survey.require_all(f"the others do not have job {job_id!r}")
        raise JobNotFoundError(f"there is no job {job_id!r}: `litemq job list` shows all jobs")

    async def count(self) -> int:
        """Return the number of jobs.

        Raises:
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        survey = await self._survey()
        pages = await survey.ask(lambda broker: self._engine.page(broker, after=-1, limit=1))
        return survey.complete(sum(page.total for _, page in pages))

    async def list(
        self, *, topic: str = "", group_id: str = "", prefix: str = "", paused: bool | None = None, most: int = 100
    ) -> FoundJobs:
        """Return the jobs that match all arguments, by broker, in the order of their creation.

        Args:
            topic: Only jobs that send to this topic.
            group_id: Only jobs of this group.
            prefix: Only jobs whose id starts with this.
            paused: Only paused jobs, or only the others.
            most: Return at most this many.

        Raises:
            InvalidArgumentError: ``most`` is less than 1.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        found: FoundJobs = []
        survey = await self._survey()
        for broker in survey.brokers:
            after, is_end = -1, False
            with survey.asking(broker):
                while not is_end and len(found) < most:
                    page = await self._engine.page(
                        broker, after=after, limit=_PAGE, topic=topic, group=group_id, prefix=prefix, paused=paused
                    )
                    found += page.jobs
                    after, is_end = page.next_after, page.is_end
        return survey.complete(found[:most])

    async def pause(self, job_id: str) -> None:
        """Pause a job: its schedule sends nothing until ``resume``. ``trigger`` still works.

        Args:
            job_id: The id.

        Raises:
            JobNotFoundError: No job has this id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        _raise_first(await self._engine.pause((await self.get(job_id)).broker, [job_id], paused=True))

    async def resume(self, job_id: str) -> None:
        """Resume a paused job with its next tick.

        Missed ticks count as skipped; ``backfill`` sends them.

        Args:
            job_id: The id.

        Raises:
            JobNotFoundError: No job has this id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        _raise_first(await self._engine.pause((await self.get(job_id)).broker, [job_id], paused=False))

    async def trigger(self, job_id: str) -> str:
        """Send the message of a job now, independently of its schedule.

        Args:
            job_id: The id.

        Returns:
            The id of the message.

        Raises:
            JobNotFoundError: No job has this id.
            InvalidArgumentError: The job's topic was deleted.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.trigger((await self.get(job_id)).broker, job_id, f"t{uuid.uuid4().hex[:12]}")

    async def backfill(self, job_id: str, since: datetime, until: datetime, *, dry_run: bool = False) -> BackfillResult:
        """Send a message for each past tick from ``since`` to before ``until`` that has none.

        The broker knows the ticks sent as far back as its log goes.

        Args:
            job_id: The id.
            since: The start, with a time zone.
            until: The end, with a time zone.
            dry_run: Count the ticks, and send nothing.

        Returns:
            How many were sent, and how many had been sent before.

        Raises:
            JobNotFoundError: No job has this id.
            InvalidArgumentError: ``since`` is not before ``until``, or the job's topic was deleted.
            NoRouteError, NetworkError: No broker can be reached.
        """
        begin, end = to_ms(since, "since"), to_ms(until, "until")
        if begin >= end:
            raise InvalidArgumentError(f"since={since} is not before until={until}")
        broker = (await self.get(job_id)).broker
        sent = known = 0
        while begin:
            some_sent, some_known, begin = await self._engine.backfill(broker, job_id, begin, end, dry_run=dry_run)
            sent, known = sent + some_sent, known + some_known
        return BackfillResult(sent, known)

    async def delete(self, job_id: str) -> None:
        """Delete a job. Messages that it has sent stay.

        Args:
            job_id: The id.

        Raises:
            JobNotFoundError: No job has this id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        _raise_first(await self._engine.delete((await self.get(job_id)).broker, [job_id]))

    async def history(self, job_id: str, *, most: int = 20) -> Sequence[JobRun]:
        """Return the latest runs of a job and their outcome, newest first.

        Args:
            job_id: The id.
            most: Return at most this many.

        Raises:
            JobNotFoundError: No job has this id.
            InvalidArgumentError: ``most`` is out of range.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.history((await self.get(job_id)).broker, job_id, most)

    async def import_(self, jobs: Iterable[NewJob], *, dry_run: bool = False) -> ImportResult:
        """Create or change many jobs, hundreds per request.

        Args:
            jobs: The arguments of ``create`` for each job, as mappings.
            dry_run: Check the jobs, and change nothing.

        Returns:
            The numbers of created, changed and unchanged jobs, and the invalid jobs with their
            errors.

        Raises:
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await JobImport(self._engine, self._definition, dry_run=dry_run).run(jobs)

    # ----------------------------------------------------------------------------------------------

    def _definition(self, topic: str, body: Any, job_id: str, options: JobOptions) -> JobDefinition:
        definition = JobDefinition(id=check_name(job_id, "job"), topic=check_name(topic))
        set_body(definition, body, self._serializers)
        set_options(definition, options)  # last: its property ``content-type`` takes precedence, as in a send
        return definition

    async def _find(self, job_id: str) -> Job | None:
        """Return a job on a broker that answers: with another one down, jobs are still created."""
        return (await self._search(job_id))[1]

    async def _search(self, job_id: str) -> tuple[Survey, Job | None]:
        survey = await self._survey()
        found = [job for _, jobs in await survey.ask(lambda each: self._engine.get(each, [job_id])) for job in jobs]
        return survey, found[0] if found else None

    async def _put(self, broker: str, definition: JobDefinition, how: PutHow) -> None:
        _raise_first(await self._engine.put(broker, [definition], how, dry_run=False))


def _raise_first(outcomes: Sequence[PutOutcome]) -> None:
    for outcome in outcomes:
        if outcome.code:
            raise error_from_code(outcome.code, outcome.problem)
