"""The order of measurements: each system once per round, shuffled."""

from collections.abc import Iterator, Sequence
from random import Random


def shuffled_rounds(names: Sequence[str], rounds: int, seed: int) -> Iterator[list[str]]:
    """The given number of rounds, each with every name once, shuffled by the seed."""
    random = Random(seed)
    for _ in range(rounds):
        order = list(names)
        random.shuffle(order)
        yield order
