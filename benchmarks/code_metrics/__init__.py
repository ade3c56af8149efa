"""Code metrics: functions and modules of one job and one inference, and the size of the code."""
