"""Transactions: send halves, commit or roll back, answer check-backs, and the view of operators.

Entry points: ``Transaction``, ``TransactionListener``, and ``Transactions`` for operators.

Invariants: all messages of a transaction go to one broker. A commit whose answer was lost is repeated and
changes nothing the second time. A transaction left undecided is checked back, never guessed.

May import: ``extensions``, ``engine``, ``messages``.
"""
