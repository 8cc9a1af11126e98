"""Conditions agree with SQLite; everything else is a syntax error."""

import sqlite3
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from litemq.errors import FilterSyntaxError
from litemq.filters.sql import parse_condition
from litemq.format.record_encode import encode_record
from litemq.format.record_view import RecordView
from litemq.types import MessageType, Record, Stamp

# A property is text to SQLite in one column, a number in a second and a truth value in a third, by
# our rules; so SQLite never converts.
NAMES = ("a", "b", "c")
VALUES = st.none() | st.sampled_from(
    ["", "x", "xy", "X%", "0", "1", "-3", "2.5", "1e2", "true", "FALSE", " 7 ", "nan", "inf", "0x1", "订"]
)
TEXTS = st.sampled_from(["", "x", "xy", "X%", "1", "it's", "订"])
NUMBERS = st.sampled_from(["0", "1", "2.5", "-3", "100", ".5", "1e2", "7."])


class Said(NamedTuple):
    """A part of a condition, in our dialect and in SQLite's."""

    ours: str
    reference: str


def _both(text: str) -> Said:
    return Said(text, text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _column(kind: str) -> st.SearchStrategy[Said]:
    quoted = st.sampled_from(NAMES).map(lambda name: Said(f'"{name}"', f"{name}_{kind}"))
    return st.sampled_from(NAMES).map(lambda name: Said(name, f"{name}_{kind}")) | quoted


TEXT_LITERALS = TEXTS.map(lambda text: _both(_quoted(text)))
NUMBER_LITERALS = NUMBERS.map(_both)
TEXT_TERMS = TEXT_LITERALS | st.just(_both("type")) | st.just(_both("ordering_key"))
# At least one literal or field makes a number of it; two properties would be texts.
NUMBER_TERMS = st.recursive(
    NUMBER_LITERALS | st.sampled_from(["priority", "born_timestamp", "expire_at"]).map(_both),
    lambda inner: st.builds(
        lambda left, sign, right: Said(
            f"({left.ours} {sign} {right.ours})", f"({left.reference} {sign} {right.reference})"
        ),
        inner | _column("number"),
        st.sampled_from(["+", "-", "*"]),
        inner | _column("number"),
    ),
    max_leaves=3,
)
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def _compared(left: Said, sign: str, right: Said) -> Said:
    return Said(f"{left.ours} {sign} {right.ours}", f"{left.reference} {sign} {right.reference}")


def _between(value: Said, negated: str, low: Said, high: Said) -> Said:
    return Said(
        f"{value.ours} {negated} BETWEEN {low.ours} AND {high.ours}",
        f"{value.reference} {negated} BETWEEN {low.reference} AND {high.reference}",
    )


def _in(value: Said, negated: str, literals: list[Said]) -> Said:
    among = ", ".join(literal.ours for literal in literals)
    return Said(f"{value.ours} {negated} IN ({among})", f"{value.reference} {negated} IN ({among})")


def _like(value: Said, negated: str, pattern: str) -> Said:
    said = f"{negated} LIKE {_quoted(pattern)} ESCAPE '!'"
    return Said(f"{value.ours} {said}", f"{value.reference} {said}")


NEGATED = st.sampled_from(["", "NOT"])
PATTERNS = st.sampled_from(["%", "x%", "_", "%y", "X!%", "", "%x%", "__"])
SIMPLE = st.one_of(
    st.builds(_compared, TEXT_TERMS, SIGNS, TEXT_TERMS | _column("text")),
    st.builds(_compared, _column("text"), SIGNS, TEXT_TERMS | _column("text")),
    st.builds(_compared, NUMBER_TERMS, SIGNS, NUMBER_TERMS | _column("number")),
    st.builds(_compared, _column("number"), SIGNS, NUMBER_TERMS),
    st.builds(_compared, _column("truth"), st.sampled_from(["=", "<>"]), st.sampled_from(["TRUE", "FALSE"]).map(_both)),
    st.builds(_between, _column("number"), NEGATED, NUMBER_TERMS, NUMBER_TERMS),
    st.builds(_between, _column("text"), NEGATED, TEXT_LITERALS, TEXT_LITERALS),
    st.builds(_in, _column("text"), NEGATED, st.lists(TEXT_LITERALS, min_size=1, max_size=3)),
    st.builds(_in, _column("number"), NEGATED, st.lists(NUMBER_LITERALS, min_size=1, max_size=3)),
    st.builds(_like, _column("text"), NEGATED, PATTERNS),
    st.builds(
        lambda value, negated: Said(f"{value.ours} IS {negated} NULL", f"{value.reference} IS {negated} NULL"),
        _column("text"),
        NEGATED,
    ),
    # Tags: among them, in SQLite by a table of its own.
    st.builds(
        lambda tag, sign: Said(
            f"tags {sign} {_quoted(tag)}", f"({_quoted(tag)} {'IN' if sign == '=' else 'NOT IN'} among_tags)"
        ),
        TEXTS,
        st.sampled_from(["=", "<>"]),
    ),
)


def _joined(left: Said, word: str, right: Said) -> Said:
    return Said(f"({left.ours} {word} {right.ours})", f"({left.reference} {word} {right.reference})")


CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(_joined, inner, st.sampled_from(["AND", "OR"]), inner)
        | inner.map(lambda one: Said(f"NOT ({one.ours})", f"NOT ({one.reference})"))
    ),
    max_leaves=8,
)


