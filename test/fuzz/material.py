"""What random worlds are made of: types and values, ops, absurd arguments, triggers."""
import json

MARK = '__debezium_unavailable_value'
# type: values that fit, of which keys and columns are made
TYPES = {
    'integer': ['1', '2', '-7', '0', '2147483647'],
    'bigint': ['1', '2', '3', '-9223372036854775808'],
    'smallint': ['1', '2', '32767'],
    'text': ['a', 'B', 'zürich', '', "q'uote", 'x' * 300, '\\x'],
    'varchar(6)': ['a', 'Abc', 'abcdef'],
    'char(4)': ['a', 'ab', 'a b'],
    'name': ['a', 'B', 'n' * 63],
    'numeric': ['1', '1.0', '1.00', '-0', 'NaN', '1e20', 'Infinity'],
    'numeric(5,2)': ['1', '1.00', '2.5', '999.99'],
    'float8': ['0', '-0', 'NaN', '1.5', '-Infinity'],
    'boolean': ['true', 'false'],
    'uuid': ['00000000-0000-0000-0000-00000000000%d' % i for i in range(4)],
    'date': ['2026-01-01', 'infinity', '0044-03-15 BC'],
    'timestamptz': ['2026-01-01 00:00:00+00', '2026-01-01 01:00:00+01', '-infinity'],
    'interval': ['1 day', '24 hours', '1 mon'],
    'bytea': ['\\x', '\\x00ff', '\\x' + 'ab' * 200],
    'inet': ['10.0.0.1', '10.0.0.0/8', '::1'],
    'macaddr': ['08:00:2b:01:02:03'],
    'bit(3)': ['101', '000'],
    'bit varying': ['1', '10', ''],
    '"char"': ['a', 'b', ''],
    'money': ['1', '2.50'],
    'oid': ['1', '4294967295'],
    'pg_lsn': ['0/0', '0/1', '1/ABC'],
    'integer[]': ['{1,2}', '{}', '{NULL}', '{{1,2},{3,4}}'],
    'text[]': ['{a,b}', '{}', '{NULL,""}'],
    'int4range': ['[1,3)', 'empty', '(,)'],
    'jsonb': ['{}', '{"a": 1}', '[1, null]', 'null', '"x"'],
    'json': ['{}', '{"a":  1}', 'null'],
    'xml': ['<a/>'],
    'point': ['(1,2)', '(0,0)'],
    'tsvector': ['a b', ''],
    'cdc_position': ['0/1', '0/0', '5:3', '2@1/2:3'],
    'citext': ['a', 'A', 'b'],
    'text COLLATE nocase': ['a', 'A', 'b', 'ä', 'Ä'],
    'mood': ['sad', 'ok'],
    'posint': ['1', '5', '9'],
    'short': ['a', 'abc', 'abcde'],
    'pair': ['(1,a)', '(2,)', '(,)'],
    'void_domain': ['1'],
}
KEY_TYPES = [t for t in TYPES if t not in ('json', 'xml', 'point', 'jsonb', 'tsvector', 'void_domain')] + ['jsonb']
COMMON = ['integer', 'bigint', 'text', 'numeric', 'uuid', 'text[]', 'jsonb', 'bytea', 'boolean', 'timestamptz']
NAMES = ['a', 'b', 'note', 'body', 'Wide Name', 'select', 'd"q', "s'q", 'zürich', 'op2', 'x' * 63, 'deleted_by',
         'value', 'key', 'position', 'ctid_', 'p\\b', '$1', 'null']
OPS = {'text': ['c', 'i', 'insert', 'u', 'U', 'update', 'upsert', '+I', '+U', 'UPDATE_AFTER', 'd', 'D', 'delete', '-D',
                'r', 'read', None, '-U', 'update_before', ' u ', 'm'],
       '"char"': ['c', 'i', 'u', 'd', 'r', None, 'U'],
       'integer': ['1', '2', '3', '4', None],
       'op_enum': ['c', 'u', 'd', 'r', None]}
OPS['varchar(9)'] = OPS['text'][:5]
ODD_OPS = ['x', '', ' ', 'TRUNCATE', 't', '9', 'B', 'C', 'ü', "'", 'null', 'c\n', 'D\t', 'commit']
EVIL_TEXT = ['', ' ', 'nope', "'", '"', '\\', 'x' * 1000, '--', '/*', 'ü', '\x01', '%s', '%n', '$1', 'NULL', 'a,b', '0/0',
             'true', 'CURRENT_USER', 'Error', 'ERROR', 'none ', 'Event']
