"""Open feeds of a client: shared receivers, all closed with the client."""

from litemq import AsyncClient
from litemq.client.engine.engine import LeaseOptions
from litemq.client.settling.ack_policy import AckPolicy, SettlePolicy
from litemq.client.settling.retry_policy import RetryPolicy
from support.on_loop import on_loop


@on_loop
async def test_feeds_close_with_the_client() -> None:
    async with AsyncClient("memory://") as mq:
        await mq.send("orders", b"x")
        reader, consumer = mq.reader("orders"), mq.consumer("orders", group_id="g")
        closed = mq.reader("orders")
        await closed.close()
        feeds = mq._opened_feeds()
        assert (await anext(reader)).body == b"x"
        leased = mq.consumer("orders", group_id="h", mode="lease")
        assert feeds._feeds == [reader, consumer, leased]  # one that is closed is forgotten
    assert [reader.is_closed, consumer.is_closed, leased.is_closed] == [True, True, True]


@on_loop
async def test_calls_of_receive_with_the_same_arguments_share_a_receiver() -> None:
    async with AsyncClient("memory://") as mq:
        feeds = mq._opened_feeds()
        settle_policy = SettlePolicy(AckPolicy.NACK_ON_ERROR, RetryPolicy())
        receiver = feeds.receiver("orders", "g", LeaseOptions(1000, 3), settle_policy)
        assert feeds.receiver("orders", "g", LeaseOptions(1000, 3), settle_policy) is receiver
        assert feeds.receiver("orders", "g", LeaseOptions(2000, 3), settle_policy) is not receiver
