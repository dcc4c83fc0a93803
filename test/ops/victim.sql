/* What must not be touched; run by ops_user. */
CREATE TABLE app.precious (id int PRIMARY KEY, source_position public.cdc_position NOT NULL, deleted_at timestamptz NOT NULL);
INSERT INTO app.precious VALUES (1, '0/1', '2020-01-01');
