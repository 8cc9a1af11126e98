"""``litemq bench send``, ``consume`` and ``latency``: load on a running cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litemq.cli.commands.message import DurabilityChoice
from litemq.cli.connecting import ClientFile, Url, client_settings, with_client
from litemq.cli.rendering.exit_codes import EXIT_FAILED
from litemq.cli.rendering.output import Format, OutputFormat, write_value
from litemq.errors import TopicNotFoundError

if TYPE_CHECKING:
    from litemq import AsyncClient
    from litemq.bench.workloads.load import LoadResult

__all__ = ["add_to"]

Topic = Annotated[str, typer.Option("--topic", help="Topic to use; created if missing.")]
Size = Annotated[int, typer.Option("--size", min=0, max=64 << 20, help="Body size in bytes.")]
Messages = Annotated[
    int | None, typer.Option("--messages", min=1, help="Number of messages to stop after.", show_default=False)
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", min=0.1, help="Seconds to stop after; default: 10, unless --messages is given.", show_default=False
    ),
]
Promise = Annotated[
    DurabilityChoice | None,
    typer.Option("--durability", help="Guarantee of an acknowledgement; default: the broker's."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``litemq bench``."""
    app.command("send")(send)
    app.command("consume")(consume)
    app.command("latency")(latency)


def send(
    topic: Topic = "bench",
    connections: Annotated[
        int, typer.Option("--connections", min=1, max=1000, help="Number of clients, each with its own connection.")
    ] = 8,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=1024, help="Requests in flight on each connection.")
    ] = 32,
    size: Size = 1024,
    messages: Messages = None,
    seconds: Seconds = None,
    durability: Promise = None,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch", help="Send with send_nowait and automatic batching instead of one message per request."
        ),
    ] = False,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send messages as fast as the cluster accepts them."""
    address, settings = _connect(url, config, topic)
    seconds = _seconds(messages, seconds)

    def measure(progress: Callable[[int], None]) -> Coroutine[Any, Any, LoadResult]:
        from litemq.bench.workloads.load import measure_send

        return measure_send(
            address,
            topic=topic,
            connections=connections,
            in_flight=in_flight,
            size=size,
            messages=messages,
            seconds=seconds,
            durability=_word(durability),
            batch=batch,
            settings=settings,
            progress=progress,
        )

    _report("sent", _run("send", messages, measure), output)


def consume(
    topic: Topic = "bench",
    messages: Messages = None,
    seconds: Seconds = None,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Read a topic from its beginning with a new group, as fast as possible."""
    address, settings = _connect(url, config, topic)
    seconds = _seconds(messages, seconds)

    def measure(progress: Callable[[int], None]) -> Coroutine[Any, Any, LoadResult]:
        from litemq.bench.workloads.load import measure_consume

        return measure_consume(
            address, topic=topic, messages=messages, seconds=seconds, settings=settings, progress=progress
        )

    _report("received", _run("consume", messages, measure), output)


def latency(
    topic: Topic = "bench",
    rate: Annotated[float, typer.Option("--rate", min=1, help="Messages per second.")] = 10_000,
    size: Size = 1024,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Duration in seconds.")] = 10.0,
    durability: Promise = None,
    url: Url = None,
    config: ClientFile = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Measure end-to-end latency at a steady rate, from the scheduled send time to receipt."""
    address, settings = _connect(url, config, topic)

    def measure(progress: Callable[[int], None]) -> Coroutine[Any, Any, LoadResult]:
        from litemq.bench.workloads.load import measure_latency

        return measure_latency(
            address,
            topic=topic,
            rate=rate,
            size=size,
            seconds=seconds,
            durability=_word(durability),
            settings=settings,
            progress=progress,
        )

    _report("received", _run("latency", int(rate * seconds), measure), output)


def _connect(url: str | None, config: Path | None, topic: str) -> tuple[str, dict[str, Any]]:
    """Create ``topic`` if it is missing; return the URL and the client settings."""

    async def create(mq: AsyncClient) -> None:
        try:
            await mq.admin.describe_topic(topic)
        except TopicNotFoundError:
            await mq.admin.create_topic(topic)

    with_client(url, config, create)
    return client_settings(url, config)


def _seconds(messages: int | None, seconds: float | None) -> float | None:
    return 10.0 if messages is None and seconds is None else seconds


def _word(durability: DurabilityChoice | None) -> str | None:
    return None if durability is None else durability.value


def _run(
    name: str, total: int | None, measure: Callable[[Callable[[int], None]], Coroutine[Any, Any, LoadResult]]
) -> LoadResult:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from litemq.net.event_loop import run

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=total)
        return run(measure(lambda done: progress.update(task, completed=done)))


def _report(verb: str, result: LoadResult, output: OutputFormat) -> None:
    if output is OutputFormat.TABLE:
        sys.stdout.write(
            f"{verb} {result.messages:,} messages in {result.seconds:.2f} s: "
            f"{result.messages_per_s:,.0f} msg/s, {result.megabytes_per_s:,.1f} MB/s\n"
        )
        if result.reached_end:
            sys.stdout.write("reached the end of the topic; the time spent waiting for more messages is not counted\n")
        if result.latency_ms:
            sys.stdout.write(
                "latency "
                + ", ".join(f"p{percent:g} {value:.2f} ms" for percent, value in result.latency_ms.items())
                + "\n"
            )
        for count, word in (
            (result.failed, f"failed; first error: {result.first_error}"),
            (result.missing, "not received"),
        ):
            if count:
                sys.stdout.write(f"{count:,} {word}\n")
    else:
        write_value(result.as_json(), output)
    if result.failed or result.missing:
        raise typer.Exit(EXIT_FAILED)
