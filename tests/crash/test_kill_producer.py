"""The program of the how-to on transactions and a database, killed between any two steps.

There is never a row without its message, nor a message without its row.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import litemq
from support import killed_shop
from support.commands import environment_of_commands, up
from support.postgres import postgres
from support.waiting import HANG_S, wait_until

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "transactions.md"
ORDERS = 3  # of each program; the last one is not finished


def test_a_producer_killed_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r'^```python title="shop.py"\n(.*?)^```$', HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "shop.py").write_text(program.replace("check_after=1", "check_after=0.2"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with postgres() as database, up(tmp_path) as (_, cluster):
        for name, value in database.items():
            monkeypatch.setenv(name, value)
        import shop  # type: ignore[import-not-found]

        with psycopg.connect(autocommit=True) as db, litemq.Client(cluster["LITEMQ_URL"]) as mq:
            db.execute(shop.SCHEMA)
            killed = [
                _place(tmp_path, step, number * ORDERS, {**database, **cluster})
                for number, step in enumerate(killed_shop.STEPS)
            ]
            for number, each in enumerate(killed):
                _, said = each.communicate(timeout=HANG_S)
                assert each.returncode == -signal.SIGKILL, f"{killed_shop.STEPS[number]}: {said}"
            waiting = len(mq.transactions.select(group_id="shop"))
            assert waiting == len(killed_shop.STEPS) - 1, "all but the one that was killed at the very end"
            mq.transaction_listener("shop", shop.Shop())
            wait_until(lambda: not mq.transactions.select(group_id="shop"))  # every transaction is decided
            rows = [number for (number,) in db.execute("SELECT number FROM orders ORDER BY number").fetchall()]
            messages = sorted(message.value["order"] for message in mq.reader("shop-orders", follow=False))
            assert messages == rows
            whole = {number for number in range(ORDERS * len(killed)) if number % ORDERS < ORDERS - 1}
            last = {step: ORDERS * number + ORDERS - 1 for number, step in enumerate(killed_shop.STEPS)}
            assert set(rows) == whole | {last["database"], last["commit"]}


def _place(folder: Path, step: str, first: int, environment: dict[str, str]) -> "subprocess.Popen[str]":
    program = str(Path(killed_shop.__file__))
    command = [sys.executable, program, str(folder), step, str(first), str(ORDERS)]
    path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.Popen(
        command, env={**environment_of_commands(environment), **path}, stderr=subprocess.PIPE, text=True
    )
