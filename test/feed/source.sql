-- The source of the real feed: two tables under several clients.
--   account  key of two columns, no large values, the default replica
--            identity: every insert and update carries the whole row
--   doc      a TOASTed column that most updates leave alone, so that the
--            decoder leaves it out; REPLICA IDENTITY FULL, so that the old
--            image has it and a feed of full images can be made as well
CREATE SCHEMA shop;

CREATE TABLE shop.account (
  branch     text NOT NULL,
  no         integer NOT NULL,
  owner      text,
  balance    numeric(14,2) NOT NULL DEFAULT 0,
  tags       text[],
  changed_at timestamptz,
  PRIMARY KEY (branch, no)
);

CREATE TABLE shop.doc (
  id    bigint PRIMARY KEY,
  title text NOT NULL DEFAULT '',
  body  text,
  pages integer
);
ALTER TABLE shop.doc ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE shop.doc REPLICA IDENTITY FULL;

CREATE FUNCTION shop.body(seed integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT string_agg(md5((seed * 100 + i)::text), '') FROM generate_series(1, 66) i
$$;

INSERT INTO shop.account
SELECT b, n, 'owner ' || n, n % 1000, NULL, '2026-01-01 UTC'
FROM unnest('{north,south,øst}'::text[]) b, generate_series(1, 2000) n;

INSERT INTO shop.doc
SELECT n, 'title ' || n, shop.body(n), n % 7 FROM generate_series(1, 600) n;

-- Changes of a key. The new key may be taken, also by a transaction that has
-- not ended: the subtransaction is rolled back then and leaves no event.
CREATE FUNCTION shop.move_account(b text, a integer, new_b text, new_a integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE shop.account SET branch = new_b, no = new_a WHERE branch = b AND no = a;
EXCEPTION WHEN unique_violation THEN
  NULL;
END $$;

CREATE FUNCTION shop.move_doc(a bigint, new_a bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE shop.doc SET id = new_a, pages = pages + 1 WHERE id = a;
EXCEPTION WHEN unique_violation THEN
  NULL;
END $$;

-- An insert that rolls back its half of the work now and then.
CREATE FUNCTION shop.branch_name(i integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT (ARRAY['north', 'south', 'øst'])[i] $$;
