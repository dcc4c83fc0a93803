\set b random(1, 3)
\set n random(1, 2960)
\set v random(1, 500)
\set k random(1, 4)
\if :k = 1
DELETE FROM shop.account WHERE branch = shop.branch_name(:b) AND no BETWEEN :n AND :n + 40;
\elif :k = 2
INSERT INTO shop.account SELECT shop.branch_name(:b), n, 'bulk', :v, ARRAY[n::text], now() FROM generate_series(:n, :n + 40) n ORDER BY n ON CONFLICT DO NOTHING;
\else
UPDATE shop.account SET balance = balance + 1, tags = array_append(tags[1:3], 'b') WHERE branch = shop.branch_name(:b) AND no BETWEEN :n AND :n + 40;
\endif
