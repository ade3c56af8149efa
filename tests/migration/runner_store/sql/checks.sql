-- What a check constraint says.
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1
