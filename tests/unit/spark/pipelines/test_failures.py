"""Why a stream failed, in our words."""

from litemq.errors import DataLossError, OverloadedError, PipelineFailedError
from litemq.spark.pipelines.failures import in_our_words


def test_ours_is_found_in_what_spark_says() -> None:
    told = in_our_words(
        RuntimeError("[STREAM_FAILED] Query\nTraceback\nlitemq.errors.DataLossError: orders/a/0: offsets 1 … 4 are gone\n\tat java")
    )
    assert isinstance(told, DataLossError)
    assert str(told) == "orders/a/0: offsets 1 … 4 are gone"


def test_what_is_not_ours_is_its_first_line() -> None:
    told = in_our_words(RuntimeError("\nPython worker failed to connect back\n\tat java.lang"))
    assert isinstance(told, PipelineFailedError)
    assert str(told).startswith("Python worker failed to connect back (")
    assert told.retriable


def test_our_own_stays_itself() -> None:
    error = OverloadedError("busy", 5)
    assert in_our_words(error) is error


def test_a_name_that_is_no_error_of_ours() -> None:
    assert isinstance(in_our_words(RuntimeError("litemq.errors.NobodyError: x")), PipelineFailedError)
