"""The operations that a condition is made of: a closed set of small functions, each of which answers for one record.

Logic has three values, as in SQL: ``None`` is unknown, the outcome of every comparison with something that is not there. A property is text,
and is read as a number or as a truth where it is compared with one; where it is none, it counts as not there.
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
    "as_number",
    "as_text",
    "as_truth",
    "compare",
    "constant",
    "has_word",
    "is_in",
    "is_like",
    "is_missing",
    "negation",
    "negative",
    "number_of",
    "property_of",
]

Truth = bool | None
Number = int | float
Holds = Callable[[RecordView], Truth]
Value = Callable[[RecordView], Any]  # of the term's kind, or None


class Kind(Enum):
    """What a term is, known before any record is."""

    TEXT = "text"
    NUMBER = "a number"
    TRUTH = "true or false"
    PROPERTY = "a property"
    WORDS = "tags or keys"


class Term(NamedTuple):
    """Something that can be compared."""

    kind: Kind
    value: Value


class Condition(NamedTuple):
    """What a record fulfils or not. ``tags``: it fulfils this only with one of these tags; ``None``: nothing is known of its tags."""

    holds: Holds
    tags: frozenset[str] | None = None


FIELDS: Final[dict[str, Term]] = {
    "tags": Term(Kind.WORDS, lambda record: record.tags),
    "keys": Term(Kind.WORDS, lambda record: record.keys),
    "type": Term(Kind.TEXT, lambda record: record.type.name.lower()),
    "message_id": Term(Kind.TEXT, lambda record: record.message_id or None),
    "ordering_key": Term(Kind.TEXT, lambda record: record.ordering_key or None),
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
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

_NUMBER: Final = re.compile(r"\s*[+-]?(\d{1,64}(\.\d{0,64})?|\.\d{1,64})([eE][+-]?\d{1,4})?\s*", re.ASCII)
_WHOLE: Final = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_LARGEST: Final = float("inf")


# Terms ------------------------------------------------------------------------------------------------------------------------


def constant(kind: Kind, value: str | Number | bool) -> Term:
    """A literal."""
    return Term(kind, lambda _record: value)


def property_of(name: str) -> Term:
    """A property, by its name."""
    return Term(Kind.PROPERTY, lambda record: record.properties.get(name))


def number_of(text: str) -> Number | None:
    """The number that a text is, or ``None`` where it is none."""
    if not _NUMBER.fullmatch(text):
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text)
    return number if abs(number) < _LARGEST else None


def as_number(term: Term) -> Term:
    """A property, read as a number."""
    value = term.value

    def read(record: RecordView) -> Number | None:
        text = value(record)
        return None if text is None else number_of(text)

    return Term(Kind.NUMBER, read)


def as_truth(term: Term) -> Term:
    """A property, read as true or false."""
    value = term.value

    def read(record: RecordView) -> Truth:
        text = value(record)
        return None if text is None else {"true": True, "false": False}.get(text.strip().lower())

    return Term(Kind.TRUTH, read)


def as_text(term: Term) -> Term:
    """A property as it is."""
    return Term(Kind.TEXT, term.value)


def negative(term: Term) -> Term:
    """The number with the other sign."""
    value = term.value

    def negate(record: RecordView) -> Number | None:
        number = value(record)
        return None if number is None else -number

    return Term(Kind.NUMBER, negate)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Two numbers together; what cannot be calculated is unknown."""
    operation, first, second = ARITHMETIC[sign], left.value, right.value

    def calculate(record: RecordView) -> Number | None:
        a, b = first(record), second(record)
        if a is None or b is None:
            return None
        try:
            result: Number = operation(a, b)
        except (ZeroDivisionError, OverflowError):
            return None
        return result if abs(result) < _LARGEST else None  # neither endless nor no number at all

    return Term(Kind.NUMBER, calculate)


# Conditions -------------------------------------------------------------------------------------------------------------------


def compare(sign: str, left: Term, right: Term) -> Condition:
    """Two terms of one kind."""
    operation, first, second = COMPARISONS[sign], left.value, right.value

    def holds(record: RecordView) -> Truth:
        a, b = first(record), second(record)
        return None if a is None or b is None else operation(a, b)

    return Condition(holds)


def is_in(term: Term, choices: Sequence[Any]) -> Condition:
    """Whether a value is one of some literals; of tags or keys, whether any is."""
    value, among = term.value, frozenset(choices)
    if term.kind is Kind.WORDS:
        tags = among if term is FIELDS["tags"] else None
        return Condition(lambda record: not among.isdisjoint(value(record)), tags)

    def holds(record: RecordView) -> Truth:
        found = value(record)
        return None if found is None else found in among

    return Condition(holds)


def has_word(words: Term, text: Term) -> Condition:
    """Whether a text is among the tags or keys."""
    those, wanted = words.value, text.value

    def holds(record: RecordView) -> Truth:
        word = wanted(record)
        return None if word is None else word in those(record)

    return Condition(holds)


def is_like(term: Term, pattern: LikePattern) -> Condition:
    """Whether a text is like a pattern; of tags or keys, whether any is."""
    value, matches = term.value, pattern.matches
    if term.kind is Kind.WORDS:
        return Condition(lambda record: any(map(matches, value(record))))

    def holds(record: RecordView) -> Truth:
        text = value(record)
        return None if text is None else matches(text)

    return Condition(holds)


def is_missing(term: Term) -> Condition:
    """IS NULL: never unknown itself."""
    value = term.value
    if term.kind is Kind.WORDS:
        return Condition(lambda record: not value(record))
    return Condition(lambda record: value(record) is None)


def negation(condition: Condition) -> Condition:
    """NOT: what is unknown stays so."""
    inner = condition.holds

    def holds(record: RecordView) -> Truth:
        outcome = inner(record)
        return None if outcome is None else not outcome

    return Condition(holds)


def all_of(conditions: Sequence[Condition]) -> Condition:
    """AND: false if one is, else unknown if one is."""
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
    """OR: true if one is, else unknown if one is."""
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
