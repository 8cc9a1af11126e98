"""Conditions on messages, in a subset of the WHERE clause of SQL-92.

``AND OR NOT``, ``= <> < <= > >=``, ``+ - * /``, ``[NOT] BETWEEN``, ``[NOT] IN`` with literals,
``[NOT] LIKE … [ESCAPE]``, ``IS [NOT] NULL`` and parentheses. Literals are strings, numbers, TRUE,
FALSE and ``TIMESTAMP '2026-01-31 08:00:00+01:00'``. A name is a field of the message
(``conditions.FIELDS``) or else a property; in double quotes it is always a property.

sqlglot parses the text. This module translates the tree, node by node, into the operations of
``conditions.py``. Any other node, or unknown parts of a node, are a syntax error, so a filter never
evaluates anything but these operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import sqlglot
from sqlglot import exp

from litemq.errors import FilterSyntaxError
from litemq.filters import conditions
from litemq.filters.conditions import FIELDS, Condition, Kind, Term
from litemq.filters.expressions import check_parts, check_type, sql_text, translate_literal, translate_term, unify_kinds
from litemq.filters.like import MAX_STEPS, LikePattern
from litemq.filters.tokens import check_tokens, refuse, short

__all__ = ["parse_condition"]


def parse_condition(text: str) -> Condition:
    """Compile a condition. Raise ``FilterSyntaxError`` if it is invalid or not supported."""
    check_tokens(text)
    try:
        (tree,) = sqlglot.parse(text)
    except Exception as error:  # noqa: BLE001  any failure of the parser means an invalid filter
        raise FilterSyntaxError(f"the filter {short(text)!r} cannot be read: {_first_line(error)}") from None
    if not isinstance(tree, exp.Expression):
        refuse("the condition is empty: write one, or omit the filter")
    try:
        _limit_likes(tree)
        return _condition(tree)
    except RecursionError:
        raise FilterSyntaxError(f"the filter {short(text)!r} is nested too deeply") from None


def _limit_likes(tree: exp.Expression) -> None:
    """Divide the steps that a record may take among the LIKE patterns of the filter."""
    likes = list(tree.find_all(exp.Like))
    characters = sum(len(str(like.args["expression"].name)) for like in likes)
    for like in likes:
        like.meta["max_text"] = MAX_STEPS // max(1, characters)


def _condition(node: exp.Expression) -> Condition:
    """Translate a node that is true, false or unknown for a record."""
    translate = _CONDITIONS.get(type(node))
    if translate is None:
        refuse(
            f"{short(sql_text(node))!r} is not a condition: "
            "compare values with = <> < <= > >=, BETWEEN, IN, LIKE or IS NULL"
        )
    return translate(node)


def _chain(node: exp.Expression, join: Callable[[list[Condition]], Condition]) -> Condition:
    """Translate ``a AND b AND c`` to one operation, without recursion."""
    check_parts(node, "this", "expression")
    parts, pending = [], [node]
    while pending:
        one = pending.pop()
        if type(one) is type(node):
            check_parts(one, "this", "expression")
            pending += [one.args["expression"], one.args["this"]]
        else:
            parts.append(_condition(one))
    return join(parts)


def _comparison(sign: str, node: exp.Expression) -> Condition:
    check_parts(node, "this", "expression")
    left, right = node.args["this"], node.args["expression"]
    first, second = translate_term(left), translate_term(right)
    if Kind.STRING_LIST in (first.kind, second.kind):
        if first.kind is not Kind.STRING_LIST:
            first, second, right = second, first, left
        return _string_list(sign, first, second, right)
    first, second = unify_kinds(node, first, second)
    if first.kind is Kind.BOOLEAN and sign not in ("=", "<>"):
        refuse(f"{short(sql_text(node))!r}: compare booleans with = or <> only")
    for one, other in ((first, right), (second, left)):
        if one is FIELDS["type"] and isinstance(other, exp.Literal):
            check_type(other.this)
    return conditions.compare(sign, first, second)


def _string_list(sign: str, strings: Term, other: Term, literal: exp.Expression) -> Condition:
    """Compare tags or keys with a string: equal means that they contain it."""
    if sign not in ("=", "<>") or other.kind not in (Kind.STRING, Kind.PROPERTY):
        refuse("compare tags and keys with strings only, by = <> IN LIKE or IS NULL")
    if isinstance(literal, exp.Literal):
        condition = conditions.is_in(strings, [literal.this])
    else:
        condition = conditions.contains(strings, other)
    return condition if sign == "=" else conditions.negation(condition)


def _between(node: exp.Expression) -> Condition:
    check_parts(node, "this", "low", "high")
    value, low, high = unify_kinds(node, *(translate_term(node.args[name]) for name in ("this", "low", "high")))
    if value.kind not in (Kind.STRING, Kind.NUMBER):
        refuse(f"{short(sql_text(node))!r}: BETWEEN compares strings or numbers")
    return conditions.all_of([conditions.compare(">=", value, low), conditions.compare("<=", value, high)])


def _in(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expressions")
    term = translate_term(node.args["this"])
    literals = [translate_literal(one) for one in node.args.get("expressions") or ()]
    kinds = {kind for kind, _ in literals}
    if len(kinds) != 1:
        refuse(f"{short(sql_text(node))!r}: IN needs a list of literals of one type")
    (kind,) = kinds
    value = term
    if term.kind is not Kind.STRING_LIST or kind is not Kind.STRING:
        value, _ = unify_kinds(node, term, Term(kind, term.value))
    if term is FIELDS["type"]:
        for _, name in literals:
            check_type(str(name))
    return conditions.is_in(value, [value for _, value in literals])


def _escape(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expression")
    like, character = node.args["this"], node.args["expression"]
    is_character = isinstance(character, exp.Literal) and character.is_string and len(character.this) == 1
    if not isinstance(like, exp.Like) or not is_character:
        refuse(f"{short(sql_text(node))!r}: ESCAPE needs one character, and follows a LIKE")
    return _like(like, character.this)


def _like(node: exp.Expression, escape: str = "") -> Condition:
    check_parts(node, "this", "expression", may_have=("negate",))
    term, pattern = translate_term(node.args["this"]), node.args["expression"]
    if term.kind is Kind.PROPERTY:
        term = conditions.as_string(term)
    if (
        term.kind not in (Kind.STRING, Kind.STRING_LIST)
        or not isinstance(pattern, exp.Literal)
        or not pattern.is_string
    ):
        refuse(f"{short(sql_text(node))!r}: LIKE compares a string with a pattern in single quotes")
    condition = conditions.is_like(term, LikePattern(pattern.this, escape, max_text=node.meta["max_text"]))
    return conditions.negation(condition) if node.args.get("negate") else condition


def _is(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expression")
    if not isinstance(node.args["expression"], exp.Null):
        refuse(f"{short(sql_text(node))!r}: write IS NULL or IS NOT NULL")
    return conditions.is_missing(translate_term(node.args["this"]))


def _not(node: exp.Expression) -> Condition:
    check_parts(node, "this")
    return conditions.negation(_condition(node.args["this"]))


def _in_parentheses(node: exp.Expression) -> Condition:
    check_parts(node, "this")
    return _condition(node.args["this"])


_COMPARISON_SIGNS: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_CONDITIONS: Final[dict[type[exp.Expression], Callable[[Any], Condition]]] = {
    exp.And: partial(_chain, join=conditions.all_of),
    exp.Or: partial(_chain, join=conditions.any_of),
    exp.Not: _not,
    exp.Paren: _in_parentheses,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Is: _is,
    **{kind: partial(_comparison, sign) for kind, sign in _COMPARISON_SIGNS.items()},
}


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0]
    return re.sub(r"\x1b\[[0-9;]*m", "", line)[:200] or type(error).__name__
