-- options: --binlog-format=mixed --binlog-alter-two-phase=ON
-- [tables]
CREATE DATABASE shop; CREATE DATABASE logs;
USE shop; CREATE TABLE shop.slow (i INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE shop.t (i INT PRIMARY KEY, v VARCHAR(20)); USE logs; CREATE TABLE logs.t LIKE shop.t;
INSERT INTO shop.slow (i, v) VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO shop.t SELECT * FROM shop.slow; INSERT INTO logs.t SELECT * FROM shop.t;
USE shop; ALTER TABLE t ADD COLUMN w INT DEFAULT 7; ALTER TABLE logs.t ADD COLUMN w INT DEFAULT 8, ALGORITHM=COPY;
ALTER TABLE shop.t ENGINE=InnoDB; ALTER TABLE t RENAME COLUMN w TO x, RENAME TO u; ALTER TABLE logs.t RENAME TO shop.moved;
ALTER TABLE shop.moved RENAME logs.t; USE logs; ALTER TABLE t ADD INDEX (v); CREATE INDEX again ON shop.u (v); DROP INDEX again ON shop.u;
INSERT INTO shop.u VALUES (4, 'a', 1); ALTER TABLE shop.u ADD UNIQUE (v); ALTER TABLE nosuch ADD COLUMN i INT;
-- [holding]
BEGIN; SELECT * FROM shop.slow; DO SLEEP(3); COMMIT;
-- [background]
USE shop; ALTER TABLE slow ADD COLUMN z INT DEFAULT 1, ALGORITHM=COPY;
-- [while it runs]
INSERT INTO shop.u VALUES (5, 'five', 5); INSERT INTO logs.t VALUES (5, 'five', 5); UPDATE logs.t l JOIN shop.u u USING (i) SET l.v = u.v, u.v = 'both';
ALTER TABLE logs.t ADD COLUMN y INT DEFAULT 1;
-- [join]
INSERT INTO shop.slow VALUES (9, 'nine', 9);
-- [holding]
BEGIN; SELECT * FROM shop.slow; DO SLEEP(3); COMMIT;
-- [background]
USE logs; ALTER TABLE shop.slow ADD COLUMN gone INT DEFAULT 2, ALGORITHM=COPY;
-- [killed]
SELECT CONCAT('KILL QUERY ', id) FROM information_schema.processlist WHERE info LIKE 'ALTER%' INTO @kill; EXECUTE IMMEDIATE @kill;
-- [join]
INSERT INTO shop.slow VALUES (10, 'ten', 10);
-- [holding]
BEGIN; SELECT * FROM shop.slow; DO SLEEP(60); COMMIT;
-- [background]
USE shop; ALTER TABLE slow ADD COLUMN never INT DEFAULT 3, ALGORITHM=COPY;
-- [restart]
INSERT INTO shop.slow (i, v) VALUES (11, 'eleven'); INSERT INTO logs.t VALUES (11, 'eleven', 11, 11);
