\set n random(1, 900)
\set m random(1, 900)
\set v random(1, 1000000)
\set k random(1, 20)
BEGIN;
\if :k <= 10
UPDATE shop.doc SET title = 't' || :v, pages = :k WHERE id = :n;
UPDATE shop.doc SET pages = pages + 1 WHERE id = :n;
\elif :k <= 12
UPDATE shop.doc SET body = CASE WHEN :k = 12 THEN NULLIF(shop.body(:v), '') ELSE 'short ' || :v END WHERE id = :n;
UPDATE shop.doc SET title = 'u' || :v WHERE id = :n;
\elif :k <= 15
INSERT INTO shop.doc VALUES (:n, 'i' || :v, shop.body(:v), 0) ON CONFLICT (id) DO UPDATE SET pages = -1;
\elif :k = 16
UPDATE shop.doc SET body = NULL WHERE id = :n;
\elif :k <= 18
DELETE FROM shop.doc WHERE id = :n;
\else
SELECT shop.move_doc(:n, :m);
UPDATE shop.doc SET title = title || '!' WHERE id = :m;
\endif
COMMIT;
