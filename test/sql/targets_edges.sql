-- Targets at the edges: the widest key, keys of a composite type, keys beside
-- the primary key, computed columns that are stored or, where the server has
-- them, virtual, partitions with foreign keys, side tables whose names meet;
-- in both homes, each compared with what plain SQL makes of the same log.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA targets_edges;
SET search_path = targets_edges, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

-- n-th event: which key, what it does, at a position of its own
CREATE VIEW happens AS SELECT n, abs(hashint8(n)) % 15 AS k, CASE WHEN abs(hashint8(n + 1000)) % 4 = 0 THEN 'd' ELSE 'u' END AS op,
	cdc_position(pg_lsn '1/0' + (n / 4)::numeric, n % 4) AS pos FROM generate_series(1, 120) n;

--
-- Keys: of as many columns as an index can have, of composite types, of a
-- unique index that is not the primary key and has more columns than the key
--
SELECT string_agg('k' || i || ' int', ', ' ORDER BY i) AS cols, string_agg('k' || i, ', ' ORDER BY hashint4(i)) AS key,
	string_agg('k' || i, '; ' ORDER BY i) AS by_semicolon, string_agg(format('CASE WHEN k %% 32 = %s THEN 9 ELSE k / 4 END', i - 1), ', ' ORDER BY i) AS vals
FROM generate_series(1, 32) i \gset wide_
SELECT make('widest', format('CREATE TABLE %%s (v text, %s, PRIMARY KEY (%s))', :'wide_cols', :'wide_key'), 'v text, ' || :'wide_cols');
INSERT INTO widest_log SELECT op, CASE WHEN op = 'u' THEN 'v' || n END, :wide_vals, pos FROM happens;
SELECT converges('32 columns', 'widest', :'wide_by_semicolon', 'v');
SELECT expect('the side table has the same key', indnkeyatts::text, '32') FROM pg_index WHERE indrelid = 'widest_table_tombstones'::regclass AND indisprimary;

CREATE TYPE place AS (country text, region text, city text, since date, no int);
CREATE DOMAIN known_place AS place CHECK ((VALUE).no IS NOT NULL);
SELECT make('placed_' || t, format('CREATE TABLE %%s (id %s PRIMARY KEY, v text)', t), format('id %s, v text', s))
FROM (VALUES ('place', 'place'), ('known_place', 'text')) x(t, s);
INSERT INTO placed_place_log SELECT op, ROW('c' || k % 2, NULLIF('r' || k % 3, 'r0'), 'c' || k % 4, date '2024-02-29' + k % 2, k)::place, 'v' || n, pos FROM happens;
INSERT INTO placed_known_place_log SELECT op, id::text, v, source_position FROM placed_place_log;
SELECT converges('a type of five columns', 'placed_place', 'id', 'v');
SELECT converges('a domain over it, text in staging', 'placed_known_place', 'id', 'v');

SELECT make('other_key', 'CREATE TABLE %s (own int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text NOT NULL, b int NOT NULL, v text, w text DEFAULT ''w'');
	CREATE UNIQUE INDEX ON %s (b DESC, a) INCLUDE (v); CREATE UNIQUE INDEX ON %s (a, b) WHERE v IS NOT NULL', 'b bigint, a varchar(5), v text', ', key_columns => ''{a,b}''');
INSERT INTO other_key_log SELECT op, k % 4, 'a' || k % 3, 'v' || n, pos FROM happens;
SELECT converges('a unique index with INCLUDE, an identity that no event has', 'other_key', 'a; b', 'v; ''w''');

