"""Message filters: tags such as ``A || B``, or an SQL-92 condition on a message's fields.

Entry points: ``parse_filter`` returns a ``Filter``; ``parse_condition`` compiles an SQL condition.

Invariants: a filter is a closed set of small functions over one record. It runs no code of the
caller, takes time linear in the record, and refuses expressions that are too deep or too long. A
comparison with a missing property is unknown, as in SQL.

May import: ``format``, ``types``, ``errors``, and sqlglot.
"""
