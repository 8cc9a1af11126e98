"""Conversion of Spark's failures to LiteMQ errors."""

from litemq.errors import DataLossError, OverloadedError, PipelineFailedError
from litemq.spark.pipelines.failures import litemq_error


def test_ours_is_found_in_what_spark_says() -> None:
    error = litemq_error(
        RuntimeError(
            "[STREAM_FAILED] Query\nTraceback\n"
            "litemq.errors.DataLossError: orders/a/0: offsets 1 … 4 are gone\n\tat java"
        )
    )
    assert isinstance(error, DataLossError)
    assert str(error) == "orders/a/0: offsets 1 … 4 are gone"


def test_what_is_not_ours_is_its_first_line() -> None:
    error = litemq_error(RuntimeError("\nPython worker failed to connect back\n\tat java.lang"))
    assert isinstance(error, PipelineFailedError)
    assert str(error).startswith("Python worker failed to connect back (")
    assert error.retriable


def test_our_own_stays_itself() -> None:
    error = OverloadedError("busy", 5)
    assert litemq_error(error) is error


def test_a_name_that_is_no_error_of_ours() -> None:
    assert isinstance(litemq_error(RuntimeError("litemq.errors.NobodyError: x")), PipelineFailedError)
