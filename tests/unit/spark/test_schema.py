"""Columns in Spark."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.format.arrow.batches import SCHEMA
from litemq.spark.schema import MESSAGE_SCHEMA, chosen_schema


def test_a_row_has_every_field_of_a_record_and_its_broker() -> None:
    assert MESSAGE_SCHEMA.names == [*SCHEMA.names, "broker"]


def test_columns_come_in_the_order_in_which_they_are_named() -> None:
    assert chosen_schema(["queue_offset", "topic"]).names == ["queue_offset", "topic"]


@pytest.mark.parametrize(
    ("names", "said"), [(["bodi"], "unknown column 'bodi': choose from message_id"), ([], "select at least one")]
)
def test_other_columns_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        chosen_schema(names)
