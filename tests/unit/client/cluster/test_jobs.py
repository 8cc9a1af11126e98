"""Which broker a job lives on."""

from litemq.client.cluster.jobs import ClusterJobs
from litemq.client.engine.routes import BrokerPlace, Route, queue_of_key
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.types import Durability
from support.on_loop import on_loop


def _jobs(*names: str, queues: int = 4, has_priorities: bool = False) -> ClusterJobs:
    places = tuple(BrokerPlace(name, "h", 1, queues, Durability.DISK, has_priorities=has_priorities) for name in names)

    async def route(topic: str) -> Route:
        return Route(topic, places)

    async def nobody(*_: object) -> bytes:
        raise AssertionError

    async def alive() -> list[str]:
        return list(names)

    return ClusterJobs(nobody, alive, route)


@on_loop
async def test_evenly_by_id_and_few_move_when_a_broker_comes() -> None:
    ids = [f"job-{number}" for number in range(3000)]
    three = [await _jobs("a", "b", "c").home(JobDefinition(id=job_id, topic="t")) for job_id in ids]
    four = [await _jobs("a", "b", "c", "d").home(JobDefinition(id=job_id, topic="t")) for job_id in ids]
    assert all(900 < three.count(name) < 1100 for name in "abc")
    assert all(before == after or after == "d" for before, after in zip(three, four, strict=True))
    assert [await _jobs("c", "a", "b").home(JobDefinition(id=job_id, topic="t")) for job_id in ids[:50]] == three[:50]


@on_loop
async def test_with_an_ordering_key_where_the_key_is() -> None:
    for key in ("k", "l", "m"):
        job = JobDefinition(id="j", topic="t", ordering_key=key)
        broker = await _jobs("a", "b").home(job)
        assert (broker, job.queue_id) == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("b", 1), ("b", 2), ("b", 3)][
            queue_of_key(key, 8)
        ]
        job = JobDefinition(id="j", topic="t", ordering_key=key, priority=255)
        broker = await _jobs("a", "b", queues=16, has_priorities=True).home(job)
        assert (broker, job.queue_id) == [("a", 7), ("a", 15), ("b", 7), ("b", 15)][queue_of_key(key, 4)]
