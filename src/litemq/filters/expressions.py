"""Translation of sqlglot nodes to terms: names, literals and arithmetic."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlglot import exp

from litemq.errors import FilterSyntaxError
from litemq.filters import conditions
from litemq.filters.conditions import FIELDS, Kind, Term
from litemq.filters.tokens import refuse, short
from litemq.types import LATEST_TIME_MS, MessageType

__all__ = ["check_parts", "check_type", "sql_text", "translate_literal", "translate_term", "unify_kinds"]

_TYPE_NAMES: Final = tuple(kind.name.lower() for kind in MessageType)
_ARITHMETIC_SIGNS: Final[dict[type[exp.Expression], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


def translate_term(node: exp.Expression) -> Term:
    """Translate ``node`` to a term."""
    if isinstance(node, exp.Paren):
        check_parts(node, "this")
        return translate_term(node.this)
    if isinstance(node, exp.Column):
        return _named(node)
    if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
        check_parts(node, "this")
        return conditions.negative(_numeric_term(node.this))
    sign = _ARITHMETIC_SIGNS.get(type(node))
    if sign is not None:
        check_parts(node, "this", "expression", may_have=("typed", "safe"))  # options of other dialects
        return conditions.arithmetic(sign, _numeric_term(node.args["this"]), _numeric_term(node.args["expression"]))
    return conditions.literal(*translate_literal(node))


def _named(node: exp.Column) -> Term:
    if _present_parts(node) != {"this"} or not isinstance(node.this, exp.Identifier):
        refuse(f"the name {sql_text(node)!r}: write it in double quotes, unless it is letters and digits or _")
    name, quoted = node.this.this, node.this.args.get("quoted")
    if not quoted and name.lower() in FIELDS:
        return FIELDS[name.lower()]
    return conditions.property_term(name)


def _numeric_term(node: exp.Expression) -> Term:
    term = translate_term(node)
    if term.kind is Kind.PROPERTY:
        return conditions.as_number(term)
    if term.kind is not Kind.NUMBER:
        refuse(f"{short(sql_text(node))!r} is {term.kind.value}: arithmetic needs numbers")
    return term


def translate_literal(node: exp.Expression) -> tuple[Kind, str | int | float | bool]:
    """Translate a literal: a string, a number, a boolean or a timestamp (ms)."""
    match node:
        case exp.Literal() if node.is_string:
            return Kind.STRING, node.this
        case exp.Literal():
            return Kind.NUMBER, _parse_number(node.this)
        case exp.Neg(this=exp.Literal(is_string=False) as positive):
            return Kind.NUMBER, -_parse_number(positive.this)
        case exp.Boolean():
            return Kind.BOOLEAN, bool(node.this)
        case exp.Cast(this=exp.Literal(is_string=True) as moment) if node.to.this == exp.DataType.Type.TIMESTAMP:
            return Kind.NUMBER, _milliseconds(moment.this)
        case exp.Null():
            raise FilterSyntaxError("a comparison with NULL is never true: write IS NULL or IS NOT NULL")
        case _:
            raise FilterSyntaxError(
                f"{short(sql_text(node))!r} is not supported: "
                "use names, 'strings', numbers, TRUE, FALSE and TIMESTAMP '…'"
            )


def _parse_number(text: str) -> int | float:
    number = conditions.parse_number(text)
    if number is None:
        refuse(f"the number {text[:64]} is too large: use at most 64 digits, within the range of a float")
    return number


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            refuse(f"TIMESTAMP {text[:64]!r}: add a time zone, for example '2026-01-31 08:00:00+00:00'")
        milliseconds = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        refuse(f"TIMESTAMP {text[:64]!r}: write it like '2026-01-31 08:00:00+00:00'")
    if not 0 <= milliseconds <= LATEST_TIME_MS:
        refuse(f"TIMESTAMP {text[:64]!r}: choose a time after 1970")
    return milliseconds


def unify_kinds(node: exp.Expression, *terms: Term) -> list[Term]:
    """Return ``terms`` of one kind: a property takes that of the others, by default string."""
    kinds = {term.kind for term in terms} - {Kind.PROPERTY}
    if len(kinds) > 1:
        refuse(
            f"{short(sql_text(node))!r} compares {' with '.join(sorted(kind.value for kind in kinds))}: use one type"
        )
    kind = kinds.pop() if kinds else Kind.STRING
    return [_read_as(term, kind) if term.kind is Kind.PROPERTY else term for term in terms]


def _read_as(term: Term, kind: Kind) -> Term:
    if kind is Kind.NUMBER:
        return conditions.as_number(term)
    return conditions.as_boolean(term) if kind is Kind.BOOLEAN else conditions.as_string(term)


def check_type(name: str) -> None:
    """Raise unless ``name`` is a message type: the filter would never match."""
    if name not in _TYPE_NAMES:
        refuse(f"unknown message type {name[:64]!r}: choose {', '.join(_TYPE_NAMES)}")


def _present_parts(node: exp.Expression) -> set[str]:
    return {name for name, value in node.args.items() if value is not None and value is not False and value != []}


def check_parts(node: exp.Expression, *needed: str, may_have: tuple[str, ...] = ()) -> None:
    """Raise unless ``node`` has all parts ``needed`` and no others except ``may_have``."""
    filled = _present_parts(node)
    if not set(needed) <= filled or not filled <= {*needed, *may_have}:
        refuse(f"{short(sql_text(node))!r} is not supported in a filter")


def sql_text(node: exp.Expression) -> str:
    """The SQL of a node, for error messages."""
    try:
        return node.sql()
    except Exception:  # noqa: BLE001  it is only for the message
        return type(node).__name__
