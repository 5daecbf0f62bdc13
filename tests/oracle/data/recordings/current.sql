-- options: --binlog-format=row --binlog-row-metadata=FULL --log-slave-updates
-- [names and collations]
CREATE DATABASE shop; CREATE DATABASE logs; CREATE DATABASE `größe`; CREATE DATABASE tmp COLLATE utf8mb4_uca1400_german2_ai_ci;
USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), who VARCHAR(20) COLLATE uca1400_swedish_as_cs, o VARCHAR(9) CHARACTER SET utf8mb3, b BINARY(3));
USE logs; CREATE TABLE logs.audit (id INT AUTO_INCREMENT PRIMARY KEY, src VARCHAR(40), at TIMESTAMP NULL DEFAULT NULL);
CREATE TABLE logs.t (i INT PRIMARY KEY, v VARCHAR(30));
USE `größe`; CREATE TABLE `größe`.`maß` (i INT PRIMARY KEY, `länge` VARCHAR(30));
USE tmp; CREATE TABLE tmp.t (v VARCHAR(20) PRIMARY KEY);
USE shop; INSERT INTO orders VALUES (1, 'één', 'ä', 'ö', 'bin'), (2, 'zwölf', 'z', 'o', 'b');
INSERT INTO logs.t VALUES (1, 'a'), (2, 'b'); INSERT INTO `größe`.`maß` VALUES (1, 'ü'); INSERT INTO tmp.t VALUES ('ß'), ('x');
UPDATE shop.orders o JOIN logs.t t ON t.i = o.id SET o.name = CONCAT(o.name, '!'), t.v = 'both';
UPDATE `größe`.`maß` m JOIN orders o ON m.i = o.id SET m.`länge` = 'neu', o.who = 'neu';
CREATE TRIGGER orders_ai AFTER INSERT ON orders FOR EACH ROW INSERT INTO logs.audit (src) VALUES (NEW.name);
INSERT INTO orders VALUES (3, 'three', NULL, NULL, NULL), (4, 'four', 'f', 'f', 'f');
-- [the session's collations, in statements]
SET binlog_format = statement;
SET character_set_collations = 'utf8mb4=utf8mb4_bin,latin1=latin1_german2_ci';
USE shop;
CREATE TABLE chosen (a VARCHAR(10) CHARACTER SET utf8mb4, b VARCHAR(10) CHARACTER SET latin1);
INSERT INTO chosen VALUES ('é', 'ä'), ('É', 'ae');
UPDATE chosen SET b = 'found' WHERE a = CONVERT('é' USING utf8mb4);
USE `größe`; CREATE TABLE `größe`.`überall` AS SELECT CONVERT('ä' USING latin1) AS c;
SET NAMES latin1; USE shop;
INSERT INTO shop.chosen VALUES ('Ã©', 'Ã¤');
SET character_set_collations = DEFAULT; SET NAMES utf8mb4;
CREATE TABLE again (a VARCHAR(10) CHARACTER SET utf8mb4); INSERT INTO again VALUES ('é'), ('É');
DELETE FROM `größe`.`maß` WHERE `länge` = 'neu';
-- [times]
USE shop;
CREATE TABLE now (a TIMESTAMP, b TIMESTAMP, c DATETIME DEFAULT CURRENT_TIMESTAMP);
SET explicit_defaults_for_timestamp = 0; CREATE TABLE old (a TIMESTAMP, b TIMESTAMP DEFAULT 0);
SET timestamp = 1000000000; INSERT INTO old (b) VALUES (FROM_UNIXTIME(1e9)); SET timestamp = DEFAULT; SET explicit_defaults_for_timestamp = 1;
INSERT INTO now VALUES (NULL, '2026-11-22 10:00:00', '2026-11-22 10:00:00');
SET binlog_format = statement; SET time_zone = '+05:30'; INSERT INTO now (a, c) VALUES (FROM_UNIXTIME(1e9), '2001-01-01');
SET time_zone = 'SYSTEM'; SET timestamp = 1000000000.5; INSERT INTO now VALUES (NOW(6), NOW(), NOW());
SET timestamp = 4294967200; INSERT INTO now VALUES (NOW(), NULL, NOW());
-- [types and tables of new versions]
USE shop;
CREATE TABLE typed (id UUID PRIMARY KEY, a INET6, b INET4, v VECTOR(3) NOT NULL, j JSON);
INSERT INTO typed VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1', '127.0.0.1', VEC_FromText('[1,2,3]'), '{"a": 1}');
CREATE SEQUENCE s START WITH 5; SELECT NEXT VALUE FOR s; SELECT SETVAL(s, 50);
CREATE TABLE kept (i INT PRIMARY KEY) WITH SYSTEM VERSIONING; SET timestamp = 1700000000; INSERT INTO kept VALUES (1); SET timestamp = 1700000100; UPDATE kept SET i = 2; SET timestamp = DEFAULT;
CREATE TABLE aria (i INT PRIMARY KEY, v VARCHAR(9)) ENGINE=Aria TRANSACTIONAL=0; INSERT INTO aria VALUES (1, 'a'), (2, 'b');
BEGIN; INSERT INTO logs.t VALUES (30, 'both engines'); INSERT INTO aria VALUES (3, 'c'); UPDATE orders SET name = 'x' WHERE id = 1; ROLLBACK;
CREATE TABLE copied SELECT id, name FROM orders;
CREATE OR REPLACE TABLE copied SELECT i, v FROM logs.t;
-- [domains and servers]
SET gtid_domain_id = 1; USE logs; INSERT INTO t VALUES (10, 'domain 1');
SET gtid_domain_id = 2, server_id = 12; INSERT INTO t VALUES (11, 'of another'); INSERT INTO shop.orders VALUES (11, 'of another', NULL, NULL, NULL);
SET gtid_domain_id = 1, server_id = 11; BEGIN; INSERT INTO t VALUES (12, 'x'); SAVEPOINT a; INSERT INTO audit (src) VALUES ('gone'); ROLLBACK TO a; UPDATE shop.orders SET name = 'last' WHERE id = 3; COMMIT;
SET gtid_domain_id = 0; XA START 'one'; INSERT INTO t VALUES (20, 'xa'); XA END 'one'; XA PREPARE 'one'; XA COMMIT 'one';
XA START 'two'; INSERT INTO shop.orders VALUES (20, 'xa', 'x', NULL, NULL); DELETE FROM t WHERE i = 10; XA END 'two'; XA PREPARE 'two'; XA ROLLBACK 'two';
SET GLOBAL log_bin_compress = 1; SET GLOBAL log_bin_compress_min_len = 10;
-- [compressed]
USE shop; INSERT INTO orders VALUES (40, REPEAT('c', 30), NULL, NULL, NULL); UPDATE orders o JOIN logs.t t SET o.o = 'all', t.v = REPEAT('z', 30) WHERE t.i > 10;
SET binlog_format = statement; INSERT INTO logs.t VALUES (41, 'compressed text'); DELETE FROM logs.t WHERE i = 41;
SET binlog_format = row; USE logs; CREATE TABLE logs.done (i INT); DROP TABLE logs.done, shop.again;
