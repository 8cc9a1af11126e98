"""A send that the broker cannot confirm: it is resent under the same sequence number."""

import asyncio

import pytest

from litemq import AsyncClient
from litemq.errors import NotConfirmedError, StoreFailedError
from litemq.storage.log.flush import OnFlushed
from litemq.testing import memory


@pytest.mark.parametrize("appended", [False, True])
def test_a_send_is_repeated_under_the_same_number(appended: bool) -> None:
    async def main() -> None:
        url = f"memory://failing-{appended}"
        async with AsyncClient(url, retry_backoff_ms=1) as mq:
            await mq.send("orders", b"first", ordering_key="k")
            store = memory._shared[url].cluster.broker.context.store
            append, failures = store.append, 3

            def failing(*arguments: object, **options: object) -> object:
                nonlocal failures
                failures -= 1
                if failures < 0:
                    return append(*arguments, **options)  # type: ignore[arg-type]
                if appended and failures == 2:
                    append(*arguments, **options)  # type: ignore[arg-type]
                raise StoreFailedError("fsync failed")

            store.append = failing  # type: ignore[method-assign,assignment]
            receipts = await asyncio.gather(
                *(mq.send("orders", b"%d" % number, ordering_key="k") for number in range(5))
            )
            bodies = [message.body async for message in mq.reader("orders", follow=False)]
            assert bodies == [b"first", b"0", b"1", b"2", b"3", b"4"]
            assert [receipt.queue_offset for receipt in receipts] == [1, 2, 3, 4, 5]

    asyncio.run(main())


def test_a_send_that_is_appended_but_not_confirmed_is_repeated_under_the_same_number() -> None:
    async def main() -> None:
        url = "memory://unconfirmed"
        async with AsyncClient(url, retry_backoff_ms=1) as mq:
            await mq.send("orders", b"first", ordering_key="k")
            store = memory._shared[url].cluster.broker.context.store
            when_flushed, failures = store.when_flushed, 3

            def failing(offset: int, on_flushed: OnFlushed) -> None:
                nonlocal failures
                failures -= 1
                if failures < 0:
                    when_flushed(offset, on_flushed)
                else:
                    on_flushed(NotConfirmedError("a replica is missing"))

            store.when_flushed = failing  # type: ignore[method-assign]
            receipts = await asyncio.gather(
                *(mq.send("orders", b"%d" % number, ordering_key="k") for number in range(5))
            )
            bodies = [message.body async for message in mq.reader("orders", follow=False)]
            assert failures < 0
            assert bodies == [b"first", b"0", b"1", b"2", b"3", b"4"]
            assert [receipt.queue_offset for receipt in receipts] == [1, 2, 3, 4, 5]

    asyncio.run(main())
