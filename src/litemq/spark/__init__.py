"""Spark integration: data sources, a sink and archive pipelines on PySpark.

Imports nothing itself: the archive reader needs pyarrow but not Spark, and a task's process loads
only the modules it uses.
"""
