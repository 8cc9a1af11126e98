"""``litemq topic`` and ``litemq message`` against a cluster: output and exit codes."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from litemq import Client
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE
from support.commands import environment_of_commands, litemq, up


class Cluster:
    """Commands that use the cluster."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    def run(self, *arguments: str, exits: int = 0, given: bytes = b"") -> subprocess.CompletedProcess[str]:
        done = litemq(*arguments, cwd=self.folder, check=False, given=given, environment=self.environment)
        assert done.returncode == exits, f"{arguments}: {done}"
        return done


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with up(folder) as (_, environment):
        yield Cluster(folder, environment)


def test_a_topic_from_its_creation_to_its_end(cluster: Cluster) -> None:
    created = json.loads(cluster.run("topic", "create", "short", "--queues", "2", "--format", "json").stdout)
    assert created["topic"] == "short"
    assert [queue["queue"] for queue in created["queues"]] == [0, 1]
    assert {"topic": "short", "queues": 2} in json.loads(cluster.run("topic", "list", "--format", "json").stdout)
    cluster.run("message", "send", "short", "x")
    plan = cluster.run("topic", "delete", "short", exits=EXIT_FAILED).stdout
    assert plan.startswith("would delete topic short with 2 queues on broker-1 and 1 message\n")
    assert "topic short: 2 queues, 1 message" in cluster.run("topic", "describe", "short").stdout
    assert cluster.run("topic", "delete", "short", "--yes").stdout.startswith("deleted topic short")
    gone = cluster.run("topic", "describe", "short", exits=EXIT_NOT_FOUND)
    assert gone.stderr.startswith("error TopicNotFoundError (41): ")


def test_sent_messages_are_shown(cluster: Cluster) -> None:
    arguments = (
        "--key",
        "o-1",
        "--key",
        "o-2",
        "--tag",
        "paid",
        "--property",
        "region=eu",
        "--ordering-key",
        "a",
        "--durability",
        "disk",
    )
    receipt = json.loads(cluster.run("message", "send", "shown", "grüße", *arguments, "--format", "json").stdout)
    (found,) = yaml.safe_load(cluster.run("message", "get", "shown", receipt["message_id"], "--format", "yaml").stdout)
    assert found["body"] == "grüße"
    assert (found["keys"], found["tags"], found["properties"]["region"], found["ordering_key"]) == (
        ["o-1", "o-2"],
        ["paid"],
        "eu",
        "a",
    )
    assert (found["queue"], found["offset"]) == (receipt["queue"], receipt["offset"])
    assert found["stored_at"] == receipt["stored_at"]
    assert "body_hex" not in found
    assert "key=o-1,o-2 tag=paid grüße" in cluster.run("message", "get", "shown", "--key", "o-2").stdout
    assert "grüße" in cluster.run("message", "get", "shown", "--at", "2026-01-01").stdout


def test_a_body_from_a_file_or_from_standard_input(cluster: Cluster) -> None:
    (cluster.folder / "body").write_bytes(b"from a file")
    cluster.run("message", "send", "bodies", "--file", "body")
    body = b"\x00from \x1b[2J input\xff"
    cluster.run("message", "send", "bodies", "-", given=body)
    first, second = cluster.run("message", "tail", "bodies", "--no-follow").stdout.splitlines()
    assert first.endswith("from a file")
    assert second.endswith(f" hex:{body.hex()}")
    assert "nothing to send" in cluster.run("message", "send", "bodies", exits=EXIT_USAGE).stderr


def test_a_json_body_arrives_as_a_dict(cluster: Cluster) -> None:
    cluster.run("message", "send", "parsed", '{"id":  1}')
    with Client(cluster.environment["LITEMQ_URL"]) as mq:
        (message,) = mq.receive("parsed", group_id="g", wait=10)
        assert (message.body, message.value) == (b'{"id":  1}', {"id": 1})
        message.ack()


def test_binary_bodies_come_back_unchanged(cluster: Cluster) -> None:
    body = b"\x00\xff\r\n"
    cluster.run("message", "send", "bytes", "-", "--key", "b", "--key", "all", given=body)
    cluster.run("message", "send", "bytes", "text", "--key", "t", "--key", "all")
    (found,) = json.loads(cluster.run("message", "get", "bytes", "--key", "b", "--format", "json").stdout)
    assert found["body"] is None
    assert bytes.fromhex(found["body_hex"]) == body
    written = subprocess.run(
        [sys.executable, "-P", "-m", "litemq", "message", "get", "bytes", "--key", "b", "--raw"],
        cwd=cluster.folder,
        capture_output=True,
        check=True,
        env=environment_of_commands(cluster.environment),
    )
    assert written.stdout == body
    assert "2 match" in cluster.run("message", "get", "bytes", "--key", "all", "--raw", exits=EXIT_USAGE).stderr
    assert cluster.run("message", "get", "bytes", "--key", "none", "--raw", exits=EXIT_NOT_FOUND).stdout == ""


