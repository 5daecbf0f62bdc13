-- What is run on the source, a step after the other, each in a connection of its own; see record-hits.
-- [create databases, no current database]
CREATE DATABASE d1;
CREATE DATABASE d2;
CREATE DATABASE d3;
-- [create database with a current one]
USE d1;
CREATE DATABASE d4;
-- [alter database]
ALTER DATABASE d4 CHARACTER SET utf8mb4;
-- [alter the current database]
USE d4;
ALTER DATABASE CHARACTER SET utf8mb4;
-- [create tables by current database]
USE d1;
CREATE TABLE t1 (a INT PRIMARY KEY AUTO_INCREMENT, b INT);
CREATE TABLE t2 (a INT PRIMARY KEY AUTO_INCREMENT, b INT);
-- [create tables by qualified name]
CREATE TABLE d2.t1 (a INT PRIMARY KEY, b INT);
CREATE TABLE d2.t2 (a INT PRIMARY KEY, b INT);
CREATE TABLE d3.t1 (a INT PRIMARY KEY, b INT);
-- [create table of another database]
USE d1;
CREATE TABLE d2.t3 (a INT PRIMARY KEY, b INT);
-- [row: insert]
USE d1;
INSERT INTO t1 VALUES (1, 1);
-- [row: insert qualified, no current database]
INSERT INTO d2.t1 VALUES (1, 1);
-- [row: insert qualified, another current database]
USE d1;
INSERT INTO d2.t1 VALUES (2, 1);
-- [row: insert in the third]
INSERT INTO d3.t1 VALUES (1, 1);
-- [row: two statements in one transaction]
USE d1;
BEGIN;
INSERT INTO t1 VALUES (2, 1);
INSERT INTO t2 VALUES (2, 1);
COMMIT;
-- [row: the same table three times]
USE d1;
BEGIN;
INSERT INTO t1 VALUES (3, 1);
INSERT INTO t1 VALUES (4, 1);
UPDATE t1 SET b = 2 WHERE a = 4;
COMMIT;
-- [row: two databases in one transaction, no current database]
BEGIN;
INSERT INTO d1.t1 VALUES (5, 1);
INSERT INTO d2.t1 VALUES (5, 1);
INSERT INTO d3.t1 VALUES (5, 1);
COMMIT;
-- [row: one statement on tables of two databases]
USE d3;
UPDATE d1.t1 x JOIN d2.t1 y USING (a) SET x.b = 7, y.b = 7;
-- [row: a statement of several rows events]
USE d1;
SET cte_max_recursion_depth = 5000;
INSERT INTO t2 (a, b) WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) SELECT i, 0 FROM n;
-- [row: savepoint]
USE d1;
BEGIN;
INSERT INTO t1 VALUES (10, 1);
SAVEPOINT s;
INSERT INTO d2.t1 VALUES (10, 1);
ROLLBACK TO s;
INSERT INTO t1 VALUES (11, 1);
COMMIT;
-- [row: with the text of the statement]
USE d1;
SET binlog_rows_query_log_events = 1;
INSERT INTO t1 VALUES (12, 1);
-- [row: compressed]
USE d1;
SET binlog_transaction_compression = 1;
BEGIN;
INSERT INTO t1 VALUES (13, 1);
INSERT INTO d2.t1 VALUES (13, 1);
UPDATE t1 SET b = 9 WHERE a = 13;
COMMIT;
-- [row: compressed, of one database]
USE d2;
SET binlog_transaction_compression = 1;
INSERT INTO t1 VALUES (14, 1);
-- [statement: insert]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO t1 VALUES (20, 1);
-- [statement: insert with an insert id]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO t1 (b) VALUES (1);
-- [statement: insert qualified, no current database]
SET binlog_format = STATEMENT;
INSERT INTO d2.t1 VALUES (20, 1);
-- [statement: insert qualified, another current database]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO d2.t1 VALUES (21, 1);
-- [statement: insert from a table of another database]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO t2 SELECT a + 9000, b FROM d2.t1 ORDER BY a LIMIT 1;
-- [statement: two statements in one transaction]
USE d1;
SET binlog_format = STATEMENT;
BEGIN;
INSERT INTO t1 VALUES (22, 1);
INSERT INTO t2 VALUES (22, 1);
COMMIT;
-- [statement: another database in one transaction]
SET binlog_format = STATEMENT;
USE d1;
BEGIN;
INSERT INTO t1 VALUES (23, 1);
USE d2;
INSERT INTO t1 VALUES (23, 1);
USE d3;
INSERT INTO t1 VALUES (23, 1);
COMMIT;
-- [statement: savepoint]
SET binlog_format = STATEMENT;
USE d1;
BEGIN;
INSERT INTO t1 VALUES (24, 1);
SAVEPOINT s;
INSERT INTO t2 VALUES (24, 1);
COMMIT;
-- [statement: update of several tables]
USE d3;
SET binlog_format = STATEMENT;
UPDATE d1.t1 x JOIN d2.t1 y USING (a) SET x.b = 8, y.b = 8;
-- [statement: update of several tables, the second only]
USE d1;
SET binlog_format = STATEMENT;
UPDATE t1 x JOIN t2 y USING (a) SET y.b = 8;
-- [statement: delete from several tables]
USE d3;
SET binlog_format = STATEMENT;
DELETE x, y FROM d2.t1 x JOIN d1.t1 y USING (a) WHERE a = 20;
-- [statement: compressed]
USE d1;
SET binlog_format = STATEMENT;
SET binlog_transaction_compression = 1;
INSERT INTO t1 VALUES (25, 1);
-- [mixed: statement and row in one transaction]
USE d1;
SET binlog_format = MIXED;
BEGIN;
INSERT INTO t1 VALUES (26, 1);
INSERT INTO t2 VALUES (26, RAND() * 9);
INSERT INTO t2 VALUES (27, LENGTH(UUID()));
COMMIT;
-- [alter table]
USE d1;
ALTER TABLE t1 ADD c INT;
-- [create and drop index]
USE d1;
CREATE INDEX i ON t1 (b);
DROP INDEX i ON t1;
-- [alter table of another database]
USE d1;
ALTER TABLE d2.t1 ADD c INT;
-- [rename tables]
USE d1;
RENAME TABLE t2 TO t9, t9 TO t2;
-- [rename between databases]
USE d1;
RENAME TABLE t2 TO d2.t9;
RENAME TABLE d2.t9 TO d1.t2;
-- [truncate]
USE d1;
TRUNCATE TABLE t2;
-- [create table select]
USE d1;
CREATE TABLE t4 SELECT * FROM t1;
-- [create table like]
USE d1;
CREATE TABLE t5 LIKE d2.t1;
-- [drop several tables]
USE d1;
DROP TABLE t4, t5, d2.t2;
-- [drop a table that is not there]
USE d1;
DROP TABLE IF EXISTS nothing;
-- [create view]
USE d1;
CREATE VIEW v AS SELECT * FROM t1;
-- [drop view]
USE d1;
DROP VIEW v;
-- [create procedure]
USE d1;
CREATE PROCEDURE p() INSERT INTO t1 (b) VALUES (3);
-- [call in statement format]
USE d1;
SET binlog_format = STATEMENT;
CALL p();
-- [create function]
USE d1;
SET GLOBAL log_bin_trust_function_creators = 1;
CREATE FUNCTION f() RETURNS INT BEGIN INSERT INTO t1 (b) VALUES (3); RETURN 1; END;
-- [call of a function in statement format]
USE d1;
SET binlog_format = STATEMENT;
SELECT f();
-- [drop routines]
USE d1;
DROP PROCEDURE p;
DROP FUNCTION f;
-- [create trigger]
USE d1;
CREATE TRIGGER g AFTER INSERT ON t1 FOR EACH ROW INSERT INTO d2.t1 (a, b) VALUES (NEW.a + 5000, 1);
-- [row: insert with a trigger]
USE d1;
INSERT INTO t1 VALUES (40, 1, 1);
-- [statement: insert with a trigger]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO t1 VALUES (41, 1, 1);
-- [drop trigger]
USE d1;
DROP TRIGGER g;
-- [create event and drop it]
USE d1;
CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SET @x = 1;
DROP EVENT e;
-- [create user]
CREATE USER u1;
-- [create user with a current database]
USE d1;
CREATE USER u2;
-- [grant on a database]
GRANT SELECT ON d1.* TO u1;
-- [grant on a table]
USE d1;
GRANT SELECT ON t1 TO u1;
-- [revoke on a table]
REVOKE SELECT ON d1.t1 FROM u1;
-- [set password]
SET PASSWORD FOR u1 = 'x';
-- [drop user]
USE d1;
DROP USER u1, u2;
-- [analyze and optimize]
USE d1;
ANALYZE TABLE t1, d2.t1;
OPTIMIZE TABLE t1;
-- [flush]
USE d1;
FLUSH TABLES t1;
FLUSH PRIVILEGES;
-- [load data]
USE d1;
SET binlog_format = STATEMENT;
SELECT 5000 INTO OUTFILE '../hits-load.txt';
LOAD DATA INFILE '../hits-load.txt' INTO TABLE t2 (a);
-- [temporary table]
USE d1;
SET binlog_format = STATEMENT;
CREATE TEMPORARY TABLE x (a INT);
INSERT INTO x VALUES (1);
-- [a table without transactions]
USE d1;
CREATE TABLE m (a INT) ENGINE = MyISAM;
-- [row: a table without transactions]
USE d1;
INSERT INTO m VALUES (1);
-- [statement: a table without transactions]
USE d1;
SET binlog_format = STATEMENT;
INSERT INTO m VALUES (1);
-- [exchange partition]
USE d1;
CREATE TABLE q (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10));
CREATE TABLE q2 (a INT);
ALTER TABLE q EXCHANGE PARTITION p0 WITH TABLE q2;
-- [rename a user]
CREATE USER u1;
RENAME USER u1 TO u2;
DROP USER u2;
-- [drop databases]
DROP DATABASE d4;
DROP DATABASE d3;
-- [drop the current database]
USE d1;
DROP DATABASE d1;
-- [once more]
CREATE DATABASE d1;
CREATE TABLE d1.t1 (a INT PRIMARY KEY AUTO_INCREMENT, b INT);
-- [statement: savepoint, another current database]
SET binlog_format = STATEMENT;
USE d1;
BEGIN;
INSERT INTO t1 VALUES (30, 1);
SAVEPOINT s;
INSERT INTO d2.t1 (a, b) VALUES (30, 1);
ROLLBACK TO SAVEPOINT s;
RELEASE SAVEPOINT s;
INSERT INTO t1 VALUES (31, 1);
COMMIT;
-- [statement: rollback with a table without transactions]
SET binlog_format = STATEMENT;
USE d1;
CREATE TABLE m (a INT) ENGINE = MyISAM;
BEGIN;
INSERT INTO t1 VALUES (32, 1);
INSERT INTO m VALUES (32);
ROLLBACK;
-- [xa: prepare and commit]
USE d1;
XA START 'x';
INSERT INTO t1 (b) VALUES (70);
XA END 'x';
XA PREPARE 'x';
XA COMMIT 'x';
-- [xa: prepare and rollback, no current database]
XA START 'y';
INSERT INTO d2.t1 (a, b) VALUES (70, 1);
XA END 'y';
XA PREPARE 'y';
XA ROLLBACK 'y';
-- [xa: one phase]
USE d1;
XA START 'z';
INSERT INTO t1 (b) VALUES (71);
XA END 'z';
XA COMMIT 'z' ONE PHASE;