EVIL_EXPRESSIONS = [
    '', ' ', 'NULL', 'true', 'false', '1', "'x'", "'0/1'", "'0/1'::cdc_position", "'5'::cdc_position", 'source_position',
    'nope', '*', 'staging.*', 'staging', 's.source_position', 'ctid', 'xmin', 'tableoid', 'oid', 'op', '(SELECT 1)',
    "(SELECT max(source_position) FROM staging)", 'max(source_position)', 'count(*) > 0', 'row_number() OVER ()',
    'generate_series(1, 3)', 'unnest(ARRAY[source_position])', 'random() < 0.5', 'pg_sleep(0) IS NULL', '1/0 = 1',
    "'x'::integer = 1", 'true) OR (true', 'true; DROP TABLE staging', 'true -- ', 'true /*', '((((true', "E'\\'",
    "'unterminated", '"unterminated', '$1', '$1 = 1', '$$x$$ = $$x$$', ':a', '?', 'true AND', 'a b c', 'true FROM staging',
    'true, false', 'DEFAULT', 'ROW(1,2) = ROW(1,2)', 'ROW()', 'ROW(staging.*) IS NULL', 'staging IS NOT NULL', 'CURRENT_DATE',
    "EXISTS (SELECT 1)", 'op IN (SELECT 1::text)', 'GROUPING(op) = 1', "op COLLATE \"C\" = 'c'", "op COLLATE nope = 'c'",
    "op LIKE '%'", "op ~ '('", "op = ANY ('{c,d}')", "CASE WHEN op = 'c' THEN true END", 'NOT true', 'true IS UNKNOWN',
    'coalesce(true)', 'GREATEST(true, false)', 'current_setting(\'nope\') = 1', 'set_config(\'work_mem\', \'64kB\', true) IS NULL',
    'fuzz_raise() IS NULL', 'fuzz_apply() IS NULL', 'fuzz_write() IS NULL', 'cdc_position(source_lsn, source_ordinal)',
    'cdc_position(source_lsn, source_ordinal, 1, 1)', 'cdc_position_from_numbers(source_ordinal)', "source_lsn::text",
    'source_lsn', 'source_ordinal', 'source_ordinal::numeric', 'now()', "'0/1'::pg_lsn", '1::bigint', '1.5', '-1',
    "'{}'::jsonb", "cdc_position_from_debezium('{}')", 'cdc_position_with_epoch(source_position, 3)',
    'latest_by_position(op, source_position)', 'cdc_supersedes(source_position, NULL)', 'repeat(op, 10000) IS NULL',
    '(' * 500 + 'true' + ')' * 500, '(' * 9000 + 'true' + ')' * 9000, 'NOT ' * 8000 + 'true', 'true AND ' * 8000 + 'true',
    'ARRAY[op] @> ARRAY[NULL]', 'op::mood IS NULL', 'op::nope', '(staging).op IS NULL', 'XMLPARSE(CONTENT op) IS NULL',
    'MERGE', 'INSERT INTO staging DEFAULT VALUES RETURNING true', 'VALUES (true)', 'TABLE staging', 'a => 1', 'f(a => 1)',
    'op IS DOCUMENT', "JSON '{}' IS NULL", 'true::boolean::text::boolean', 'VARIADIC ARRAY[1]', 'ALL', 'DISTINCT op',
    'lo_creat(-1) > 0', 'txid_current() > 0', 'pg_backend_pid() > 0', 'nextval(\'fuzz_seq\') > 0',
]
EVIL_JSON = ['null', '[]', '1', '"x"', '{}', '{"x": "delete"}', '{"X": "nope"}', '{"x": null}', '{"x": 1}', '{"x": {}}',
             '{"x": ["delete"]}', '{"": "upsert"}', '{" c ": "delete"}', '{"c": "DELETE"}', '{"c": "ignore", "C": "delete"}',
             '{"9": "truncate"}', '{"t": "ignore"}', '{"u": "retraction"}', '{"x": true}', '[{"x": "delete"}]',
             '{"ü": "delete"}', '{"%s": "snapshot"}', '{"' + 'k' * 2000 + '": "upsert"}',
             json.dumps({'k%d' % i: 'upsert' for i in range(500)}), '{"a": "upsert", "a": "delete"}', '{"null": "delete"}']
