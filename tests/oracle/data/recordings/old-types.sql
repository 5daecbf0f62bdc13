-- Every column type of MySQL 5.5 to 5.7, changed by rows of every kind. MySQL 5.5 writes TIME, DATETIME and TIMESTAMP in
-- their old forms; fractions are for the versions from 5.6 on, JSON and generated columns for 5.7 (what one does not know fails there).
CREATE DATABASE ty; CREATE DATABASE other; USE ty; SET NAMES utf8; SET time_zone = '+00:00'; SET sql_mode = '';
CREATE TABLE every_type (
  id INT PRIMARY KEY AUTO_INCREMENT, c_tiny TINYINT, c_small SMALLINT UNSIGNED, c_medium MEDIUMINT, c_int INT UNSIGNED, c_big BIGINT,
  c_bool BOOL NOT NULL DEFAULT 1, c_float FLOAT, c_double DOUBLE, c_dec DECIMAL(10,2), c_dec_wide DECIMAL(65,30), c_dec_int DECIMAL(5,0), c_dec_frac DECIMAL(9,9),
  c_bit1 BIT(1), c_bit8 BIT(8), c_bit17 BIT(17), c_bit64 BIT(64), c_date DATE, c_year YEAR, c_time TIME, c_datetime DATETIME, c_ts TIMESTAMP NULL,
  c_char CHAR(10), c_char_wide CHAR(255) CHARACTER SET utf8, c_char_200 CHAR(200) CHARACTER SET utf8, c_binary BINARY(16), c_varchar VARCHAR(20), c_varchar_64 VARCHAR(64) CHARACTER SET utf8mb4, c_varbinary VARBINARY(3000),
  c_tinytext TINYTEXT, c_text TEXT, c_mediumtext MEDIUMTEXT, c_longtext LONGTEXT, c_tinyblob TINYBLOB, c_blob BLOB, c_mediumblob MEDIUMBLOB, c_longblob LONGBLOB,
  c_enum ENUM('a','b','c'), c_set SET('x','y','z'), c_set_wide SET('s1','s2','s3','s4','s5','s6','s7','s8','s9','s10','s11','s12','s13','s14','s15','s16','s17','s18','s19','s20','s21','s22','s23','s24','s25','s26','s27','s28','s29','s30','s31','s32','s33'),
  c_geometry GEOMETRY, c_point POINT
) ENGINE=InnoDB CHARACTER SET latin1;
CREATE TABLE other.copied LIKE every_type;
CREATE TABLE no_key (a INT, b VARCHAR(300)) ENGINE=InnoDB;
CREATE TABLE not_transactional (a INT PRIMARY KEY, t TIME, d DATETIME) ENGINE=MyISAM;
INSERT INTO every_type () VALUES ();
INSERT INTO every_type SET c_tiny=-1, c_small=2, c_medium=-3, c_int=4, c_big=-5, c_float=1.5, c_double=2.5, c_dec=-12345678.90, c_dec_wide=12345678901234567890.123456789, c_dec_int=-99999, c_dec_frac=0.123456789,
  c_bit1=1, c_bit8=0xFE, c_bit17=0x1FFFF, c_bit64=0xFFFFFFFFFFFFFFFF, c_date='2026-11-21', c_year=2026, c_time='-01:02:03', c_datetime='2026-11-21 01:02:03', c_ts='2026-11-21 01:02:03',
  c_char='char', c_char_wide=REPEAT('x',150), c_char_200=REPEAT('z',200), c_binary=0x00010203, c_varchar='vc', c_varchar_64='64', c_varbinary=REPEAT('vb',200),
  c_tinytext='tt', c_text=REPEAT('t',300), c_mediumtext='mt', c_longtext='lt', c_tinyblob=0x00FF, c_blob='', c_mediumblob='mb', c_longblob='lb', c_enum='b', c_set='x,z', c_set_wide='s1,s33', c_geometry=GeomFromText('LINESTRING(0 0,1 1,2 2)'), c_point=GeomFromText('POINT(1 2)');
INSERT INTO every_type (c_int, c_text, c_enum) VALUES (1, 'one', 'a'), (2, NULL, NULL), (3, '', 'c');
UPDATE every_type SET c_text='changed', c_big=7, c_time='838:59:59' WHERE id IN (1, 2); DELETE FROM every_type WHERE id = 3;
INSERT INTO other.copied SELECT * FROM every_type; UPDATE other.copied SET c_ts = '1970-01-01 00:00:01', c_datetime = '0000-00-00 00:00:00', c_date = '0000-00-00'; DELETE FROM other.copied WHERE id = 1;
INSERT INTO no_key VALUES (1, 'one'), (1, 'one'), (2, NULL); UPDATE no_key SET a = a + 1; DELETE FROM no_key WHERE a = 3;
INSERT INTO not_transactional VALUES (1, '01:02:03', '2026-11-21 01:02:03'), (2, NULL, NULL); BEGIN; UPDATE not_transactional SET t = '00:00:01'; INSERT INTO no_key VALUES (7, 'seven'); ROLLBACK; UPDATE not_transactional SET d = NULL;
CREATE TABLE fractions (id INT PRIMARY KEY, t1 TIME(1), t3 TIME(3), t6 TIME(6), d2 DATETIME(2), d6 DATETIME(6), s4 TIMESTAMP(4) NULL) ENGINE=InnoDB; INSERT INTO fractions VALUES (1, '-01:02:03.4', '01:02:03.456', '-838:59:58.999999', '2026-11-21 01:02:03.45', '2026-11-21 01:02:03.456789', '2026-11-21 01:02:03.4567'), (2, NULL, NULL, NULL, NULL, NULL, NULL); UPDATE fractions SET t6 = '00:00:00.000001';
CREATE TABLE documents (id INT PRIMARY KEY, j JSON, g INT AS (id + 1) VIRTUAL, s INT AS (id + 2) STORED) ENGINE=InnoDB; INSERT INTO documents (id, j) VALUES (1, '{"a": [1, 2, {"b": "text"}]}'), (2, NULL); UPDATE documents SET j = '[0]';
SET SESSION binlog_row_image = MINIMAL; INSERT INTO every_type (c_varchar) VALUES ('minimal'); UPDATE every_type SET c_varchar = 'less', c_datetime = '2026-11-21 01:02:03' WHERE id > 3; DELETE FROM every_type WHERE id = 4; SET SESSION binlog_row_image = NOBLOB; UPDATE every_type SET c_small = 9; DELETE FROM other.copied WHERE id = 2; SET SESSION binlog_row_image = FULL;
