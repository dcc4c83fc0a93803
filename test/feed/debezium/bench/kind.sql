\set n random(1, 70)
\set v random(1, 100000)
\set k random(1, 10)
BEGIN;
\if :k <= 4
DELETE FROM shop.kind WHERE id = :n;
CALL shop.fill_kind('kind', :n, :n, :v);
\elif :k <= 6
UPDATE shop.kind SET i4 = :v, n = :v / 100.0, ts = clock_timestamp(), e = NULL WHERE id = :n;
UPDATE shop.kind_full SET i4 = :v, n = :v / 100.0, ts = clock_timestamp(), e = NULL WHERE id = :n;
\elif :k <= 8
DELETE FROM shop.kind_full WHERE id = :n;
CALL shop.fill_kind('kind_full', :n, :n, :v);
\elif :k = 9
UPDATE shop.dated SET day = day + 1, ts = ts + interval '1 us', amount = :v WHERE u = md5(:n::text)::uuid;
UPDATE shop.odd SET o = :v WHERE id = :n;
\else
DELETE FROM shop.dated WHERE u = md5(:n::text)::uuid;
INSERT INTO shop.dated VALUES (date '2020-01-01' + :n, md5(:n::text)::uuid, '2000-01-01 00:00:00.000001', -:v) ON CONFLICT DO NOTHING;
DELETE FROM shop.odd WHERE id = :n % 30 + 1;
CALL shop.fill_odd(:n % 30 + 1, :n % 30 + 1, :v);
\endif
COMMIT;
