"""Batches of records: find records in a buffer, validate, stamp and group them.

Entry points: ``scan`` finds the records; ``check_batch`` and ``find_faults`` validate
them; ``stamp_batch`` writes the broker's fields and ``queue_entries`` builds the queue entries;
``uniform_sends`` and ``find_batch_producer_runs`` describe the producers of a batch.

Invariants: a batch is valid if and only if ``decode_record`` accepts each of its records; tests
hold the two equal. Stamping writes bytes 12 … 64 of each record and no others.

May import: ``columns``, ``v1.record``, and the modules of ``litemq.format`` outside its
sub-packages.
"""
