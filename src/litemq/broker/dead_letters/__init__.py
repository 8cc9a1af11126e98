"""Dead letters: messages that were given up, written, read and sent back to their topic.

Entry points: ``DeadLetterRequests`` answers operators, ``DeadLetterReader`` lists and reads them,
``Redrives`` sends them back at a limited rate, ``dead_letter_records`` writes them.

Invariants (I10): one record settles the delivery and stores the dead letter, so an exhausted
message is here exactly once. A redriven message names its dead letter as origin, so it is sent back
at most once.

May import: ``runtime``, ``limits``.
"""
