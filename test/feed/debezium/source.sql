-- The source of the Debezium feed.
--   account    two key columns, written by clients, truncated once
--   doc        four kinds of large values that most updates leave alone, the
--              default replica identity: events carry a placeholder for them
--   doc_full   the same, REPLICA IDENTITY FULL: the connector knows the values
--   moved      one row whose key changes while its large value does not
--   kind       a column per type, the default replica identity
--   kind_full  the same, REPLICA IDENTITY FULL
--   dated      a key of a date, a uuid and a timestamp
--   odd        types that Debezium writes in a shape of its own
--   edge       values beyond what some shapes can hold; not captured with
--              decimal.handling.mode=precise, which ends at a NaN
CREATE SCHEMA shop;

CREATE TABLE shop.account (
  branch     text NOT NULL,
  no         integer NOT NULL,
  owner      text,
  balance    numeric(14,2) NOT NULL DEFAULT 0,
  tags       text[],
  changed_at timestamptz,
  note       text DEFAULT 'none',   -- set to NULL here and there: not the default
  PRIMARY KEY (branch, no)
);

CREATE TABLE shop.doc (
  id    bigint PRIMARY KEY,
  title text NOT NULL DEFAULT '',
  body  text,
  raw   bytea,
  attrs jsonb,
  parts text[],
  pages integer
);
ALTER TABLE shop.doc ALTER body SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL,
  ALTER attrs SET STORAGE EXTERNAL, ALTER parts SET STORAGE EXTERNAL;
CREATE TABLE shop.doc_full (LIKE shop.doc INCLUDING ALL);
ALTER TABLE shop.doc_full REPLICA IDENTITY FULL;

CREATE TABLE shop.moved (id integer PRIMARY KEY, body text, n integer);
ALTER TABLE shop.moved ALTER body SET STORAGE EXTERNAL;

CREATE TYPE shop.mood AS ENUM ('sad', 'ok', 'it''s "fine", really');

CREATE TABLE shop.kind (
  id   integer PRIMARY KEY,
  b    boolean,
  i2   smallint,
  i4   integer,
  i8   bigint,
  f4   real,
  f8   double precision,
  n    numeric(20,4),
  n0   numeric(38,0),
  nn   numeric,
  t    text,
  vc   varchar(40),
  c    char(6),
  raw  bytea,
  d    date,
  ti   time,
  ti3  time(3),
  ts   timestamp,
  ts3  timestamp(3),
  tz   timestamptz,
  u    uuid,
  j    json,
  jb   jsonb,
  e    shop.mood,
  ia   integer[],
  ta   text[],
  na   numeric(12,3)[],
  da   date[],
  tza  timestamptz[],
  ua   uuid[],
  ba   boolean[],
  fa   double precision[]
);
CREATE TABLE shop.kind_full (LIKE shop.kind INCLUDING ALL);
ALTER TABLE shop.kind_full REPLICA IDENTITY FULL;

CREATE TABLE shop.dated (
  day    date,
  u      uuid,
  ts     timestamp,
  amount numeric(10,2),
  PRIMARY KEY (day, u, ts)
);

CREATE TABLE shop.odd (
  id   integer PRIMARY KEY,
  mo   money,
  iv   interval,
  ttz  timetz,
  ip   inet,
  net  cidr,
  mac  macaddr,
  b1   bit(1),
  b10  bit(10),
  vb   varbit(20),
  p    point,
  r    int4range,
  tr   tstzrange,
  x    xml,
  o    oid
);

CREATE TABLE shop.edge (
  id   integer PRIMARY KEY,
  n    numeric,
  n4   numeric(20,4),
  d    date,
  ts   timestamp,
  tz   timestamptz
);