ENUMS = {'null_op': ['auto', 'read', 'ignore', 'error'], 'on_unavailable': ['error', 'null'],
         'snapshot_position': ['none', 'event'], 'on_tie': ['error', 'upsert'],
         'on_same_position': ['warn', 'keep', 'rewrite', 'error'],
         'on_schema_change': ['warn', 'ignore', 'fail', 'append_new_columns'], 'consume': ['keep', 'delete', 'truncate']}

HELPERS = '''
DO $$BEGIN CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN feature_not_supported THEN CREATE COLLATION nocase FROM "C"; END$$;
CREATE TYPE mood AS ENUM ('ok', 'sad'); CREATE TYPE op_enum AS ENUM ('c', 'u', 'd', 'r', 'weird');
CREATE DOMAIN posint AS integer CHECK (VALUE > 0); CREATE DOMAIN short AS varchar(5);
CREATE DOMAIN void_domain AS integer NOT NULL; CREATE TYPE pair AS (n integer, t text);
CREATE DOMAIN dpos AS cdc_position; CREATE DOMAIN dlsn AS pg_lsn; CREATE DOMAIN dnum AS numeric CHECK (VALUE >= 0);
CREATE SEQUENCE fuzz_seq; CREATE TABLE audit (what text);
CREATE FUNCTION fuzz_raise() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE division_by_zero; END$$;
CREATE FUNCTION fuzz_apply() RETURNS boolean LANGUAGE plpgsql AS
  $$BEGIN PERFORM cdc_apply('target', 'staging'); RETURN true; END$$;
CREATE FUNCTION fuzz_write() RETURNS boolean LANGUAGE plpgsql AS
  $$BEGIN DELETE FROM target; INSERT INTO audit VALUES ('w'); RETURN true; END$$;
CREATE FUNCTION tg_skip() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF hashtext(coalesce(NEW, OLD)::text) % 3 = 0 THEN RETURN NULL; END IF; RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_same() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_null() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  INSERT INTO audit VALUES (TG_OP || TG_WHEN || coalesce(NEW, OLD)::text); RETURN NULL; END$$;
CREATE FUNCTION tg_old() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN coalesce(OLD, NEW); END$$;
CREATE FUNCTION tg_raise() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF hashtext(coalesce(NEW, OLD)::text) % 2 = 0 THEN RAISE check_violation; END IF; RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_delete() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF pg_trigger_depth() < 3 THEN DELETE FROM target; END IF; RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_apply() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF pg_trigger_depth() < 3 THEN PERFORM cdc_apply('target', 'staging'); END IF; RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_caught() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  BEGIN PERFORM cdc_apply('target', 'staging', op_map => '{"c": "nope"}'); EXCEPTION WHEN OTHERS THEN NULL; END;
  RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_detach() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  PERFORM cdc_detach('target'); RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_purge() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  PERFORM cdc_purge_tombstones('target', older_than => '-1 day', force => true); RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_fence() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  PERFORM cdc_set_fence('target', '0/FF'), cdc_set_floor('target', '0/5'); RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_attach() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  PERFORM cdc_attach('target', guard => 'error', on_tie => 'upsert'); RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_ddl() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  CASE hashtext(NEW::text) % 5 WHEN 0 THEN TRUNCATE target; WHEN 1 THEN DROP TABLE IF EXISTS staging;
  WHEN 2 THEN DROP TABLE IF EXISTS target_tombstones; WHEN 3 THEN ALTER TABLE target ADD COLUMN dd integer;
  ELSE ANALYZE target; END CASE; RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_move() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  IF pg_trigger_depth() < 2 THEN UPDATE target SET source_position = '0/FFFF'; DELETE FROM target_tombstones; END IF;
  RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION tg_transition() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  INSERT INTO audit SELECT TG_OP || n::text FROM fresh n ORDER BY 1; RETURN NULL; END$$;
'''
TRIGGERS = ['tg_skip', 'tg_same', 'tg_null', 'tg_old', 'tg_raise', 'tg_delete', 'tg_apply', 'tg_caught', 'tg_detach',
            'tg_purge', 'tg_fence', 'tg_attach', 'tg_ddl', 'tg_move']