def _number(text: str | None) -> float | int | None:
    """Parse a number by our rules, as an independent implementation."""
    if text is None or text in ("nan", "inf", "0x1"):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _reference(record: Record, condition: str) -> bool | None:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        columns: dict[str, object] = {
            "type": record.type.name.lower(),
            "ordering_key": record.sharding_key or None,
            "priority": record.priority,
            "born_timestamp": record.born_timestamp,
            "expire_at": record.expire_at or None,
        }
        for name in NAMES:
            text = record.properties.get(name)
            columns[f"{name}_text"] = text
            columns[f"{name}_number"] = _number(text)
            columns[f"{name}_truth"] = {"true": 1, "false": 0}.get((text or "").lower())
        database.execute(f"CREATE TABLE message ({', '.join(columns)})")
        database.execute(f"INSERT INTO message VALUES ({', '.join('?' * len(columns))})", list(columns.values()))  # noqa: S608
        database.execute("CREATE TABLE among_tags (tag)")
        database.executemany("INSERT INTO among_tags VALUES (?)", [(tag,) for tag in record.tags])
        ((outcome,),) = database.execute(f"SELECT {condition} FROM message")  # noqa: S608
    finally:
        database.close()
    return None if outcome is None else bool(outcome)


RECORDS = st.builds(
    lambda values, tags, kind, priority, born, expire, key: Record(
        "orders",
        tags=tuple(tags),
        properties={name: value for name, value in zip(NAMES, values, strict=True) if value is not None},
        type=kind,
        priority=priority,
        born_timestamp=born,
        expire_at=expire,
        sharding_key=key,
    ),
    st.lists(VALUES, min_size=3, max_size=3),
    st.lists(TEXTS, max_size=3),
    st.sampled_from(MessageType),
    st.integers(0, 255),
    st.integers(0, 10),
    st.integers(0, 10),
    st.sampled_from(["", "x", "1"]),
)


@settings(max_examples=400, deadline=None)
@given(RECORDS, CONDITIONS)
def test_conditions_agree_with_the_reference(record: Record, condition: Said) -> None:
    # SQLite does not check TYPE names: if we refuse an unknown one, there is nothing to compare.
    try:
        holds = parse_condition(condition.ours).holds
    except FilterSyntaxError as error:
        assert "unknown message type" in str(error)  # noqa: PT017
        return
    assert holds(RecordView(encode_record(record))) == _reference(record, condition.reference)


