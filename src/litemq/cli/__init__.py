"""Command line of LiteMQ: ``litemq NOUN VERB``.

Entry point: ``main.run``, called by ``litemq.__main__``. ``spark_submit`` is the same command as a
file.

``commands`` has one module per noun. They share ``connecting`` (a client for one command),
``options``, ``moments`` (times that users type), ``processes`` (servers and workers),
``configuration`` (flags, environment, TOML) and ``rendering`` (tables, JSON, exit codes).

May import: every package of LiteMQ. Only ``litemq.__main__`` imports this package.
"""
