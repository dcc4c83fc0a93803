-- What a loader has landed: every change of the source's tables, in the order of
-- arrival.  Some came twice, some late, some before older ones.
CREATE SCHEMA landing;
CREATE TABLE landing.customers (
  op text, id int, name text, city text, commit_lsn pg_lsn, seq int,
  loaded_at timestamptz NOT NULL DEFAULT now(),
  loaded_xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE TABLE landing.orders (
  op text, id int, customer_id int, total numeric(10, 2), commit_lsn pg_lsn, seq int,
  loaded_xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
INSERT INTO landing.customers (op, id, name, city, commit_lsn, seq) VALUES
  ('u', 1, 'Ann B.', 'Ulm', '0/200', 0),
  ('c', 1, 'Ann', 'Ulm', '0/100', 0),
  ('c', 2, 'Bob', 'Bonn', '0/100', 1),
  ('d', 3, NULL, NULL, '0/180', 0),
  ('c', 3, 'Cid', 'Celle', '0/120', 0),
  ('c', 2, 'Bob', 'Bonn', '0/100', 1);
INSERT INTO landing.orders (op, id, customer_id, total, commit_lsn, seq) VALUES
  ('c', 10, 1, 25.00, '0/110', 0),
  ('u', 10, 1, 27.50, '0/210', 0),
  ('c', 11, 2, 12.00, '0/130', 0),
  ('d', 12, NULL, NULL, '0/170', 0);
