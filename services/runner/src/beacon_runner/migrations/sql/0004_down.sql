DROP TABLE current_era;
DROP TABLE last_era;
