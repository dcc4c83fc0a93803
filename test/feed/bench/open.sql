\set b random(1, 3)
\set n random(1, 3000)
\set m random(1, 3000)
\set v random(1, 500)
BEGIN;
INSERT INTO shop.account VALUES (shop.branch_name(:b), :n, 'open', :v) ON CONFLICT (branch, no) DO UPDATE SET owner = 'open';
\sleep 40 ms
UPDATE shop.account SET balance = balance + :v WHERE branch = shop.branch_name(:b) AND no = :m;
COMMIT;
