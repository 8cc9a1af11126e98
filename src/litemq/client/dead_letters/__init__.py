"""Dead letters, ``mq.dead_letters``: list them, group them by error, redrive or purge them.

Entry points: ``DeadLetters`` and ``DeadLetter``; ``Redrive`` follows a running redrive.

Invariants: listing changes nothing. A redrive with a transform sends each edited message once,
because the new record names the dead letter as its origin.

May import: ``engine``, ``messages``.
"""
