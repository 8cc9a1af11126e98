"""Settings for every test."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.etcd import EtcdCluster

# A slow minute of a shared machine is no failure. HYPOTHESIS_PROFILE=deep looks longer than CI can.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# If a shell starts the tests in the background, they and their child processes ignore SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine's disk may be nearly full: brokers in their own processes keep what a test sends. The
# fixture below does the same for those in this process.
os.environ["LITEMQ_BROKER_DISK_CLEAN_PERCENT"] = os.environ["LITEMQ_BROKER_DISK_REFUSE_PERCENT"] = "100"

# Child processes of tests find their modules compiled, as in an installed package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Put all temporary files of this run below one folder.

    The folder is removed with the run, also if the run is killed. ``--basetemp`` keeps the files of
    the tests.
    """
    from litemq.bench.scratch import scratch_folder  # late: coverage begins first

    if not hasattr(config, "workerinput"):  # workers of pytest-xdist inherit the folder
        stack = ExitStack()
        stack.enter_context(scratch_folder())
        config.add_cleanup(stack.close)


@pytest.fixture(autouse=True, scope="session")
def _an_empty_disk() -> Iterator[None]:
    """Keep stores and benchmarks in this process from the state of the machine's disk."""
    from litemq.storage.files.disk import Disk  # late: coverage begins first

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "used_fraction", lambda _disk, _path: 0.0)
        patch.setattr(Disk, "free_bytes", lambda _disk, _path: 1 << 40)
        yield


@pytest.fixture(params=["native", "pure"], scope="module")
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run each test of a module with the loops in C and with the Python reference."""
    from litemq.format import native  # late: coverage begins first

    if request.param == "native" and not native.enabled:
        pytest.skip("the extension was not built, or LITEMQ_PURE is set")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", request.param == "native")
        yield request.param


@pytest.fixture(scope="session")
def etcd() -> Iterator["EtcdCluster"]:
    """A real etcd with one member. Tests use prefixes of their own."""
    from support.etcd import EtcdCluster  # late: most tests need none

    with EtcdCluster(1) as cluster:
        yield cluster


@pytest.fixture
def root_logger_as_it_was() -> Iterator[None]:
    """What a command does to the program's log is undone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def not_under_nohup() -> Iterator[None]:
    """Reset SIGHUP: child processes inherit an ignored signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
