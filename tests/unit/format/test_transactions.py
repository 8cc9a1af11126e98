"""The names of producers' transactions."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.format.transactions import broker_of, check_transaction, group_of, is_producers, transaction_name


def test_a_name_says_whose_it_is_and_where() -> None:
    name = transaction_name("shop-1", "0193af", "broker.a")
    assert name == "tx:shop-1:0193af@broker.a"
    assert (check_transaction(name), group_of(name), broker_of(name), is_producers(name)) == (name, "shop-1", "broker.a", True)


@pytest.mark.parametrize(
    "name",
    ["", "tx:", "tx:a:b", "tx:a:b@", "tx::b@c", "tx:a:@c", "tx:a/b:c@d", "tx:a:b@c\n", "tx:é:b@c", "q/0/0/0", "tx:a:" + "b" * 65 + "@c"],
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="tx:GROUP:NUMBER@BROKER"):
        check_transaction(name)


def test_a_job_has_other_names_even_if_its_query_is_called_so() -> None:
    assert not is_producers("tx:a/0/1/2")
    assert group_of("tx:a/0/1/2") == ""
