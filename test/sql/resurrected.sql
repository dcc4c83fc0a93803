-- cdc_find_resurrected: the log, the source and the target's own tombstones say
-- who should be gone.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA resurrected;
SET search_path = resurrected, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE TABLE log (op text, id int, v text, __old_id int, source_position cdc_position);
CREATE TABLE in_row (id int PRIMARY KEY, v text);
CREATE TABLE in_table (id int PRIMARY KEY, v text) PARTITION BY HASH (id);
CREATE TABLE in_table_1 PARTITION OF in_table FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE in_table_2 PARTITION OF in_table FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT cdc_attach('in_row', 'log', tombstones => 'row'), cdc_attach('in_table', 'log');
INSERT INTO log VALUES ('c', 1, 'a', NULL, '0/10'), ('c', 2, 'a', NULL, '0/20'), ('d', 2, NULL, NULL, '0/30'), ('c', 3, 'a', NULL, '0/40'), ('u', 4, 'a', 3, '0/50'),
	('d', 5, NULL, NULL, '0/60');
SELECT applied('in_row', 'log'), applied('in_table', 'log');
-- nobody is
SELECT 'in_row', * FROM cdc_find_resurrected('in_row') UNION ALL SELECT 'in_table', * FROM cdc_find_resurrected('in_table');
-- a writer who does not know the law brings back 2, 3 and 5
SET cdc_precedence.bypass_guard = on;
UPDATE in_row SET deleted = false, source_position = CASE id WHEN 2 THEN '0/20' WHEN 5 THEN NULL ELSE source_position END WHERE id IN (2, 5);
UPDATE in_row SET deleted = false, source_position = '0/45' WHERE id = 3;
INSERT INTO in_table VALUES (2, 'a', '0/20'), (3, 'a', '0/45'), (5, 'a', NULL);
-- 6 was never in the log; 7 was inserted by a later event than the log has
INSERT INTO in_row VALUES (6, 'a', NULL), (7, 'a', '0/90');
INSERT INTO in_table VALUES (6, 'a', NULL), (7, 'a', '0/90');
INSERT INTO log VALUES ('d', 7, NULL, NULL, '0/70');
SELECT * FROM cdc_find_resurrected('in_row') ORDER BY key, evidence;
SELECT * FROM cdc_find_resurrected('in_table') ORDER BY key, evidence;
-- of a delete that is still to come nothing is said
INSERT INTO log VALUES ('d', 1, NULL, NULL, '0/80');
SELECT count(*) FILTER (WHERE key = '{"id": 1}') AS not_yet FROM cdc_find_resurrected('in_table');
SELECT applied('in_table', 'log');
SELECT * FROM cdc_find_resurrected('in_table') ORDER BY key, evidence;
-- the source says who is gone, whatever the log holds
CREATE TABLE source (id bigint, other text);
INSERT INTO source VALUES (1, ''), (4, '');
SELECT * FROM cdc_find_resurrected('in_row', source => 'source') ORDER BY key, evidence;
SELECT * FROM cdc_find_resurrected('in_table', source => 'source') ORDER BY key, evidence;
SELECT key, evidence FROM cdc_find_resurrected('in_row', 'log', 'source') ORDER BY key, evidence;
-- a log of another name, of a target with a lineage, with columns that the target lacks
CREATE TABLE archive AS SELECT *, 'x' AS topic FROM log;
SELECT cdc_attach('in_row', lineage => 'one');
SELECT count(*) FROM cdc_find_resurrected('in_row', 'archive');
-- rows that cannot be read say nothing; where no row can be read that is said
INSERT INTO archive VALUES ('what', 2, NULL, NULL, '0/80'), ('d', NULL, NULL, NULL, '0/80'), ('d', 1, NULL, NULL, NULL);
SELECT count(*) FROM cdc_find_resurrected('in_row', 'archive');
CREATE VIEW broken AS SELECT op, id + 1 / (length(topic) - 1) AS id, v, __old_id, source_position FROM archive;
SELECT refused('a view that fails', $$SELECT * FROM cdc_find_resurrected('in_row', 'broken')$$, '22000', 'broken', 'd');
-- a truncate of the log is a last word too
TRUNCATE log;
INSERT INTO log VALUES ('c', 6, 'a', NULL, '0/10'), ('t', NULL, NULL, NULL, '0/15'), ('c', 2, 'a', NULL, '0/20');
SELECT * FROM cdc_find_resurrected('in_row') ORDER BY key;
-- also on keys that the log has no event of, but not where a later event waits
INSERT INTO in_row VALUES (8, 'a', '0/12'), (9, 'a', '0/15'), (10, 'a', '0/16'), (11, 'a', NULL), (12, 'a', '0/12');
INSERT INTO log VALUES ('c', 11, 'a', NULL, '0/FFFF'), ('d', 12, NULL, NULL, '0/18');
SELECT expect('the truncate, by hand', string_agg(key ->> 'id', ' ' ORDER BY key), (SELECT string_agg(id::text, ' ' ORDER BY id) FROM in_row r
	WHERE NOT deleted AND coalesce(source_position, '0/0') <= '0/15' AND NOT EXISTS (SELECT FROM log l WHERE l.id = r.id AND l.source_position > '0/15')))
