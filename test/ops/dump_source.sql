/*
 * A database whose attachments a dump must carry: one target of every kind,
 * fed, purged and renamed.  Run by the owner of everything in it; the
 * extension is in schema "cdc".
 *
 * truth.target says how to read each target, truth.log holds every event that
 * was ever delivered to it: truth.wrong() recomputes the target from the log
 * in plain SQL.  Events in the log that the target's fence or floor kept out
 * are marked as such.
 */
CREATE SCHEMA app;
CREATE SCHEMA truth;
SET search_path = app, cdc;

CREATE TABLE truth.target (
	label text PRIMARY KEY,
	tab text NOT NULL,				-- as SQL names it
	staging text NOT NULL,
	key_column text NOT NULL,
	value_column text NOT NULL,
	pos_expr text NOT NULL,			-- over the target's columns
	dead_expr text NOT NULL,
	side text,						-- its side table
	staging_pos text NOT NULL DEFAULT 'source_position',
	args text NOT NULL DEFAULT '',	-- of cdc_apply, beside target
	replayable text NOT NULL DEFAULT 'true'	-- which events of the log
);
CREATE TABLE truth.log (
	label text, op text, id text, v text, pos cdc_position,
	kept_out boolean NOT NULL DEFAULT false
);

-- Deliver some events of the log, and say what became of them.
CREATE FUNCTION truth.deliver(which text, condition text DEFAULT 'true') RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, cdc AS $$
DECLARE
	t truth.target;
	r cdc_apply_result;
BEGIN
	SELECT * INTO STRICT t FROM truth.target WHERE label = which;
	EXECUTE format('TRUNCATE %s', t.staging);
	EXECUTE format('INSERT INTO %s (op, %I, %I, %s)
		SELECT op, id%s, v, %s FROM truth.log WHERE label = %L AND (%s) ORDER BY random()',
		t.staging, t.key_column, t.value_column, t.staging_pos,
		(SELECT '::' || format_type(atttypid, atttypmod) FROM pg_attribute
		 WHERE attrelid = t.staging::regclass AND attname = t.key_column),
		CASE t.staging_pos WHEN 'source_lsn, source_ordinal' THEN 'cdc_position_lsn(pos), cdc_position_part(pos, 2)' ELSE 'pos' END,
		which, condition);
	EXECUTE format('SELECT * FROM cdc_apply(%L%s)', t.tab, t.args) INTO r;
	EXECUTE format('TRUNCATE %s', t.staging);
	RETURN concat_ws(' ', 'i' || r.inserted, 'u' || r.updated, 'd' || r.deleted);
END $$;

