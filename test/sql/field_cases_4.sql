-- Field cases again where deletes must stay deleted: each in both homes of the
-- tombstone, r (in the row) and s (in a side table).  Helpers and the notation
-- of states: test/include/field_cases.sql.
\set ECHO none
\pset format unaligned
\pset tuples_only on
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/include/field_cases.sql'
\i :helpers

CREATE TABLE t_in (op text, id int, v text, source_position cdc_position);
CREATE FUNCTION fc.warned(statement text) RETURNS text LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE r text; BEGIN EXECUTE statement INTO r; RETURN r; END $$;

-- Both targets anew: another log, nothing known.
CREATE PROCEDURE fc.anew() LANGUAGE plpgsql AS $$
BEGIN
    DROP TABLE IF EXISTS r, s;
    CREATE TABLE r (id int PRIMARY KEY, v text);
    CREATE TABLE s (id int PRIMARY KEY, v text);
    PERFORM cdc_attach('r', 't_in', tombstones => 'row'), cdc_attach('s', 't_in');
END $$;
-- what is staged, applied to both
CREATE FUNCTION fc.both(label text, want text, options text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    got_r text := fc.apply('r', 't_in', options) || ', ' || fc.state('r');
    got_s text := fc.apply('s', 't_in', options) || ', ' || fc.state('s');
BEGIN
    RETURN CASE WHEN got_r = want AND got_s = want THEN 'ok | ' || label
           ELSE fc.is(label || ', row', got_r, want) || E'\n' || fc.is(label || ', table', got_s, want) END;
END $$;
CREATE FUNCTION fc.both_deliveries(how text, want text, options text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a text := fc.deliveries('r', 't_in', how, want, options);
    b text := fc.deliveries('s', 't_in', how, want, options);
BEGIN
    RETURN CASE WHEN a ~ '^ok' THEN b ELSE a END;
END $$;

/*
 * The cases that are told in (op, id, v, position): batch after batch.
 */
CREATE TABLE story (n int GENERATED ALWAYS AS IDENTITY, fc text, events text, want text);
INSERT INTO story (fc, events, want) VALUES
    ('FC01', $$('c', 71, '5', '1A/100:0')$$, '1 = 1 inserted, 71|5@1A/100'),
    ('FC01', $$('i', 71, '12', '1A/200:1'), ('d', 71, NULL, '1A/200:0')$$, '2 = 1 updated + 1 superseded, 71|12@1A/200:1'),
    ('FC02', $$('c', 9, '0', '2C/100')$$, '1 = 1 inserted, 9|0@2C/100'),
    ('FC02', $$('u', 9, '3', '2C/500:2'), ('u', 9, '1', '2C/500:0'), ('u', 9, '2', '2C/500:1')$$, '3 = 1 updated + 2 superseded, 9|3@2C/500:2'),
    ('FC02', $$('u', 9, '4', '2C/600:0'), ('d', 9, NULL, '2C/600:1')$$, '2 = 1 deleted + 1 superseded, tomb 9@2C/600:1'),
    ('FC04', $$('c', 15, 'v1', '5/10')$$, '1 = 1 inserted, 15|v1@5/10'),
    ('FC04', $$('d', 15, NULL, '5/30')$$, '1 = 1 deleted, tomb 15@5/30'),
    ('FC04', $$('u', 15, 'v0', '5/20')$$, '1 = 1 stale, tomb 15@5/30'),
    ('FC04', $$('u', 15, 'v2', '5/40')$$, '1 = 1 inserted, 15|v2@5/40'),
    ('FC05', $$('d', 88, NULL, '7/50')$$, '1 = 1 deleted, tomb 88@7/50'),
    ('FC05', $$('i', 88, 'a', '7/40')$$, '1 = 1 stale, tomb 88@7/50'),
    ('FC05 one batch', $$('d', 88, NULL, '7/50'), ('i', 88, 'a', '7/40')$$, '2 = 1 deleted + 1 superseded, tomb 88@7/50'),
    ('FC09', $$('d', 1, NULL, '6100'), ('c', 1, '510', '6100:1'), ('d', 2, NULL, '6100:2')$$, '3 = 1 inserted + 1 deleted + 1 superseded, 1|510@6100:1 tomb 2@6100:2'),
    ('FC09', $$('r', 1, '70', '6050'), ('r', 2, '70', '6050')$$, '2 = 2 stale, 1|510@6100:1 tomb 2@6100:2'),
    ('FC10', $$('c', 5, 'new', '8/90'), ('d', 6, NULL, '8/95')$$, '2 = 1 inserted + 1 deleted, 5|new@8/90 tomb 6@8/95'),
    ('FC10', $$('r', 5, 'old', NULL), ('r', 6, 'old', NULL), ('r', 7, 'seed', NULL), (NULL, 8, 'seed', NULL)$$, '4 = 2 inserted + 2 stale, 5|new@8/90 tomb 6@8/95 7|seed@none 8|seed@none'),
    ('FC10', $$('u', 7, 'x', '8/91')$$, '1 = 1 updated, 5|new@8/90 tomb 6@8/95 7|x@8/91 8|seed@none'),
    ('FC19', $$('d', 7, NULL, '100'), ('i', 7, 'b', '110')$$, '2 = 1 inserted + 1 superseded, 7|b@110'),
    ('FC19', $$('d', 7, NULL, '100')$$, '1 = 1 stale, 7|b@110'),
    ('FC20', $$('i', 1, 'p', '500'), ('d', 1, NULL, '500:1'), ('i', 1, 'q', '500:2'), ('i', 4, 'r', '500:0'), ('d', 4, NULL, '500:1')$$, '5 = 1 inserted + 1 deleted + 3 superseded, 1|q@500:2 tomb 4@500:1'),
    ('FC21', $$('i', 52, 'a', '1/10'), ('u', 52, 'b', '1/11'), ('d', 52, NULL, '1/12'), ('i', 53, 'a', '1/20'), ('u', 53, 'b', '1/21')$$,
        '5 = 1 inserted + 1 deleted + 3 superseded, tomb 52@1/12 53|b@1/21'),
    ('FC35', $$('d', 8, NULL, '7:3:1'), ('i', 8, 'b', '7:3:2')$$, '2 = 1 inserted + 1 superseded, 8|b@7:3:2'),
    ('FC35', $$('d', 8, NULL, '7:3:1')$$, '1 = 1 stale, 8|b@7:3:2'),
    ('FC43 a', $$('c', 3, '25', '10')$$, '1 = 1 inserted, 3|25@10'),
    ('FC43 a', $$('+U', 3, '30', '20'), ('-U', 3, '25', '20')$$, '2 = 1 updated + 1 superseded, 3|30@20'),
    ('FC43 b', $$('c', 3, '25', '10')$$, '1 = 1 inserted, 3|25@10'),
    ('FC43 b', $$('-U', 3, '25', '20'), ('+U', 4, '30', '20')$$, '2 = 1 inserted + 1 deleted, tomb 3@20 4|30@20'),
    ('FC43 d', $$('-U', 3, '25', '20')$$, '1 = 1 deleted, tomb 3@20'),
    ('FC43 d', $$('+U', 3, '30', '20')$$, '1 = 1 inserted, 3|30@20'),
    ('FC43 d', $$('-U', 3, '25', '20')$$, '1 = 1 duplicate, 3|30@20'),
    ('FC44', $$('u', 1, 'c', '40')$$, '1 = 1 inserted, 1|c@40'),
    ('FC44', $$('u', 1, 'b', '20')$$, '1 = 1 stale, 1|c@40'),
    ('FC44', $$('u', 1, 'c', '40')$$, '1 = 1 duplicate, 1|c@40'),
    ('FC44', $$('u', 1, 'b', '20'), ('c', 1, 'a', '10'), ('d', 1, NULL, '30'), ('u', 1, 'c', '40')$$, '4 = 1 duplicate + 3 superseded, 1|c@40'),
    ('FC45', $$('c', 2, 'a', '20')$$, '1 = 1 inserted, 2|a@20'),
    ('FC45', $$('d', 2, NULL, '30'), ('c', 2, 'b', '40')$$, '2 = 1 updated + 1 superseded, 2|b@40'),
    ('FC45', $$(NULL, 2, NULL, NULL), (NULL, NULL, NULL, NULL)$$, '2 = 2 ignored, 2|b@40');
-- a story as told, then its last two batches dealt out anew
CREATE FUNCTION fc.tell() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    e    story;
    last text := '';
BEGIN
    FOR e IN SELECT * FROM story ORDER BY n LOOP
        IF e.fc <> last THEN
            CALL fc.anew();
        END IF;
        CALL fc.stage('t_in', e.events);
        RETURN NEXT fc.both(e.fc || CASE WHEN e.fc = last THEN ', then' ELSE '' END, e.want);
        last := e.fc;
    END LOOP;
END $$;
SELECT fc.tell();
-- every story's events in every delivery
CREATE FUNCTION fc.retell() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    FOR s IN SELECT st.fc, string_agg(events, ', ' ORDER BY n) AS events, (SELECT split_part(want, ', ', 2) FROM story l WHERE l.fc = st.fc ORDER BY n DESC LIMIT 1) AS want
             FROM story st GROUP BY st.fc ORDER BY min(n) LOOP
        CALL fc.anew();
        CALL fc.stage('t_in', s.events);
        RETURN NEXT replace(fc.both_deliveries('any', s.want), '...', s.fc);
    END LOOP;
END $$;
SELECT fc.retell();

\echo FC05, FC49: a delete that carries the key only, NOT NULL columns, a key never seen
CREATE DOMAIN posint AS int NOT NULL CHECK (VALUE > 0);
CREATE TABLE strict (id int PRIMARY KEY, name text NOT NULL, d posint);
CREATE TABLE strict_in (op text, id int, name text, d int, source_position cdc_position);
SELECT cdc_attach('strict', 'strict_in');
CALL fc.stage('strict_in', $$ ('c', 1, 'keep', 5, '1/1') $$);
SELECT fc.is('FC49', fc.apply('strict', 'strict_in'), '1 = 1 inserted');
CALL fc.stage('strict_in', $$ ('d', 1, NULL, NULL, '1/2'), ('d', 9, NULL, NULL, '1/3'), ('i', 9, 'a', 1, '1/2') $$);
SELECT fc.deliveries('strict', 'strict_in', 'any', 'tomb 1@1/2 tomb 9@1/3');
SELECT fc.is('FC49 B1, B2', fc.apply('strict', 'strict_in') || ', ' || fc.state('strict'), '3 = 2 deleted + 1 superseded, tomb 1@1/2 tomb 9@1/3');
SELECT fc.is('FC49 readers filter nothing', fc.value('SELECT count(*) FROM strict'), '0');
CALL fc.stage('strict_in', $$ ('u', 1, 'back', NULL, '1/4') $$);
SELECT fc.is('FC49 a revived row keeps nothing of the old', fc.apply_error('strict', 'strict_in'), '23502');

\echo FC50: another unique constraint is free again
CREATE TABLE mail (id int PRIMARY KEY, email text UNIQUE);
CREATE TABLE mail_in (op text, id int, email text, source_position cdc_position);
SELECT cdc_attach('mail', 'mail_in');
CALL fc.stage('mail_in', $$ ('c', 1, 'm@x', '4/0') $$);
SELECT fc.is('FC50', fc.apply('mail', 'mail_in'), '1 = 1 inserted');
CALL fc.stage('mail_in', $$ ('c', 2, 'm@x', '4/2'), ('d', 1, NULL, '4/1') $$);
SELECT fc.deliveries('mail', 'mail_in', 'log', 'tomb 1@4/1 2|m@x@4/2');
SELECT fc.deliveries('mail', 'mail_in', 'batch', 'tomb 1@4/1 2|m@x@4/2');
SELECT fc.is('FC50 a plain unique constraint', fc.apply('mail', 'mail_in') || ', ' || fc.state('mail'), '2 = 1 inserted + 1 deleted, tomb 1@4/1 2|m@x@4/2');
CALL fc.stage('mail_in', $$ ('c', 3, 'm@x', '4/4'), ('d', 2, NULL, '4/3'), ('c', 1, 'other', '4/4') $$);
SELECT fc.is('FC50 handed on', fc.apply('mail', 'mail_in') || ', ' || fc.state('mail'), '3 = 2 inserted + 1 deleted, 1|other@4/4 tomb 2@4/3 3|m@x@4/4');
CALL fc.stage('mail_in', $$ ('u', 1, 'm@x', '4/6'), ('u', 3, 'other', '4/6') $$);
SELECT fc.is('FC50 a swap is refused as ever', fc.apply_error('mail', 'mail_in') || ', ' || fc.state('mail'), '23505, 1|other@4/4 tomb 2@4/3 3|m@x@4/4');

\echo FC11: another log
CREATE TABLE srv_r (id int PRIMARY KEY, v text);
CREATE TABLE srv_s (id int PRIMARY KEY, v text);
SELECT cdc_attach('srv_r', 't_in', tombstones => 'row', lineage => 'old'), cdc_attach('srv_s', 't_in', lineage => 'old');
CALL fc.stage('t_in', $$ ('u', 33, 'a', '900:4411'), ('d', 34, NULL, '900:4000') $$);
SELECT fc.is('FC11 ' || t, fc.apply(t, 't_in'), '2 = 1 inserted + 1 deleted') FROM unnest('{srv_r,srv_s}'::regclass[]) t;
CALL fc.stage('t_in', $$ ('u', 33, 'b', '3:120'), ('c', 34, 'c', '3:130') $$);
SELECT fc.is('FC11 never quietly stale: ' || t, fc.apply_error(t, 't_in', $$lineage => 'new'$$) || ', ' || fc.state(t), '55000, 33|a@900:4411 tomb 34@900:4000') FROM unnest('{srv_r,srv_s}'::regclass[]) t;
SELECT fc.is('FC11 no switch while old events wait: ' || t, fc.sqlstate(format('SELECT cdc_new_epoch(%L, ''new'')', t)), '55000') FROM unnest('{srv_r,srv_s}'::regclass[]) t;
TRUNCATE t_in;
SELECT fc.is('FC11 the switch: ' || t, cdc_new_epoch(t, 'new')::text, '1') FROM unnest('{srv_r,srv_s}'::regclass[]) t;
CALL fc.stage('t_in', $$ ('u', 33, 'b', '3:120'), ('c', 34, 'c', '3:130') $$);
SELECT fc.is('FC11 B2: ' || t, fc.apply(t, 't_in') || ', ' || fc.state(t), '2 = 1 inserted + 1 updated, 33|b@1@3:120 34|c@1@3:130') FROM unnest('{srv_r,srv_s}'::regclass[]) t;

\echo FC22: truncate
CALL fc.anew();
CALL fc.stage('t_in', $$ ('c', 1, 'a', '2/10') $$);
SELECT fc.both('FC22', '1 = 1 inserted, 1|a@2/10');
CALL fc.stage('t_in', $$ ('t', NULL, NULL, '2/20'), ('c', 2, 'b', '2/30'), ('u', 1, 'c', '2/15'), ('c', 9, 'x', '2/18') $$);
SELECT fc.deliveries('s', 't_in', 'any', '2|b@2/30');
SELECT fc.is('FC22 in one batch', fc.apply('s', 't_in') || ', ' || fc.state('s'), '4 = 1 inserted + 2 superseded + 1 truncated, 2|b@2/30');
SELECT fc.is('FC22 in one batch, row', fc.apply('r', 't_in') || ', ' || fc.state('r'), '4 = 1 inserted + 2 superseded + 1 truncated, tomb 1@2/20 2|b@2/30');
CALL fc.anew();
CALL fc.stage('t_in', $$ ('c', 1, 'a', '2/10') $$);
SELECT fc.both('FC22', '1 = 1 inserted, 1|a@2/10');
CALL fc.stage('t_in', $$ ('t', NULL, NULL, '2/20'), ('c', 2, 'b', '2/30') $$);
SELECT fc.is('FC22 B1', fc.apply('s', 't_in') || ', ' || fc.state('s'), '2 = 1 inserted + 1 truncated, 2|b@2/30');
SELECT fc.is('FC22 B1, row', fc.apply('r', 't_in') || ', ' || fc.state('r'), '2 = 1 inserted + 1 truncated, tomb 1@2/20 2|b@2/30');
CALL fc.stage('t_in', $$ ('u', 1, 'c', '2/15'), ('c', 9, 'x', '2/18') $$);
\echo -- a warning each must follow: upserts were fenced
SELECT fc.is('FC22 B2', fc.warned($$SELECT fc.apply('s', 't_in')$$) || ', ' || fc.state('s'), '2 = 2 fenced, 2|b@2/30');
SELECT fc.is('FC22 B2, row', fc.warned($$SELECT fc.apply('r', 't_in')$$) || ', ' || fc.state('r'), '2 = 2 fenced, tomb 1@2/20 2|b@2/30');

\echo FC40: a purge, then a replay
CALL fc.anew();
CALL fc.stage('t_in', $$ ('d', 61, NULL, '3/30'), ('c', 60, 'now', '3/60') $$);
SELECT fc.both('FC40', '2 = 1 inserted + 1 deleted, 60|now@3/60 tomb 61@3/30');
SELECT fc.is('FC40 purged: ' || t, cdc_purge_tombstones(t, '3/50') || ', ' || fc.state(t), '1, 60|now@3/60') FROM unnest('{r,s}'::regclass[]) t;
CALL fc.stage('t_in', $$ ('u', 61, 'old', '3/20'), ('c', 62, 'new-to-us', '3/45') $$);
\echo -- a warning must follow
SELECT fc.is('FC40 B1', fc.warned($$SELECT fc.both('FC40 B1', '2 = 2 fenced, 60|now@3/60')$$), 'ok | FC40 B1');
CALL fc.stage('t_in', $$ ('u', 61, 'reborn', '3/51'), ('c', 62, 'new', '3/50:1') $$);
SELECT fc.both('FC40 above the fence', '2 = 2 inserted, 60|now@3/60 61|reborn@3/51 62|new@3/50:1');
-- paimon#4767, the opposite wish: the key is used again from a lower position on
SELECT fc.is('FC40 by the owner''s word', fc.value($q$SELECT cdc_set_fence('s', NULL)$q$), '');
CALL fc.stage('t_in', $$ ('c', 63, 'low', '3/1') $$);
SELECT fc.is('FC40 lower again', fc.apply('s', 't_in'), '1 = 1 inserted');

\echo FC41: a full snapshot after a gap
CALL fc.anew();
CALL fc.stage('t_in', $$ ('c', 1, 'a', '5/10'), ('c', 2, 'b', '5/10'), ('d', 3, NULL, '5/9') $$);
SELECT fc.both('FC41', '3 = 2 inserted + 1 deleted, 1|a@5/10 2|b@5/10 tomb 3@5/9');
CALL fc.stage('t_in', $$ ('r', 1, 'a6', '6/0'), ('r', 3, 'c6', '6/0') $$);
SELECT fc.both('FC41 snapshot rows fill and lose', '2 = 2 stale, 1|a@5/10 2|b@5/10 tomb 3@5/9');
SELECT fc.both('FC41 snapshot_position event: what it lacks stays', '2 = 1 inserted + 1 updated, 1|a6@6/0 2|b@5/10 3|c6@6/0', $$snapshot_position => 'event'$$);
-- a snapshot row is no news of a dead key below the fence, nor of any below the floor
SELECT cdc_set_fence(t, '6/10') FROM unnest('{r,s}'::regclass[]) t;
CALL fc.stage('t_in', $$ ('r', 4, 'd', '6/5'), ('r', 1, 'a7', '6/5') $$);
SELECT fc.both('FC41 below the fence', '2 = 1 updated + 1 fenced, 1|a7@6/5 2|b@5/10 3|c6@6/0', $$snapshot_position => 'event'$$);

\echo FC24, FC53: moves
CREATE TABLE doc (id int PRIMARY KEY, title text, body text);
CREATE TABLE doc_in (op text, id int, title text, body text, __old_id int, source_position cdc_position);
SELECT cdc_attach('doc', 'doc_in');
CALL fc.stage('doc_in', $$ ('c', 5, 't', 'L', NULL, '1/1') $$);
SELECT fc.is('FC24', fc.apply('doc', 'doc_in'), '1 = 1 inserted');
CALL fc.stage('doc_in', $$ ('u', 6, 't2', '__debezium_unavailable_value', 5, '1/2') $$);
SELECT fc.is('FC24 the value comes along, then the old row goes', fc.apply('doc', 'doc_in') || ', ' || fc.state('doc'), '1 = 1 inserted, tomb 5@1/2 6|t2|L@1/2');
CALL fc.stage('doc_in', $$ ('d', 6, NULL, NULL, NULL, '1/3'), ('c', 7, 't3', '__debezium_unavailable_value', NULL, '1/3:1') $$);
SELECT fc.is('FC24 without the old key it is an error', fc.apply_error('doc', 'doc_in') || ', ' || fc.state('doc'), '55000, tomb 5@1/2 6|t2|L@1/2');
CREATE TABLE geo (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE geo_eu PARTITION OF geo FOR VALUES IN ('eu');
CREATE TABLE geo_us PARTITION OF geo FOR VALUES IN ('us');
CREATE TABLE geo_in (op text, id int, region text, v text, source_position cdc_position, __old_id int, __old_region text);
SELECT cdc_attach('geo', 'geo_in');
CALL fc.stage('geo_in', $$ ('c', 1, 'eu', 'a', '2/1', NULL, NULL), ('u', 1, 'us', 'b', '2/2', 1, 'eu'), ('d', 4, 'us', NULL, '2/2', NULL, NULL) $$);
SELECT fc.deliveries('geo', 'geo_in', 'any', 'tomb 1|eu@2/2 1|us|b@2/2 tomb 4|us@2/2');
SELECT fc.is('FC53', fc.apply('geo', 'geo_in'), '3 = 1 inserted + 1 deleted + 1 superseded');

\echo FC31, FC48: NULL keys, keys twice
CALL fc.anew();
CALL fc.stage('t_in', $$ ('u', 1, 'a', '1/1'), ('d', NULL, NULL, '1/2') $$);
SELECT fc.is('FC31 ' || t, fc.apply_error(t, 't_in') || ', ' || fc.state(t), '23502, empty') FROM unnest('{r,s}'::regclass[]) t;
CALL fc.stage('t_in', $$ ('d', 1, NULL, '1/3'), ('u', 1, 'b', '1/2'), ('d', 1, NULL, '1/3'), ('d', 2, NULL, '1/3'), ('d', 2, NULL, '1/3') $$);
SELECT fc.both('FC48', '5 = 2 deleted + 3 superseded, tomb 1@1/3 tomb 2@1/3');
SELECT fc.both('FC48 again', '5 = 2 duplicate + 3 superseded, tomb 1@1/3 tomb 2@1/3');

DROP SCHEMA fc CASCADE;
