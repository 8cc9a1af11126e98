"""Bodies on the command line: the content type that a body is sent with.

A shell has only text, so the text decides. A JSON object or array is sent as JSON, other text as
text, and everything else as bytes. The bytes are never modified. A single number, word or quoted
string is text: an order number must not change its type with its digits.
"""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from litemq.cli.options import named_values

__all__ = ["CONTENT_TYPE", "JSON", "ContentType", "Raw", "body_properties", "content_type_of"]

CONTENT_TYPE: Final = "content-type"
JSON: Final = "application/json"
TEXT: Final = "text/plain"

ContentType = Annotated[
    str | None,
    typer.Option(
        "--content-type",
        metavar="TYPE",
        help="Content type; default: application/json for a JSON object or array, text/plain for other text.",
        show_default=False,
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Send the body without a content type: consumers get bytes.")]


def content_type_of(body: bytes) -> str:
    """Return the content type of ``body``; empty if it is empty or not text."""
    if not body:
        return ""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    if text.lstrip()[:1] not in ("{", "["):
        return TEXT
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # no consumer could read it as JSON
        return TEXT
    return JSON


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")  # Python would accept NaN and Infinity


def body_properties(body: bytes, pairs: list[str], content_type: str | None, *, raw: bool) -> dict[str, str]:
    """Return the properties of a message: those of ``--property``, and the content type.

    A ``content-type`` among ``pairs`` takes precedence over the one that ``body`` would get.
    """
    named = named_values(pairs)
    if content_type is not None and raw:
        raise typer.BadParameter("choose either --content-type or --raw, not both", param_hint="--raw")
    if content_type is not None and CONTENT_TYPE in named:
        raise typer.BadParameter("--property content-type=… is also given: choose one", param_hint="--content-type")
    chosen = "" if raw else content_type_of(body) if content_type is None else content_type
    if chosen:
        named.setdefault(CONTENT_TYPE, chosen)
    return named
