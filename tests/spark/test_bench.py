"""The suite of figures for Spark: each of them can be measured."""

from pyspark.sql import SparkSession

from litemq.bench.suite import load_suite


def test_every_figure_is_measured(spark: SparkSession) -> None:  # the suite takes the session that there is
    figures = load_suite("spark", 0.001)
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.measure() > 0, figure.name
