"""Tasks: typed as the functions are, called here or by a worker."""

import asyncio
import sys
from collections.abc import Awaitable
from types import SimpleNamespace

import pytest

from litemq import AsyncClient, Client, Message, Plugin
from litemq.client.handlers.tasks import default_topic
from litemq.errors import InvalidArgumentError, SerializationError
from support.waiting import HANG_S, eventually


def test_send_takes_what_the_function_takes() -> None:
    """The ``type: ignore`` comments are the test: mypy reports each that is no longer needed."""

    async def test() -> None:
        async with AsyncClient("memory://") as mq:

            @mq.task
            async def add(a: int, b: int = 0) -> int:
                return a + b

            @mq.task(time_limit=5)
            def say(text: str, *, loud: bool) -> str:
                return text.upper() if loud else text

            assert await add(1, b=2) == 3
            assert say("x", loud=True) == "X"
            await add.send(1, b=2)
            await say.options(keys="k").send("x", loud=False)
            with pytest.raises(TypeError):
                await add.send("1", c=2)  # type: ignore[arg-type,call-arg]
            with pytest.raises(TypeError):
                await say.send("x")  # type: ignore[call-arg]
            with pytest.raises(SerializationError):
                await say.send({1, 2}, loud=True)  # type: ignore[arg-type]
            (message,) = await mq.receive(say.topic, group_id="other", wait=HANG_S)
            assert message.value == {"args": ["x"], "kwargs": {"loud": False}}
            assert message.keys == ("k",)
            assert (add.topic, say.topic) == (f"tasks-{__name__}.add", f"tasks-{__name__}.say")
            assert repr(say) == f"<AsyncTask say of tasks-{__name__}.say>"

    asyncio.run(test())


def test_a_worker_calls_the_functions() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            calls: list[object] = []

            @mq.task
            async def add(a: int, b: int = 0) -> None:
                calls.append(a + b)

            @mq.task(topic="words", group_id="speakers")
            def say(text: str, *, loud: bool) -> None:
                calls.append(text.upper() if loud else text)

            running = asyncio.ensure_future(mq.run())
            await add.send(1, b=2)
            await say.send("x", loud=True)
            await eventually(lambda: len(calls) == 2)
            assert {3, "X"} == set(calls)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(test())


def test_tasks_of_a_synchronous_client() -> None:
    with Client("memory://") as mq:

        @mq.task
        def double(number: int) -> int:
            return 2 * number

        assert double(4) == 8
        receipt = double.send(4).receipt
        assert receipt is not None
        assert receipt.queue_offset == 0
        double.options(keys="k").send(5)
        with pytest.raises(TypeError):
            double.send()  # type: ignore[call-arg]
        assert sorted(message.value["args"] for message in mq.receive(double.topic, group_id="other", wait=HANG_S)) == [
            [4],
            [5],
        ]
        with pytest.raises(InvalidArgumentError, match="AsyncClient"):

            @mq.task
            async def never() -> None: ...

        assert repr(double) == f"<Task double of tasks-{__name__}.double>"


def test_the_topic_of_a_program_that_is_run_is_that_of_the_module_that_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f() -> None: ...

    f.__module__ = "__main__"
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=None, __file__="/somewhere/shop.py"))
    assert default_topic(f) == "tasks-shop.f"
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name="shop.orders")))
    assert default_topic(f) == "tasks-shop.orders.f"
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    with pytest.raises(InvalidArgumentError, match="topic="):
        default_topic(f)


class Failures(Plugin):
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def failed(self, message: Message, error: BaseException) -> None:  # noqa: ARG002
        self.errors.append(error)


@pytest.mark.parametrize(
    "body", [b"x", "text", {"args": []}, {"args": [1, 2, 3], "kwargs": {}}, {"args": [], "kwargs": {"c": 1}}]
)
def test_what_is_no_call_of_the_function_goes_to_the_dead_letters(body: object) -> None:
    async def test() -> None:
        failures = Failures()
        async with asyncio.timeout(HANG_S), AsyncClient("memory://") as mq:
            mq.add_plugin(failures)
            called = asyncio.Event()

            @mq.task(topic="calls", min_backoff=0.01)
            async def f(a: int, b: int = 0) -> None:
                called.set()

            await mq.send("calls", body)
            await f.send(1)
            running = asyncio.ensure_future(mq.run())
            await called.wait()
            await eventually(lambda: failures.errors)
            assert await mq.dead_letters("calls").count() == 1  # so no other try comes
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        (error,) = failures.errors
        assert isinstance(error, SerializationError)
        assert "is not a call of f(a: int, b: int = 0)" in str(error)

    asyncio.run(test())


def test_a_topic_belongs_to_one_task() -> None:
    mq = AsyncClient("memory://")

    @mq.task(topic="calls")
    def f() -> None: ...

    with pytest.raises(InvalidArgumentError, match="f of calls"):

        @mq.task(topic="calls")
        def g() -> None: ...


def _is_awaitable(value: Awaitable[int]) -> Awaitable[int]:
    return value


def test_an_asynchronous_function_gives_something_to_await() -> None:
    mq = AsyncClient("memory://")

    @mq.task
    async def f() -> int:
        return 1

    async def test() -> int:
        return await _is_awaitable(f())

    assert asyncio.run(test()) == 1
