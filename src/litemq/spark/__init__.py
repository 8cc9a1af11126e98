"""The log as a table: what data engineers use, on Spark through PySpark.

Nothing is imported here: the reader of archives needs pyarrow and no Spark, and a task's process only what it does.
"""
