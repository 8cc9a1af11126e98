"""The schema as a contract: numbers on the wire and in the log, and fields from a newer version."""

from litemq.proto.cluster_pb2 import StoredGroup, StoredLease
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsCommitted
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import Opcode, TopicRequest


def test_numbers_of_opcodes() -> None:
    """Peers of another version know these numbers: one from each range."""
    numbers = {"HELLO": 1, "SEND": 16, "PULL": 17, "LEASE": 23, "CREATE_TOPIC": 32, "REDRIVE": 50, "COMMIT_SINK": 57}
    numbers |= {"REGISTER_BROKER": 64, "CANCEL_TIMERS": 70, "PUT_JOBS": 75, "SEND_HALF": 80, "TRIGGER_JOB": 85}
    assert {name: Opcode.Value(name) for name in numbers} == numbers
    assert len(set(Opcode.values())) == len(Opcode.keys())


def test_numbers_of_changes_in_the_log() -> None:
    """A log written by an earlier version is read by these numbers."""
    assert {field.name: field.number for field in Control.DESCRIPTOR.oneofs_by_name["change"].fields} == {
        "topic_created": 1,
        "topic_deleted": 2,
        "offsets_committed": 3,
        "retention_crossed": 4,
        "lease_tick": 5,
        "try_failed": 6,
        "topic_changed": 7,
        "group_changed": 8,
        "offsets_reset": 9,
        "timer_ended": 10,
        "dead_letters_dropped": 11,
        "sink_committed": 12,
        "halves_rolled_back": 13,
        "archived_through": 14,
        "halves_skipped": 15,
        "snapshot_begin": 16,
        "snapshot_rows": 17,
        "snapshot_end": 18,
        "timers_ended": 19,
        "timer_moved": 20,
        "timer_batch_cancelled": 21,
        "jobs_put": 22,
        "jobs_deleted": 23,
        "ticks_passed": 24,
        "transactions_decided": 26,
        "transactions_checked": 27,
        "epoch_started": 28,
    }


def test_numbers_in_the_cluster_store() -> None:
    """NameServers of another version read and write the same facts."""
    numbers = {"name": 1, "epoch": 2, "holder": 3, "members": 4, "min_in_sync": 5, "segment_bytes": 6}
    numbers |= {"unclean_epoch": 7, "confirmed": 8, "confirmed_epoch": 9}
    assert {field.name: field.number for field in StoredGroup.DESCRIPTOR.fields} == numbers
    assert {field.name: field.number for field in StoredLease.DESCRIPTOR.fields} == {"epoch": 1, "holder": 2}


def test_bytes_of_a_control_record() -> None:
    offset = GroupOffset(group="g", topic_id=3, queue_id=1, offset=300)
    encoded = bytes.fromhex("1a0c 0a0a 0a0167 1003 1801 20ac02")
    assert Control(offsets_committed=OffsetsCommitted(offsets=[offset])).SerializeToString() == encoded
    assert Control.FromString(encoded).WhichOneof("change") == "offsets_committed"


def test_a_field_of_a_newer_version_is_ignored_and_kept() -> None:
    newer = TopicRequest(topic="orders").SerializeToString() + bytes.fromhex("92f80104feedf00d")
    read = TopicRequest.FromString(newer)
    assert read.topic == "orders"
    assert read.SerializeToString() == newer


def test_an_optional_number_differs_from_zero() -> None:
    assert not JobDefinition(id="j").HasField("max_retries")
    assert JobDefinition.FromString(JobDefinition(id="j", max_retries=0).SerializeToString()).HasField("max_retries")
