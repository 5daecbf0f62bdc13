-- WL#7361 C and D: RESET and SHOW with filters.
-- server: --replicate-do-db=db1 --replicate-do-db=ch_1:db4 --replicate-wild-do-table=db.t1%
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL ''
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_1'
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_2'
SELECT * FROM performance_schema.replication_applier_filters;
-- 1)
RESET REPLICA FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
RESET REPLICA FOR CHANNEL 'nosuch';
-- 2)
RESET REPLICA;
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
-- 3)
RESET REPLICA ALL FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS;
SHOW REPLICA STATUS FOR CHANNEL 'ch_1';
RESET REPLICA ALL FOR CHANNEL 'ch_1';
RESET REPLICA ALL FOR CHANNEL '';
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS FOR CHANNEL '';
-- 4)
CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB=(db9) FOR CHANNEL 'ch_2';
RESET REPLICA ALL;
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
SHOW REPLICA STATUS;
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_2';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER Replicate_Do_DB = (), Replicate_Ignore_DB = (),
 Replicate_Do_Table = (), Replicate_Ignore_Table = (),
 Replicate_Wild_Do_Table = (), Replicate_Wild_Ignore_Table = (),
 Replicate_Rewrite_DB = ();
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
SHOW REPLICA STATUS;
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1;
SELECT * FROM performance_schema.replication_applier_filters;
