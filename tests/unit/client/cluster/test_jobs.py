"""The home broker of a job."""

from litemq.client.cluster.jobs import ClusterJobs
from litemq.client.engine.routes import BrokerAddress, Route, queue_for_key
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.types import Durability
from support.on_loop import on_loop


def _jobs(*names: str, queues: int = 4, has_priorities: bool = False) -> ClusterJobs:
    brokers = tuple(
        BrokerAddress(name, "h", 1, queues, Durability.DISK, has_priorities=has_priorities) for name in names
    )

    async def route(topic: str) -> Route:
        return Route(topic, brokers)

    async def no_request(*_: object) -> bytes:
        raise AssertionError

    async def alive() -> list[str]:
        return list(names)

    return ClusterJobs(no_request, alive, route)


@on_loop
async def test_jobs_spread_evenly_and_few_move_to_a_new_broker() -> None:
    ids = [f"job-{number}" for number in range(3000)]
    three = [await _jobs("a", "b", "c").home_broker(JobDefinition(id=job_id, topic="t")) for job_id in ids]
    four = [await _jobs("a", "b", "c", "d").home_broker(JobDefinition(id=job_id, topic="t")) for job_id in ids]
    assert all(900 < three.count(name) < 1100 for name in "abc")
    assert all(before == after or after == "d" for before, after in zip(three, four, strict=True))
    assert [
        await _jobs("c", "a", "b").home_broker(JobDefinition(id=job_id, topic="t")) for job_id in ids[:50]
    ] == three[:50]


@on_loop
async def test_a_job_with_an_ordering_key_is_where_its_key_is() -> None:
    for key in ("k", "l", "m"):
        job = JobDefinition(id="j", topic="t", ordering_key=key)
        broker = await _jobs("a", "b").home_broker(job)
        assert (broker, job.queue_id) == [
            ("a", 0),
            ("a", 1),
            ("a", 2),
            ("a", 3),
            ("b", 0),
            ("b", 1),
            ("b", 2),
            ("b", 3),
        ][queue_for_key(key, 8)]
        job = JobDefinition(id="j", topic="t", ordering_key=key, priority=255)
        broker = await _jobs("a", "b", queues=16, has_priorities=True).home_broker(job)
        assert (broker, job.queue_id) == [("a", 7), ("a", 15), ("b", 7), ("b", 15)][queue_for_key(key, 4)]
