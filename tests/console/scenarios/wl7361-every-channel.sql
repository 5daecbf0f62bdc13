-- WL#7361 B 2): no FOR CHANNEL clause, and channels that exist when the server starts.
-- server: --replicate-do-db=db1 --replicate-do-db=:db1 --replicate-do-db=:db2 --replicate-do-db=ch_1:db4
-- server: --replicate-do-db=ch_1:db5 --replicate-do-db=ch_3:db6 --replicate-wild-do-table=db.t1%
-- server: --replicate-wild-ignore-table=ch_1:db.t2%
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL ''
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_1'
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_2'
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
SHOW REPLICA STATUS;
-- the worklog writes the schema so; with lower_case_table_names=0 there is no such one
SELECT * FROM PERFORMANCE_SCHEMA.replication_applier_filters;
SELECT * FROM PERFORMANCE_SCHEMA.replication_applier_global_filters;
-- as the worklog writes the name, without quotes
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL ch_3;
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_3';
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (dbA) FOR CHANNEL '';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB = () FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (dbB);
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
SHOW REPLICA STATUS;
-- a channel made after the global filters were changed by the command
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_4';
SELECT * FROM performance_schema.replication_applier_filters WHERE channel_name = 'ch_4';
-- … and after they were cleared
CHANGE REPLICATION FILTER REPLICATE_DO_DB = ();
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_5';
SELECT * FROM performance_schema.replication_applier_filters WHERE channel_name = 'ch_5';
SELECT * FROM performance_schema.replication_applier_global_filters;
