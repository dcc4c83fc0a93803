-- The last batch that comes wins, in a column beside "t".
INSERT INTO "Odd" (id, v) VALUES (1, :'batch') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
