"""How often the interpreter looks for cyclic garbage."""

import gc

_YOUNG_PER_LOOK_AT_THE_OLDER = 1_000_000


def tune_gc(*, young: int = 50_000) -> None:
    """To be called once all is imported: what is there by then stays, and is not looked through again.

    Almost nothing here is cyclic: looking after every 700 objects cost a fifth of the time. A look at 50,000
    `young` ones takes 20 ms, in which nothing else happens: where answers are waited for, take fewer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, _YOUNG_PER_LOOK_AT_THE_OLDER // young, 50)
    gc.enable()
