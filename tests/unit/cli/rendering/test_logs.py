"""Logging: one line per record, whatever its text."""

import logging
import re

import pytest

from litemq.cli.rendering.logs import Level, log_to_stderr

pytestmark = pytest.mark.usefixtures("root_logger_as_it_was")


def test_a_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(Level.INFO, "broker-1")
    logging.getLogger("litemq.x").info("a peer said\r\n%s", "two lines")
    logging.getLogger("litemq.x").debug("not this")
    try:
        int("no number")
    except ValueError:
        logging.getLogger("litemq.x").exception("failed")
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    broker-1: a peer said\\r \| two lines", first)
    assert "Traceback" in second
    assert "ValueError: invalid literal" in second
