"""The program of the how-to about transactions, which kills itself between two steps.

Arguments: FOLDER of shop.py, step, first order, number of orders.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

STEPS = ("half", "order", "decision", "database", "commit")  # behind each of them


def main(folder: str, step: str, first: int, count: int) -> None:
    """Place ``count`` orders; kill the process at ``step`` of the last one."""
    sys.path.insert(0, folder)
    import psycopg
    import shop  # type: ignore[import-not-found]

    import litemq
    from litemq.client.transactions.transaction import Transaction

    is_last = False
    executed: list[str] = []

    def reached(name: str) -> None:
        if is_last and name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def then(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            result = await method(*arguments, **options)
            reached(name)
            return result

        return call

    Transaction.send = then(Transaction.send, "half")  # type: ignore[method-assign]
    Transaction.commit = then(Transaction.commit, "commit")  # type: ignore[method-assign]

    class Database:
        """The part of a database connection that the shop uses."""

        def __init__(self, db: Any) -> None:
            self._db = db

        def execute(self, statement: str, values: Any = None) -> Any:
            result = self._db.execute(statement, values)
            executed.append(statement)
            reached("order" if "orders" in statement else "decision")
            return result

        def transaction(self) -> Any:
            inner = self._db.transaction()

            class Wrapped:
                def __enter__(self) -> Any:
                    return inner.__enter__()

                def __exit__(self, *error: object) -> Any:
                    result = inner.__exit__(*error)
                    reached("database")
                    return result

            return Wrapped()

    with litemq.Client(os.environ["LITEMQ_URL"]) as mq, psycopg.connect(autocommit=True) as db:
        for number in range(first, first + count):
            is_last = number == first + count - 1
            shop.place_order(mq, Database(db), number)
    assert executed


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
