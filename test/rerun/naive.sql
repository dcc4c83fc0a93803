-- One batch as it is written by hand: loaded, then upserted and deleted.
INSERT INTO item_events SELECT op, id, name, amount, source_position FROM log WHERE batch = :'batch';
SELECT pg_sleep(0.05);
BEGIN;
CREATE TEMPORARY TABLE newest ON COMMIT DROP AS
    SELECT DISTINCT ON (id) * FROM item_events ORDER BY id, source_position DESC;
INSERT INTO item (id, name, amount) SELECT id, name, amount FROM newest WHERE op <> 'd'
    ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, amount = EXCLUDED.amount;
DELETE FROM item USING newest WHERE newest.id = item.id AND newest.op = 'd';
DELETE FROM item_events;
SELECT pg_sleep(0.05);
COMMIT;
