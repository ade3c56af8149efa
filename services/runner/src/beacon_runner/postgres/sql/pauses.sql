-- name: paused
-- The classes that are not consumed now.
SELECT class FROM paused_classes;

-- name: pause
-- Stop consumption of a class; again changes nothing.
INSERT INTO paused_classes (class) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: resume
-- Start consumption of a class again.
DELETE FROM paused_classes WHERE class = $1;
