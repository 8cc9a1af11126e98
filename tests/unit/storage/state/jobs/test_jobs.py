"""``Jobs``: the same records give the same state, from any snapshot on."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Control, JobPut, JobsDeleted, JobsPut, TickPassed, TicksPassed, TryFailed
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.storage.state.jobs.jobs import Jobs, TicksPlaced, is_job_number, new_job_numbers
from litemq.storage.state.machine_parts import MachineParts
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.types import Overlap, RecordKind
from support.delivery_histories import Change, check_snapshot, check_touches, rows_of

NUMBERS = [100 * each + 4 for each in range(6)]


def _put(number: int, **fields: int) -> Control:
    overlap = Overlap.SKIP if number % 200 == 4 else Overlap.ALLOW
    definition = JobDefinition(
        id=f"j{number}", topic="t", group="g", overlap=overlap, body=b"x" * (fields.get("through", 0) % 5)
    )
    return Control(jobs_put=JobsPut(jobs=[JobPut(number=number, definition=definition.SerializeToString(), **fields)]))


def _ticks(at: int, *ticks: tuple[int, int]) -> TicksPlaced:
    numbers, times = (np.array(column, np.int64) for column in zip(*ticks, strict=True))
    places = np.arange(len(ticks))
    return TicksPlaced(numbers, times, places + 16, places, places + at, places * 8 + at * 8, np.full(len(ticks), at))


def _placed(
    kind: RecordKind, at: int, origin: int, count: int = 0, job_id: str = "", topic_id: int = 30
) -> PlacedRecord:
    properties = {"litemq-group": "g"} if kind is RecordKind.DEAD else {}
    return PlacedRecord(
        at * 8,
        kind,
        origin,
        topic_id,
        1,
        at,
        count,
        0,
        100,
        at,
        properties=properties,
        message_id=job_id and f"{job_id}@5",
    )


@st.composite
def _histories(draw: st.DrawFn) -> list[Change]:
    history: list[Change] = []
    number = st.sampled_from(NUMBERS)
    for at in range(100, 100 + draw(st.integers(0, 16))):
        time = draw(st.integers(1, 30))
        origin = (at - draw(st.integers(1, 4))) * 8
        match draw(st.integers(0, 9)):
            case 0 | 1:
                history.append(
                    _put(draw(number), through=draw(st.sampled_from([0, time])), skipped=draw(st.integers(0, 2)))
                )
            case 2:
                history.append(Control(jobs_deleted=JobsDeleted(numbers=draw(st.lists(number, max_size=2)))))
            case 3:
                passed = TickPassed(
                    number=draw(number), through=time, missed=1, queued=draw(st.sampled_from([0, -1, time]))
                )
                history.append(Control(ticks_passed=TicksPassed(jobs=[passed])))
            case 4:
                failed = TryFailed(group=draw(st.sampled_from(["g", "h"])), predecessor=origin, retry_topic_id=30)
                history.append(Control(try_failed=failed))
            case 5:
                history.append(_placed(draw(st.sampled_from([RecordKind.RETRY, RecordKind.PENDING])), at, origin, 1))
            case 6:
                history.append(_placed(RecordKind.DEAD, at, origin, job_id=f"j{draw(number)}"))
            case _:
                ticks = draw(st.lists(st.tuples(number, st.sampled_from([0, time, time + 1])), min_size=1, max_size=4))
                history.append(_ticks(at, *ticks))
    return history


@settings(deadline=None)
@given(_histories(), st.integers(0, 16))
def test_snapshot_plus_replay_equals_full_replay(history: list[Change], cut: int) -> None:
    check_snapshot(history, cut)


@settings(deadline=None)
@given(_histories())
def test_touched_rows_are_all_changed_rows(history: list[Change]) -> None:
    check_touches(history)


def test_a_reused_number_starts_over() -> None:
    deleted = Control(jobs_deleted=JobsDeleted(numbers=[NUMBERS[0]]))
    history: list[Change] = [_put(NUMBERS[0]), _put(NUMBERS[0], skipped=1), deleted, _put(NUMBERS[0])]
    for cut in range(len(history) + 1):
        check_snapshot(history, cut)


def _may_send(jobs: Jobs, number: int, *ticks: int) -> list[bool]:
    may: list[bool] = jobs.may_send(np.full(len(ticks), number), np.array(ticks, np.int64)).tolist()
    return may


def test_ticks_of_an_unknown_job_are_refused() -> None:
    parts = MachineParts()
    assert _may_send(parts.jobs, NUMBERS[0], 0, 5) == [False, False]
    parts.apply(_put(NUMBERS[1]))
    assert _may_send(parts.jobs, NUMBERS[0], 0, 5) == [False, False]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(NUMBERS), st.integers(0, 30), st.integers(0, 2)), unique_by=lambda each: each[0]
        )
    )
)
def test_jobs_put_in_bulk_equal_jobs_put_one_by_one(records: list[list[tuple[int, int, int]]]) -> None:
    together, apart = MachineParts(), MachineParts()
    for record in records:
        puts = [_put(number, through=through, skipped=skipped) for number, through, skipped in record]
        touched = together.apply(Control(jobs_put=JobsPut(jobs=[put.jobs_put.jobs[0] for put in puts])))
        assert touched == [touch for put in puts for touch in apart.apply(put)]
    assert rows_of(together) == rows_of(apart)
    assert together.jobs.table.bytes == apart.jobs.table.bytes
    assert list(together.rows_of(list(map(_touch, NUMBERS)))) == [apart.row(_touch(number)) for number in NUMBERS]


def _touch(number: int) -> Touch:
    return "job", number


def test_counts_and_positions_of_ticks() -> None:
    parts = MachineParts()
    jobs = parts.jobs
    for number in NUMBERS[:2]:
        parts.apply(_put(number, through=10))
    assert _may_send(jobs, NUMBERS[0], 0, 10, 11) == [True, False, True]
    parts.place(_ticks(100, (NUMBERS[0], 20), (NUMBERS[1], 15), (NUMBERS[0], 25), (NUMBERS[0], 0), (999, 5)))
    first, second = (jobs.row_at(slot) for slot in jobs.table.live())
    assert (first.sent, first.through, first.last_tick, first.queue_offset) == (3, 25, 25, 103)
    assert (second.sent, second.through, second.log_offset) == (1, 15, 808)
    parts.apply(
        Control(ticks_passed=TicksPassed(jobs=[TickPassed(number=NUMBERS[0], through=40, skipped=1, queued=35)]))
    )
    assert _may_send(jobs, NUMBERS[0], 35, 36, 40, 41) == [True, False, False, True]
    parts.place(_ticks(110, (NUMBERS[0], 35)))
    assert (jobs.row_at(0).queued, jobs.row_at(0).through, _may_send(jobs, NUMBERS[0], 35)) == (0, 40, [False])


def test_a_carried_dead_letter_is_not_counted_again() -> None:
    parts = MachineParts()
    parts.apply(_put(NUMBERS[1]))
    parts.place(_placed(RecordKind.DEAD, 100, 8, job_id=f"j{NUMBERS[1]}"))
    parts.place(_placed(RecordKind.DEAD, 101, 800, job_id=f"j{NUMBERS[1]}"))
    assert parts.jobs.row_at(0).failed == 1


def test_holes_are_closed() -> None:
    parts = MachineParts()
    jobs = parts.jobs
    numbers = list(new_job_numbers(800, 5000))
    assert all(map(is_job_number, numbers))
    assert not any(map(is_job_number, range(0, 80, 8)))
    parts.apply(Control(jobs_put=JobsPut(jobs=[_put(number).jobs_put.jobs[0] for number in numbers])))
    parts.apply(Control(jobs_deleted=JobsDeleted(numbers=numbers[::2] + numbers[1:1001:2])))
    assert len(jobs) == 2000
    assert len(jobs.table.definitions) < 4100
    assert jobs.table.layout == 1
    for number in numbers[1001::2]:
        slot = jobs.table.slot(number)
        assert slot is not None
        assert jobs.definition(slot).id == f"j{number}"
        assert jobs.find_slot(f"j{number}") == slot
