\set b random(1, 3)
\set n random(1, 600)
\set k random(0, 1)
UPDATE shop.account SET note = CASE WHEN :k = 1 THEN 'n' || :n END WHERE branch = shop.branch_name(:b) AND no = :n;
