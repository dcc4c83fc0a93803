-- One batch: loaded, then applied, each committed by itself.
INSERT INTO item_events SELECT op, id, name, amount, source_position FROM log WHERE batch = :'batch';
SELECT pg_sleep(0.05);
BEGIN;
SELECT * FROM cdc_apply('item', 'item_events', consume => 'delete');
SELECT pg_sleep(0.05);
COMMIT;
