"""Typed topics: ``mq.topic("orders", Order)`` sends and handles values of one type.

Entry point: ``AsyncTopic``. The type's JSON schema is stored at the topic when the handle is first
used; the broker refuses a schema that cannot read the stored messages.

May import: ``handlers`` and everything below it.
"""