--
-- Computed columns: stored, and virtual from 18 on
--
SELECT CASE WHEN current_setting('server_version_num')::int >= 180000 THEN 'VIRTUAL' ELSE 'STORED' END AS kind \gset computed_
CREATE TABLE seen (target text, what text, bad bigint);
CREATE FUNCTION see_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (TG_TABLE_NAME, 'row ' || TG_OP, 0);
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
-- what the transition tables show of the columns is what the row says, or
-- nothing: the server leaves virtual ones empty there
CREATE FUNCTION see_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen SELECT TG_TABLE_NAME, 'new ' || TG_OP, count(*) FILTER (WHERE twice <> n * 2 OR at IS DISTINCT FROM source_position::text) FROM comes;
	RETURN NULL;
END $$;
CREATE FUNCTION see_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen SELECT TG_TABLE_NAME, 'old ' || TG_OP, count(*) FILTER (WHERE twice <> n * 2 OR at IS NULL) FROM was;
	RETURN NULL;
END $$;
CREATE FUNCTION position_text(cdc_position) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1::text';
\set ECHO none
SELECT make('computed', format($q$CREATE TABLE %%s (twice int GENERATED ALWAYS AS (n * 2) %1$s NOT NULL CONSTRAINT small CHECK (twice < 1000), gone int, n int, id int PRIMARY KEY, v text, kept text, big text,
		label text GENERATED ALWAYS AS (coalesce(v, '-') || '/' || n) %1$s) PARTITION BY RANGE (id);
	CREATE TABLE %%s_low PARTITION OF %%s FOR VALUES FROM (0) TO (8);
	CREATE TABLE %%s_high (v text, label text GENERATED ALWAYS AS (coalesce(v, '-') || '/' || n) %1$s, x int, id int NOT NULL, n int, big text, twice int GENERATED ALWAYS AS (n * 2) %1$s NOT NULL CONSTRAINT small CHECK (twice < 1000), kept text, gone int);
	ALTER TABLE %%s_high DROP x; ALTER TABLE %%s ATTACH PARTITION %%s_high FOR VALUES FROM (8) TO (99); ALTER TABLE %%s DROP gone; ALTER TABLE %%s ALTER big SET STORAGE EXTERNAL$q$, :'computed_kind'),
	'id int, n int, v text, kept text, big text, twice int, label text, __same text[]', ', guard => ''error'', unchanged_column => ''__same'', on_unavailable => ''null''');
