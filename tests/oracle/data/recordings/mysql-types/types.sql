-- A table of every column type of MySQL 9.7, changed by rows of every kind: full and minimal images, partial JSON,
-- a compressed transaction, a multi-valued index, a partitioned table.
CREATE DATABASE ty; USE ty; SET NAMES utf8mb4; SET time_zone = '+00:00'; SET sql_mode = '';
CREATE TABLE every_type (
  id INT PRIMARY KEY AUTO_INCREMENT, c_tiny TINYINT, c_small SMALLINT UNSIGNED, c_medium MEDIUMINT, c_int INT UNSIGNED, c_big BIGINT,
  c_bool BOOL NOT NULL DEFAULT 1, c_float FLOAT, c_double DOUBLE, c_dec DECIMAL(10,2), c_dec_wide DECIMAL(65,30), c_dec_int DECIMAL(5,0), c_dec_frac DECIMAL(9,9),
  c_bit1 BIT(1), c_bit8 BIT(8), c_bit17 BIT(17), c_bit64 BIT(64),
  c_date DATE, c_year YEAR, c_time TIME, c_time3 TIME(3), c_time6 TIME(6), c_datetime DATETIME, c_datetime1 DATETIME(1), c_datetime6 DATETIME(6),
  c_ts TIMESTAMP NULL, c_ts2 TIMESTAMP(2) NULL, c_ts5 TIMESTAMP(5) NULL,
  c_char CHAR(10), c_char_wide CHAR(255) CHARACTER SET utf8mb4, c_char_200 CHAR(200) CHARACTER SET utf8mb4, c_char_100 CHAR(100) CHARACTER SET utf8mb4, c_binary BINARY(16), c_varchar VARCHAR(20), c_varchar_63 VARCHAR(63) CHARACTER SET utf8mb4, c_varchar_64 VARCHAR(64) CHARACTER SET utf8mb4, c_varbinary VARBINARY(3000),
  c_tinytext TINYTEXT, c_text TEXT, c_mediumtext MEDIUMTEXT, c_longtext LONGTEXT, c_tinyblob TINYBLOB, c_blob BLOB, c_mediumblob MEDIUMBLOB, c_longblob LONGBLOB,
  c_enum ENUM('a','b','c'), c_set SET('x','y','z'), c_set_wide SET('s1','s2','s3','s4','s5','s6','s7','s8','s9','s10','s11','s12','s13','s14','s15','s16','s17','s18','s19','s20','s21','s22','s23','s24','s25','s26','s27','s28','s29','s30','s31','s32','s33'),
  c_json JSON, c_json2 JSON, c_geometry GEOMETRY, c_point POINT, c_vector VECTOR(3),
  c_virtual INT AS (c_int + 1) VIRTUAL, c_stored INT AS (c_int + 2) STORED
) ENGINE=InnoDB CHARACTER SET latin1;
CREATE TABLE changes LIKE every_type;
CREATE TABLE no_key (a INT, b VARCHAR(300), j JSON) ENGINE=InnoDB;
CREATE TABLE defaults (a INT DEFAULT 5, b VARCHAR(10) DEFAULT 'b') ENGINE=InnoDB;
CREATE TABLE multi_valued (id INT PRIMARY KEY, j JSON, KEY ((CAST(j->'$.n' AS UNSIGNED ARRAY))), KEY ((CAST(j->'$.s' AS CHAR(10) ARRAY)))) ENGINE=InnoDB;
CREATE TABLE parts (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE hidden_key (v INT) ENGINE=InnoDB;
INSERT INTO every_type () VALUES ();
INSERT INTO every_type SET c_tiny=-1, c_small=2, c_medium=-3, c_int=4, c_big=-5, c_float=1.5, c_double=2.5, c_dec=-12345678.90, c_dec_wide=12345678901234567890.123456789, c_dec_int=-99999, c_dec_frac=0.123456789,
  c_bit1=1, c_bit8=0xFE, c_bit17=0x1FFFF, c_bit64=0xFFFFFFFFFFFFFFFF, c_date='2026-11-21', c_year=2026, c_time='-01:02:03', c_time3='01:02:03.456', c_time6='-838:59:58.999999', c_datetime='2026-11-21 01:02:03', c_datetime1='2026-11-21 01:02:03.4', c_datetime6='2026-11-21 01:02:03.456789',
  c_ts='2026-11-21 01:02:03', c_ts2='2026-11-21 01:02:03.45', c_ts5='2026-11-21 01:02:03.45678', c_char='char', c_char_wide=REPEAT('ü',150), c_char_200=REPEAT('z',200), c_char_100='é', c_binary=0x00010203, c_varchar='vc', c_varchar_63='63', c_varchar_64='64', c_varbinary=REPEAT('vb',200),
  c_tinytext='tt', c_text=REPEAT('t',300), c_mediumtext='mt', c_longtext='lt', c_tinyblob=0x00FF, c_blob='', c_mediumblob='mb', c_longblob='lb', c_enum='b', c_set='x,z', c_set_wide='s1,s33',
  c_json='{"a": [1, 2, {"b": "some longer text in here"}], "c": "d"}', c_json2='[1,2,3]', c_geometry=ST_GeomFromText('LINESTRING(0 0,1 1,2 2)'), c_point=ST_GeomFromText('POINT(1 2)'), c_vector=TO_VECTOR('[1,2,3]');
INSERT INTO every_type (c_int, c_text, c_json, c_enum) VALUES (1, 'one', '1', 'a'), (2, NULL, 'null', NULL), (3, '', NULL, 'c');
UPDATE every_type SET c_text='changed', c_big=7 WHERE id IN (1, 2);
UPDATE every_type SET c_int = NULL, c_vector = NULL WHERE id = 2;
DELETE FROM every_type WHERE id = 3;
INSERT INTO no_key VALUES (1, 'one', '{"k": "value value value"}'), (1, 'one', NULL), (2, NULL, NULL); UPDATE no_key SET a = a + 1; DELETE FROM no_key WHERE a = 3;
INSERT INTO multi_valued VALUES (1, '{"n": [1,2,3], "s": ["a","b"]}'), (2, '{"n": [], "s": []}'); UPDATE multi_valued SET j = '{"n": [9]}' WHERE id = 1;
INSERT INTO parts VALUES (1,'a'),(2,'b'),(3,'c'); UPDATE parts SET id = id + 10; DELETE FROM parts WHERE id = 11;
SET SESSION sql_generate_invisible_primary_key = ON; CREATE TABLE invisible_key (v INT); INSERT INTO invisible_key VALUES (1), (2); SET SESSION sql_generate_invisible_primary_key = OFF;
SET SESSION binlog_row_image = MINIMAL;
INSERT INTO every_type (c_varchar, c_json, c_json2) VALUES ('minimal', '{"a": "0123456789012345678901234567890123456789", "b": 1}', '{"x": "0123456789012345678901234567890123456789", "y": 2}');
UPDATE every_type SET c_varchar = 'less', c_enum = 'c' WHERE id > 3; DELETE FROM every_type WHERE id = 4;
INSERT INTO defaults (a) VALUES (1), (2), (3); INSERT INTO defaults (b) VALUES ('x'), ('y'); UPDATE defaults SET b = 'z' WHERE b = 'x'; DELETE FROM defaults WHERE b = 'y';
INSERT INTO no_key (b) VALUES ('min'), ('imal');
SET SESSION binlog_row_value_options = PARTIAL_JSON;
UPDATE every_type SET c_json = JSON_SET(c_json, '$.b', 2), c_int = 77 WHERE id = 6;
UPDATE every_type SET c_json = JSON_REPLACE(c_json, '$.a', 'short'), c_json2 = JSON_REMOVE(c_json2, '$.y') WHERE id = 6;
UPDATE every_type SET c_json = '[0]' WHERE id = 6;
SET SESSION binlog_row_image = FULL;
UPDATE every_type SET c_json = JSON_SET(c_json, '$[0]', 1, '$[1]', 'two') WHERE id IN (2, 6); UPDATE every_type SET c_varchar = 'not json';
UPDATE every_type SET c_json2 = JSON_SET(COALESCE(c_json2, '{}'), '$.p', id);
UPDATE no_key SET j = JSON_SET(j, '$.k', 'v') WHERE j IS NOT NULL;
SET SESSION binlog_row_image = NOBLOB; UPDATE every_type SET c_small = 9, c_json = JSON_SET(c_json, '$[0]', 5) WHERE id = 2;
SET SESSION binlog_row_value_options = '', SESSION binlog_row_image = FULL, SESSION binlog_transaction_compression = ON;
BEGIN; INSERT INTO changes SET c_text = REPEAT('compressed ', 40), c_int = 1; UPDATE changes SET c_int = 2; INSERT INTO hidden_key VALUES (1), (2), (NULL); DELETE FROM hidden_key WHERE v = 2; COMMIT;
