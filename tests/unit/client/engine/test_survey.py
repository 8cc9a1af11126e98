"""A survey: answers of the brokers that answer, and what is raised about the others."""

import pickle

import pytest

from litemq.client.engine.survey import Survey
from litemq.errors import ConnectionLostError, NoRouteError, NotMasterError, PartialAnswerError, TopicNotFoundError
from support.on_loop import on_loop


async def _length(broker: str) -> int:
    if broker == "lost":
        raise ConnectionLostError("cut")
    if broker == "leaderless":
        raise NotMasterError("an election is in progress")
    if broker == "empty":
        raise TopicNotFoundError("no topic")
    return len(broker)


@on_loop
async def test_answers_come_in_order_with_the_names() -> None:
    survey = Survey(["bb", "a"], {})
    assert await survey.ask(_length) == [("bb", 2), ("a", 1)]
    assert survey.complete("all") == "all"
    survey.require_all("never raised")


@on_loop
async def test_a_broker_whose_connection_fails_is_missing() -> None:
    survey = Survey(["bb", "lost", "down"], {"down": "refused"})
    assert await survey.ask(_length) == [("bb", 2)]
    assert (survey.brokers, survey.missing) == (["bb"], {"down": "refused", "lost": "cut"})
    with pytest.raises(PartialAnswerError) as caught:
        survey.complete([2])
    assert (caught.value.answer, caught.value.missing) == ([2], survey.missing)
    assert str(caught.value) == (
        "the answer is incomplete: broker down does not answer (refused); broker lost does not answer (cut)"
    )
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(copy), copy.answer, copy.missing) == (str(caught.value), [2], survey.missing)
    with pytest.raises(NoRouteError, match=r"broker lost does not answer \(cut\): nothing was changed"):
        survey.require_all("nothing was changed")


@on_loop
async def test_a_group_without_a_master_is_missing() -> None:
    survey = Survey(["bb", "leaderless"], {})
    assert await survey.ask(_length) == [("bb", 2)]
    assert survey.missing == {"leaderless": "an election is in progress"}


@on_loop
async def test_an_answered_error_is_raised() -> None:
    with pytest.raises(TopicNotFoundError):
        await Survey(["bb", "empty"], {}).ask(_length)
