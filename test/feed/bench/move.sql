\set b random(1, 3)
\set c random(1, 3)
\set n random(1, 3000)
\set m random(1, 3000)
\set o random(1, 3000)
\set v random(1, 500)
\set pause random(1, 10)
BEGIN;
SELECT shop.move_account(shop.branch_name(:b), :n, shop.branch_name(:c), :m);
UPDATE shop.account SET balance = balance - 1 WHERE branch = shop.branch_name(:c) AND no = :m;
\sleep :pause ms
SELECT shop.move_account(shop.branch_name(:c), :m, shop.branch_name(:c), :o);
INSERT INTO shop.account VALUES (shop.branch_name(:b), :n, 'after the move', :v) ON CONFLICT DO NOTHING;
COMMIT;
