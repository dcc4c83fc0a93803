-- A second delivery: new changes, a replay of the first one, and a change that comes late.
INSERT INTO landing.customers (op, id, name, city, commit_lsn, seq) VALUES
  ('c', 4, 'Dee', 'Daun', '0/300', 0),
  ('u', 3, 'Cid', 'Cottbus', '0/150', 0),
  ('u', 2, 'Bob', 'Berlin', '0/310', 0),
  ('c', 1, 'Ann', 'Ulm', '0/100', 0),
  ('d', 1, NULL, NULL, '0/320', 0);
INSERT INTO landing.orders (op, id, customer_id, total, commit_lsn, seq) VALUES
  ('d', 10, NULL, NULL, '0/315', 0),
  ('u', 11, 2, 13.00, '0/330', 0);
