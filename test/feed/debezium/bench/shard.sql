\set n random(1, 300)
\set v random(1, 100000)
\set k random(1, 10)
BEGIN;
\if :k <= 5
INSERT INTO shop.shard VALUES (:shard, :n, 'v' || :v, :v / 7.0) ON CONFLICT (shard, id) DO UPDATE SET v = EXCLUDED.v, n = EXCLUDED.n;
\elif :k <= 8
UPDATE shop.shard SET n = n + 1 WHERE id BETWEEN :n AND :n + 5;
\else
DELETE FROM shop.shard WHERE id BETWEEN :n AND :n + 2;
\endif
COMMIT;
