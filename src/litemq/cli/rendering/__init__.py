"""Output of commands: tables for people, JSON and YAML for programs, exit codes for scripts.

Entry points: ``write_rows`` and ``write_value`` (``output.py``), ``exit_code``, ``log_to_stderr``.

Invariants: standard output carries only the answer, standard error everything else. An empty JSON
list is ``[]``. Exit codes are a contract.

May import: ``litemq.client`` types, ``litemq.errors``.
"""