SELECT format('ALTER TABLE computed_%1$s ADD at text GENERATED ALWAYS AS (position_text(source_position)) STORED', h) FROM unnest('{row,table}'::text[]) h \gexec
-- staging has such columns too, and one is what the target takes
DROP TABLE computed_event;
SELECT format('CREATE TABLE computed_event (op text, id int, n int, half numeric, v text GENERATED ALWAYS AS (''v'' || half) %1$s, kept text, big text, twice int, label text GENERATED ALWAYS AS (''theirs'') %1$s, __same text[], source_position cdc_position)', :'computed_kind') \gexec
\set ECHO all
SELECT format('CREATE TRIGGER see_row BEFORE INSERT OR UPDATE OR DELETE ON %1$s FOR EACH ROW EXECUTE FUNCTION see_row(); CREATE TRIGGER see_row_after AFTER INSERT OR UPDATE ON %1$s FOR EACH ROW WHEN (NEW.n > 0) EXECUTE FUNCTION see_row();
	CREATE TRIGGER see_insert AFTER INSERT ON %1$s REFERENCING NEW TABLE AS comes FOR EACH STATEMENT EXECUTE FUNCTION see_new();
	CREATE TRIGGER see_update AFTER UPDATE ON %1$s REFERENCING NEW TABLE AS comes FOR EACH STATEMENT EXECUTE FUNCTION see_new();
	CREATE TRIGGER see_was AFTER UPDATE ON %1$s REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION see_old();
	CREATE TRIGGER see_gone AFTER DELETE ON %1$s REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION see_old()', 'computed_' || h) FROM unnest('{row,table}'::text[]) h \gexec
-- as converges() does, of a staging whose columns cannot all be written
CREATE TABLE computed_all AS SELECT op, k AS id, n, n / 2.0 AS half, 'kept' || n AS kept, repeat(sha512(n::text::bytea)::text, 20) AS big, -1 AS twice, pos FROM happens;
CREATE FUNCTION computed_deal(batch int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text[] := '{}'; home text;
BEGIN
	TRUNCATE computed_event;
	INSERT INTO computed_event (op, id, n, half, kept, big, twice, source_position)
		SELECT op, id, n, half, kept, big, twice, pos FROM computed_all a WHERE batch = 4 OR hashtextextended(a.n::text, 0) & 3 = batch ORDER BY hashtextextended(a.n::text, batch);
	FOREACH home IN ARRAY '{row,table}'::text[] LOOP
		got := got || applied('computed_' || home, 'computed_event', CASE batch WHEN 4 THEN 'on_same_position => ''error''' ELSE '' END);
	END LOOP;
	RETURN expect('batch ' || batch || ': the same in both', got[1] || CASE WHEN batch = 4 AND got[1] ~ 'inserted' THEN ', written' ELSE '' END, got[2]);
END $$;
SELECT computed_deal(b) FROM generate_series(0, 4) b;
SELECT computed_deal(4);
INSERT INTO computed_log (op, id, n, v, kept, big, source_position) SELECT op, id, n, 'v' || half, kept, big, pos FROM computed_all;
SELECT expect('as plain SQL has it, ' || h, differs('computed', h, 'id', 'n; v; kept; big'), NULL) FROM unnest('{row,table}'::text[]) h;
SELECT expect('the computed ones too, ' || t, rows_of(format('SELECT 1 FROM %I WHERE twice IS DISTINCT FROM n * 2 OR label IS DISTINCT FROM v || ''/'' || n OR at IS DISTINCT FROM source_position::text', t)), 'none') FROM unnest('{computed_row,computed_table}'::text[]) t;
SELECT expect('and in transition tables', coalesce(sum(bad), 0)::text || string_agg(DISTINCT what, ',' ORDER BY what), '0' || 'new INSERT,new UPDATE,old DELETE,old UPDATE,row DELETE,row INSERT,row UPDATE') FROM seen;
-- values that an event does not carry
TRUNCATE computed_event;
INSERT INTO computed_event (op, id, n, half, kept, big, source_position, __same) SELECT 'u', id, 400, 7, NULL, NULL, '2/1', '{kept,big}' FROM computed_table;
SELECT expect('unchanged, ' || t, applied(t, 'computed_event') ~ '^updated=\d+$' || '', 'true') FROM unnest('{computed_row,computed_table}'::text[]) t;
INSERT INTO computed_log (op, id, n, v, kept, big, source_position) SELECT 'u', id, 400, 'v7', kept, big, '2/1'
	FROM (SELECT DISTINCT ON (id) * FROM computed_log ORDER BY id, source_position DESC) l WHERE op = 'u';
SELECT expect('as plain SQL has it, ' || h, differs('computed', h, 'id', 'n; v; kept; big; n * 2'), NULL) FROM unnest('{row,table}'::text[]) h;
-- what they refuse is refused
TRUNCATE computed_event;
INSERT INTO computed_event (op, id, n, half, source_position) VALUES ('u', 1, 5, 1, '3/1'), ('u', 2, 500, 1, '3/1');
SELECT apply_refused('CHECK, ' || t, t, 'computed_event', '', '23514', NULL, '', false) FROM unnest('{computed_row,computed_table}'::text[]) t;
UPDATE computed_event SET n = NULL WHERE n = 500;
SELECT apply_refused('NOT NULL, ' || t, t, 'computed_event', '', '23502', NULL, '', false) FROM unnest('{computed_row,computed_table}'::text[]) t;
SELECT expect('nothing of it, ' || h, differs('computed', h, 'id', 'n; v; kept; big; n * 2'), NULL) FROM unnest('{row,table}'::text[]) h;
-- a truncate, and a hand that the guard lets through or not
SELECT refused('an older position by hand, ' || t, format('UPDATE %I SET n = 3, source_position = ''0/1'' WHERE id IN (SELECT min(id) FROM computed_table)', t), '23000', t, '', false) FROM unnest('{computed_row,computed_table}'::text[]) t;
UPDATE computed_row SET kept = 'by hand' WHERE NOT deleted;
UPDATE computed_table SET kept = 'by hand';
SELECT expect('by hand, ' || t, rows_of(format('SELECT DISTINCT kept, twice, label FROM %I WHERE source_position = ''2/1''', t)), '("by hand",800,v7/400)') FROM unnest('{computed_row,computed_table}'::text[]) t;
TRUNCATE computed_event;
INSERT INTO computed_event (op, source_position) VALUES ('t', '2/1');
SELECT expect('truncate, ' || t, applied(t, 'computed_event'), 'truncated=1') FROM unnest('{computed_row,computed_table}'::text[]) t;
SELECT expect('no row is left', (SELECT count(*) FROM computed_row WHERE NOT deleted) || ' ' || (SELECT count(*) FROM computed_table), '0 0');
-- none can hold what an event says
\set ECHO none
SELECT format('CREATE TABLE no_flag (id int PRIMARY KEY, n int, source_position cdc_position, deleted boolean GENERATED ALWAYS AS (n > 3) %s)', :'computed_kind') \gexec
\set ECHO all
-- a type of an extension is not for virtual ones
CREATE TABLE no_position (id int PRIMARY KEY, n int, source_position cdc_position GENERATED ALWAYS AS ('1/1') STORED, deleted boolean);
CREATE TABLE small_event (op text, id int, n int, source_position cdc_position);
INSERT INTO small_event VALUES ('u', 1, 1, '0/1');
SELECT apply_refused(t, t, 'small_event', '', '428C9', c, 'd') FROM (VALUES ('no_flag', 'deleted'), ('no_position', 'source_position')) v(t, c);

--
-- Position and tombstone columns of domains and of limited precision: what is
-- stored obeys them, as what a statement stores does
--
CREATE DOMAIN late_position AS cdc_position NOT NULL CHECK (VALUE >= '1/0');
CREATE DOMAIN not_yet AS boolean DEFAULT false NOT NULL;
SELECT make('domained', 'CREATE TABLE %s (id int PRIMARY KEY, v text, source_position late_position, deleted not_yet)', 'id int, v text');
INSERT INTO domained_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('domains', 'domained', 'id', 'v');
TRUNCATE domained_event;
INSERT INTO domained_event VALUES ('u', 100, 'good', '2/1'), ('u', 101, 'bad', '0/5');
SELECT apply_refused('a position out of its domain, ' || t, t, 'domained_event', '', '23514', NULL, '', false) FROM unnest('{domained_row,domained_table}'::text[]) t;
UPDATE domained_event SET op = 'r', source_position = NULL WHERE id = 101;
SELECT apply_refused('none where there must be one, ' || t, t, 'domained_event', '', '23502', NULL, '', false) FROM unnest('{domained_row,domained_table}'::text[]) t;
SELECT expect('nothing of it, ' || h, differs('domained', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
CREATE DOMAIN never AS boolean CHECK (NOT VALUE);
CREATE TABLE domained_never (id int PRIMARY KEY, v text, source_position cdc_position, deleted never);
UPDATE domained_event SET op = CASE id WHEN 101 THEN 'd' ELSE 'u' END, source_position = '2/1';
SELECT apply_refused('a tombstone out of its domain', 'domained_never', 'domained_event', '', '23514', 'never', 'h', false);

-- NULL where a domain has none: of a column that only the target has, and of
-- a value that no event carries
CREATE DOMAIN word AS text NOT NULL;
CREATE DOMAIN word_or_none AS text DEFAULT 'none' NOT NULL;
SELECT make('nulled', 'CREATE TABLE %s (id int PRIMARY KEY, v text, ours word)', 'id int, v text');
SELECT make('nulled_v', 'CREATE TABLE %s (id int PRIMARY KEY, v word, ours word_or_none)', 'id int, v text', ', on_unavailable => ''null''');
INSERT INTO nulled_event VALUES ('u', 1, 'a', '1/1');
SELECT apply_refused('no default, ' || t, t, 'nulled_event', '', '23502', 'word', '', false) FROM unnest('{nulled_row,nulled_table}'::text[]) t;
SELECT apply_refused('nor in a dry run, ' || t, t, 'nulled_event', 'dry_run => true', '23502', 'word', '', false) FROM unnest('{nulled_row,nulled_table}'::text[]) t;
UPDATE nulled_event SET op = 'd';
SELECT apply_refused('a delete of an unseen key, in the row', 'nulled_row', 'nulled_event', '', '23502', 'word', 'h', false);
SELECT expect('in the side table it needs none', applied('nulled_table', 'nulled_event'), 'deleted=1');
INSERT INTO nulled_v_event VALUES ('u', 1, '__debezium_unavailable_value', '1/1');
SELECT apply_refused('a value that is nowhere, ' || t, t, 'nulled_v_event', '', '23502', 'word', '', false) FROM unnest('{nulled_v_row,nulled_v_table}'::text[]) t;
UPDATE nulled_v_event SET v = NULL;
SELECT apply_refused('NULL means no change, of nothing, ' || t, t, 'nulled_v_event', 'ignore_nulls => true', '23502', 'word', '', false) FROM unnest('{nulled_v_row,nulled_v_table}'::text[]) t;
SELECT apply_refused('NULL, ' || t, t, 'nulled_v_event', '', '23502', 'word', '', false) FROM unnest('{nulled_v_row,nulled_v_table}'::text[]) t;
SELECT expect('nothing of it', rows_of('nulled_v_row') || rows_of('nulled_v_table') || rows_of('nulled_row') || rows_of('nulled_table'), 'nonenonenonenone');
-- values that are there are kept, and the domain's default is taken
INSERT INTO nulled_v_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('with a default', 'nulled_v', 'id', 'v');
SELECT expect('the default, ' || t, rows_of(format('SELECT DISTINCT ours FROM %I', t)), '(none)') FROM unnest('{nulled_v_row,nulled_v_table}'::text[]) t;

SELECT make('precise', 'CREATE TABLE %s (id int PRIMARY KEY, v text, scn numeric(6), sub numeric(5, 2), source_position cdc_position GENERATED ALWAYS AS (cdc_position_from_numbers(scn, sub)) STORED)',
	'id int, v text', ', position_columns => ''{scn,sub}'', staging_position => ''source_position''');
INSERT INTO precise_log SELECT op, k, 'v' || n, cdc_position_from_numbers(999000 + n / 4, n % 4) FROM happens;
SELECT converges('numbers', 'precise', 'id', 'v');
TRUNCATE precise_event;
INSERT INTO precise_event VALUES ('u', 100, 'good', '999999:999'), ('u', 101, 'bad', '1000000');
SELECT apply_refused('too many digits, ' || t, t, 'precise_event', '', '22003', NULL, '', false) FROM unnest('{precise_row,precise_table}'::text[]) t;
SELECT expect('nothing of it, ' || h, differs('precise', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
DELETE FROM precise_event WHERE id = 101;
INSERT INTO precise_log TABLE precise_event;
SELECT converges('as many as there may be', 'precise', 'id', 'v');
-- a column that rounds would make it another position; a time is only a time
CREATE TABLE rounding (id int PRIMARY KEY, v text, scn numeric(6, -2), gone_at timestamptz(0));
CREATE TABLE rounding_event (op text, id int, v text, scn numeric);
INSERT INTO rounding_event VALUES ('u', 1, 'a', 1200), ('d', 2, 'b', 1300), ('u', 3, 'c', 1234);
SELECT apply_refused('a position that would be rounded', 'rounding', 'rounding_event', 'position_columns => ''{scn}'', tombstone_column => ''gone_at''', '22003', 'scn', 'd');
DELETE FROM rounding_event WHERE id = 3;
SELECT apply_is('one that is not', 'rounding', 'rounding_event', 'position_columns => ''{scn}'', tombstone_column => ''gone_at''', 'inserted=1 deleted=1',
	'SELECT id, scn, gone_at = date_trunc(''second'', gone_at) FROM rounding', '(1,1200,) (2,1300,t)');

--
-- Foreign keys of partitioned tables, in both directions
--
CREATE TABLE country (code text, part int, PRIMARY KEY (code, part)) PARTITION BY LIST (part);
CREATE TABLE country_0 PARTITION OF country FOR VALUES IN (0);
CREATE TABLE country_1 (part int NOT NULL, code text NOT NULL);
ALTER TABLE country ATTACH PARTITION country_1 FOR VALUES IN (1);
INSERT INTO country SELECT chr(97 + i), p FROM generate_series(0, 3) i, generate_series(0, 1) p;
SELECT make('city', 'CREATE TABLE %s (id int, country text, part int, v text, PRIMARY KEY (part, id), FOREIGN KEY (country, part) REFERENCES country) PARTITION BY HASH (id, part);
	CREATE TABLE %s_0 PARTITION OF %s FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE %s_1 (v text, x int, part int NOT NULL, country text, id int NOT NULL); ALTER TABLE %s_1 DROP x; ALTER TABLE %s ATTACH PARTITION %s_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	CREATE TABLE %s_street (sid int PRIMARY KEY, part int, id int, FOREIGN KEY (part, id) REFERENCES %s ON DELETE CASCADE ON UPDATE CASCADE);
	CREATE TABLE %s_held (hid int PRIMARY KEY, part int, id int, FOREIGN KEY (part, id) REFERENCES %s DEFERRABLE INITIALLY DEFERRED)', 'id int, part int, country text, v text');
INSERT INTO city_log SELECT op, k, k % 2, chr(97 + n % 4), 'v' || n, pos FROM happens;
SELECT converges('partitions that refer to partitions', 'city', 'id; part', 'country; v');
INSERT INTO city_row_street SELECT row_number() OVER (), part, id FROM city_row WHERE NOT deleted;
INSERT INTO city_table_street SELECT row_number() OVER (), part, id FROM city_table;
INSERT INTO city_row_held SELECT id, part, id FROM city_row WHERE NOT deleted AND id % 3 = 0;
INSERT INTO city_table_held SELECT id, part, id FROM city_table WHERE id % 3 = 0;
TRUNCATE city_event;
INSERT INTO city_event SELECT CASE WHEN id % 3 = 0 THEN 'u' ELSE 'd' END, id, part, country, 'later', '3/1' FROM city_table;
SELECT expect('the same of both', applied('city_row', 'city_event'), applied('city_table', 'city_event'));
INSERT INTO city_log TABLE city_event;
SELECT expect('as plain SQL has it, ' || h, differs('city', h, 'id; part', 'country; v'), NULL) FROM unnest('{row,table}'::text[]) h;
SELECT expect('cascades follow a row that goes', rows_of('SELECT part, id FROM city_table_street'), rows_of('SELECT part, id FROM city_table'));
SELECT expect('in the row no row goes', count(*)::text, (SELECT count(*)::text FROM city_event)) FROM city_row_street;
TRUNCATE city_event;
INSERT INTO city_event SELECT 'd', id, part, NULL, NULL, '3/2' FROM city_table ORDER BY id LIMIT 1;
BEGIN;
SELECT expect('a row that is held, until the end', applied('city_table', 'city_event'), 'deleted=1');
SELECT refused('and then', 'SET CONSTRAINTS ALL IMMEDIATE', '23503', NULL, '', false);
ROLLBACK;
TRUNCATE city_event;
INSERT INTO city_event VALUES ('u', 100, 0, 'a', 'good', '3/3'), ('u', 101, 1, 'zz', 'bad', '3/3');
SELECT apply_refused('a reference to nothing, ' || t, t, 'city_event', '', '23503', NULL, '', false) FROM unnest('{city_row,city_table}'::text[]) t;
SELECT expect('nothing of it, ' || h, differs('city', h, 'id; part', 'country; v'), NULL) FROM unnest('{row,table}'::text[]) h;

--
-- Triggers that drop a row, in both homes: nothing of it is remembered
--
CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		RETURN CASE WHEN OLD.id % 2 = 0 THEN OLD END;
	END IF;
	-- a delete is an UPDATE or INSERT in the row home
	RETURN CASE WHEN coalesce((to_jsonb(NEW) ->> 'deleted')::boolean, false) THEN CASE WHEN NEW.id % 2 = 0 THEN NEW END WHEN NEW.v LIKE 'drop%' THEN NULL ELSE NEW END;
END $$;
SELECT make('dropped', 'CREATE TABLE %s (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (0) TO (7);
	CREATE TABLE %s_2 (v text, id int NOT NULL); ALTER TABLE %s ATTACH PARTITION %s_2 FOR VALUES FROM (7) TO (99)', 'id int, v text');
INSERT INTO dropped_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('before', 'dropped', 'id', 'v');
SELECT format('CREATE TRIGGER drop_row BEFORE INSERT OR UPDATE OR DELETE ON dropped_%s FOR EACH ROW EXECUTE FUNCTION drop_row()', h) FROM unnest('{row,table}'::text[]) h \gexec
TRUNCATE dropped_event;
-- of every fate: update, insert, revival, delete of a row; half of them dropped
INSERT INTO dropped_event SELECT 'u', id, CASE WHEN id % 2 = 0 THEN 'kept' ELSE 'drop' END, '3/1' FROM (SELECT DISTINCT id FROM dropped_log UNION SELECT 20 UNION SELECT 21) i WHERE id % 3 > 0;
INSERT INTO dropped_event SELECT 'd', id, NULL, '3/1' FROM dropped_table WHERE id % 3 = 0;
SELECT expect('as many are ignored, ' || t, ignored::text, (SELECT count(*)::text FROM dropped_event WHERE id % 2 = 1)) FROM unnest('{dropped_row,dropped_table}'::text[]) t, cdc_apply(t::regclass);
INSERT INTO dropped_log SELECT * FROM dropped_event WHERE id % 2 = 0;
SELECT expect('as plain SQL has it, ' || h, differs('dropped', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
SELECT expect('once more, ' || t, counts(r), (SELECT format('duplicate=%s ignored=%s', count(*) FILTER (WHERE id % 2 = 0), count(*) FILTER (WHERE id % 2 = 1)) FROM dropped_event)) FROM unnest('{dropped_row,dropped_table}'::text[]) t, cdc_apply(t::regclass) r;
SELECT format('DROP TRIGGER drop_row ON dropped_%s', h) FROM unnest('{row,table}'::text[]) h \gexec
INSERT INTO dropped_log SELECT * FROM dropped_event WHERE id % 2 = 1;
SELECT converges('once they may', 'dropped', 'id', 'v');

--
-- Publications: a filter over columns that no replica identity has
--
SET client_min_messages = error;
SELECT make('filtered', 'CREATE TABLE %s (id int PRIMARY KEY, v text)', 'id int, v text');
INSERT INTO filtered_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('not published', 'filtered', 'id', 'v');
CREATE PUBLICATION targets_edges_pub FOR TABLE filtered_row WHERE (v <> 'x'), filtered_table WHERE (v <> 'x');
TRUNCATE filtered_event;
INSERT INTO filtered_event SELECT CASE WHEN id % 2 = 0 THEN 'd' ELSE 'u' END, id, 'w', '4/1' FROM generate_series(0, 20) id;
SELECT apply_refused('a filter, ' || t, t, 'filtered_event', '', '42P10', NULL, '', false) FROM unnest('{filtered_row,filtered_table}'::text[]) t;
SELECT expect('nothing of it, ' || h, differs('filtered', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
ALTER TABLE filtered_row REPLICA IDENTITY FULL;
ALTER TABLE filtered_table REPLICA IDENTITY FULL;
INSERT INTO filtered_log TABLE filtered_event;
SELECT converges('with the whole row as identity', 'filtered', 'id', 'v');
DROP PUBLICATION targets_edges_pub;
SET client_min_messages = warning;

--
-- Side tables of targets whose names begin alike, each with its own tombstones
--
SELECT make(repeat('n', 52) || '_' || i, format('CREATE TABLE %%s (id int PRIMARY KEY, v text)'), 'id int, v text') FROM generate_series(1, 3) i;
CREATE FUNCTION long_differs(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text := repeat('n', 52) || '_' || i; side text; result text;
BEGIN
	EXECUTE format('INSERT INTO %s_log SELECT CASE WHEN (n + %s) %% 3 = 0 THEN ''d'' ELSE ''u'' END, k, ''v'' || n, pos FROM happens', t, i);
	EXECUTE format('INSERT INTO %1$s_event TABLE %1$s_log', t);
	PERFORM applied(t || '_row', t || '_event'), applied(t || '_table', t || '_event');
	SELECT tombstones INTO STRICT side FROM cdc_targets WHERE target = (t || '_table')::regclass;
	-- all three are applied to before one is looked at
	RETURN format($q$WITH last_word AS (SELECT DISTINCT ON (id) * FROM %2$s_log ORDER BY id, source_position DESC),
		want AS (SELECT CASE op WHEN 'u' THEN 'live ' || v ELSE 'dead' END || id || '@' || source_position AS r FROM last_word),
		got AS (SELECT 'live ' || v || id || '@' || source_position AS r FROM %2$s_table UNION ALL SELECT 'dead' || id || '@' || source_position FROM %3$s)
		SELECT expect('target %1$s, side table of %4$s bytes', string_agg(r, ' ' ORDER BY r), NULL)
		FROM ((SELECT 'missing ' || r AS r FROM (TABLE want EXCEPT ALL TABLE got) m) UNION ALL (SELECT 'extra ' || r FROM (TABLE got EXCEPT ALL TABLE want) x)) d$q$, i, t, side, octet_length(side));
END $$;
SELECT long_differs(i) FROM generate_series(1, 3) i \gexec

--
-- Foreign tables as partitions leave no key to go by
--
CREATE FOREIGN DATA WRAPPER targets_edges_wrapper;
CREATE SERVER targets_edges_server FOREIGN DATA WRAPPER targets_edges_wrapper;
CREATE TABLE mixed (id int NOT NULL, v text, source_position cdc_position, deleted boolean) PARTITION BY RANGE (id);
CREATE TABLE mixed_here PARTITION OF mixed FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE mixed_there PARTITION OF mixed FOR VALUES FROM (10) TO (20) SERVER targets_edges_server;
CREATE UNIQUE INDEX ON ONLY mixed (id);
SELECT refused('a foreign table as a partition' || w, format(c, 'mixed'), '55000', 'mixed', 'dh')
FROM (VALUES (1, '', 'SELECT cdc_apply(%L, ''small_event'', key_columns => ''{id}'', except_columns => ''{n}'')'), (2, ', attached', 'SELECT cdc_attach(%L, ''small_event'', key_columns => ''{id}'')')) v(o, w, c) ORDER BY o;
SELECT expect('nothing was written', count(*)::text, '0') FROM mixed_here;

DROP SCHEMA targets_edges CASCADE;
DROP FOREIGN DATA WRAPPER targets_edges_wrapper CASCADE;
