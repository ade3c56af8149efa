-- Classes that an operator has paused: Redis is told, and told again after it was emptied.
CREATE TABLE paused_classes (
    class     text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);