-- New events: into the log, then delivered.
CREATE FUNCTION truth.feed(which text, events text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, cdc AS $$
BEGIN
	INSERT INTO truth.log
		SELECT which, split_part(e, ' ', 1), split_part(e, ' ', 2), nullif(split_part(e, ' ', 4), ''), split_part(e, ' ', 3)::cdc_position
		FROM regexp_split_to_table(events, '\s*,\s*') e;
	RETURN truth.deliver(which, format('pos = ANY (%L)',
		ARRAY(SELECT split_part(e, ' ', 3) FROM regexp_split_to_table(events, '\s*,\s*') e)));
END $$;

-- What is wrong with a target by its log; nothing where all is right.
CREATE FUNCTION truth.wrong(which text) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, cdc AS $$
DECLARE
	t truth.target;
	has_memory text;
BEGIN
	SELECT * INTO STRICT t FROM truth.target WHERE label = which;
	has_memory := format('SELECT %I::text AS id, %I::text AS v, %s AS pos, %s AS dead FROM %s',
		t.key_column, t.value_column, t.pos_expr, t.dead_expr, t.tab);
	IF t.side IS NOT NULL THEN
		has_memory := has_memory || format(' UNION ALL SELECT %I::text, NULL, source_position, true FROM %s', t.key_column, t.side);
	END IF;
	RETURN QUERY EXECUTE format($q$
		SELECT format('%%s: is %%s, must be %%s', %1$L, has, must)
		FROM (SELECT DISTINCT ON (id) id, CASE WHEN op <> 'd' THEN v END AS v, pos, op = 'd' AS dead
			  FROM truth.log WHERE label = %1$L AND NOT kept_out
			  ORDER BY id, pos DESC NULLS LAST) must
		FULL JOIN (%2$s) has USING (id)
		WHERE has.dead IS DISTINCT FROM must.dead OR has.pos IS DISTINCT FROM must.pos
		   OR NOT must.dead AND has.v IS DISTINCT FROM must.v$q$, which, has_memory);
END $$;

-- The registry, told by names.
CREATE FUNCTION truth.registry() RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	RETURN QUERY EXECUTE $q$
		SELECT * FROM (SELECT 'target ' || t::text FROM cdc.cdc_targets t
		UNION ALL SELECT 'rule ' || (to_jsonb(r) - 'key_attnums' - 'position_attnums' - 'tombstone_attnum')::text FROM cdc.cdc_target_rule r
		UNION ALL SELECT 'state ' || (to_jsonb(s) - 'fed_attnums')::text FROM cdc.cdc_target_state s) x (line)
		ORDER BY line COLLATE "C"$q$;
END $$;

-- Attribute numbers of the registry that are not those of the names.
CREATE FUNCTION truth.wrong_numbers() RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	RETURN QUERY EXECUTE $q$
		WITH pairs(target, name, number) AS (
			SELECT target, n, a FROM cdc.cdc_target_rule, unnest(key_columns, key_attnums) u(n, a)
			UNION ALL SELECT target, n, a FROM cdc.cdc_target_rule, unnest(position_columns, position_attnums) u(n, a)
			UNION ALL SELECT target, tombstone_column, tombstone_attnum FROM cdc.cdc_target_rule WHERE tombstone_column IS NOT NULL
			UNION ALL SELECT target, n, a FROM cdc.cdc_target_state, unnest(fed_columns, fed_attnums) u(n, a))
		SELECT format('%s.%s is %s', p.target, p.name, p.number)
		FROM pairs p LEFT JOIN pg_attribute a ON a.attrelid = p.target AND a.attname = p.name
		WHERE a.attnum IS DISTINCT FROM p.number$q$;
END $$;

/* ---------- targets ---------- */

-- side table; columns dropped before the key; guard; a position expression
CREATE TABLE plain (junk1 int, junk2 text, id int PRIMARY KEY, junk3 int, v text NOT NULL);
ALTER TABLE plain DROP junk1, DROP junk2, DROP junk3;
CREATE TABLE plain_stage (op text, id int, v text, source_lsn pg_lsn, source_ordinal int);
SELECT cdc_attach('plain', 'plain_stage', staging_position => 'cdc_position(source_lsn, source_ordinal)',
	op_map => '{"X": "delete"}', guard => 'error', on_tie => 'upsert');
INSERT INTO truth.target VALUES ('plain', 'app.plain', 'app.plain_stage', 'id', 'v', 'source_position', 'false',
	'app.plain_tombstones', 'source_lsn, source_ordinal');

-- in the row; guard that skips; a live view; columns dropped before the key
CREATE TABLE flag (junk1 int, id text PRIMARY KEY, junk2 int, v text);
ALTER TABLE flag DROP junk1, DROP junk2;
CREATE TABLE flag_stage (op text, id text, v text, source_position cdc_position);
SELECT cdc_attach('flag', 'flag_stage', tombstones => 'row', guard => 'skip', live_view => 'flag_live',
	on_same_position => 'keep', ignore_nulls => false);
INSERT INTO truth.target VALUES ('flag', 'app.flag', 'app.flag_stage', 'id', 'v', 'source_position', 'deleted', NULL);

-- in the row, by a time, position in two columns
CREATE TABLE stamp (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint, gone_at timestamptz);
CREATE TABLE stamp_stage (op text, id int, v text, source_lsn pg_lsn, source_ordinal bigint);
SELECT cdc_attach('stamp', 'stamp_stage', position_columns => '{source_lsn,source_ordinal}', tombstone_column => 'gone_at');
INSERT INTO truth.target VALUES ('stamp', 'app.stamp', 'app.stamp_stage', 'id', 'v', 'cdc_position(source_lsn, source_ordinal)',
	'gone_at IS NOT NULL', NULL, 'source_lsn, source_ordinal');

-- names full of tricks
CREATE SCHEMA "we ird, ""s""";
CREATE TABLE "we ird, ""s"""."x""y.z" ("gone\" int, "select" text, "a.b" int, "so urce""pos" cdc_position, PRIMARY KEY ("a.b"));
ALTER TABLE "we ird, ""s"""."x""y.z" DROP "gone\";
CREATE TABLE "we ird, ""s"""."st'age;--" (op text, "a.b" int, "select" text, "so urce""pos" cdc_position);
SELECT cdc_attach('"we ird, ""s"""."x""y.z"', '"we ird, ""s"""."st''age;--"', guard => 'error');
INSERT INTO truth.target VALUES ('odd', '"we ird, ""s"""."x""y.z"', '"we ird, ""s"""."st''age;--"', 'a.b', 'select', '"so urce""pos"', 'false',
	'"we ird, ""s"""."x""y.z_tombstones"', '"so urce""pos"');

-- 63 bytes, in letters of two bytes; its side table's name is cut
DO $$
DECLARE
	tab text := 'n' || repeat('ä', 31);
	side text;
BEGIN
	EXECUTE format('CREATE TABLE %I (%I int PRIMARY KEY, v text)', tab, repeat('k', 63));
	EXECUTE format('CREATE TABLE long_stage (op text, %I int, v text, source_position cdc_position)', repeat('k', 63));
	PERFORM cdc_attach(tab::regclass, 'long_stage');
	SELECT c.tombstones::text INTO side FROM cdc_targets c WHERE c.target = tab::regclass;
	INSERT INTO truth.target VALUES ('long', 'app.' || tab, 'app.long_stage', repeat('k', 63), 'v', 'source_position', 'false', 'app.' || side);
END $$;

-- a key of two columns with an order and an operator class of its own
CREATE TABLE wide (pad int, v text, id text COLLATE "C", source_position cdc_position, tenant int NOT NULL DEFAULT 7);
ALTER TABLE wide DROP pad;
CREATE UNIQUE INDEX wide_key ON wide (id text_pattern_ops DESC, tenant);
CREATE TABLE wide_stage (op text, id text, tenant int DEFAULT 7, v text, source_position cdc_position);
ALTER TABLE wide ALTER id SET NOT NULL;
SELECT cdc_attach('wide', 'wide_stage', key_columns => '{tenant,id}');
INSERT INTO truth.target VALUES ('wide', 'app.wide', 'app.wide_stage', 'id', 'v', 'source_position', 'false', 'app.wide_tombstones');

-- partitioned: partitions whose columns stand elsewhere, one attached by itself
CREATE TABLE parts (junk int, id int, region text NOT NULL DEFAULT 'x', v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
ALTER TABLE parts DROP junk;
CREATE TABLE parts_x PARTITION OF parts FOR VALUES IN ('x');
CREATE TABLE parts_y (region text NOT NULL, pad int, v text, id int NOT NULL);
ALTER TABLE parts_y DROP pad;
ALTER TABLE parts ATTACH PARTITION parts_y FOR VALUES IN ('y');
CREATE TABLE parts_stage (op text, id int, region text GENERATED ALWAYS AS (CASE WHEN id % 2 = 0 THEN 'y' ELSE 'x' END) STORED,
	v text, source_position cdc_position);
SELECT cdc_attach('parts', 'parts_stage', guard => 'error');
INSERT INTO truth.target VALUES ('parts', 'app.parts', 'app.parts_stage', 'id', 'v', 'source_position', 'false', 'app.parts_tombstones');

CREATE TABLE leaves (id int, region text NOT NULL DEFAULT 'x', v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE leaves_x PARTITION OF leaves FOR VALUES IN ('x');
CREATE TABLE leaves_y PARTITION OF leaves FOR VALUES IN ('y');
CREATE TABLE leaves_stage (op text, id int, region text DEFAULT 'x', v text, source_position cdc_position);
SELECT cdc_attach('leaves_x', 'leaves_stage', tombstones => 'row', guard => 'error');
INSERT INTO truth.target VALUES ('leaf', 'app.leaves_x', 'app.leaves_stage', 'id', 'v', 'source_position', 'deleted', NULL);

-- forgotten, but its state must stay: fence, floor, tombstones
CREATE TABLE shelved (id int PRIMARY KEY, v text);
CREATE TABLE shelved_stage (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('shelved', 'shelved_stage');
INSERT INTO truth.target VALUES ('shelved', 'app.shelved', 'app.shelved_stage', 'id', 'v', 'source_position', 'false', 'app.shelved_tombstones');
CREATE TABLE shelved_row (id int PRIMARY KEY, v text);
SELECT cdc_attach('shelved_row', 'shelved_stage', tombstones => 'row');
INSERT INTO truth.target VALUES ('shelved_row', 'app.shelved_row', 'app.shelved_stage', 'id', 'v', 'source_position', 'deleted', NULL,
	'source_position', ', ''app.shelved_stage''');

-- lineage and epoch
CREATE TABLE epochs (id int PRIMARY KEY, v text);
CREATE TABLE epochs_stage (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('epochs', 'epochs_stage', lineage => 'server "A"', consume => 'delete');
INSERT INTO truth.target VALUES ('epochs', 'app.epochs', 'app.epochs_stage', 'id', 'v', 'source_position', 'false', 'app.epochs_tombstones');

-- rows from before, complete up to a position
CREATE TABLE loaded (id int PRIMARY KEY, v text);
INSERT INTO loaded VALUES (90, 'before'), (91, 'before');
CREATE TABLE loaded_stage (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('loaded', 'loaded_stage', as_of => '0/80');
INSERT INTO truth.target VALUES ('loaded', 'app.loaded', 'app.loaded_stage', 'id', 'v', 'source_position', 'false', 'app.loaded_tombstones');
INSERT INTO truth.log (label, op, id, v, pos) VALUES ('loaded', 'r', '90', 'before', NULL), ('loaded', 'r', '91', 'before', NULL);

-- renamed after it was fed
CREATE TABLE was (id int PRIMARY KEY, v text);
CREATE TABLE was_stage (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('was', 'was_stage', guard => 'error');
INSERT INTO truth.target VALUES ('renamed', 'app.was', 'app.was_stage', 'id', 'v', 'source_position', 'false', 'app.was_tombstones');
CREATE TABLE was_row (id int PRIMARY KEY, v text);
SELECT cdc_attach('was_row', 'was_stage', tombstones => 'row');
INSERT INTO truth.target VALUES ('renamed_row', 'app.was_row', 'app.was_stage', 'id', 'v', 'source_position', 'deleted', NULL,
	'source_position', ', ''app.was_stage''');

/* ---------- fed ---------- */

-- 1 lives on, 2 is deleted, 3 is deleted below the fence to come, 4 is revived,
-- 5 is deleted unseen
SELECT truth.feed(label, 'c 1 0/100 one, c 2 0/100:1 two, c 3 0/100:2 three, c 4 0/100:3 four')
FROM truth.target ORDER BY label;
SELECT truth.feed(label, 'd 3 0/110, d 4 0/110:1, d 2 0/180, d 5 0/180:1, u 1 0/180:2 uno, c 4 0/180:3 quattro')
FROM truth.target ORDER BY label;

-- fences, and tombstones that went
SELECT label, cdc_purge_tombstones(tab::regclass, up_to => '0/150') FROM truth.target WHERE label IN ('plain', 'odd', 'parts', 'stamp', 'epochs', 'shelved', 'shelved_row') ORDER BY label;
SELECT cdc_set_floor('wide', '0/50'), cdc_set_fence('wide', '0/60');
DELETE FROM truth.log WHERE id = '3' AND op = 'd' AND label IN ('plain', 'odd', 'parts', 'stamp', 'epochs', 'shelved', 'shelved_row');
UPDATE truth.log SET kept_out = true WHERE id = '3' AND label IN ('plain', 'odd', 'parts', 'stamp', 'epochs', 'shelved', 'shelved_row');
-- late and older than the fence or the floor, of keys never seen
INSERT INTO truth.log SELECT label, 'c', '6', 'late', '0/120', true FROM truth.target
WHERE label IN ('plain', 'odd', 'parts', 'stamp', 'epochs', 'shelved', 'shelved_row');
INSERT INTO truth.log VALUES ('wide', 'c', '6', 'late', '0/55', true), ('wide', 'c', '6', 'late', '0/45', true),
	('loaded', 'u', '90', 'late', '0/70', true), ('loaded', 'd', '91', NULL, '0/80', true);

-- a new log: what came before is of epoch 0
UPDATE truth.target SET replayable = 'cdc_position_epoch(pos) = 1' WHERE label = 'epochs';
SELECT cdc_new_epoch('epochs', lineage => 'server "B"');
INSERT INTO epochs_stage VALUES ('u', 1, 'une', '0/20'), ('d', 4, NULL, '0/30');
SELECT events, updated, deleted FROM cdc_apply('epochs');
INSERT INTO truth.log VALUES ('epochs', 'u', '1', 'une', '1@0/20'), ('epochs', 'd', '4', NULL, '1@0/30');

SELECT cdc_detach('shelved');
SELECT cdc_detach('shelved_row');

-- renames of columns, tables and schemas
ALTER TABLE was RENAME id TO "the ""key""";
ALTER TABLE was RENAME v TO "va.lue";
ALTER TABLE was RENAME source_position TO "po s";
ALTER TABLE was RENAME TO "is ""now""";
ALTER TABLE was_row RENAME id TO "the ""key""";
ALTER TABLE was_row RENAME v TO "va.lue";
ALTER TABLE was_row RENAME source_position TO "po s";
ALTER TABLE was_row RENAME deleted TO "is gone";
ALTER TABLE was_row RENAME TO "row";
CREATE SCHEMA moved;
ALTER TABLE "row" SET SCHEMA moved;
ALTER SCHEMA moved RENAME TO "moved away";
ALTER TABLE was_stage RENAME id TO "the ""key""";
ALTER TABLE was_stage RENAME v TO "va.lue";
ALTER TABLE was_stage RENAME source_position TO "po s";
UPDATE truth.target SET tab = 'app."is ""now"""', key_column = 'the "key"', value_column = 'va.lue', pos_expr = '"po s"',
	staging_pos = '"po s"'
WHERE label = 'renamed';
UPDATE truth.target SET tab = '"moved away"."row"', key_column = 'the "key"', value_column = 'va.lue', pos_expr = '"po s"',
	dead_expr = '"is gone"', staging_pos = '"po s"'
WHERE label = 'renamed_row';

-- dropped: alone, with its schema
CREATE TABLE gone (id int PRIMARY KEY, v text);
SELECT cdc_attach('gone', 'shelved_stage');
DROP TABLE gone;
CREATE SCHEMA gone;
CREATE TABLE gone.gone (id int PRIMARY KEY, v text);
SELECT cdc_attach('gone.gone', 'shelved_stage', tombstones => 'row', guard => 'error');
DROP SCHEMA gone CASCADE;

-- only added to: a plain table, partitions of two depths, children
CREATE TABLE score (id int, version text, v text, PRIMARY KEY (id, version));
CREATE TABLE score_parts (id int, version text, v text, PRIMARY KEY (id, version)) PARTITION BY LIST (version);
CREATE TABLE score_parts_1 PARTITION OF score_parts FOR VALUES IN ('1') PARTITION BY HASH (id);
CREATE TABLE score_parts_1_0 PARTITION OF score_parts_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE score_parent (id int, version text, v text);
CREATE TABLE score_child () INHERITS (score_parent);
SELECT cdc_make_append_only(t) FROM unnest('{score,score_parts,score_parent}'::regclass[]) t;
INSERT INTO score VALUES (1, '1', 'a'), (2, '1', 'b');
INSERT INTO score_parts VALUES (1, '1', 'a'), (2, '1', 'b');
INSERT INTO score_child VALUES (1, '1', 'a');
