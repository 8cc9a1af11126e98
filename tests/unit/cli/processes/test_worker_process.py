"""The worker's process ends with its parent."""

import os
import signal
import socket
import time

import pytest

from litemq.cli.processes import worker_process


@pytest.mark.parametrize("has_unread_report", [False, True])
def test_a_process_ends_when_its_parent_was_killed(monkeypatch: pytest.MonkeyPatch, *, has_unread_report: bool) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: done.append(number))
    monkeypatch.setattr(time, "sleep", done.append)
    monkeypatch.setattr(worker_process, "_end", lambda code: done.append(f"exit {code}"))
    parent, line = socket.socketpair()
    if has_unread_report:  # then the kernel reports a reset, not the end
        line.sendall(b"{}\n")
    parent.close()
    worker_process._watch(line, 3.0)
    line.close()
    assert done == [signal.SIGTERM, 3.0, "exit 1"]
