-- Transactions without GTIDs, then with them, on the way that gtid_mode must take; one file for each mode.
SET GLOBAL gtid_mode = OFF; CREATE DATABASE shop; CREATE DATABASE logs; USE shop; CREATE TABLE t (i INT PRIMARY KEY, v VARCHAR(20)); USE logs; CREATE TABLE t (i INT PRIMARY KEY, v VARCHAR(20)); USE shop;
INSERT INTO shop.t VALUES (1, 'off'); INSERT INTO logs.t VALUES (1, 'off'); BEGIN; INSERT INTO shop.t VALUES (2, 'both'); INSERT INTO logs.t VALUES (2, 'both'); COMMIT;
SET GLOBAL gtid_mode = OFF_PERMISSIVE; INSERT INTO shop.t VALUES (3, 'off permissive'); INSERT INTO logs.t VALUES (3, 'off permissive');
SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:5'; INSERT INTO logs.t VALUES (4, 'chosen'); SET gtid_next = 'AUTOMATIC';
SET GLOBAL gtid_mode = ON_PERMISSIVE; INSERT INTO shop.t VALUES (5, 'on permissive'); INSERT INTO logs.t VALUES (5, 'on permissive');
SET gtid_next = 'ANONYMOUS'; INSERT INTO logs.t VALUES (6, 'anonymous'); INSERT INTO shop.t VALUES (6, 'anonymous'); SET gtid_next = 'AUTOMATIC';
SET GLOBAL gtid_mode = ON; INSERT INTO shop.t VALUES (7, 'on'); INSERT INTO logs.t VALUES (7, 'on');
SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE; INSERT INTO logs.t VALUES (9, 'back'); INSERT INTO shop.t VALUES (10, 'off permissive again'); DELETE FROM logs.t WHERE i = 1;
