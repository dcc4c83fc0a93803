-- What Debezium cannot give, by engine and form (regular expressions), table
-- and column, and why. (row) means whole rows.
INSERT INTO feed.known (engine, form, tab, col, why) VALUES
  ('precise|string', 'flat', 'account', '(row)', 'ExtractNewRecordState drops TRUNCATE: rows that it removed stay'),
  ('double', '.', 'doc', 'raw', 'binary.handling.mode=base64 writes NULL for an unchanged large bytea; bytes and hex write the placeholder'),
  ('precise|string|double', '.', 'odd', 'ttz', 'timetz comes in UTC, its zone is not written'),
  ('precise|string|double', '.', 'odd', 'vb', 'bytes without the number of bits');
