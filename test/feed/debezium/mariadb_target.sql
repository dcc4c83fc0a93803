-- The MariaDB feed's tables on the target's side, in the place of shop's.
CREATE TABLE shop.item (
  id integer, part text, name text DEFAULT 'none', n numeric(20,4), big numeric(20), f double precision, flag boolean, d date,
  ts timestamp, ts0 timestamp(0), tz timestamptz, ti time, b bytea, j jsonb, e text, PRIMARY KEY (id, part));
CREATE TABLE shop.plain (id integer PRIMARY KEY, v text);
INSERT INTO feed.tab VALUES ('item', '{id,part}'), ('plain', '{id}');
CALL feed.new_landing('maria', 'env');
CALL feed.new_landing('maria', 'schema');
CALL feed.new_landing('maria', 'flat');
INSERT INTO feed.known (engine, form, tab, col, why) VALUES
  ('maria', 'flat', 'plain', '(row)', 'ExtractNewRecordState drops TRUNCATE: rows that it removed stay');
