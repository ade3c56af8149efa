"""Round trips and transactions, counted in Postgres's log of statements."""

import re

LINE = re.compile(r"\[(\d+)\] LOG:  duration: [\d.]+ ms  (?:statement|execute [^:]*): (.*)")


def round_trips(log: str) -> tuple[int, int]:
    """(round trips, transactions) of a stretch of the log.

    BEGIN and COMMIT are round trips. A statement outside of them is a transaction of its own.
    """
    statements = transactions = 0
    open_transactions: set[str] = set()
    for process, text in LINE.findall(log):
        word = text.strip().split(" ", 1)[0].upper().rstrip(";")
        statements += 1
        if word in {"COMMIT", "ROLLBACK"}:
            open_transactions.discard(process)
        elif process not in open_transactions:
            transactions += 1
            if word == "BEGIN":
                open_transactions.add(process)
    return statements, transactions
