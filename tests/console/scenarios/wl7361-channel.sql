-- WL#7361 B 1): an explicit FOR CHANNEL clause.
-- server: --replicate-do-db=ch_1:my_db1 --replicate-do-db=ch_1:my_db2 --replicate-do-db=ch_1:my_db3
-- server: --replicate-ignore-db=ch_1:my_db4 --replicate-ignore-db=ch_1:my_db5 --replicate-ignore-db=ch_1:my_db6
-- before: CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL 'ch_1'
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE=(`db3`.initfilet3) FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE=('initfiled%.t%') FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2,`db32`, `db,3`),
 REPLICATE_DO_DB = (my_db3, my_db4),
 Replicate_Ignore_DB = (my_initfiledb3)
 FOR CHANNEL 'ch_1';
SHOW REPLICA STATUS FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
SELECT * FROM performance_schema.replication_applier_global_filters;
-- the three statements that the last one is equal to
CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2,`db32`, `db,3`) FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER REPLICATE_DO_DB = (my_db3, my_db4) FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
CHANGE REPLICATION FILTER Replicate_Ignore_DB = (my_initfiledb3) FOR CHANNEL 'ch_1';
SELECT * FROM performance_schema.replication_applier_filters;
SHOW REPLICA STATUS FOR CHANNEL 'ch_1';