FRAGMENTS = st.sampled_from(
    [
        "a",
        "b",
        "tags",
        "keys",
        "type",
        "=",
        "<>",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "BETWEEN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "ESCAPE",
        "TIMESTAMP",
        "'x'",
        "'1'",
        "1",
        "2.5",
        '"q"',
        "SELECT",
        "FROM",
        "WHERE",
        "CASE",
        "WHEN",
        "END",
        "CAST",
        "AS",
        "INTERVAL",
        "EXISTS",
        "ANY",
        "ALL",
        "UNION",
        "ILIKE",
        "DISTINCT",
        "DATE",
        "X",
        "N",
        "E'x'",
        "--",
        "/*",
        "*/",
        ";",
        "::",
        "||",
        "?",
        "@",
        "$1",
        "[",
        "]",
        "{",
        "}",
        ".",
        "'",
        '"',
        "%",
        "&",
        "|",
        "~",
        "^",
        "#",
        "CURRENT_TIMESTAMP",
        "OVER",
        "ROW",
        "ARRAY",
        "MAP",
        "STRUCT",
        "LAMBDA",
        "->",
        "=>",
        ":=",
        "DIV",
        "MOD",
        "XOR",
        "RLIKE",
        "SIMILAR",
        "GLOB",
        "COLLATE",
        "AT",
        "TIME",
        "ZONE",
        "DROP",
        "CREATE",
        "\\",
        "`",
        "\n",
        "\x00",
        "订",
    ]
)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=14).map(" ".join)
    | st.lists(FRAGMENTS, max_size=14).map("".join)
    | st.text(max_size=40)
)
@example("a = 1 AND")
@example("(" * 17 + "a = 1" + ")" * 17)
@example("NOT " * 400 + "a = 1")
@example("- " * 400 + "1 = a")
@example(" AND ".join(["a = 1"] * 120))
def test_anything_is_a_condition_or_a_syntax_error(text: str) -> None:
    try:
        condition = parse_condition(text)
    except FilterSyntaxError as error:
        assert str(error)  # noqa: PT017
        return
    outcome = condition.holds(RecordView(encode_record(Record("orders", tags=("x",), properties={"a": "1", "b": "x"}))))
    assert outcome in (True, False, None)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1",
        "TRUE",
        "a + 1",
        "a = NULL",
        "a = 1; b = 2",
        "a = 1 b",
        "a = 1 AS b",
        "a = 1 -- and more",
        "a = 1 /* and more */",
        "a IN ()",
        "a IN (1, 'x')",
        "a IN (b)",
        "a IN (SELECT 1)",
        "a IS TRUE",
        "a.b = 1",
        "f(a) = 1",
        "a < b < c",
        "tags > 'A'",
        "tags = 1",
        "tags = keys",
        "type = 'dely'",
        "type IN ('normal', 'dely')",
        "priority = 'x'",
        "priority BETWEEN 1 AND 'x'",
        "a = TRUE AND TRUE > a",
        "a LIKE b",
        "a LIKE 'x' ESCAPE '!!'",
        "priority LIKE '1%'",
        "a = 'x' 'y'",
        "'x' + 1 = 2",
        "a = " + "1" * 65,
        "a = 1e9999",
        "a LIKE ANY ('x')",
        "a ILIKE 'x'",
        "a IS DISTINCT FROM 'x'",
        "a BETWEEN SYMMETRIC 1 AND 2",
        "CASE WHEN a = 1 THEN b = 1 END",
        "EXISTS (SELECT 1)",
        "a COLLATE x = 'y'",
        "store_timestamp > TIMESTAMP '2026-01-31 08:00:00'",
        "store_timestamp > TIMESTAMP 'yesterday'",
        "store_timestamp > DATE '2026-01-31'",
        " OR ".join(["a = 1"] * 200),
    ],
)
def test_an_invalid_condition_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys = 'k1' AND keys <> 'k3'", True),
        ("tags LIKE 'vi%'", True),
        ("tags NOT IN ('vip', 'b')", False),
        ("type = 'order'", True),
        ("\"type\" = 'mine'", True),
        ("TYPE IN ('order', 'delay')", True),
        ('"user.id" = \'7\' AND "user.id" > 6', True),
        ("store_timestamp = TIMESTAMP '1970-01-01 01:00:01+01:00'", True),
        ("message_id = 'm' AND priority BETWEEN 200 AND 255", True),
        ("price / 2 > 4.9 AND -price < 0 AND price / nothing IS NULL", True),
        ("price / 0 = 1 OR price / 0 <> 1", None),
        ("tags = label", True),
        ("nothing <> 'x'", None),
        ("tags IS NULL OR keys IS NULL OR delay_time IS NOT NULL", False),
        ("price > -1 AND price IN (-1, 10)", True),
        ("- -price = 10", True),
    ],
)
def test_examples(text: str, expected: bool | None) -> None:
    record = Record(
        "orders",
        message_id="m",
        tags=("vip", "new"),
        keys=("k1", "k2"),
        properties={"type": "mine", "user.id": "7", "price": "10", "label": "new"},
        type=MessageType.ORDER,
        priority=230,
    )
    view = RecordView(encode_record(record, Stamp(store_timestamp=1000)))
    assert parse_condition(text).holds(view) is expected
