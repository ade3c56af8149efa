"""Round trips and transactions, counted in Postgres's log of statements."""

import re
from collections import defaultdict

LINE = re.compile(r"\[(\d+)\] LOG:  duration: [\d.]+ ms  (?:statement|execute [^:]*): (.*)")


def round_trips(log: str, ignored: set[str]) -> tuple[int, int]:
    """(round trips, transactions) of a stretch of the log, without statements that idle loops repeat.

    A statement is known by its first line. One outside of BEGIN and COMMIT is a transaction of its own.
    """
    open_transactions: dict[str, list[str]] = defaultdict(list)
    statements = transactions = 0
    for process, text in LINE.findall(log):
        word = text.strip().split(" ", 1)[0].upper().rstrip(";")
        if word == "BEGIN":
            open_transactions[process] = [text]
        elif process in open_transactions and word in {"COMMIT", "ROLLBACK"}:
            inside = [*open_transactions.pop(process), text]
            if any(statement not in ignored for statement in inside[1:-1]):
                statements += len(inside)
                transactions += 1
        elif process in open_transactions:
            open_transactions[process].append(text)
        elif text not in ignored:
            statements += 1
            transactions += 1
    return statements, transactions


def distinct(log: str) -> set[str]:
    return {text for _, text in LINE.findall(log)}
