-- A channel that runs, with a real source: its status in every view.
-- source: CREATE USER repl IDENTIFIED BY 'secret'
-- source: GRANT REPLICATION SLAVE ON *.* TO repl
-- source: RESET BINARY LOGS AND GTIDS
-- source: CREATE DATABASE d1
-- source: CREATE DATABASE d2
-- source: USE d1
-- source: CREATE TABLE t (a INT PRIMARY KEY)
-- source: USE d2
-- source: CREATE TABLE t (a INT PRIMARY KEY)
-- source: INSERT INTO d1.t VALUES (1), (2)
-- source: INSERT INTO d2.t VALUES (1), (2)
-- before: RESET BINARY LOGS AND GTIDS
-- server: --gtid-mode=ON --enforce-gtid-consistency=ON
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=33152, SOURCE_USER='repl', SOURCE_PASSWORD='secret', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1 FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(d1) FOR CHANNEL 'ch1';
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
SELECT * FROM performance_schema.replication_connection_status;
SELECT * FROM performance_schema.replication_applier_status;
SELECT * FROM performance_schema.replication_applier_filters;
START REPLICA FOR CHANNEL 'ch1';
-- until: :1-6
SELECT @@GLOBAL.gtid_executed;
-- until: Exec_Source_Log_Pos=1452
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
SELECT * FROM performance_schema.replication_connection_status;
SELECT * FROM performance_schema.replication_applier_status;
SELECT * FROM performance_schema.replication_applier_filters;
START REPLICA FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(d2) FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(d2);
CHANGE REPLICATION SOURCE TO SOURCE_CONNECT_RETRY=9 FOR CHANNEL 'ch1';
RESET REPLICA FOR CHANNEL 'ch1';
RESET REPLICA ALL;
STOP REPLICA SQL_THREAD FOR CHANNEL 'ch1';
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(d2) FOR CHANNEL 'ch1';
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
STOP REPLICA FOR CHANNEL 'ch1';
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
SELECT * FROM performance_schema.replication_connection_status;
STOP REPLICA FOR CHANNEL 'ch1';
RESET REPLICA FOR CHANNEL 'ch1';
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
-- a source that is not there
CHANGE REPLICATION SOURCE TO SOURCE_PORT=1 FOR CHANNEL 'ch1';
START REPLICA FOR CHANNEL 'ch1';
-- until: Error connecting
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
SELECT * FROM performance_schema.replication_connection_status;
STOP REPLICA FOR CHANNEL 'ch1';
SHOW REPLICA STATUS FOR CHANNEL 'ch1';
