\set b random(1, 3)
\set a random(1, 2900)
\set n random_zipfian(1, 3000, 1.05)
\set v random(1, 500)
\set pause random(1, 25)
BEGIN;
UPDATE shop.account SET owner = NULLIF('w' || :v % 9, 'w0'), changed_at = clock_timestamp() WHERE branch = shop.branch_name(:b) AND no BETWEEN :a AND :a + 14;
\sleep :pause ms
DELETE FROM shop.account WHERE branch = shop.branch_name(:b) AND no = :a;
INSERT INTO shop.account VALUES (shop.branch_name(:b), :a, 'again', :v, '{}', now()) ON CONFLICT DO NOTHING;
UPDATE shop.account SET balance = -:v WHERE branch = shop.branch_name(:b) AND no = :a;
\sleep :pause ms
UPDATE shop.account SET balance = balance + 1 WHERE branch = shop.branch_name(1 + :b % 3) AND no = :n;
COMMIT;
