\set b random(1, 3)
\set n random(1, 3000)
\set v random(1, 500)
\set k random(1, 3)
BEGIN;
INSERT INTO shop.account VALUES (shop.branch_name(:b), :n, 'kept', :v) ON CONFLICT (branch, no) DO UPDATE SET owner = 'kept';
SAVEPOINT s;
DELETE FROM shop.account WHERE branch = shop.branch_name(:b) AND no BETWEEN :n - 3 AND :n;
UPDATE shop.account SET balance = 666 WHERE branch = shop.branch_name(:b) AND no = :n + 1;
ROLLBACK TO s;
SAVEPOINT s2;
UPDATE shop.account SET balance = balance + :v WHERE branch = shop.branch_name(:b) AND no = :n;
RELEASE s2;
\if :k = 1
ROLLBACK;
\else
SELECT pg_logical_emit_message(true, 'shop', 'note ' || :v);
COMMIT;
\endif