-- About 1.6 kB, 2 kB of it when it is text: stored out of line.
CREATE FUNCTION shop.body(seed integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT string_agg(md5((seed * 100 + i)::text), '') FROM generate_series(1, 70) i
$$;

CREATE PROCEDURE shop.fill_doc(tab text, first integer, last integer) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO shop.%I
    SELECT n, ''title '' || n, shop.body(n), decode(repeat(shop.body(n), 2), ''hex''),
           jsonb_build_object(''n'', n, ''body'', shop.body(n)), ARRAY[shop.body(n), NULL, ''it''], n %% 7
    FROM generate_series($1, $2) n', tab) USING first, last;
END $$;

-- Rows of every type; each seed gives other values, every seventh NULLs.
CREATE PROCEDURE shop.fill_kind(tab text, first integer, last integer, seed integer) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format($q$
    INSERT INTO shop.%1$I
    SELECT n, s %% 2 = 0, (s * 37 %% 65536 - 32768)::smallint, s * 7919 - 1000000, 9007199254740993 + s,
           s / 7.0::real, CASE s %% 11 WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' ELSE s / 3.0::double precision END, (s * 1234567.8917)::numeric(20,4) - 500000,
           (s::numeric * 10 ^ 30)::numeric(38,0), (s - 50)::numeric / 10 ^ (s %% 9), E'tab\t quote" back\\slash \'ø\' ' || s,
           'vc ' || s, 'c' || s %% 10, decode(md5(s::text), 'hex'), date '1970-01-01' + (s * 97 %% 40000 - 20000),
           time '00:00' + s * interval '12.345678 s', time '00:00' + s * interval '1.001 s',
           timestamp '1965-05-05 05:05:05.123456' + s * interval '41.000001 h', timestamp '2001-02-03 04:05:06.789' + s * interval '1 day',
           timestamptz '1999-12-31 23:59:59.999999+00' + s * interval '7.5 h', md5('u' || s)::uuid,
           json_build_object('s', s, 'x', NULL), jsonb_build_object('s', s, 'deep', jsonb_build_array(1.50, 'a', NULL, true)),
           (enum_range(NULL::shop.mood))[s %% 3 + 1], ARRAY[s, NULL, -s], ARRAY['a,b', NULL, '', 'q"' || s, 'NULL'],
           ARRAY[s / 8.0, NULL, -1], ARRAY[date '2000-02-29' + s, NULL], ARRAY[timestamptz '2020-01-01 00:00:00.000001+00' + s * interval '1 h'],
           ARRAY[md5(s::text)::uuid], ARRAY[true, NULL, false], ARRAY[s / 4.0, 'Infinity', 'NaN']::float8[]
    FROM generate_series($1, $2) n, LATERAL (SELECT n + $3 AS s) x
    WHERE s %% 7 <> 0 ON CONFLICT DO NOTHING$q$, tab) USING first, last, seed;
  EXECUTE format('INSERT INTO shop.%I (id) SELECT n FROM generate_series($1, $2) n WHERE (n + $3) %% 7 = 0 ON CONFLICT DO NOTHING', tab)
    USING first, last, seed;
END $$;

-- Values of the odd types, and values at the edges.
CREATE PROCEDURE shop.fill_odd(first integer, last integer, seed integer) LANGUAGE sql AS $$
  INSERT INTO shop.odd
  SELECT n, (s * 1.37)::numeric::money, make_interval(s % 5, s % 11, 0, s % 40, s % 24, s % 60, s / 7.0::float8),
         (time '00:00' + s * interval '61.5 s' || '+02')::timetz, ('10.0.' || s % 256 || '.1/24')::inet,
         ('10.' || s % 256 || '.0.0/16')::cidr, ('08:00:2b:01:02:' || lpad(to_hex(s % 256), 2, '0'))::macaddr,
         (s % 2)::bit(1), (s % 1024)::bit(10), substring((s % 1024)::bit(10)::varbit FROM 1 + s % 5),
         point(s / 2.0, -s), int4range(s, CASE WHEN s % 3 > 0 THEN s + 10 END), tstzrange('2020-01-01 UTC', '2020-01-02 UTC'),
         ('<a n="' || s || '">ø</a>')::xml, s
  FROM generate_series(first, last) n, LATERAL (SELECT n + seed AS s) x WHERE s % 7 <> 0
  ON CONFLICT DO NOTHING;
  INSERT INTO shop.odd (id) SELECT n FROM generate_series(first, last) n WHERE (n + seed) % 7 = 0
  ON CONFLICT DO NOTHING;
$$;

CREATE PROCEDURE shop.fill_edge() LANGUAGE sql AS $$
  INSERT INTO shop.edge VALUES
    (1, 'NaN', 'NaN', '2000-01-01', '2000-01-01', '2000-01-01'),
    (2, 'Infinity', 0, 'infinity', 'infinity', 'infinity'),
    (3, '-Infinity', 0, '-infinity', '-infinity', '-infinity'),
    (4, 123456789012345678901234567890.123456789, 1234567890123456.7891, '0044-03-15 BC', '0044-03-15 12:00 BC', '0044-03-15 12:00 BC'),
    (5, 1e-30, 0.0001, '12345-06-07', '12345-06-07 08:09:10.111213', '12345-06-07 08:09:10.111213'),
    (6, 1e40, -0.5, '0001-01-01', '0001-01-01', '0001-01-01'),
    (7, 1.10, 1, '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999')
  ON CONFLICT DO NOTHING;
$$;

-- Changes of a key. The new key may be taken, also by a transaction that has
-- not ended: the subtransaction is rolled back then and leaves no event.
CREATE FUNCTION shop.move_account(b text, a integer, new_b text, new_a integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE shop.account SET branch = new_b, no = new_a WHERE branch = b AND no = a;
EXCEPTION WHEN unique_violation THEN
  NULL;
END $$;

-- A "doc" that moves writes its large values anew: the connector's create of
-- the new key would lack them, as "moved" shows.
CREATE FUNCTION shop.move_doc(tab text, a bigint, new_a bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF tab = 'doc' THEN
    UPDATE shop.doc SET id = new_a, body = 'moved', raw = '\x', attrs = NULL, parts = NULL WHERE id = a;
  ELSE
    UPDATE shop.doc_full SET id = new_a WHERE id = a;
  END IF;
EXCEPTION WHEN unique_violation THEN
  NULL;
END $$;

CREATE FUNCTION shop.branch_name(i integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT (ARRAY['north', 'south', 'øst'])[i] $$;

-- What is there when the connectors come.
CREATE PROCEDURE shop.fill() LANGUAGE sql AS $$
  INSERT INTO shop.account
  SELECT b, n, 'owner ' || n, n % 1000, NULL, '2026-01-01 UTC', CASE WHEN n % 3 > 0 THEN 'n' || n END
  FROM unnest('{north,south,øst}'::text[]) b, generate_series(1, 600) n;
  INSERT INTO shop.account SELECT 'open', n, 'not yet' FROM generate_series(1, 30) n;
  CALL shop.fill_doc('doc', 1, 100);
  CALL shop.fill_doc('doc_full', 1, 100);
  CALL shop.fill_kind('kind', 1, 70, 0);
  CALL shop.fill_kind('kind_full', 1, 70, 0);
  CALL shop.fill_odd(1, 30, 0);
  CALL shop.fill_edge();
  INSERT INTO shop.dated
  SELECT date '1969-12-01' + n, md5(n::text)::uuid, timestamp '1969-12-31 23:59:59.999999' + n * interval '1 h', n
  FROM generate_series(1, 60) n;
$$;

-- The connectors' slots find their consistent point when what was running as
-- they came has ended, and again what was running then. So with A open before
-- the slots come, and B open before A ends, C, which begins between the two
-- ends and outlives both, is not in the snapshot but in the stream, with
-- positions below the snapshot's. Each waits for the slots first.
CREATE PROCEDURE shop.overlap(who text, slots name[]) LANGUAGE plpgsql AS $$
DECLARE
  begins float8 := CASE who WHEN 'b' THEN 1 WHEN 'c' THEN 4 END;
BEGIN
  IF who = 'a' THEN
    UPDATE shop.account SET owner = 'a' WHERE branch = 'open' AND no > 25;
  END IF;
  WHILE (SELECT count(*) FROM pg_replication_slots WHERE slot_name = ANY (slots)) < cardinality(slots) LOOP
    PERFORM pg_sleep(0.1);
  END LOOP;
  PERFORM pg_sleep(begins);
  CASE who
    WHEN 'a' THEN PERFORM pg_sleep(2);
    WHEN 'b' THEN
      UPDATE shop.account SET owner = 'b' WHERE branch = 'open' AND no BETWEEN 21 AND 25;
      PERFORM pg_sleep(5);
    WHEN 'c' THEN
      UPDATE shop.account SET owner = 'c' WHERE branch = 'open' AND no <= 10;
      DELETE FROM shop.account WHERE branch = 'open' AND no BETWEEN 11 AND 15;
      UPDATE shop.account SET no = no + 100 WHERE branch = 'open' AND no BETWEEN 16 AND 20;
      INSERT INTO shop.account SELECT 'open', n, 'c' FROM generate_series(31, 35) n;
      PERFORM pg_sleep(8);
  END CASE;
END $$;

-- What is said by hand once the clients are done; the last statement is the
-- mark that run.sh waits for.
CREATE PROCEDURE shop.finish() LANGUAGE plpgsql AS $$
BEGIN
  UPDATE shop.edge SET n4 = NULL WHERE id > 1;
  COMMIT;
  UPDATE shop.edge SET id = id + 100 WHERE id > 4;
  COMMIT;
  CALL shop.fill_edge();
  COMMIT;
  DELETE FROM shop.edge WHERE id > 100;
  COMMIT;
  -- dead and alive again within one transaction, and twice in one
  DELETE FROM shop.kind WHERE id BETWEEN 1 AND 20;
  CALL shop.fill_kind('kind', 1, 20, 777);
  UPDATE shop.kind SET t = '' WHERE id BETWEEN 1 AND 5;
  COMMIT;
  DELETE FROM shop.kind_full WHERE id > 60;
  UPDATE shop.kind_full SET id = id + 1000 WHERE id BETWEEN 11 AND 15;
  UPDATE shop.account SET note = NULL WHERE no % 2 = 0;
  COMMIT;
  INSERT INTO shop.moved VALUES (1, repeat(shop.body(1), 2), 1);
  COMMIT;
  UPDATE shop.moved SET id = 2, n = 2;
  COMMIT;
  INSERT INTO shop.account VALUES ('mark', 0, 'the end');
END $$;
