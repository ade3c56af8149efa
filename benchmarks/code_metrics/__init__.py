"""Code metrics of goals.md: how much code one job and one inference pass through, and how much there is."""
