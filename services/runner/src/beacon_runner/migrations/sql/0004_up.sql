-- A claim does not wait for the disk, so a crash of Postgres may forget the last of them; the fences that they
-- gave out must not be given out again (docs/decisions/0008). Every fence belongs to an era, a crash ends the era,
-- and the fences of an era are above all earlier ones.

-- The newest era that ever began: one row.
CREATE TABLE last_era (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    number   bigint NOT NULL
);

INSERT INTO last_era (number) VALUES (0);

-- The era of now: at most one row. It is empty after a crash and on a standby that took over, because Postgres
-- keeps no log of it; nothing else empties it.
CREATE UNLOGGED TABLE current_era (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    number   bigint NOT NULL
);
