-- What MySQL 8.0 to 9.7 write that the versions before them did not. A statement that a version does not know fails there.
CREATE DATABASE shop; CREATE DATABASE logs; USE shop;
-- row value options, compression, tagged GTIDs, table by table
CREATE TABLE doc (id INT PRIMARY KEY, j JSON, v VARCHAR(20)); CREATE TABLE logs.doc LIKE doc;
INSERT INTO doc VALUES (1, '{"a": "0123456789012345678901234567890123456789", "b": 1}', 'one'); INSERT INTO logs.doc SELECT * FROM doc;
SET SESSION binlog_row_value_options = PARTIAL_JSON;
UPDATE doc SET j = JSON_SET(j, '$.b', 2); BEGIN; UPDATE doc SET j = JSON_SET(j, '$.b', 3); UPDATE logs.doc SET j = JSON_SET(j, '$.b', 3); COMMIT;
SET SESSION binlog_row_value_options = '', SESSION binlog_transaction_compression = ON;
BEGIN; INSERT INTO doc VALUES (2, '{}', REPEAT('c', 20)); INSERT INTO logs.doc VALUES (2, '{}', REPEAT('c', 20)); COMMIT;
INSERT INTO logs.doc VALUES (3, '[1]', 'only logs'); UPDATE shop.doc, logs.doc SET shop.doc.v = 'x', logs.doc.v = 'y' WHERE shop.doc.id = logs.doc.id AND logs.doc.id = 2;
SET SESSION binlog_transaction_compression = OFF;
SET gtid_next = 'AUTOMATIC:backup'; INSERT INTO doc VALUES (4, NULL, 'tagged'); INSERT INTO logs.doc VALUES (4, NULL, 'tagged'); CREATE TABLE logs.tagged (i INT PRIMARY KEY); BEGIN; INSERT INTO logs.tagged VALUES (1); INSERT INTO doc VALUES (5, NULL, 'both'); COMMIT; SET gtid_next = 'AUTOMATIC';
-- keys and columns that a SELECT does not show
SET SESSION sql_generate_invisible_primary_key = ON; CREATE TABLE keyless (v INT); INSERT INTO keyless VALUES (1), (2); CREATE TABLE logs.keyless (v INT); INSERT INTO logs.keyless VALUES (3); SET SESSION sql_generate_invisible_primary_key = OFF;
CREATE TABLE hidden (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, d DATE DEFAULT (CURRENT_DATE)); INSERT INTO hidden VALUES (1, '2026-01-01'); ALTER TABLE hidden ALTER COLUMN h SET VISIBLE; INSERT INTO hidden VALUES (2, 6, NULL);
CREATE TABLE vec (id INT PRIMARY KEY, e VECTOR(3)); INSERT INTO vec VALUES (1, TO_VECTOR('[1,2,3]')), (2, NULL); CREATE TABLE logs.vec LIKE vec; INSERT INTO logs.vec SELECT * FROM vec; UPDATE vec SET e = TO_VECTOR('[3,2,1]');
-- definition and rows in one transaction
CREATE TABLE made SELECT id, v FROM doc; CREATE TABLE logs.made SELECT id, v FROM doc; CREATE TABLE logs.made2 AS TABLE doc; CREATE TABLE made3 (k INT PRIMARY KEY AUTO_INCREMENT) SELECT v FROM logs.doc; CREATE TABLE IF NOT EXISTS made SELECT 1 AS id;
INSERT INTO made VALUES (9, 'nine'); INSERT INTO logs.made VALUES (9, 'nine');
SET SESSION sql_require_primary_key = ON; CREATE TABLE withkey (i INT PRIMARY KEY); CREATE TABLE logs.withkey (i INT PRIMARY KEY); CREATE TABLE nokey (i INT); SET SESSION sql_require_primary_key = OFF;
-- the session that a statement ran in
SET time_zone = '+05:30'; CREATE TABLE zoned (i INT PRIMARY KEY, ts TIMESTAMP DEFAULT '2026-01-01 12:00:00'); SET time_zone = '-13:59'; ALTER TABLE zoned ADD ts2 TIMESTAMP DEFAULT '2026-01-01 12:00:00'; SET time_zone = '+14:00'; CREATE TABLE logs.zoned (i INT PRIMARY KEY, ts TIMESTAMP DEFAULT '2026-01-01 12:00:00'); SET time_zone = '+00:00';
SET SESSION explicit_defaults_for_timestamp = OFF; CREATE TABLE implicit (i INT PRIMARY KEY, ts TIMESTAMP); SET SESSION explicit_defaults_for_timestamp = ON;
SET SESSION default_collation_for_utf8mb4 = utf8mb4_general_ci; CREATE TABLE collated (i INT PRIMARY KEY, s VARCHAR(10) CHARACTER SET utf8mb4); SET SESSION default_collation_for_utf8mb4 = utf8mb4_0900_ai_ci;
SET SESSION default_table_encryption = OFF; CREATE DATABASE third DEFAULT ENCRYPTION = 'N'; CREATE TABLE third.t (i INT PRIMARY KEY, CHECK (i > 0), KEY k ((i + 1) DESC)); INSERT INTO third.t VALUES (1); ALTER DATABASE third READ ONLY = 1; ALTER DATABASE third READ ONLY = 0; DROP DATABASE third;
-- statements
WITH q AS (SELECT id FROM doc) UPDATE logs.doc SET v = 'cte' WHERE id IN (SELECT id FROM q); INSERT INTO doc (id) VALUES ROW(20), ROW(21); INSERT INTO doc (id, v) VALUES (20, 'n') AS new ON DUPLICATE KEY UPDATE v = new.v; INSERT INTO logs.doc TABLE doc LIMIT 0; INSERT INTO logs.doc (id) SELECT 30 UNION SELECT 31 EXCEPT SELECT 31; INSERT INTO logs.doc (id) (SELECT 32 INTERSECT SELECT 32); REPLACE INTO logs.doc (id, v) TABLE made; DELETE FROM doc AS d WHERE d.id = 20; DELETE FROM logs.doc AS d WHERE d.id = 30;
CREATE VIEW IF NOT EXISTS shown AS SELECT * FROM doc; CREATE VIEW IF NOT EXISTS shown AS SELECT 1; CREATE OR REPLACE VIEW logs.shown AS SELECT * FROM shop.doc; DROP VIEW shown, logs.shown;
CREATE JSON RELATIONAL DUALITY VIEW dual_doc AS SELECT JSON_DUALITY_OBJECT(WITH(INSERT, UPDATE, DELETE) '_id': id, 'v': v) FROM doc; CREATE OR REPLACE JSON DUALITY VIEW logs.dual_doc AS SELECT JSON_DUALITY_OBJECT('_id': id, 'v': v) FROM logs.doc; INSERT INTO dual_doc VALUES ('{"_id": 40, "v": "dual"}'); DROP VIEW dual_doc; DROP VIEW logs.dual_doc;
CREATE LIBRARY logs.lib LANGUAGE JAVASCRIPT AS 'export function f() { return 1 }'; CREATE LIBRARY IF NOT EXISTS lib COMMENT 'c' LANGUAGE JAVASCRIPT AS $$ export function f() { return 1 } $$; ALTER LIBRARY lib COMMENT 'd'; DROP LIBRARY lib; DROP LIBRARY IF EXISTS logs.lib;
DELIMITER //
CREATE PROCEDURE IF NOT EXISTS p_doc() BEGIN INSERT INTO doc (id) VALUES (50); INSERT INTO logs.doc (id) VALUES (50); END//
CREATE TRIGGER IF NOT EXISTS t_doc AFTER INSERT ON doc FOR EACH ROW INSERT INTO logs.doc (id) VALUES (NEW.id + 1000)//
DELIMITER ;
CALL p_doc(); INSERT INTO doc (id) VALUES (51); DROP TRIGGER t_doc; DROP PROCEDURE p_doc;
ALTER TABLE doc ADD KEY kv (v), ALGORITHM = INPLACE; ALTER TABLE doc ALTER INDEX kv INVISIBLE; ALTER TABLE doc RENAME COLUMN v TO w, ALGORITHM = INSTANT; ALTER TABLE logs.doc ADD COLUMN x INT FIRST, ALGORITHM = INSTANT; ALTER TABLE logs.doc DROP COLUMN x, ALGORITHM = INSTANT; ALTER TABLE doc ADD CONSTRAINT c1 CHECK (id > 0) NOT ENFORCED; ALTER TABLE doc ALTER CHECK c1 ENFORCED; ALTER TABLE doc DROP CONSTRAINT c1;
LOCK TABLES doc WRITE, logs.doc WRITE; RENAME TABLE doc TO doc2; ALTER TABLE doc2 RENAME doc; UNLOCK TABLES; TRUNCATE logs.vec; DROP TABLE made3, logs.made2;
CREATE TEMPORARY TABLE temp (i INT); INSERT INTO temp VALUES (1); INSERT INTO keyless SELECT i FROM temp; DROP TEMPORARY TABLE temp;
ANALYZE TABLE doc UPDATE HISTOGRAM ON w WITH 4 BUCKETS AUTO UPDATE; ANALYZE TABLE doc DROP HISTOGRAM ON w; ANALYZE TABLE logs.doc;
-- accounts and what belongs to no database
CREATE ROLE reader, writer; CREATE USER u1 IDENTIFIED BY 'x', u2@localhost IDENTIFIED BY RANDOM PASSWORD DEFAULT ROLE reader REQUIRE SSL ATTRIBUTE '{"a": 1}'; GRANT SELECT ON shop.* TO reader, writer; GRANT SELECT ON logs.doc TO reader; GRANT reader, writer TO u1, u2@localhost WITH ADMIN OPTION; SET DEFAULT ROLE ALL TO u1, u2@localhost; GRANT BACKUP_ADMIN, SYSTEM_USER ON *.* TO u1; REVOKE IF EXISTS SELECT ON shop.* FROM writer IGNORE UNKNOWN USER; ALTER USER u1 IDENTIFIED BY 'y' RETAIN CURRENT PASSWORD; ALTER USER u1 DISCARD OLD PASSWORD, u2@localhost ACCOUNT LOCK; ALTER USER u1, u2@localhost PASSWORD HISTORY 3 FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2 COMMENT 'c'; REVOKE reader FROM u1; DROP ROLE reader, writer; DROP USER u1, u2@localhost; DROP USER IF EXISTS u1, u2@localhost;
CREATE RESOURCE GROUP rg TYPE = USER; DROP RESOURCE GROUP rg; CREATE UNDO TABLESPACE un ADD DATAFILE 'un.ibu'; ALTER UNDO TABLESPACE un SET INACTIVE; CREATE OR REPLACE SPATIAL REFERENCE SYSTEM 1000002 NAME 'y' DEFINITION 'GEOGCS["y",DATUM["y",SPHEROID["y",6378137,298.25]],PRIMEM["y",0],UNIT["y",0.017453292519943278],AXIS["Lon",EAST],AXIS["Lat",NORTH]]'; DROP SPATIAL REFERENCE SYSTEM IF EXISTS 1000002; SET PERSIST max_connections = 100; RESET PERSIST; ALTER INSTANCE RELOAD TLS; FLUSH PRIVILEGES; INSTALL COMPONENT 'file://component_validate_password'; UNINSTALL COMPONENT 'file://component_validate_password'; INSTALL PLUGIN mysql_no_login SONAME 'mysql_no_login.so'; UNINSTALL PLUGIN mysql_no_login;
-- events and rows last in a file of their own
FLUSH BINARY LOGS;
SET SESSION binlog_rows_query_log_events = ON; BEGIN; INSERT INTO logs.keyless VALUES (7); INSERT INTO keyless VALUES (8); INSERT INTO logs.keyless VALUES (9); COMMIT; DELETE FROM logs.keyless WHERE v = 7;
BEGIN; INSERT INTO keyless VALUES (10); SAVEPOINT s; INSERT INTO logs.keyless VALUES (11); ROLLBACK TO s; INSERT INTO logs.keyless VALUES (12); RELEASE SAVEPOINT s; COMMIT; BEGIN; INSERT INTO keyless VALUES (13); ROLLBACK;
XA START 'ours'; INSERT INTO keyless VALUES (14); XA END 'ours'; XA COMMIT 'ours' ONE PHASE;
