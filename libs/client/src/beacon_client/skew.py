"""How far another machine's clock is from this one's, told apart from an answer that took its time. Pure."""

SKEW_S = 2.0


def skew_of(theirs: float, *, asked: float, answered: float) -> float:
    """Seconds that this machine is ahead, negative when behind, at least.

    They looked at their clock somewhere between our question and their answer: a moment in between proves
    nothing, however long that was.
    """
    if theirs < asked:
        return asked - theirs
    return min(0.0, answered - theirs)


def is_skewed(seconds: float) -> bool:
    return abs(seconds) > SKEW_S
