"""Commands of ``litemq``: one module per noun, each with the noun's verbs.

Entry point: the ``app`` of each module. ``cli.main`` imports a module when its noun is called, so a
command pays at start-up only for its own imports. ``bench_load`` holds the verbs of ``litemq
bench`` that need a cluster.

Invariants: importing a module has no side effect and opens nothing. A command parses its options,
calls the client (or the store, for ``litemq store``) and renders the answer. The tree of commands
is a contract (``tests/golden/cli.txt``).

May import: every other package of ``cli``, the client, the server, storage, ``bench`` and
``spark``. Clients and Spark are imported inside the functions that need them. Nothing imports a
command, except another command.
"""
