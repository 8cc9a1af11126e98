"""``NearTimers`` against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.storage.timers.entries import MINUTE_MS, Timer, encode_entries
from litemq.storage.timers.near_timers import NearTimers

FAR = 1 << 60


def test_taken_in_order_given_back_and_ended() -> None:
    near = NearTimers(MINUTE_MS)
    first, second, third = Timer(10, 0, 8), Timer(10, 8, 8), Timer(20, 16, 8)
    for timer in (third, first, second):
        near.begin(timer)
    assert (near.next_due, len(near)) == (10, 3)
    assert near.take(9, FAR, 9) == []
    assert near.take(20, FAR, 2) == [first, second]
    near.give_back([first, second])
    assert near.take(20, 8, 9) == [first]  # the others are not safe yet
    near.finish(10, 0)
    near.finish(20, 16)
    assert near.take(20, FAR, 9) == [second]
    assert near.is_taken(8)
    near.finish(10, 8)
    assert not near.is_taken(8)
    near.give_back([second])  # too late: it has ended otherwise
    assert (near.take(FAR, FAR, 9), len(near), near.has_minute(0)) == ([], 0, False)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 300)),
        st.tuples(st.just("finish"), st.integers(0, 50)),
        st.tuples(st.just("take"), st.integers(0, 300)),
        st.tuples(st.just("give back"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(st.lists(st.integers(0, 300), max_size=30), STEPS)
def test_timers_match_a_dictionary(loaded: list[int], steps: list[tuple[str, int]]) -> None:
    near = NearTimers(0)
    timers = sorted(Timer(due, 8 * number, 8) for number, due in enumerate(loaded))
    near.load(encode_entries([(due, pending, pending, size) for due, pending, size in timers]), MINUTE_MS)
    waiting, taken = set(timers), list[Timer]()
    count = len(loaded)
    for step, number in steps:
        if step == "begin":
            timer = Timer(number, 8 * count, 8)
            count += 1
            waiting.add(timer)
            near.begin(timer)
        elif step == "finish":
            unfinished = sorted(waiting | set(taken))
            if unfinished:
                timer = unfinished[number % len(unfinished)]
                near.finish(timer.due, timer.pending)
                waiting.discard(timer)
                taken = [other for other in taken if other != timer]
        elif step == "take":
            found = near.take(number, FAR, 10)
            assert found == sorted(timer for timer in waiting if timer.due <= number)[:10]
            waiting -= set(found)
            taken += found
        else:
            near.give_back(taken[:number])
            waiting |= set(taken[:number])
            del taken[:number]
        assert len(near) == len(waiting) + len(taken)
        assert all(near.is_taken(timer.pending) for timer in taken)
        assert near.has_minute(0) == bool(waiting or taken)
    assert near.take(FAR, FAR, 1000) == sorted(waiting)


def test_a_timer_moved_and_back_exists_once() -> None:
    near = NearTimers(MINUTE_MS)
    near.begin(Timer(10, 0, 8))
    for before, due in ((10, 30), (30, 10), (10, 30), (30, 10), (10, 5)):
        near.finish(before, 0)
        near.begin(Timer(due, 0, 8))
        assert near.all() == [Timer(due, 0, 8)]
    assert near.take(100, FAR, 9) == [Timer(5, 0, 8)]
    assert near.all() == [Timer(5, 0, 8)]
    near.finish(5, 0)
    assert (near.take(100, FAR, 9), near.all(), len(near)) == ([], [], 0)
