-- What Debezium cannot give, by engine and form (regular expressions), table
-- and column, and why. (row) means whole rows.
INSERT INTO feed.known (engine, form, tab, col, why) VALUES
  ('.', 'flat', 'account', '(row)', 'ExtractNewRecordState drops TRUNCATE: rows that it removed stay'),
  ('.', '.', 'odd', 'ttz', 'timetz comes in UTC, its zone is not written'),
  ('.', '.', 'odd', 'vb', 'bytes without the number of bits');
