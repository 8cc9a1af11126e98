"""Transactions: send half messages, commit or roll back, answer and inspect check-backs.

Entry points: ``Transaction``, ``TransactionListener``, ``Transactions`` for operators, and
``TransactionApi``, their part of the client.

Invariants: all messages of a transaction go to one broker. Repeating a commit whose answer was lost
changes nothing. The broker checks back an undecided transaction, and never guesses its outcome.

May import: ``extensions``, ``engine``, ``messages``.
"""