def test_without_durability_the_offset_is_unknown(cluster: Cluster) -> None:
    said = cluster.run("message", "send", "unknown", "x", "--durability", "none").stdout
    assert said.startswith("sent ")
    assert said.endswith("no acknowledgement was requested\n")
    receipt = json.loads(
        cluster.run("message", "send", "unknown", "x", "--durability", "none", "--format", "json").stdout
    )
    assert (receipt["offset"], receipt["stored_at"]) == (None, None)


def test_the_last_messages_of_all_queues_in_their_order(cluster: Cluster) -> None:
    for number in range(5):
        cluster.run("message", "send", "many", f"message {number}")
    shown = [
        line.rpartition("message ")[2]
        for line in cluster.run("message", "tail", "many", "-n", "3", "--no-follow").stdout.splitlines()
    ]
    assert shown == ["2", "3", "4"]
    everything = cluster.run("message", "tail", "many", "--from", "earliest", "--no-follow", "--format", "json").stdout
    assert len(json.loads(everything)) == 5
    assert (
        cluster.run("message", "tail", "many", "--from", "latest", "--no-follow", "--format", "json").stdout == "[]\n"
    )


def test_nothing_found_is_an_empty_list_and_its_own_exit_code(cluster: Cluster) -> None:
    cluster.run("topic", "create", "empty")
    assert (
        cluster.run("message", "get", "empty", "--key", "nobody", "--format", "json", exits=EXIT_NOT_FOUND).stdout
        == "[]\n"
    )
    assert "no matching message" in cluster.run("message", "get", "empty", "nobody", exits=EXIT_NOT_FOUND).stderr
    assert cluster.run("message", "tail", "nowhere", "--no-follow", exits=EXIT_NOT_FOUND).stderr.startswith(
        "error TopicNotFoundError"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("message", "get", "t"), "give exactly one of ID, --key KEY and --at TIME"),
        (("message", "get", "t", "--at", "yesterday"), "write it like 2026-01-31T12:00:00Z"),
        (("message", "send", "t", "x", "--property", "novalue"), "write NAME=VALUE"),
        (("topic", "list", "--config", "missing.toml"), "cannot read missing.toml"),
    ],
)
def test_wrong_usage_is_explained(cluster: Cluster, arguments: tuple[str, ...], says: str) -> None:
    assert says in cluster.run(*arguments, exits=EXIT_USAGE).stderr


def test_bench_measures_a_running_cluster(cluster: Cluster) -> None:
    sent = json.loads(
        cluster.run("bench", "send", "--messages", "500", "--connections", "2", "--format", "json").stdout
    )
    assert (sent["messages"], sent["body_bytes"], sent["failed"]) == (500, 500 * 1024, 0)
    assert sent["messages_per_s"] > 0
    assert list(sent["latency_ms"]) == ["p50", "p90", "p99", "p99.9"]
    batched = cluster.run(
        "bench", "send", "--messages", "500", "--connections", "2", "--batch", "--durability", "memory"
    ).stdout
    assert batched.startswith("sent 500 messages in ")
    received = json.loads(
        cluster.run("bench", "consume", "--messages", "1000", "--seconds", "30", "--format", "json").stdout
    )
    assert (received["messages"], received["missing"]) == (1000, 0)
    latency = json.loads(cluster.run("bench", "latency", "--rate", "200", "--seconds", "1", "--format", "json").stdout)
    assert (latency["messages"], latency["missing"], latency["failed"]) == (200, 0, 0)
    assert 0 < latency["latency_ms"]["p50"] <= latency["latency_ms"]["p99.9"]


def test_the_url_may_be_in_a_file(cluster: Cluster) -> None:
    (cluster.folder / "client.toml").write_text(
        f'url = "{cluster.environment["LITEMQ_URL"]}"\n[connection]\nrequest_timeout = "5s"\n'
    )
    litemq("topic", "list", "--config", "client.toml", cwd=cluster.folder)
