-- What test/rerun.sh runs when it is given no pipeline: a target, its staging,
-- and a log of six batches of a hundred changes to 151 keys.
CREATE EXTENSION cdc_precedence;
CREATE TABLE item (id int PRIMARY KEY, name text, amount numeric, source_position cdc_position,
    deleted boolean NOT NULL DEFAULT false);
CREATE TABLE item_events (op text, id int, name text, amount numeric, source_position cdc_position);

CREATE TABLE log AS
SELECT (n - 1) / 100 + 1 AS batch, n, CASE WHEN n * 31 % 5 = 0 THEN 'd' ELSE 'u' END AS op, n * 37 % 151 AS id,
    'name ' || n AS name, n * 1.25 AS amount, cdc_position('16/0'::pg_lsn + n / 3, n % 3) AS source_position
FROM generate_series(1, 600) n;

-- what the source holds in the end
CREATE VIEW item_truth AS
SELECT id, name, amount FROM (SELECT DISTINCT ON (id) * FROM log ORDER BY id, n DESC) l WHERE op <> 'd';
