"""Pipelines: long-running Spark jobs that archive topics to tables, restartable at any point."""
