-- The source of the MariaDB feed. CREATE DATABASE is mariadb.sh's.
CREATE TABLE item (
  id   INT NOT NULL,
  part VARCHAR(10) NOT NULL,
  name VARCHAR(100) DEFAULT 'none',
  n    DECIMAL(20,4),
  big  BIGINT UNSIGNED,
  f    DOUBLE,
  flag BOOLEAN,
  d    DATE,
  ts   DATETIME(6),
  ts0  DATETIME,
  tz   TIMESTAMP(6) NULL,
  ti   TIME(6),
  b    BLOB,
  j    JSON,
  e    ENUM('sad', 'ok', 'it''s fine'),
  PRIMARY KEY (id, part)
);
CREATE TABLE plain (
  id INT NOT NULL PRIMARY KEY,
  v  TEXT
);
INSERT INTO plain SELECT seq, CONCAT('v', seq) FROM seq_1_to_400;
INSERT INTO item
SELECT seq, IF(seq % 2 = 0, 'a', 'ø'), IF(seq % 3 = 0, NULL, CONCAT('it''s "', seq, '"')), seq * 12345.6789, 18446744073709551615 - seq, seq / 7,
       seq % 2, DATE_ADD('1999-12-31', INTERVAL seq DAY), DATE_ADD('1970-01-01 00:00:00.000001', INTERVAL seq HOUR),
       DATE_ADD('2000-02-29', INTERVAL seq HOUR), DATE_ADD('2001-01-01 00:00:00.000001', INTERVAL seq HOUR), SEC_TO_TIME(seq % 80000 + 0.000001),
       UNHEX(MD5(seq)), JSON_OBJECT('n', seq, 'x', NULL), ELT(seq % 3 + 1, 'sad', 'ok', 'it''s fine')
FROM seq_1_to_300;
