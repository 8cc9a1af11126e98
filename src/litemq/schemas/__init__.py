"""JSON schemas of topics: whether messages of an earlier schema can be read with a later one.

Entry point: ``find_incompatibilities``. It is pure, and knows the keywords that type systems such
as pydantic write.

May import: ``errors``.
"""
