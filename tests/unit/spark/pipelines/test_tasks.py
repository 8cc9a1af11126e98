"""Division of a batch into tasks: every message once, in order, in tasks of similar size."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.spark.fetch import QueueSpan
from litemq.spark.pipelines.tasks import plan_tasks

MIB = 1 << 20
SPANS = st.lists(
    st.builds(
        lambda broker, topic, queue, begin, count: QueueSpan(broker, topic, queue, begin, begin + count),
        st.sampled_from("ab"),
        st.sampled_from(["orders", "payments"]),
        st.integers(0, 7),
        st.integers(0, 10**9),
        st.one_of(st.integers(0, 5), st.integers(0, 10**6)),
    ),
    max_size=20,
    unique_by=lambda span: span[:3],
)


@given(SPANS, st.sampled_from([1, 100.0, 5000.5]), st.integers(MIB, 512 * MIB), st.integers(1, 5))
def test_every_message_is_in_one_task(spans: list[QueueSpan], row_bytes: float, task_bytes: int, cores: int) -> None:
    tasks = plan_tasks(spans, lambda _: row_bytes, task_bytes, cores)
    assert all(span.end > span.begin for task in tasks for span in task)
    assert all(tasks)
    dealt = [span for task in tasks for span in task]
    for span in spans:
        mine = sorted(one for one in dealt if one[:3] == span[:3])
        assert [number for one in mine for number in (one.begin, one.end)] == _chain(span, mine)
    assert all(task == sorted(task) for task in tasks)
    assert len({span[:3] for span in dealt}) == sum(span.end > span.begin for span in spans)


def _chain(span: QueueSpan, mine: list[QueueSpan]) -> list[int]:
    """Check that each part begins where the previous one ends."""
    if not mine:
        assert span.end == span.begin
        return []
    inner = [one.end for one in mine[:-1]]
    return [span.begin, *(number for number in inner for _ in range(2)), span.end]


def test_tasks_are_of_one_size() -> None:
    tasks = plan_tasks(
        [QueueSpan("a", "orders", 0, 0, 1_000_000), QueueSpan("a", "orders", 1, 0, 10)], lambda _: 1024.0, 128 * MIB, 2
    )
    sizes = [sum(span.end - span.begin for span in task) for task in tasks]
    assert len(tasks) == 8
    assert max(sizes) - min(sizes) <= 10


def test_what_is_little_is_one_task() -> None:
    spans = [QueueSpan("a", "orders", queue, 0, 10) for queue in range(100)]
    assert len(plan_tasks(spans, lambda _: 1024.0, 128 * MIB, 2)) == 1


def test_the_last_round_has_work_for_all_cores_unless_tasks_became_tiny() -> None:
    three = [QueueSpan("a", "orders", 0, 0, 3 * 128 * 1024)]
    assert len(plan_tasks(three, lambda _: 1024.0, 128 * MIB, 2)) == 4
    one = [QueueSpan("a", "orders", 0, 0, 100 * 1024)]
    assert len(plan_tasks(one, lambda _: 1024.0, 128 * MIB, 2)) == 1


def test_the_size_of_a_topics_messages_counts() -> None:
    spans = [QueueSpan("a", "orders", 0, 0, 1_000_000)]
    assert len(plan_tasks(spans, lambda _: 100.0, 50 * MIB, 1)) == 2
    assert len(plan_tasks(spans, lambda _: 1000.0, 50 * MIB, 1)) == 20


def test_nothing_is_no_task() -> None:
    assert plan_tasks([], lambda _: 1024.0, MIB, 2) == []
    assert plan_tasks([QueueSpan("a", "orders", 0, 5, 5)], lambda _: 1024.0, MIB, 2) == []
