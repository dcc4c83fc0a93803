\set b random(1, 3)
\set n random_zipfian(1, 3000, 1.05)
\set m random(1, 3000)
\set v random(-500, 500)
\set k random(1, 10)
\if :k <= 5
UPDATE shop.account SET balance = balance + :v, changed_at = clock_timestamp() WHERE branch = shop.branch_name(:b) AND no = :n;
\elif :k <= 8
INSERT INTO shop.account VALUES (shop.branch_name(:b), :m, 'o' || :v, :v, ARRAY['new', 'v' || :v], clock_timestamp()) ON CONFLICT (branch, no) DO UPDATE SET balance = EXCLUDED.balance, tags = CASE WHEN :v > 0 THEN EXCLUDED.tags END;
\else
DELETE FROM shop.account WHERE branch = shop.branch_name(:b) AND no = :m;
\endif
