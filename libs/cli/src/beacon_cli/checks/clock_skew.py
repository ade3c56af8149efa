"""The difference between two clocks, distinguished from a slow response. Pure."""

SKEW_S = 2.0


def skew_of(theirs: float, *, sent_at: float, received_at: float) -> float:
    """The least number of seconds that this machine is ahead; negative when it is behind.

    The other clock was read between the request and the response: a time in between shows no skew.
    """
    if theirs < sent_at:
        return sent_at - theirs
    return min(0.0, received_at - theirs)


def is_skewed(seconds: float) -> bool:
    return abs(seconds) > SKEW_S
