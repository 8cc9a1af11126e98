"""Which replica a task reads from, and when it asks the master."""

from __future__ import annotations

from collections.abc import Callable

from litemq.errors import ConnectionLostError, LiteMQError, NoRouteError, NotMasterError, OffsetOutOfRangeError
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.net.blocking import BlockingAnswer, BlockingPeer
from litemq.proto.wire_pb2 import PullAnswer, PullRequest, ReplicaFacts, ReplicaGroup
from litemq.spark.fetch import ClusterReader, QueueSpan
from litemq.spark.replica_reads import FollowerPeers
from support.callers import records

_COUNT = 10
_SPAN = QueueSpan("orders", "paid", 0, 0, _COUNT)
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))  # A is the master

_MESSAGES = records(_COUNT, topic="paid")
_BOUNDS = [*scan(_MESSAGES, limits=STORED_LIMITS).starts.tolist(), len(_MESSAGES)]


class _Peer(BlockingPeer):
    """A replica that has the messages below ``end``, two in each answer; ``fail`` may raise."""

    def __init__(self, name: str, asked: list[str], end: int = _COUNT) -> None:
        self._name, self._asked, self._end = name, asked, end
        self._requests: list[PullRequest] = []
        self.fail: Callable[[int], LiteMQError | None] = lambda _offset: None
        self.damaged = ""

    def ask(self, _opcode: int, header: bytes, _attachment: object = b"") -> int:
        self._requests.append(PullRequest.FromString(header))
        return len(self._requests) - 1

    def answer(self, number: int) -> BlockingAnswer:
        at = self._requests[number].offset
        self._asked.append(f"{self._name} {at}")
        if error := self.fail(at):
            raise error
        until = min(at + 2, self._end)
        if self.damaged or until <= at:
            answer = PullAnswer(next_offset=at, damaged=self.damaged).SerializeToString()
            return BlockingAnswer(answer, memoryview(b""))
        return BlockingAnswer(b"", memoryview(_MESSAGES)[_BOUNDS[at] : _BOUNDS[until]])

    def close(self) -> None:
        self._asked.append(f"{self._name} closed")


class _Cluster(ClusterReader):
    """A group whose followers are ``followers``, by port."""

    def __init__(self, *, members: tuple[bytes, ...] = (A, B, C)) -> None:
        super().__init__("litemq://nowhere")
        self.asked: list[str] = []
        self.master = _Peer("master", self.asked)
        self.follower_peers: dict[int, _Peer | None] = {port: _Peer(f"follower {port}", self.asked) for port in (2, 3)}
        facts = [ReplicaFacts(store_id=each, host="host", port=each[0], alive=True) for each in (A, B, C)]
        self.views = [ReplicaGroup(name="orders", holder=A, members=members, replicas=facts)]
        self.names_answer = True
        self.followers = FollowerPeers(self.replica_groups, self._connect)

    def _connect(self, _host: str, port: int, **_: float) -> BlockingPeer:
        peer = self.follower_peers[port]
        if peer is None:
            raise ConnectionLostError("refused")
        return peer

    def replica_groups(self) -> list[ReplicaGroup]:
        if not self.names_answer:
            raise NoRouteError("no NameServer answers")
        return self.views

    def peer(self, _broker: str) -> BlockingPeer:
        return self.master

    def read(self) -> list[str]:
        """Read the span; return who was asked for which offset, without the followers' ports."""
        assert b"".join(self.fetch(_SPAN, read_from="replica")) == _MESSAGES
        return [entry.replace("follower 2", "follower").replace("follower 3", "follower") for entry in self.asked]

    def fail(self, error: LiteMQError, at: int) -> None:
        """Let both followers refuse requests from the offset ``at`` on."""
        for peer in self.follower_peers.values():
            assert peer is not None
            peer.fail = lambda offset: error if offset >= at else None


def _from_follower(*offsets: int) -> list[str]:
    return [f"follower {offset}" for offset in offsets]


def _from_master(*offsets: int) -> list[str]:
    return [f"master {offset}" for offset in offsets]


def test_a_follower_in_sync_serves_a_span() -> None:
    cluster = _Cluster()
    assert cluster.read() == _from_follower(0, 2, 4, 6, 8)
    assert len({entry.split()[1] for entry in cluster.asked}) == 1  # one of the two


def test_the_followers_share_the_tasks() -> None:
    asked = {cluster.asked[0] for cluster in (_Cluster() for _ in range(100)) if cluster.read()}
    assert asked == {"follower 2 0", "follower 3 0"}


def test_the_master_serves_by_default_and_without_a_follower_in_sync() -> None:
    cluster = _Cluster()
    assert b"".join(cluster.fetch(_SPAN)) == _MESSAGES
    assert cluster.asked == _from_master(0, 2, 4, 6, 8)
    assert _Cluster(members=(A,)).read() == _from_master(0, 2, 4, 6, 8)


def test_a_follower_that_does_not_answer_is_left_out() -> None:
    cluster = _Cluster()
    cluster.follower_peers[2] = None
    assert cluster.read() == _from_follower(0, 2, 4, 6, 8)
    assert cluster.asked[0] == "follower 3 0"
    cluster = _Cluster()
    cluster.follower_peers = dict.fromkeys((2, 3))
    assert cluster.read() == _from_master(0, 2, 4, 6, 8)


def test_the_master_serves_if_no_nameserver_answers() -> None:
    cluster = _Cluster()
    cluster.names_answer = False
    assert cluster.read() == _from_master(0, 2, 4, 6, 8)


def test_after_a_lost_connection_the_other_follower_serves_and_then_the_master() -> None:
    cluster = _Cluster()
    cluster.fail(ConnectionLostError("reset"), at=4)
    lost = ["follower 4", "follower closed"]
    assert cluster.read() == [*_from_follower(0, 2), *lost, *lost, *_from_master(4, 6, 8)]


def test_the_master_serves_what_a_follower_refuses() -> None:
    for error in (OffsetOutOfRangeError("not here yet"), NotMasterError("closing")):
        cluster = _Cluster()
        cluster.fail(error, at=6)
        assert cluster.read() == [*_from_follower(0, 2, 4, 6), "follower closed", *_from_master(6, 8)]


def test_the_master_serves_what_a_follower_does_not_have() -> None:
    cluster = _Cluster()
    cluster.follower_peers = {port: _Peer(f"follower {port}", cluster.asked, end=4) for port in (2, 3)}
    assert cluster.read() == [*_from_follower(0, 2, 4), *_from_master(4, 6, 8)]


def test_the_master_serves_what_is_damaged_at_a_follower() -> None:
    cluster = _Cluster()
    for peer in cluster.follower_peers.values():
        assert peer is not None
        peer.damaged = "CRC"
    assert cluster.read() == [*_from_follower(0), *_from_master(0, 2, 4, 6, 8)]
