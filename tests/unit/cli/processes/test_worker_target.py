"""The user's module, its client and its handlers: found, or refused with one message."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from litemq import AsyncClient, Client, Message
from litemq.cli.processes.worker_target import choose_handlers, load_client
from litemq.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the modules and the path of a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("shop_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("x = 1\ndef f(:\n", "shop_a.py, line 2: SyntaxError: invalid syntax: def f(:"),
        ("x = 1\n\ny = z\n", "shop_a.py, line 3: NameError: name 'z' is not defined"),
        ("import nothing_like_this\n", "line 1: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("import json\njson.loads('{')\n", "shop_a.py, line 2: JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", "shop_a.py, line 2: SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_with_file_and_line(
    program: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "shop_a.py").write_text(program)
    with pytest.raises(InvalidArgumentError, match=re.escape(says)) as caught:
        load_client("shop_a", "mq", str(tmp_path), None)
    assert str(caught.value).startswith("shop_a:mq: cannot import shop_a: ")
    assert "\n" not in str(caught.value)


def test_a_missing_module_or_client_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no module 'shop_b' in"):
        load_client("shop_b", "mq", str(tmp_path), None)
    (tmp_path / "shop_c.py").write_text("import litemq\nmq = litemq.AsyncClient('memory://')\nother = 1\n")
    for name in ("nothing", "other"):
        with pytest.raises(InvalidArgumentError, match=f"'{name}' is not a litemq.AsyncClient .*: choose shop_c:mq"):
            load_client("shop_c", name, str(tmp_path), None)
    (tmp_path / "shop_d.py").write_text("")
    with pytest.raises(InvalidArgumentError, match=r"write `mq = litemq\.AsyncClient\(\)` in it"):
        load_client("shop_d", "mq", str(tmp_path), None)


@pytest.mark.parametrize("kind", ["AsyncClient", "Client"])
def test_the_url_of_the_command_replaces_that_of_the_client(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"shop_{kind}.py").write_text(f"import litemq\nmq = litemq.{kind}('litemq://elsewhere:1')\n")
    client = load_client(f"shop_{kind}", "mq", str(tmp_path), "memory://chosen")
    assert client.url == "memory://chosen"

    async def use() -> None:
        assert isinstance(client, AsyncClient)
        async with client:
            await client.send("orders", b"x")

    if isinstance(client, Client):
        with client:
            client.send("orders", b"x")
    else:
        asyncio.run(use())
    with pytest.raises(InvalidArgumentError, match="nonsense"):
        load_client(f"shop_{kind}", "mq", str(tmp_path), "nonsense://x")


def _app() -> AsyncClient:
    mq = AsyncClient("memory://")

    @mq.subscriber("orders", group_id="billing")
    async def bill(message: Message) -> None: ...

    @mq.subscriber("orders", group_id="audit")
    async def audit(message: Message) -> None: ...

    @mq.task(topic="receipts")
    def receipt(order: int) -> None: ...

    return mq


@pytest.mark.parametrize(
    ("names", "topics", "groups", "chosen"),
    [
        ([], [], [], ["bill", "audit", "receipt"]),
        (["receipt", "bill"], [], [], ["bill", "receipt"]),
        ([], ["orders"], [], ["bill", "audit"]),
        ([], ["orders"], ["audit", "workers"], ["audit"]),
    ],
)
def test_handlers_are_chosen_by_name_topic_and_group(
    names: list[str], topics: list[str], groups: list[str], chosen: list[str]
) -> None:
    found = choose_handlers("shop:mq", _app().subscriptions, names=names, topics=topics, groups=groups)
    assert [each.name.split()[0] for each in found] == chosen


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"names": ["bil"]}, "--handler bil: shop:mq has no such handler: did you mean bill? choose audit, bill, rec"),
        ({"names": ["xyz"]}, "--handler xyz: shop:mq has no such handler: choose audit, bill, receipt"),
        ({"topics": ["order"]}, "did you mean orders? choose orders, receipts"),
        ({"groups": ["bills"]}, "did you mean billing?"),
        ({"names": ["bill"], "groups": ["audit"]}, "no handler matches all options; declared: bill of orders for"),
    ],
)
def test_an_unknown_choice_lists_the_declared_handlers(options: dict[str, list[str]], says: str) -> None:
    given = {"names": [], "topics": [], "groups": [], **options}
    with pytest.raises(InvalidArgumentError, match=re.escape(says)):
        choose_handlers("shop:mq", _app().subscriptions, **given)


def test_a_client_without_handlers_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no handler is declared"):
        choose_handlers("shop:mq", [], names=[], topics=[], groups=[])
