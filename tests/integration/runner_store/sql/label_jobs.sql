-- The labels of all jobs, as submissions write them. Few labels differ, and the keys of each are computed once.
WITH keys AS MATERIALIZED (
    SELECT d.labels, k.label
    FROM (SELECT DISTINCT labels FROM jobs) AS d
    CROSS JOIN LATERAL label_keys(d.labels) AS k (label)
)
INSERT INTO job_labels (user_id, job_id, label)
SELECT j.user_id, j.id, k.label
FROM jobs j
JOIN keys k ON k.labels = j.labels;
