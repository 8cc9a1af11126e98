"""Content types of bodies from the command line."""

import pytest
import typer

from litemq.cli.bodies import body_properties, content_type_of


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"id": 1}', "application/json"),
        (b'\n  {"id":  1 }\n', "application/json"),
        (b"[]", "application/json"),
        (b'["gr\xc3\xbc\xc3\x9fe", null]', "application/json"),
        (b"42", "text/plain"),
        (b"007", "text/plain"),
        (b'"tea"', "text/plain"),
        (b"null", "text/plain"),
        (b"tea", "text/plain"),
        (b"", ""),
        (b"{id: 1}", "text/plain"),
        (b"[NaN]", "text/plain"),
        (b"[" * 100_000, "text/plain"),
        (b'\xef\xbb\xbf{"id": 1}', "text/plain"),
        (b"\xff\xfe{}", ""),
    ],
)
def test_the_text_decides(body: bytes, content_type: str) -> None:
    assert content_type_of(body) == content_type


def test_options_take_precedence() -> None:
    assert body_properties(b"{}", [], None, raw=True) == {}
    assert body_properties(b"{}", [], "text/csv", raw=False) == {"content-type": "text/csv"}
    assert body_properties(b"\xff", ["a=b"], None, raw=False) == {"a": "b"}
    assert body_properties(b"{}", ["content-type=text/csv"], None, raw=False) == {"content-type": "text/csv"}


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="either --content-type or --raw"):
        body_properties(b"{}", [], "text/csv", raw=True)
    with pytest.raises(typer.BadParameter, match="is also given"):
        body_properties(b"{}", ["content-type=text/csv"], "text/plain", raw=False)
