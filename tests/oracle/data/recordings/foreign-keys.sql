-- Foreign keys that change other tables, in one database and across two. From MySQL 9.6 on the binlog has those rows too.
CREATE DATABASE shop; CREATE DATABASE logs; USE logs; CREATE TABLE far (i INT PRIMARY KEY, p INT); USE shop;
CREATE TABLE parent (i INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE child (i INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (i) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE orphan (i INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (i) ON DELETE SET NULL ON UPDATE CASCADE); USE logs; ALTER TABLE far ADD FOREIGN KEY (p) REFERENCES shop.parent (i) ON DELETE CASCADE ON UPDATE CASCADE; USE shop;
INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'); INSERT INTO child VALUES (10, 1), (11, 1), (20, 2), (30, 3); INSERT INTO orphan VALUES (10, 1), (20, 2), (30, 3); INSERT INTO logs.far VALUES (10, 1), (20, 2), (30, 3);
DELETE FROM parent WHERE i = 1; UPDATE parent SET i = 200 WHERE i = 2; BEGIN; DELETE FROM parent WHERE i = 3; INSERT INTO child VALUES (40, 4); COMMIT;
REPLACE INTO parent VALUES (4, 'again'); SET SESSION foreign_key_checks = 0; DELETE FROM parent WHERE i = 200; SET SESSION foreign_key_checks = 1;
