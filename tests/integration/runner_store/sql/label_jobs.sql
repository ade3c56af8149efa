-- The labels of all jobs, as submissions write them.
INSERT INTO job_labels (user_id, job_id, label)
SELECT j.user_id, j.id, k.label
FROM jobs j
CROSS JOIN LATERAL label_keys(j.labels) AS k (label)
WHERE j.labels IS NOT NULL;
