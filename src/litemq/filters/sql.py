"""A condition over a message, in a subset of SQL-92: what stands behind WHERE.

``AND OR NOT``, ``= <> < <= > >=``, ``+ - * /``, ``[NOT] BETWEEN``, ``[NOT] IN`` with literals, ``[NOT] LIKE … [ESCAPE]``, ``IS [NOT] NULL``,
parentheses; literals are texts, numbers, TRUE, FALSE and ``TIMESTAMP '2026-01-31 08:00:00+01:00'``. A name is a field of the message
(``conditions.FIELDS``) or else a property; in double quotes it is always a property.

sqlglot parses; what it finds is translated, node by node, into the operations of ``conditions.py``. A node that is not translated here, or that
says more than is translated, is a syntax error. Nothing of a filter is ever evaluated but these operations.
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
from litemq.filters.like import LikePattern
from litemq.filters.tokens import check_tokens, refuse, short

__all__ = ["parse_condition"]


def parse_condition(text: str) -> Condition:
    """The condition that a text says. Whatever else it says is a ``FilterSyntaxError``."""
    check_tokens(text)
    try:
        (tree,) = sqlglot.parse(text)
    except Exception as error:  # noqa: BLE001  whatever a parser stumbles over: the filter is not one of ours
        raise FilterSyntaxError(f"the filter {short(text)!r} cannot be read: {_first_line(error)}") from None
    if not isinstance(tree, exp.Expression):
        refuse("an empty condition: write one, or leave the filter out")
    try:
        return _condition(tree)
    except RecursionError:
        raise FilterSyntaxError(f"the filter {short(text)!r} is nested too deeply") from None


# Conditions -------------------------------------------------------------------------------------------------------------------


def _condition(node: exp.Expression) -> Condition:
    """A node that is true, false or unknown of a record."""
    translate = _CONDITIONS.get(type(node))
    if translate is None:
        refuse(
            f"{short(sql_text(node))!r} is no condition that a filter can have: compare something with = <> < <= > >=, BETWEEN, IN, LIKE or IS NULL"
        )
    return translate(node)


def _chain(node: exp.Expression, join: Callable[[list[Condition]], Condition]) -> Condition:
    """``a AND b AND c`` is one operation, however long it is."""
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
    if Kind.WORDS in (first.kind, second.kind):
        if first.kind is not Kind.WORDS:
            first, second, right = second, first, left
        return _words(sign, first, second, right)
    first, second = unify_kinds(node, first, second)
    if first.kind is Kind.TRUTH and sign not in ("=", "<>"):
        refuse(f"{short(sql_text(node))!r}: true and false are equal or not, none is greater")
    for one, other in ((first, right), (second, left)):
        if one is FIELDS["type"] and isinstance(other, exp.Literal):
            check_type(other.this)
    return conditions.compare(sign, first, second)


def _words(sign: str, words: Term, other: Term, literal: exp.Expression) -> Condition:
    """Tags or keys: equal to a text if it is among them."""
    if sign not in ("=", "<>") or other.kind not in (Kind.TEXT, Kind.PROPERTY):
        refuse("tags and keys can be compared with texts only, by = <> IN LIKE or IS NULL")
    found = conditions.is_in(words, [literal.this]) if isinstance(literal, exp.Literal) else conditions.has_word(words, other)
    return found if sign == "=" else conditions.negation(found)


def _between(node: exp.Expression) -> Condition:
    check_parts(node, "this", "low", "high")
    value, low, high = unify_kinds(node, *(translate_term(node.args[name]) for name in ("this", "low", "high")))
    if value.kind not in (Kind.TEXT, Kind.NUMBER):
        refuse(f"{short(sql_text(node))!r}: only texts and numbers are between others")
    return conditions.all_of([conditions.compare(">=", value, low), conditions.compare("<=", value, high)])


def _in(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expressions")
    term, literals = translate_term(node.args["this"]), [translate_literal(one) for one in node.args.get("expressions") or ()]
    kinds = {kind for kind, _ in literals}
    if len(kinds) != 1:
        refuse(f"{short(sql_text(node))!r}: IN wants a list of literals that are all texts, or all numbers")
    (kind,) = kinds
    value = term
    if term.kind is not Kind.WORDS or kind is not Kind.TEXT:
        value, _ = unify_kinds(node, term, Term(kind, term.value))
    if term is FIELDS["type"]:
        for _, name in literals:
            check_type(str(name))
    return conditions.is_in(value, [value for _, value in literals])


def _escape(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expression")
    like, character = node.args["this"], node.args["expression"]
    if not isinstance(like, exp.Like) or not isinstance(character, exp.Literal) or not character.is_string or len(character.this) != 1:
        refuse(f"{short(sql_text(node))!r}: ESCAPE names one character, behind a LIKE")
    return _like(like, character.this)


def _like(node: exp.Expression, escape: str = "") -> Condition:
    check_parts(node, "this", "expression", may_have=("negate",))
    term, pattern = translate_term(node.args["this"]), node.args["expression"]
    if term.kind is Kind.PROPERTY:
        term = conditions.as_text(term)
    if term.kind not in (Kind.TEXT, Kind.WORDS) or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        refuse(f"{short(sql_text(node))!r}: LIKE compares a text with a pattern in single quotes")
    condition = conditions.is_like(term, LikePattern(pattern.this, escape))
    return conditions.negation(condition) if node.args.get("negate") else condition


def _is(node: exp.Expression) -> Condition:
    check_parts(node, "this", "expression")
    if not isinstance(node.args["expression"], exp.Null):
        refuse(f"{short(sql_text(node))!r}: IS can only be followed by NULL or NOT NULL")
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
