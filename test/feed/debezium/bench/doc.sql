\set n random(1, 140)
\set m random(1, 140)
\set v random(1, 1000000)
\set k random(1, 20)
BEGIN;
\if :k <= 10
UPDATE shop.doc SET title = 't' || :v, pages = :k WHERE id = :n;
UPDATE shop.doc SET pages = pages + 1 WHERE id = :n;
UPDATE shop.doc_full SET title = 't' || :v, pages = :k WHERE id = :n;
\elif :k <= 12
UPDATE shop.doc SET body = CASE WHEN :k = 12 THEN shop.body(:v) ELSE 'short ' || :v END WHERE id = :n;
UPDATE shop.doc SET raw = decode(repeat(shop.body(:v), 2), 'hex') WHERE id = :m;
UPDATE shop.doc_full SET body = shop.body(:v), attrs = NULL WHERE id = :n;
\elif :k <= 15
INSERT INTO shop.doc VALUES (:n, 'i' || :v, shop.body(:v), '\x00ff', jsonb_build_object('b', shop.body(:v)), ARRAY['p', shop.body(:v)], 0)
  ON CONFLICT (id) DO UPDATE SET pages = -1, attrs = EXCLUDED.attrs;
INSERT INTO shop.doc_full VALUES (:n, 'i' || :v, shop.body(:v), decode(repeat(shop.body(:v), 2), 'hex'), NULL, ARRAY[shop.body(:v)], 0)
  ON CONFLICT (id) DO UPDATE SET pages = -1, parts = EXCLUDED.parts;
\elif :k = 16
UPDATE shop.doc SET body = NULL, raw = NULL, parts = '{}' WHERE id = :n;
\elif :k <= 18
DELETE FROM shop.doc WHERE id = :n;
DELETE FROM shop.doc_full WHERE id = :n;
\else
SELECT shop.move_doc('doc', :n, :m);
SELECT shop.move_doc('doc_full', :n, :m);
UPDATE shop.doc_full SET title = title || '!' WHERE id = :m;
\endif
COMMIT;
