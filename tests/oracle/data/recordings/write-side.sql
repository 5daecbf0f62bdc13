-- What record-write-side runs. A statement ends with a semicolon at the end of a line.
-- [databases, no current database]
CREATE DATABASE d1;
CREATE DATABASE d2;
CREATE DATABASE Dx;
CREATE DATABASE x1;
ALTER DATABASE x1 CHARACTER SET latin1;
DROP DATABASE x1;
DROP DATABASE IF EXISTS x1;
-- [databases, current database d1]
USE d1;
CREATE DATABASE x2;
ALTER DATABASE x2 CHARACTER SET latin1;
ALTER DATABASE CHARACTER SET utf8mb4;
CREATE TABLE x2.t (id INT PRIMARY KEY);
DROP DATABASE x2;
-- [databases, current database d2]
USE d2;
CREATE DATABASE IF NOT EXISTS d1;
ALTER DATABASE d1 CHARACTER SET utf8mb4;
-- [tables]
USE d1;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(50)) /* in d1 */;
CREATE TABLE d2.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(50)) /* in d1 */;
USE d2;
CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(50)) /* in d2 */;
CREATE TABLE d1.u (id INT PRIMARY KEY, v VARCHAR(50)) /* in d2 */;
CREATE TABLE d1.m (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=MyISAM;
CREATE TABLE d2.m (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=MyISAM;
USE Dx;
CREATE TABLE Dx.t (id INT PRIMARY KEY, v VARCHAR(50));
-- [rows, current database d1]
USE d1;
INSERT INTO t VALUES (1, 'in d1');
INSERT INTO d2.t VALUES (1, 'd1 into d2');
UPDATE d2.t SET v = 'd1 on d2' WHERE id = 1;
DELETE FROM d2.t;
INSERT INTO d2.m VALUES (1, 'd1 into MyISAM in d2');
INSERT INTO m VALUES (1, 'd1 into MyISAM in d1');
INSERT INTO t (v) VALUES ('auto_increment');
SET @v = 'a variable';
INSERT INTO d2.t (v) VALUES (@v);
INSERT INTO t (v) VALUES (RAND());
INSERT INTO t (v) VALUES (UUID());
INSERT INTO d2.t (v) VALUES (UUID());
-- [rows, current database d2]
USE d2;
INSERT INTO t (v) VALUES ('in d2');
INSERT INTO d1.t (v) VALUES ('d2 into d1');
UPDATE d1.t SET v = 'd2 on d1' WHERE id = 1;
INSERT INTO d1.t (v) VALUES (UUID());
INSERT INTO t (v) VALUES (UUID());
-- [rows, no current database]
INSERT INTO d1.t (v) VALUES ('nowhere into d1');
INSERT INTO d2.t (v) VALUES ('nowhere into d2');
CREATE TABLE d1.n (id INT PRIMARY KEY);
DROP TABLE d1.n;
-- [capitals]
USE Dx;
INSERT INTO t VALUES (1, 'in Dx');
INSERT INTO Dx.t VALUES (2, 'in Dx');
CREATE DATABASE Dy;
DROP DATABASE Dy;
USE d1;
INSERT INTO Dx.t VALUES (3, 'd1 into Dx');
-- [definitions]
USE d1;
ALTER TABLE d2.t ADD COLUMN c INT;
CREATE INDEX i ON d2.t (c);
CREATE TABLE d2.l LIKE d1.t;
CREATE TABLE d2.s AS SELECT * FROM d1.t;
CREATE TABLE s AS SELECT * FROM d2.t;
RENAME TABLE d1.s TO d2.s2, d2.l TO d1.l;
TRUNCATE TABLE d2.s;
CREATE VIEW d2.w AS SELECT 1 AS a;
ANALYZE TABLE d2.s;
DROP VIEW d2.w;
DROP TABLE d2.s, d1.l, d2.s2;
FLUSH TABLES;
USE d2;
CREATE TABLE d1.s AS SELECT * FROM d1.t;
CREATE TABLE s AS SELECT * FROM d1.t;
DROP TABLE d1.s, s;
-- [transactions]
USE d1;
BEGIN;
INSERT INTO t (v) VALUES ('one of two');
INSERT INTO d2.t (v) VALUES ('two of two');
COMMIT;
BEGIN;
INSERT INTO t (v) VALUES ('before USE');
USE d2;
INSERT INTO t (v) VALUES ('after USE');
COMMIT;
BEGIN;
INSERT INTO d2.t (v) VALUES ('d2 alone');
COMMIT;
BEGIN;
INSERT INTO d1.t (v) VALUES ('rolled back');
ROLLBACK;
BEGIN;
INSERT INTO d1.m VALUES (10, 'stays');
INSERT INTO d1.t (v) VALUES ('goes');
ROLLBACK;
-- [several tables]
USE d1;
INSERT INTO t VALUES (100, 'a'), (101, 'b');
INSERT INTO d2.t (id, v) VALUES (100, 'a'), (101, 'b');
UPDATE d1.t a, d2.t b SET a.v = 'both d1', b.v = 'both d1' WHERE a.id = 100 AND b.id = 100;
USE d2;
UPDATE d1.t a, d2.t b SET a.v = 'both d2', b.v = 'both d2' WHERE a.id = 100 AND b.id = 100;
DELETE a, b FROM d1.t a, d2.t b WHERE a.id = 101 AND b.id = 101;
-- [stored programs]
CREATE PROCEDURE d2.p() INSERT INTO d1.t (v) VALUES ('by d2.p');
CREATE PROCEDURE d1.p() INSERT INTO d2.t (v) VALUES ('by d1.p');
USE d1;
CREATE FUNCTION d2.f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO d2.t (v) VALUES ('by d2.f'); RETURN 1; END;
CREATE TRIGGER d1.tr AFTER INSERT ON d1.u FOR EACH ROW INSERT INTO d2.t (v) VALUES ('by d1.tr');
CREATE EVENT d2.e ON SCHEDULE EVERY 1 YEAR DISABLE DO DELETE FROM d2.t;
CALL p();
CALL d2.p();
SELECT d2.f();
INSERT INTO u VALUES (1, 'with a trigger');
USE d2;
CALL p();
CALL d1.p();
SELECT f();
INSERT INTO d1.u VALUES (2, 'with a trigger');
DROP TRIGGER d1.tr;
DROP EVENT e;
DROP FUNCTION d2.f;
DROP PROCEDURE d1.p;
DROP PROCEDURE p;
-- [accounts]
CREATE USER u1;
GRANT SELECT ON d2.* TO u1;
USE d1;
CREATE USER u2;
GRANT SELECT ON d2.t TO u2;
ALTER USER u2 ACCOUNT LOCK;
USE d2;
GRANT SELECT ON d1.* TO u2;
DROP USER u1;
DROP USER u2;
FLUSH PRIVILEGES;
-- [savepoints, current database d1]
USE d1;
BEGIN;
INSERT INTO t (v) VALUES ('before s');
SAVEPOINT s;
INSERT INTO d2.t (v) VALUES ('after s');
ROLLBACK TO s;
INSERT INTO d2.t (v) VALUES ('after s again');
RELEASE SAVEPOINT s;
COMMIT;
BEGIN;
INSERT INTO m VALUES (20, 'before s2');
SAVEPOINT s2;
INSERT INTO m VALUES (21, 'after s2');
INSERT INTO t (v) VALUES ('after s2');
ROLLBACK TO s2;
COMMIT;
-- [savepoints, current database d2]
USE d2;
BEGIN;
INSERT INTO t (v) VALUES ('before s');
SAVEPOINT s;
INSERT INTO d1.t (v) VALUES ('after s');
INSERT INTO d2.m VALUES (22, 'after s');
ROLLBACK TO s;
COMMIT;
BEGIN;
SAVEPOINT alone;
INSERT INTO t (v) VALUES ('after a savepoint');
SAVEPOINT alone2;
COMMIT;
-- [temporary tables, current database d1]
USE d1;
CREATE TEMPORARY TABLE d2.tmp (id INT, v VARCHAR(50));
CREATE TEMPORARY TABLE tmp (id INT, v VARCHAR(50));
INSERT INTO d2.tmp VALUES (1, 'd1 into d2.tmp');
INSERT INTO t (v) SELECT v FROM d2.tmp;
INSERT INTO d2.t (v) SELECT v FROM d2.tmp;
DROP TEMPORARY TABLE d2.tmp;
DROP TEMPORARY TABLE IF EXISTS d2.not_there;
-- [temporary tables, current database d2]
USE d2;
CREATE TEMPORARY TABLE d1.tmp (id INT, v VARCHAR(50));
CREATE TEMPORARY TABLE tmp (id INT, v VARCHAR(50));
CREATE TABLE d1.from_tmp LIKE d1.tmp;
DROP TABLE d1.from_tmp, d1.tmp;
-- [load data, current database d1]
USE d1;
LOAD DATA LOCAL INFILE 'loaded.txt' INTO TABLE t;
LOAD DATA LOCAL INFILE 'loaded.txt' INTO TABLE d2.u;
-- [load data, current database d2]
USE d2;
LOAD DATA LOCAL INFILE 'loaded.txt' INTO TABLE d1.m;
-- [XA, current database d1]
USE d1;
XA START 'x1';
INSERT INTO t (v) VALUES ('x1 in d1');
XA END 'x1';
XA PREPARE 'x1';
XA COMMIT 'x1';
XA START 'x2';
INSERT INTO d2.t (v) VALUES ('x2 in d2');
XA END 'x2';
XA PREPARE 'x2';
XA COMMIT 'x2';
XA START 'x3';
INSERT INTO t (v) VALUES ('x3 in d1');
INSERT INTO d2.t (v) VALUES ('x3 in d2');
XA END 'x3';
XA PREPARE 'x3';
XA ROLLBACK 'x3';
XA START 'x4';
INSERT INTO t (v) VALUES ('x4');
XA END 'x4';
XA COMMIT 'x4' ONE PHASE;
XA START 'x5';
INSERT INTO d1.t (v) VALUES ('x5');
XA END 'x5';
XA PREPARE 'x5';
USE d2;
XA COMMIT 'x5';
-- [XA, current database d2]
USE d2;
XA START 'y1';
INSERT INTO t (v) VALUES ('y1 in d2');
XA END 'y1';
XA PREPARE 'y1';
XA COMMIT 'y1';
XA START 'y2';
INSERT INTO d1.t (v) VALUES ('y2 in d1');
XA END 'y2';
XA PREPARE 'y2';
-- [XA, no current database]
XA COMMIT 'y2';
XA START 'z1';
INSERT INTO d1.t (v) VALUES ('z1 in d1');
XA END 'z1';
XA PREPARE 'z1';
-- [XA of another connection, current database d2]
USE d2;
XA COMMIT 'z1';
-- [a GTID of one's own]
USE d2;
SET gtid_next = 'aaaaaaaa-0000-0000-0000-000000000001:1';
INSERT INTO d1.t (v) VALUES ('own GTID, d2 into d1');
SET gtid_next = 'aaaaaaaa-0000-0000-0000-000000000001:2';
INSERT INTO d2.t (v) VALUES ('own GTID, in d2');
SET gtid_next = 'aaaaaaaa-0000-0000-0000-000000000001:3';
CREATE TABLE d2.g (id INT);
COMMIT;
SET gtid_next = 'aaaaaaaa-0000-0000-0000-000000000001:4';
BEGIN;
INSERT INTO d2.t (v) VALUES ('own GTID, in d2, in a transaction');
COMMIT;
SET gtid_next = 'AUTOMATIC';
-- [the database itself]
USE d2;
DROP DATABASE d1;
CREATE DATABASE d1;
DROP DATABASE Dx;
