"""Names of producers' transactions."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.format.transactions import (
    check_transaction,
    is_producer_transaction,
    transaction_broker,
    transaction_group,
    transaction_name,
)


def test_a_name_has_group_and_broker() -> None:
    name = transaction_name("shop-1", "0193af", "broker.a")
    assert name == "tx:shop-1:0193af@broker.a"
    assert (
        check_transaction(name),
        transaction_group(name),
        transaction_broker(name),
        is_producer_transaction(name),
    ) == (name, "shop-1", "broker.a", True)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tx:",
        "tx:a:b",
        "tx:a:b@",
        "tx::b@c",
        "tx:a:@c",
        "tx:a/b:c@d",
        "tx:a:b@c\n",
        "tx:é:b@c",
        "q/0/0/0",
        "tx:a:" + "b" * 65 + "@c",
    ],
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="tx:GROUP:NUMBER@BROKER"):
        check_transaction(name)


def test_names_of_jobs_are_different_even_with_the_same_prefix() -> None:
    assert not is_producer_transaction("tx:a/0/1/2")
    assert transaction_group("tx:a/0/1/2") == ""
