"""Filters: which messages of a topic a consumer wants, by tags or by an SQL condition.

Entry points: ``parse_filter`` returns a ``Filter``; ``parse_condition`` compiles an SQL-92 WHERE clause.

Invariants: a filter is a closed set of small functions over one record. It runs no code of the caller,
takes time linear in the record, and refuses expressions that are too deep or too long. A comparison with
a missing property is unknown, as in SQL.

May import: ``format``, ``types``, ``errors``, and sqlglot.
"""
