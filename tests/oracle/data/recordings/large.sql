-- options: --binlog-format=row --binlog-large-commit-threshold=10485760 --max-allowed-packet=16777216
-- [all]
CREATE DATABASE shop; CREATE DATABASE logs;
USE shop; CREATE TABLE shop.large (i INT PRIMARY KEY, v LONGTEXT); CREATE TABLE shop.small (i INT PRIMARY KEY, v VARCHAR(20));
USE logs; CREATE TABLE logs.large (i INT PRIMARY KEY, v LONGTEXT); CREATE TABLE logs.small (i INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO shop.small VALUES (1, 'before'); INSERT INTO logs.small VALUES (1, 'before');
BEGIN; INSERT INTO shop.small VALUES (2, 'first'); INSERT INTO shop.large SELECT seq, REPEAT(CHAR(96 + seq), 2000000) FROM seq_1_to_5; INSERT INTO logs.small VALUES (2, 'first'); SAVEPOINT a; INSERT INTO logs.small VALUES (3, 'gone'); ROLLBACK TO a; INSERT INTO logs.large VALUES (1, REPEAT('l', 500000)); COMMIT;
INSERT INTO shop.small VALUES (5, 'after'); INSERT INTO logs.small VALUES (5, 'after');
XA START 'x'; INSERT INTO logs.large SELECT 10 + seq, REPEAT(CHAR(64 + seq), 2000000) FROM seq_1_to_6; UPDATE shop.small SET v = 'xa' WHERE i = 5; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
INSERT INTO shop.small VALUES (6, 'end'); INSERT INTO logs.small VALUES (6, 'end');
