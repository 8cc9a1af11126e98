"""Job options: the fields that they set in a definition, and those that they leave."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from litemq.client.engine.job_options import set_body, set_options
from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.errors import InvalidArgumentError
from litemq.proto.jobs_pb2 import JobDefinition, JobProperty


def test_options_in_the_units_of_the_wire() -> None:
    job = JobDefinition(id="j", topic="t", jitter_ms=7)
    set_options(
        job,
        {
            "every": timedelta(minutes=1),
            "timeout": 2.5,
            "start_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "end_at": None,
            "keys": "k",
            "tags": ["a", "b"],
            "max_retries": 3,
            "paused": True,
        },
    )
    assert job == JobDefinition(
        id="j",
        topic="t",
        jitter_ms=7,
        every_ms=60_000,
        timeout_ms=2500,
        start_at=1000,
        keys=["k"],
        tags=["a", "b"],
        max_retries=3,
        paused=True,
    )


def test_one_schedule_replaces_the_other() -> None:
    job = JobDefinition(expression="@daily", timezone="Asia/Shanghai")
    set_options(job, {"every": 90})
    assert (job.expression, job.timezone, job.every_ms) == ("", "", 90_000)
    set_options(job, {"cron": "@hourly"})
    assert (job.expression, job.every_ms) == ("@hourly", 0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cron": "@daily", "every": 5}, "choose one"),
        ({"colour": "red"}, "colour: no such option"),
        ({"overlap": "both"}, "allow, skip, queue-one"),
        ({"max_retries": -1}, "whole number"),
        ({"priority": True}, "whole number"),
        ({"start_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"cron": 5}, "cron=5"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        set_options(JobDefinition(), options)


def test_a_body_has_its_content_type_and_new_properties_keep_it() -> None:
    job = JobDefinition(topic="t", properties=[JobProperty(name="region", value="eu")])
    set_body(job, {"n": 1}, Serializers())
    assert job.body == b'{"n":1}'
    content_type = {each.name: each.value for each in job.properties}[CONTENT_TYPE]
    set_options(job, {"properties": {"region": "us"}})
    assert {each.name: each.value for each in job.properties} == {"region": "us", CONTENT_TYPE: content_type}
