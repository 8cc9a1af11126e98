"""Listeners of a client: one for each group, and none once the client is closed."""

import pytest

from litemq import AsyncClient, TransactionListener
from litemq.errors import InvalidArgumentError
from support.on_loop import on_loop


@on_loop
async def test_a_group_has_one_listener_while_the_client_is_open() -> None:
    mq, listener = AsyncClient("memory://"), TransactionListener()
    async with mq:
        mq.transaction_listener("shop", listener)
        with pytest.raises(InvalidArgumentError, match="already has a listener"):
            mq.transaction_listener("shop", listener)
        assert mq._listeners.find("shop") is listener
        with pytest.raises(InvalidArgumentError, match=r"mq\.transaction_listener\('bank', listener\) first"):
            await mq.execute_transaction("orders", b"x", group_id="bank")
    with pytest.raises(InvalidArgumentError, match="has no listener in this client"):
        await mq.execute_transaction("orders", b"x", group_id="shop")
