"""The examples run and print the documented results."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.commands import Running, environment_of_commands, running, up
from support.waiting import HANG_S

EXAMPLES = Path(__file__).parents[2] / "examples"
_BOOKED = re.compile(r"booked (\S+) of (\d+) payments")


def test_what_the_producer_sends_the_consumer_bills(tmp_path: Path) -> None:
    with up(tmp_path) as (_, environment):
        settings = environment_of_commands(environment)
        sent = subprocess.run(
            [sys.executable, EXAMPLES / "producer.py"],
            env=settings,
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG_S,
        )
        assert len(sent.stdout.splitlines()) == 10
        with subprocess.Popen(
            [sys.executable, EXAMPLES / "consumer.py"], env=settings, stdout=subprocess.PIPE, text=True
        ) as process:
            consumer = Running(process)
            billed = [consumer.wait_for("billed order").split() for _ in range(10)]
            assert sorted(int(words[2]) for words in billed) == list(range(1, 11))
            for customer in ("c-0", "c-1", "c-2"):
                numbers = [int(words[2]) for words in billed if words[-1] == customer]
                assert numbers == sorted(numbers)
            assert consumer.stop(signal.SIGINT) == 0


def test_the_worker_does_what_is_asked_for(tmp_path: Path) -> None:
    with (
        up(tmp_path) as (_, environment),
        running("worker", "worker:mq", cwd=EXAMPLES, environment=environment) as worker,
    ):
        worker.wait_for("worker:mq is running")
        subprocess.run(
            [sys.executable, EXAMPLES / "worker.py"],
            env=environment_of_commands(environment),
            check=True,
            timeout=HANG_S,
        )
        while sum("charged order" in line or "label of order" in line for line in worker.printed) < 10:
            worker.wait_for(" order ")
        while sum(int(payments) for _, payments in _BOOKED.findall("\n".join(worker.printed))) < 5:
            worker.wait_for("booked")
        assert sum(float(total) for total, _ in _BOOKED.findall("\n".join(worker.printed))) == 150
        assert worker.stop() == 0


def _load(name: str) -> Any:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fastapi_service_adds_up_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "LITEMQ_URL", "memory://")
    service = _load("web_service")

    async def use() -> None:
        async with (
            service.lifespan(service.app),
            httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://x") as web,
        ):
            for _ in range(3):
                assert (await web.post("/orders", json={"item": "tea", "price": "2.50"})).status_code == 202
            assert (await web.post("/orders", json={"item": "tea", "price": "much"})).status_code == 422
            async with asyncio.timeout(HANG_S):
                while (await web.get("/orders/total")).json() != {"total": "7.50"}:  # noqa: ASYNC110 (as an outside caller would)
                    await asyncio.sleep(0.01)

    asyncio.run(use())


def test_the_flask_service_answers_with_what_a_worker_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        up(tmp_path) as (_, environment),
        running("worker", "flask_service:mq", cwd=EXAMPLES, environment=environment) as worker,
    ):
        worker.wait_for("flask_service:mq is running")
        monkeypatch.setitem(os.environ, "LITEMQ_URL", environment["LITEMQ_URL"])
        service = _load("flask_service")
        web = service.create_app().test_client()
        try:
            asked = web.post("/quotes", json={"item": "tea", "count": 3})
            assert asked.status_code == 202
            assert web.get(f"/quotes/{asked.get_json()['id']}").get_json() == {"price": "7.50"}
            unknown = web.post("/quotes", json={"item": "beer", "count": 1}).get_json()["id"]
            refused = web.get(f"/quotes/{unknown}")
            assert refused.status_code == 422
            assert "KeyError: 'beer'" in refused.get_json()["error"]
        finally:
            service.mq.close()
        assert worker.stop() == 0
