"""Version 1 of the record, the original layout, for reading old logs and for export.

Entry points: ``record.py`` (one record), ``columns.py`` (many, by column), ``convert.py`` (version
1 to version 2 and back).

Invariants: version 1 has no CRC of its own, so a conversion to version 2 validates every field.
Golden files pin the bytes.

May import: ``columns``, and the modules of ``litemq.format`` outside its sub-packages.
"""
