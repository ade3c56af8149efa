UPDATE jobs SET next_attempt_at = now() WHERE id = $1 AND next_attempt_at IS NOT NULL;
