-- SET DEFAULT ROLE, for which MariaDB asks its filter twice. Some users and roles exist on no replica whose filter ignores grant tables.
CREATE DATABASE d1; USE d1; CREATE TABLE a (i INT); CREATE USER u1; CREATE USER u2@localhost; CREATE ROLE r1; GRANT r1 TO u1;
SET DEFAULT ROLE r1 FOR u1; SET DEFAULT ROLE NONE FOR u1; SET DEFAULT ROLE NONE FOR root@localhost; SET DEFAULT ROLE NONE; SET STATEMENT max_statement_time = 9 FOR SET DEFAULT ROLE r1 FOR u1; SET DEFAULT ROLE NONE FOR u2@localhost;
ALTER USER u1 ACCOUNT LOCK; REVOKE r1 FROM u1; DROP ROLE r1; DROP USER u1, u2@localhost;
