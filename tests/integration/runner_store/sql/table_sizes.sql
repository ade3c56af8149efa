SELECT pg_table_size('jobs') + pg_indexes_size('jobs') + pg_table_size('outbox') + pg_indexes_size('outbox')
