"""The wire form of errors."""

from litemq.errors import ChangeRefusedError, MasterLeasedError
from litemq.net.failures import decode_failure, encode_failure


def test_a_refused_change_arrives_as_such() -> None:
    """A master must know that the answer is definite. The state of the group is not sent."""
    for kind in (ChangeRefusedError, MasterLeasedError):
        error = decode_failure(encode_failure(kind("group orders has changed", object())))
        assert type(error) is kind
        assert (str(error), error.current) == ("group orders has changed", None)
