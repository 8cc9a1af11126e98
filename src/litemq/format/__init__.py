"""The bytes: one scalar codec for a single record, one columnar codec for many, held equal by tests."""
