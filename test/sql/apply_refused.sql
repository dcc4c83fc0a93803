-- Targets and expressions that would take events and lose what they say.
CREATE SCHEMA apply_refused;
SET search_path = apply_refused, public;
CREATE FUNCTION refused(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  context text;
BEGIN
  EXECUTE command;
  RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
  RETURN sqlstate || ': ' || sqlerrm || coalesce(substring(context from E'\ncdc_apply from [^\n]*'), '');
END $$;
CREATE TABLE s (op text, id text, v text, source_position cdc_position);
INSERT INTO s VALUES ('c', '1', 'a', '1/1'), ('d', '1', NULL, '1/2');

-- generated columns hold nothing that an event says
CREATE TABLE g1 (id int PRIMARY KEY, v text, source_position cdc_position, x int, deleted boolean GENERATED ALWAYS AS (x > 0) STORED);
CREATE TABLE g2 (id int PRIMARY KEY, v text, source_position cdc_position GENERATED ALWAYS AS ('1/1'::cdc_position) STORED, deleted boolean);
CREATE TABLE g3 (v text, id int GENERATED ALWAYS AS (length(v)) STORED PRIMARY KEY, source_position cdc_position, deleted boolean);
SELECT refused(format('SELECT cdc_apply(%L, ''s'')', t)) FROM unnest('{g1,g2,g3}'::text[]) AS t;
-- a position in the key makes every change a row of its own
CREATE TABLE k (id int, v text, source_position cdc_position, deleted boolean, PRIMARY KEY (id, source_position));
SELECT refused('SELECT cdc_apply(''k'', ''s'')');
-- one event of one row
CREATE TABLE t (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
SELECT refused('SELECT cdc_apply(''t'', ''s'', staging_position => ''cdc_position_from_numbers(generate_series(1, 3))'')');
-- a key that does not convert is named as it stands in staging
INSERT INTO s VALUES ('u', '1x', 'b', '1/3');
SELECT refused('SELECT cdc_apply(''t'', ''s'')');
SELECT (SELECT count(*) FROM g1) + (SELECT count(*) FROM g2) + (SELECT count(*) FROM g3) +
  (SELECT count(*) FROM k) + (SELECT count(*) FROM t) AS written;
SET client_min_messages = warning;
DROP SCHEMA apply_refused CASCADE;
