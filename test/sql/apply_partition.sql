-- Partitions whose columns stand in another order, with triggers of every kind
-- on the parent, several rows of each partition in one call.
CREATE SCHEMA apply_partition;
SET search_path = apply_partition, public;
CREATE TABLE p (id int, r text, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position,
  PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE p_a (source_position cdc_position, r text NOT NULL, junk int, v text, id int NOT NULL,
  deleted boolean NOT NULL DEFAULT false);
ALTER TABLE p_a DROP COLUMN junk;
ALTER TABLE p ATTACH PARTITION p_a FOR VALUES IN ('a');
CREATE TABLE p_b PARTITION OF p FOR VALUES IN ('b') PARTITION BY RANGE (id);
CREATE TABLE p_b1 PARTITION OF p_b FOR VALUES FROM (0) TO (1000);
ALTER TABLE p ADD g int GENERATED ALWAYS AS (id + 1) STORED;
CREATE TABLE s (op text, id int, r text, v text, source_position cdc_position);

-- what the transition tables and the row triggers saw
CREATE TABLE seen (what text, rows bigint, sum bigint);
CREATE FUNCTION statement_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen SELECT tg_op || ' new', count(*), sum(g - id) FROM nt; RETURN NULL; END $$;
CREATE FUNCTION statement_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen SELECT tg_op || ' old', count(*), sum(g - id) FROM ot; RETURN NULL; END $$;
CREATE FUNCTION row_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN new.v := upper(new.v); RETURN new; END $$;
CREATE FUNCTION row_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen VALUES (tg_op || ' row', 1, new.g - new.id); RETURN NULL; END $$;
CREATE TRIGGER t1 AFTER INSERT ON p REFERENCING NEW TABLE AS nt FOR EACH STATEMENT EXECUTE FUNCTION statement_new();
CREATE TRIGGER t2 AFTER UPDATE ON p REFERENCING NEW TABLE AS nt FOR EACH STATEMENT EXECUTE FUNCTION statement_new();
CREATE TRIGGER t3 AFTER UPDATE ON p REFERENCING OLD TABLE AS ot FOR EACH STATEMENT EXECUTE FUNCTION statement_old();
CREATE TRIGGER t4 BEFORE INSERT OR UPDATE ON p FOR EACH ROW EXECUTE FUNCTION row_before();
CREATE TRIGGER t5 AFTER INSERT OR UPDATE OF v ON p FOR EACH ROW WHEN (new.v IS NOT NULL) EXECUTE FUNCTION row_after();

INSERT INTO s SELECT 'c', n, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, 'v' || n, cdc_position('0/1', n)
FROM generate_series(1, 100) n;
SELECT events, inserted, updated, deleted, stale, duplicate FROM cdc_apply('p', 's');
UPDATE s SET op = CASE WHEN id % 10 = 0 THEN 'd' ELSE 'u' END, v = 'w' || id, source_position = cdc_position('0/2', id);
INSERT INTO s SELECT 'c', n, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, 'v' || n, cdc_position('0/2', n)
FROM generate_series(101, 120) n;
SELECT events, inserted, updated, deleted, stale, duplicate FROM cdc_apply('p', 's');
SELECT events, inserted, updated, deleted, stale, duplicate FROM cdc_apply('p', 's');
SELECT what, sum(rows) AS rows, sum(sum) AS sum FROM seen GROUP BY what ORDER BY what;
-- the target is what the last event of each key says
SELECT count(*) AS differ FROM (
  (SELECT id, r, upper(v) AS v, source_position, id + 1 AS g FROM s WHERE op <> 'd'
   EXCEPT SELECT id, r, v, source_position, g FROM p WHERE NOT deleted)
  UNION ALL
  (SELECT id, r, v, source_position, g FROM p WHERE NOT deleted
   EXCEPT SELECT id, r, upper(v), source_position, id + 1 FROM s WHERE op <> 'd')) AS d;
SELECT count(*) AS dead, bool_and(id % 10 = 0) AS right FROM p WHERE deleted;

-- a partition that is published for updates without a replica identity is
-- refused as by UPDATE, and nothing is written
CREATE TABLE q (id int, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position) PARTITION BY RANGE (id);
CREATE TABLE q_1 PARTITION OF q FOR VALUES FROM (0) TO (100);
CREATE UNIQUE INDEX ON q (id);
CREATE TABLE qs (op text, id int, v text, source_position cdc_position);
INSERT INTO qs VALUES ('c', 1, 'a', '0/1');
SELECT inserted FROM cdc_apply('q', 'qs', key_columns => '{id}');
SET client_min_messages = error;
CREATE PUBLICATION apply_partition_pub FOR TABLE q_1;
RESET client_min_messages;
UPDATE qs SET v = 'b', source_position = '0/2';
CREATE FUNCTION state_of(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN EXECUTE command; RETURN 'no error'; EXCEPTION WHEN OTHERS THEN RETURN sqlstate; END $$;
SELECT state_of('UPDATE q SET v = ''b''') AS by_update,
  state_of('SELECT cdc_apply(''q'', ''qs'', key_columns => ''{id}'')') AS by_apply;
SELECT id, v, source_position FROM q;
DROP PUBLICATION apply_partition_pub;

-- a rule that keeps rows from being deleted keeps them from being consumed
CREATE TABLE t (id int PRIMARY KEY, deleted boolean, source_position cdc_position);
CREATE TABLE kept (op text, id int, source_position cdc_position, gone boolean DEFAULT false);
CREATE RULE keep AS ON DELETE TO kept DO INSTEAD UPDATE kept SET gone = true WHERE id = old.id RETURNING old.*;
INSERT INTO kept VALUES ('c', 1, '1');
SELECT state_of('SELECT cdc_apply(''t'', ''kept'', consume => ''delete'', except_columns => ''{gone}'')');
SELECT * FROM kept;

-- trigger functions that the server wraps: their state outlives the row
CREATE FUNCTION wrapped() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET work_mem = '1MB' AS $$
BEGIN RETURN new; END $$;
CREATE TABLE w (id int PRIMARY KEY, v text, deleted boolean, source_position cdc_position);
CREATE TABLE ws (op text, id int, v text, source_position cdc_position);
CREATE TRIGGER wrapped_before BEFORE INSERT OR UPDATE ON w FOR EACH ROW EXECUTE FUNCTION wrapped();
CREATE TRIGGER wrapped_after AFTER INSERT OR UPDATE ON w FOR EACH ROW EXECUTE FUNCTION wrapped();
INSERT INTO ws SELECT 'c', n, 'x', cdc_position('0/1', n) FROM generate_series(1, 5000) n;
SELECT inserted FROM cdc_apply('w', 'ws');
UPDATE ws SET v = 'y', source_position = cdc_position('0/2', id);
SELECT updated FROM cdc_apply('w', 'ws');
SELECT count(*) AS differ FROM (SELECT id, v, source_position FROM ws EXCEPT SELECT id, v, source_position FROM w) AS d;
SET client_min_messages = warning;
DROP SCHEMA apply_partition CASCADE;
