"""The operations of SQL conditions, as functions of one record.

Logic has three values, as in SQL: ``None`` is unknown, the result of every comparison with a
missing value. A property is a string. If it is compared with a number or a boolean, it is parsed as
one; if that fails, it counts as missing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from litemq.filters.like import LikePattern
from litemq.format.record_view import RecordView

__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "FIELDS",
    "Condition",
    "Kind",
    "Term",
    "all_of",
    "any_of",
    "arithmetic",
    "as_boolean",
    "as_number",
    "as_string",
    "compare",
    "contains",
    "is_in",
    "is_like",
    "is_missing",
    "literal",
    "negation",
    "negative",
    "parse_number",
    "property_term",
]

Truth = bool | None
Number = int | float
Holds = Callable[[RecordView], Truth]
Value = Callable[[RecordView], Any]  # of the term's kind, or None


class Kind(Enum):
    """The static type of a term; the values appear in error messages."""

    STRING = "a string"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    PROPERTY = "a property"
    STRING_LIST = "tags or keys"


class Term(NamedTuple):
    """A value that can be compared."""

    kind: Kind
    value: Value


class Condition(NamedTuple):
    """A predicate. A record can satisfy it only if it has one of ``tags``; ``None``: any tags."""

    holds: Holds
    tags: frozenset[str] | None = None


FIELDS: Final[dict[str, Term]] = {
    "tags": Term(Kind.STRING_LIST, lambda record: record.tags),
    "keys": Term(Kind.STRING_LIST, lambda record: record.keys),
    "type": Term(Kind.STRING, lambda record: record.type.name.lower()),
    "message_id": Term(Kind.STRING, lambda record: record.message_id or None),
    "ordering_key": Term(Kind.STRING, lambda record: record.ordering_key or None),
    "priority": Term(Kind.NUMBER, lambda record: record.priority),
    "born_timestamp": Term(Kind.NUMBER, lambda record: record.born_timestamp),
    "store_timestamp": Term(Kind.NUMBER, lambda record: record.store_timestamp),
    "delay_time": Term(Kind.NUMBER, lambda record: record.delay_time or None),
    "expire_at": Term(Kind.NUMBER, lambda record: record.expire_at or None),
}

COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}

_NUMBER: Final = re.compile(r"\s*[+-]?(\d{1,64}(\.\d{0,64})?|\.\d{1,64})([eE][+-]?\d{1,4})?\s*", re.ASCII)
_WHOLE: Final = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_INFINITY: Final = float("inf")


# Terms --------------------------------------------------------------------------------------------


def literal(kind: Kind, value: str | Number | bool) -> Term:
    """Return the term of a literal."""
    return Term(kind, lambda _record: value)


def property_term(name: str) -> Term:
    """Return the term of the property ``name``."""
    return Term(Kind.PROPERTY, lambda record: record.properties.get(name))


def parse_number(text: str) -> Number | None:
    """Parse a number. Return ``None`` if ``text`` is not one."""
    if not _NUMBER.fullmatch(text):
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text)
    return number if abs(number) < _INFINITY else None


def as_number(term: Term) -> Term:
    """Parse a property as a number."""
    value = term.value

    def read(record: RecordView) -> Number | None:
        text = value(record)
        return None if text is None else parse_number(text)

    return Term(Kind.NUMBER, read)


def as_boolean(term: Term) -> Term:
    """Parse a property as a boolean."""
    value = term.value

    def read(record: RecordView) -> Truth:
        text = value(record)
        return None if text is None else {"true": True, "false": False}.get(text.strip().lower())

    return Term(Kind.BOOLEAN, read)


def as_string(term: Term) -> Term:
    """Take a property as the string that it is."""
    return Term(Kind.STRING, term.value)


def negative(term: Term) -> Term:
    """Negate a number."""
    value = term.value

    def negate(record: RecordView) -> Number | None:
        number = value(record)
        return None if number is None else -number

    return Term(Kind.NUMBER, negate)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Combine two numbers by ``sign``. Division by zero and overflow are unknown."""
    operation, first, second = ARITHMETIC[sign], left.value, right.value

    def calculate(record: RecordView) -> Number | None:
        a, b = first(record), second(record)
        if a is None or b is None:
            return None
        try:
            result: Number = operation(a, b)
        except (ZeroDivisionError, OverflowError):
            return None
        return result if abs(result) < _INFINITY else None  # excludes NaN, too

    return Term(Kind.NUMBER, calculate)


# Conditions ---------------------------------------------------------------------------------------


def compare(sign: str, left: Term, right: Term) -> Condition:
    """Compare two terms of the same kind."""
    operation, first, second = COMPARISONS[sign], left.value, right.value

    def holds(record: RecordView) -> Truth:
        a, b = first(record), second(record)
        return None if a is None or b is None else operation(a, b)

    return Condition(holds)


def is_in(term: Term, choices: Sequence[Any]) -> Condition:
    """IN: whether the value is one of ``choices``; of tags or keys, whether any of them is."""
    value, among = term.value, frozenset(choices)
    if term.kind is Kind.STRING_LIST:
        tags = among if term is FIELDS["tags"] else None
        return Condition(lambda record: not among.isdisjoint(value(record)), tags)

    def holds(record: RecordView) -> Truth:
        found = value(record)
        return None if found is None else found in among

    return Condition(holds)


def contains(strings: Term, wanted: Term) -> Condition:
    """Whether the tags or keys in ``strings`` contain ``wanted``."""
    all_strings, one = strings.value, wanted.value

    def holds(record: RecordView) -> Truth:
        string = one(record)
        return None if string is None else string in all_strings(record)

    return Condition(holds)


def is_like(term: Term, pattern: LikePattern) -> Condition:
    """LIKE: whether the value matches ``pattern``; of tags or keys, whether any of them does."""
    value, matches = term.value, pattern.matches
    if term.kind is Kind.STRING_LIST:
        return Condition(lambda record: any(map(matches, value(record))))  # too long: no match

    def holds(record: RecordView) -> Truth:
        text = value(record)
        return None if text is None else matches(text)

    return Condition(holds)


def is_missing(term: Term) -> Condition:
    """IS NULL. The result is never unknown."""
    value = term.value
    if term.kind is Kind.STRING_LIST:
        return Condition(lambda record: not value(record))
    return Condition(lambda record: value(record) is None)


def negation(condition: Condition) -> Condition:
    """NOT. Unknown stays unknown."""
    inner = condition.holds

    def holds(record: RecordView) -> Truth:
        outcome = inner(record)
        return None if outcome is None else not outcome

    return Condition(holds)


def all_of(conditions: Sequence[Condition]) -> Condition:
    """AND: false if any condition is false, else unknown if any is unknown."""
    each = [condition.holds for condition in conditions]

    def holds(record: RecordView) -> Truth:
        outcome: Truth = True
        for inner in each:
            one = inner(record)
            if one is False:
                return False
            if one is None:
                outcome = None
        return outcome

    known = [condition.tags for condition in conditions if condition.tags is not None]
    return Condition(holds, min(known, key=len, default=None))


def any_of(conditions: Sequence[Condition]) -> Condition:
    """OR: true if any condition is true, else unknown if any is unknown."""
    each = [condition.holds for condition in conditions]

    def holds(record: RecordView) -> Truth:
        outcome: Truth = False
        for inner in each:
            one = inner(record)
            if one is True:
                return True
            if one is None:
                outcome = None
        return outcome

    known = [condition.tags for condition in conditions if condition.tags is not None]
    return Condition(holds, frozenset().union(*known) if len(known) == len(conditions) else None)