FROM cdc_find_resurrected('in_row') WHERE gone_at = '0/15';
SELECT expect('the delete behind it', string_agg(key ->> 'id', ' '), '12') FROM cdc_find_resurrected('in_row') WHERE gone_at = '0/18';
SELECT expect('found with little memory', count(*)::text, (SELECT count(*)::text FROM cdc_find_resurrected('in_row'))) FROM set_config('cdc_precedence.debug_fold_events', '1', false), cdc_find_resurrected('in_row');
RESET cdc_precedence.debug_fold_events;
-- what the floor covers is decided
SELECT cdc_set_floor('in_row', '0/15');
SELECT expect('none by the truncate', count(*)::text, '0') FROM cdc_find_resurrected('in_row') WHERE gone_at = '0/15';
SELECT cdc_set_floor('in_row', NULL);

-- a flag set back by hand: the row has the position of its delete, and no upsert stands there
CREATE TABLE back (id int PRIMARY KEY, v text);
CREATE TABLE back_log (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('back', 'back_log', tombstones => 'row', guard => 'error');
INSERT INTO back_log VALUES ('c', 1, 'a', '0/10'), ('d', 1, NULL, '0/20'), ('c', 2, 'b', '0/30'), ('d', 2, NULL, '0/30'), ('d', 3, NULL, '0/40');
SELECT applied('back', 'back_log', 'on_tie => ''upsert''');
UPDATE back SET deleted = false WHERE id IN (1, 3);
SELECT expect('live at a delete, by hand', string_agg(concat_ws(' ', key ->> 'id', evidence, stored_position, gone_at), '; ' ORDER BY key),
	(SELECT string_agg(concat_ws(' ', id, 'log, same position', source_position, source_position), '; ' ORDER BY id) FROM back b WHERE NOT deleted
		AND EXISTS (SELECT FROM back_log l WHERE l.id = b.id AND l.op = 'd' AND l.source_position = b.source_position)
		AND NOT EXISTS (SELECT FROM back_log l WHERE l.id = b.id AND l.op <> 'd' AND l.source_position >= b.source_position)))
FROM cdc_find_resurrected('back');
SELECT check_name, detail FROM cdc_check('back') WHERE NOT ok;
-- a replay leaves it; a position taken back lets the log have its word
SELECT applied('back', 'back_log', 'on_tie => ''upsert''');
SELECT cdc_forget('back', '0/10');
SELECT applied('back', 'back_log', 'on_tie => ''upsert''');
SELECT expect('none', count(*)::text, '0') FROM cdc_find_resurrected('back');
SELECT id, v, deleted FROM back ORDER BY id;

-- samples: of many about so many, the same each time
CREATE TABLE many (id text PRIMARY KEY, source_position cdc_position, deleted boolean);
INSERT INTO many SELECT i FROM generate_series(1, 1000) i;
CREATE TABLE many_log AS SELECT 'd'::text AS op, id, cdc_position('0/1', 1) AS source_position FROM many;
SELECT count(*) FROM cdc_find_resurrected('many', 'many_log');
SELECT count(*) BETWEEN 50 AND 150, count(*) = (SELECT count(*) FROM cdc_find_resurrected('many', 'many_log', sample => 0.1)) FROM cdc_find_resurrected('many', 'many_log', sample => 0.1);
CREATE VIEW nobody AS SELECT id::varchar AS id FROM many WHERE false;
SELECT count(*), count(stored_position) FROM cdc_find_resurrected('many', source => 'nobody');
SELECT count(*) BETWEEN 50 AND 150 FROM cdc_find_resurrected('many', source => 'nobody', sample => 0.1);
-- with little memory
SET cdc_precedence.debug_fold_events = 10;
SELECT count(*) FROM cdc_find_resurrected('many', 'many_log');
RESET cdc_precedence.debug_fold_events;
-- keys by their own equality
CREATE COLLATION resurrected."C2" (provider = libc, locale = 'C');
CREATE TABLE odd ("K ey" text COLLATE resurrected."C2" PRIMARY KEY, n numeric, source_position cdc_position, deleted timestamptz);
CREATE TABLE odd_source ("K ey" varchar);
INSERT INTO odd VALUES ('a', 1, NULL, NULL), ('B', 1, NULL, NULL), ('c', 1, NULL, now());
INSERT INTO odd_source VALUES ('a');
SELECT key FROM cdc_find_resurrected('odd', source => 'odd_source');

-- who may read may ask; nothing is written
CREATE ROLE resurrected_reader;
GRANT USAGE ON SCHEMA resurrected TO resurrected_reader;
GRANT SELECT ON in_table, log, source TO resurrected_reader;
SET ROLE resurrected_reader;
BEGIN READ ONLY;
SELECT count(*) FROM cdc_find_resurrected('in_table', source => 'source');
COMMIT;
SELECT refused('no rights', $$SELECT * FROM cdc_find_resurrected('in_row')$$, '42501', show => false);
RESET ROLE;
DROP OWNED BY resurrected_reader;
DROP ROLE resurrected_reader;
SELECT refused('sample', $$SELECT * FROM cdc_find_resurrected('in_row', sample => 2)$$, '22023', 'sample');
SELECT refused('sample', $$SELECT * FROM cdc_find_resurrected('in_row', sample => 'NaN')$$, '22023', 'sample', show => false);
SELECT refused('no log', $$SELECT * FROM cdc_find_resurrected('odd')$$, '22023', 'staging', show => false);
SELECT refused('no key', $$SELECT * FROM cdc_find_resurrected('odd', source => 'many')$$, '42703', 'K ey', 'h');
SELECT refused('no relation', $$SELECT * FROM cdc_find_resurrected('in_row', source => 1)$$, '42P01', show => false);
DROP SCHEMA resurrected CASCADE;
