"""The stages of a job: plan, results, verdict, retries."""
