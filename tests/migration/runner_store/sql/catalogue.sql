-- Everything that a migration can make, one line each.
SELECT 'column', table_name::text, column_name::text, data_type::text, is_nullable::text, coalesce(column_default, '')
FROM information_schema.columns
WHERE table_schema = 'public'
UNION ALL
SELECT 'index', tablename::text, indexname::text, indexdef, '', ''
FROM pg_indexes
WHERE schemaname = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid), '', ''
FROM pg_constraint
WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'function', proname::text, pg_get_functiondef(oid), '', '', ''
FROM pg_proc
WHERE pronamespace = 'public'::regnamespace
UNION ALL
SELECT 'options', relname::text, array_to_string(reloptions, ','), '', '', ''
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL
ORDER BY 1, 2, 3
