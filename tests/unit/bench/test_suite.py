"""Framework of the suites: medians, goals and the order of runs."""

import pytest

from litemq.bench.suite import Figure, Measurement, at_least, at_most, measure, short


def _figure(name: str, values: list[float], order: list[str]) -> Figure:
    left = iter(values)

    def once() -> float:
        order.append(name)
        return next(left)

    return Figure(name, "a test", "x/s", once, at_least(2))


def test_figures_take_turns() -> None:
    order: list[str] = []
    done: list[str] = []
    measured = measure(
        [_figure("a", [1, 9, 2], order), _figure("b", [3, 3, 3], order)], 3, after_run=lambda f: done.append(f.name)
    )
    assert order == done == ["a", "b"] * 3
    assert [(m.value, m.runs) for m in measured] == [(2, (1, 9, 2)), (3, (3, 3, 3))]


def test_a_figure_may_have_another_total_than_the_median() -> None:
    figure = Figure("a", "a test", "s", lambda: 1.0, at_most(3), max)
    slowest = Measurement(figure, (1, 2, 4))
    assert (slowest.value, slowest.meets_goal) == (4, False)


def test_goals() -> None:
    assert at_least(2).is_met_by(2)
    assert not at_least(2).is_met_by(1.99)
    assert at_most(2).is_met_by(2)
    assert not at_most(2).is_met_by(2.01)
    assert (str(at_least(1_500_000)), str(at_most(3))) == ("≥ 1.5M", "≤ 3")


def test_json() -> None:
    figure = Figure("a", "a test", "ms", lambda: 1.0, at_most(3))
    assert Measurement(figure, (1, 2, 4)).as_json() == {
        "what": "a test",
        "value": 2,
        "unit": "ms",
        "goal": {"at_most": 3},
        "runs": [1, 2, 4],
    }
    free = Measurement(Figure("a", "", "ms", lambda: 1.0), (1, 1, 1))
    assert free.as_json()["goal"] is None
    assert free.meets_goal


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.123"), (12.3, "12.3"), (1234, "1.23k"), (1.5e6, "1.5M"), (2e9, "2G"), (0, "0")]
)
def test_numbers_at_a_glance(value: float, text: str) -> None:
    assert short(value) == text
