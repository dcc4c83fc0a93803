/* The victim's tables, anew; run by ops_user under a clean search_path. */
SET search_path = pg_catalog, pg_temp;
DROP TABLE IF EXISTS app.side, app.flag, app.bait, app.stage, app.bait_stage CASCADE;
CREATE TABLE app.side (id int PRIMARY KEY, v text);
CREATE TABLE app.flag (id int PRIMARY KEY, v text);
CREATE TABLE app.bait (id int PRIMARY KEY, v text);
CREATE TABLE app.stage (op text, id int, v text, source_position public.cdc_position);
INSERT INTO app.stage VALUES ('c', 1, 'one', '0/10'), ('c', 2, 'two', '0/20'), ('d', 2, NULL, '0/30'), ('d', 3, NULL, '0/40');
CREATE TABLE app.bait_stage (LIKE app.stage);
